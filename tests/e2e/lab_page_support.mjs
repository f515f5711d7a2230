// The lab page in a real browser: Debian's Chromium, driven by playwright-core, before the release build.
//
// A test is a claim: `pageClaim('name', async (lab) => {...})`. `lab.open()` gives a page as a visitor with
// an empty profile has it, served by a gateway of its own; `lab.openFile()` the one that is a single file. A
// page that wrote an error to its console, threw, broke its own security policy or asked for anything that
// is not there fails the test, whatever else it shows. Nothing here waits for time to pass: a wait is for
// what the page shows.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { after } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';
import { call, claim } from './support.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const WAIT_MS = 20_000;

// The page lies in the release build only.
export const release = process.env.WEIR_RELEASE ?? path.join(root, 'build/src/cli/weir');
// What opening it loads, and what each file weighs: written by tools/pack_pages.mjs.
const built = path.join(path.dirname(release), '../../web');
export const weights = () => JSON.parse(readFileSync(path.join(built, 'lab_pages.json'), 'utf8'));

const chromiumPath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((place) => existsSync(place));

let browserStarted;
function browser() {
  assert.ok(chromiumPath, 'no Chromium is installed: sh tools/bootstrap.sh test');
  browserStarted ??= chromium.launch({
    executablePath: chromiumPath,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
  return browserStarted;
}
after(async () => {
  if (browserStarted) await (await browserStarted.catch(() => null))?.close();
});

const axeText = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

class Lab {
  constructor(rig) {
    this.rig = rig;
    this.contexts = [];
    this.complaints = [];
  }

  // The gateway whose page is looked at; started on first use, before its built-in mock.
  async gateway() {
    assert.ok(existsSync(release), `no release build: sh tools/build.sh build -Dpages=true, or set WEIR_RELEASE (now ${release})`);
    this.serving ??= this.rig.serve([], { binary: release });
    return this.serving;
  }

  // The address of the page: http://127.0.0.1:PORT/lab/
  async address() {
    return `http://127.0.0.1:${(await this.gateway()).adminPort}/lab/`;
  }

  // A new profile; dark: a visitor who likes it dark; touch: one with a phone.
  async context({ width = 1280, height = 900, dark = false, touch = false, still = false } = {}) {
    const context = await (await browser()).newContext({
      viewport: { width, height },
      colorScheme: dark ? 'dark' : 'light',
      hasTouch: touch,
      reducedMotion: still ? 'reduce' : 'no-preference',
      acceptDownloads: true,
      permissions: [],
    });
    context.setDefaultTimeout(WAIT_MS);
    this.contexts.push(context);
    return context;
  }

  watch(page) {
    const complain = (what) => this.complaints.push(what);
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') complain(`console ${message.type()}: ${message.text()} (${message.location().url})`);
    });
    page.on('pageerror', (error) => complain(`thrown: ${error.stack ?? error}`));
    page.on('requestfailed', (request) => {
      if (!request.failure()?.errorText.includes('ERR_ABORTED')) complain(`not loaded: ${request.url()} ${request.failure()?.errorText}`);
    });
    page.on('response', (response) => {
      if (response.status() >= 400) complain(`${response.status()}: ${response.url()}`);
    });
  }

  // Opens an address in a context (a new one by default) and waits for the first result. link: what
  // stands behind the page's address, from the # on.
  async open({ context, link = '', at, ...options } = {}) {
    const page = await (context ?? (await this.context(options))).newPage();
    this.watch(page);
    await page.goto(`${at ?? (await this.address())}${link}`);
    await this.settled(page);
    return page;
  }

  // The page as one file, downloaded from the gateway to a folder whose name wants care in an address.
  async openFile(options = {}) {
    const file = path.join(this.rig.folder(), 'the lab #1.html');
    const answer = await call(`${await this.address()}weir-lab.html`);
    assert.equal(answer.status, 200, answer.text);
    writeFileSync(file, answer.bytes);
    return this.open({ ...options, at: pathToFileURL(file).href });
  }

  // Until the newest state of the setup has its result.
  async settled(page) {
    const seen = page.locator('#page[data-running="false"][data-hash]:not([data-hash=""]), #page[data-error]');
    await seen.first().waitFor({ state: 'attached' }).catch(async (error) => {
      throw new Error(`the page shows no result: ${error.message}\n${this.complaints.join('\n')}`);
    });
    assert.equal(await page.locator('#page').getAttribute('data-error'), null, 'the engine started');
  }

  // The hash of the run that is shown; equal to `hash` of `weir lab --json`.
  async hash(page) {
    await this.settled(page);
    return page.locator('#page').getAttribute('data-hash');
  }

  // Does something that makes another run, and waits for its result.
  async changed(page, act) {
    const before = await this.hash(page);
    await act();
    await page.locator(`#page[data-running="false"]:not([data-hash="${before}"]):not([data-hash=""])`).waitFor({ state: 'attached' });
    return page.locator('#page').getAttribute('data-hash');
  }

  control(page, id) {
    return page.locator(`[data-control="${id}"]`);
  }

  // Gives a control a value as a hand does, and waits for the result: of a slider its place from 0 to 1, of a
  // switch true or false, else the text. Resolves with the hash.
  async set(page, id, value) {
    const control = this.control(page, id);
    const kind = await control.evaluate((one) => (one.tagName === 'INPUT' ? one.type : one.tagName.toLowerCase()));
    if (kind === 'select') await control.selectOption(value);
    else if (kind === 'checkbox') await control.setChecked(value);
    else if (kind === 'range') await control.fill(String(Math.round(Number(await control.getAttribute('max')) * value)));
    else if (kind === 'text') {
      await control.fill(value);
      await control.press('Enter');
    } else await control.locator(`label:has(input[value="${value}"])`).click();
    return this.hash(page);
  }

  // Unfolds all that can be, so that every control can be reached.
  async unfold(page) {
    await page.evaluate(() => {
      document.querySelectorAll('details').forEach((one) => (one.open = true));
      // On a phone the controls stand behind a button of their own.
      const side = document.querySelector('.side-toggle[aria-expanded="false"]');
      if (side?.checkVisibility()) side.click();
    });
  }

  // What the page's address says, once it is written: { name, seed, sets: ['path=value', ...] }.
  async link(page) {
    await this.settled(page);
    const [name, ...rest] = new URL(page.url()).hash.slice(1).split('&').map(decodeURIComponent);
    const seed = rest.find((part) => part.startsWith('seed='));
    const isSet = (part) => !/^(seed|text|trace|rows|beside|lost)=/.test(part);
    return { name: name || 'default', seed: Number(seed?.slice(5) ?? 1), sets: rest.filter(isSet) };
  }

  // Opens "Take it home", and closes it when body has looked at its texts: what('copy-yaml') resolves with one.
  async takeHome(page, body) {
    await this.settled(page);
    await this.control(page, 'take').click();
    const what = async (id) => {
      const area = page.locator(`[data-text="${id}"]`);
      await area.waitFor();
      await page.waitForFunction((one) => one.value !== '', await area.elementHandle());
      return area.inputValue();
    };
    const answer = await body(what);
    await page.keyboard.press('Escape');
    await page.locator('[data-text]').first().waitFor({ state: 'hidden' });
    return answer;
  }

  // The setup that is shown, as the command that runs it.
  async command(page) {
    await this.settled(page);
    return page.locator('#page').getAttribute('data-command');
  }

  // The hash that such a command has (or a link's parts), run by a shell as it stands there. folder: with the
  // files it names.
  async nativeHash(of, folder = this.rig.folder()) {
    const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
    const command = typeof of === 'string' ? of : `weir lab ${quoted(of.name)} --seed ${of.seed} ${of.sets.map((set) => `--set ${quoted(set)}`).join(' ')}`;
    const run = spawnSync('sh', ['-c', `${command} --json`], {
      cwd: folder,
      env: { ...process.env, PATH: `${path.dirname(release)}:${process.env.PATH}`, WEIR_STATE: folder },
      encoding: 'utf8',
      timeout: WAIT_MS,
    });
    assert.equal(run.status, 0, `${command}: ${run.stderr}`);
    return JSON.parse(run.stdout).hash;
  }

  // The run that is shown is the one that its command has.
  async assertNative(page, what = '') {
    const command = await this.command(page);
    assert.equal(await this.hash(page), await this.nativeHash(command), `${what} ${command}`);
    return command;
  }

  // Waits until the run that is shown is that of a command; for what the page does of itself a little later.
  async shows(page, pattern) {
    await page.waitForFunction(([source, flags]) => new RegExp(source, flags).test(document.getElementById('page').dataset.command), [pattern.source, pattern.flags]);
    await this.settled(page);
  }

  // The words of what is wrong, as the page shows them.
  problems(page) {
    return page.locator('[data-problems]').innerText();
  }

  // Drops a file of this name on the page, as from a folder.
  async drop(page, name, text) {
    await page.evaluate(
      ([fileName, content]) => {
        const data = new DataTransfer();
        data.items.add(new File([content], fileName));
        const target = document.body;
        for (const type of ['dragenter', 'dragover', 'drop'])
          target.dispatchEvent(new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer: data }));
      },
      [name, text],
    );
  }

  // What axe-core finds, as lines; injected past the page's own policy, which forbids foreign scripts.
  async axe(page) {
    const session = await page.context().newCDPSession(page);
    const run = `${axeText}; axe.run(document, { runOnly: { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22a', 'wcag22aa', 'best-practice'] } })
      .then((found) => JSON.stringify(found.violations.flatMap((one) => one.nodes.map((node) => one.id + ': ' + node.target.join(' ') + ': ' + node.failureSummary.replace(/\\s+/g, ' ')))))`;
    const { result, exceptionDetails } = await session.send('Runtime.evaluate', { expression: run, awaitPromise: true, returnByValue: true });
    await session.detach();
    if (exceptionDetails) throw new Error(`axe-core did not run: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return JSON.parse(result.value);
  }

  async assertAccessible(page, what = 'the page') {
    assert.deepEqual(await this.axe(page), [], `axe finds nothing on ${what}`);
  }

  // Nothing makes the page wider than its window; what does is named.
  async assertFits(page, what = 'the page') {
    const wide = await page.evaluate(() => {
      const limit = document.documentElement.clientWidth;
      if (document.documentElement.scrollWidth <= limit) return [];
      const scrolls = (one) => one && (getComputedStyle(one).overflowX !== 'visible' || scrolls(one.parentElement));
      const names = [...document.querySelectorAll('body *')]
        .filter((one) => one.getBoundingClientRect().right > limit + 0.5 && !scrolls(one.parentElement))
        .map((one) => `${one.tagName.toLowerCase()}.${one.className?.baseVal ?? one.className} reaches to ${one.getBoundingClientRect().right} of ${limit}`);
      return [`scrollWidth ${document.documentElement.scrollWidth}`, ...names.slice(0, 10)];
    });
    assert.deepEqual(wide, [], `no sideways overflow of ${what} at ${page.viewportSize().width} px`);
  }

  // Keeps a picture in $WEIR_SHOTS, for people; else does nothing.
  async shot(page, name, options = {}) {
    if (!process.env.WEIR_SHOTS) return;
    // What is drawn a frame at a time is drawn by then.
    await page.evaluate(async () => {
      for (let i = 0; i < 30; i++) await new Promise((resolve) => requestAnimationFrame(resolve));
    });
    mkdirSync(process.env.WEIR_SHOTS, { recursive: true });
    await page.screenshot({ path: path.join(process.env.WEIR_SHOTS, `${name}.png`), fullPage: true, ...options });
  }

  // From now on, what held the main thread up: { longest, tasks } in ms by longTasks(page). The browser
  // tells tasks from 50 ms on; `frames` has the longest time between two frames asked for one after another.
  async watchTasks(page) {
    await page.evaluate(() => {
      const seen = { tasks: [], frames: [] };
      window.labTasks = seen;
      new PerformanceObserver((list) => seen.tasks.push(...list.getEntries().map((one) => one.duration))).observe({ type: 'longtask' });
      let last = performance.now();
      const frame = () => {
        const now = performance.now();
        seen.frames.push(now - last);
        last = now;
        requestAnimationFrame(frame);
      };
      requestAnimationFrame(frame);
    });
  }

  longTasks(page) {
    return page.evaluate(() => window.labTasks);
  }

  async finish() {
    for (const context of this.contexts) await context.close();
  }
}

// A claim about the page. complaints: what the page may complain of, as the pattern each must match.
export function pageClaim(name, body, { complaints = [], ...options } = {}) {
  claim(
    name,
    async (rig, t) => {
      const lab = new Lab(rig);
      try {
        await body(lab, rig, t);
      } finally {
        await lab.finish();
      }
      const unexpected = lab.complaints.filter((text) => !complaints.some((pattern) => pattern.test(text)));
      assert.deepEqual(unexpected, [], 'the page complains of nothing');
    },
    options,
  );
}
