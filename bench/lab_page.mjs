#!/usr/bin/env node
// How quickly the lab page answers a hand on a slider, in Debian's Chromium, before a release build.
//
//   ./test once (or sh tools/bootstrap.sh test, npm ci in tests/e2e, sh tools/build.sh build -Dpages=true)
//   node bench/lab_page.mjs [--ticks 120] [--control limit-rate] [--link '#request-limits&seed=2'] [--json]
//
// Two hands. A slow one waits for what it did: the time from the slider's event to the first frame with the new
// figures on the tiles. A quick one moves with every frame for four seconds: what the main thread does meanwhile,
// each task by the browser's own trace, on the clock and in CPU time, which others on the machine do not lengthen.
// See bench/README.md.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const { chromium } = createRequire(path.join(root, 'tests/e2e/package.json'))('playwright-core');
const { values: given } = parseArgs({
  options: {
    weir: { type: 'string', default: process.env.WEIR_RELEASE ?? path.join(root, 'build/src/cli/weir') },
    chromium: { type: 'string', default: '/usr/bin/chromium' },
    ticks: { type: 'string', default: '120' },
    control: { type: 'string', default: 'limit-rate' },
    link: { type: 'string', default: '#token-limits' },
    json: { type: 'boolean', default: false },
  },
});

const state = mkdtempSync(path.join(tmpdir(), 'weir-bench.'));
const gateway = spawn(given.weir, ['serve', '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0'], {
  env: { ...process.env, WEIR_STATE: state },
  stdio: ['ignore', 'pipe', 'ignore'],
});
let said = '';
const address = await new Promise((resolve, reject) => {
  gateway.on('error', reject);
  gateway.on('exit', () => reject(new Error(`the gateway ended: ${said}`)));
  gateway.stdout.on('data', (text) => {
    said += text;
    const found = /lab: +(\S+)\n/.exec(said);
    if (found) resolve(found[1]);
    else if (/stop:/.test(said)) reject(new Error('this weir has no lab page: sh tools/build.sh build -Dpages=true'));
  });
});
const browser = await chromium.launch({
  executablePath: given.chromium,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});

const percentile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
function spread(list) {
  const sorted = [...list].sort((a, b) => a - b);
  const round = (ms) => Number(ms.toFixed(2));
  return { count: sorted.length, p50: round(percentile(sorted, 0.5)), p95: round(percentile(sorted, 0.95)), max: round(sorted.at(-1)) };
}

// Moves the slider once and resolves with the time until the tiles show the new figures, and what the engine took.
const slowTick = ([id, share]) => {
  const slider = document.querySelector(`[data-control="${id}"]`);
  const page = document.getElementById('page');
  const before = page.dataset.hash;
  const texts = () => [...document.querySelectorAll('[data-figure] .v-value')].map((one) => one.textContent).join('|');
  const shown = texts();
  return new Promise((resolve) => {
    const begun = performance.now();
    const late = setTimeout(() => done(null), 3000);
    const observer = new MutationObserver(() => {
      if (page.dataset.hash !== before && texts() !== shown) requestAnimationFrame(() => done({ ms: performance.now() - begun, took: Number(page.dataset.took) }));
    });
    const done = (answer) => {
      observer.disconnect();
      clearTimeout(late);
      resolve(answer);
    };
    observer.observe(page, { attributes: true, subtree: true, childList: true, characterData: true });
    slider.value = String(Math.round(Number(slider.max) * share));
    slider.dispatchEvent(new Event('input', { bubbles: true }));
  });
};

// Moves it with every frame for a while.
const quickHand = ([id, ms]) =>
  new Promise((resolve) => {
    const end = performance.now() + ms;
    let count = 0;
    const move = () => {
      const slider = document.querySelector(`[data-control="${id}"]`);
      count++;
      slider.value = String(Math.round(Number(slider.max) * (0.5 + 0.4 * Math.sin(count / 7))));
      slider.dispatchEvent(new Event('input', { bubbles: true }));
      if (performance.now() < end) requestAnimationFrame(move);
      else resolve(count);
    };
    requestAnimationFrame(move);
  });

// The tasks of the page's main thread: { wall, cpu } in ms each, and what the longest were made of.
function mainThreadTasks(trace) {
  const events = JSON.parse(trace.toString('utf8')).traceEvents;
  const marked = events.find((one) => one.name === 'TimeStamp' && one.args?.data?.message === 'weir-bench');
  if (!marked) throw new Error('the trace does not tell the page');
  const own = events.filter((one) => one.ph === 'X' && one.pid === marked.pid && one.tid === marked.tid);
  const isTask = (one) => /RunTask$/.test(one.name);
  const tasks = own.filter(isTask).map((one) => ({ ts: one.ts, end: one.ts + one.dur, wall: one.dur / 1000, cpu: (one.tdur ?? one.dur) / 1000 }));
  const parts = (task) => {
    const sums = new Map();
    for (const one of own) {
      if (isTask(one) || one.ts < task.ts || one.ts + one.dur > task.end) continue;
      sums.set(one.name, (sums.get(one.name) ?? 0) + (one.tdur ?? one.dur) / 1000);
    }
    return [...sums].filter(([, ms]) => ms >= 1).sort(([, x], [, y]) => y - x).slice(0, 6).map(([name, ms]) => `${name} ${ms.toFixed(1)}`);
  };
  const longest = [...tasks].sort((x, y) => y.cpu - x.cpu).slice(0, 3).map((task) => `${task.cpu.toFixed(1)} ms: ${parts(task).join(', ')}`);
  return { tasks, longest };
}

try {
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 900 } })).newPage();
  await page.goto(address + given.link);
  await page.locator('#page[data-running="false"][data-hash]:not([data-hash=""])').waitFor({ state: 'attached' });
  await page.locator(`[data-control="${given.control}"]`).waitFor();
  const shown = [];
  const took = [];
  let silent = 0;
  for (let i = 0; i < Number(given.ticks); i++) {
    // Values that do not come again, so that each makes new figures.
    const answer = await page.evaluate(slowTick, [given.control, 0.15 + 0.7 * ((i * 0.618034) % 1)]);
    if (answer) {
      shown.push(answer.ms);
      took.push(answer.took);
    } else silent++;
  }
  await browser.startTracing(page, { categories: ['toplevel', 'devtools.timeline', 'disabled-by-default-devtools.timeline', '__metadata'] });
  await page.evaluate(() => console.timeStamp('weir-bench'));
  const moves = await page.evaluate(quickHand, [given.control, 4000]);
  const { tasks, longest } = mainThreadTasks(await browser.stopTracing());
  const above = (which) => tasks.filter((one) => one[which] > 16).length;
  const figures = {
    'a run in the worker, ms': spread(took),
    'slider to figures, ms': { ...spread(shown), 'without new figures': silent },
    'tasks of a quick hand, ms of CPU': { moves, ...spread(tasks.map((one) => one.cpu)), 'above 16': above('cpu') },
    'the same, ms on the clock': { ...spread(tasks.map((one) => one.wall)), 'above 16': above('wall') },
  };
  if (given.json) console.log(JSON.stringify({ ...figures, longest }, null, 1));
  else for (const [name, all] of Object.entries(figures)) console.log(`${name.padEnd(40)} ${Object.entries(all).map(([key, value]) => `${key} ${value}`).join('  ')}`);
  if (!given.json) console.log(`the longest by CPU, and what they held (nested parts count twice):\n  ${longest.join('\n  ')}`);
} finally {
  await browser.close();
  gateway.removeAllListeners('exit');
  gateway.kill('SIGTERM');
  await new Promise((resolve) => gateway.on('close', resolve));
  rmSync(state, { recursive: true, force: true });
}
