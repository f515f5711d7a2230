// Every control on every scenario, with the real engine: what it sets is taken, and is then what it reads back.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { load } from './load.mjs';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const weir = process.env.WEIR_RELEASE ?? here('../../build/src/cli/weir');
const wasm = process.env.WEIR_LAB_WASM ?? here('../../build/web/lab.wasm');
const { LocalEngine } = await load('lab/engine/engine.ts');
const page = await load('test/state.ts');
const engine = new LocalEngine(await WebAssembly.compile(readFileSync(wasm)));
page.connect({ run: async (request) => engine.run(request), yaml: async (...given) => engine.yaml(...given) });

const folder = mkdtempSync(path.join(tmpdir(), 'weir-web-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const settled = async (promise) => {
  await promise;
  assert.deepEqual(page.problems.value, []);
  assert.equal(page.isRunning.value, false);
};
const control = (id) => page.findControl(id) ?? assert.fail(`there is no control ${id}`);
const set = (id, value) => settled(page.change(control(id).sets(value), id, { control: id, value }));
const allControls = () => [...page.controls.value, ...page.tenantRows.value.flatMap((row) => [...row.cells.values()])];
const runOf = (words) => JSON.parse(execFileSync(weir, ['lab', ...words, '--json'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));

/* Something else than what is in force, as a person might choose it. */
function otherValues(each) {
  if (each.kind === 'toggle') return [each.value === 'true' ? 'false' : 'true'];
  if (each.kind === 'choice') return each.choices.map((choice) => choice.value).filter((value) => value !== each.value && !['several', 'other', 'both', ''].includes(value));
  if (each.kind === 'slider') return [each.scale.low, each.scale.isLog ? Math.sqrt(each.scale.low * each.scale.high) : Math.round((each.scale.low + each.scale.high) / 2)].map((n) => each.scale.text(n)).filter((value) => !page.isSameValue(value, each.value));
  return [];
}

/* What the loader rightly refuses: a wait for a next period where there is none, and upstreams that fall back in a circle. */
const isRefused = (id, value) => (id.startsWith('exhausted:') && value === 'queue') || (id.startsWith('fallback:') && value === 'main');
/* Short runs: there are many. */
const short = [{ path: 'traffic.time', value: '20s' }];
const begin = async (name) => settled(page.load({ origin: `preset:${name}`, text: { name, text: await page.presetText(name) }, sets: short, seed: 1, trace: null }));

test('the page has the scenarios of weir lab', () => {
  const known = JSON.parse(execFileSync(weir, ['lab', '--list', '--json'], { encoding: 'utf8' })).map((each) => each.name);
  assert.deepEqual([...page.presetNames].sort(), known.sort());
});

for (const name of page.presetNames)
  test(`${name}: each control sets what it then shows, by itself and over others`, async () => {
    await begin(name);
    const paths = new Set(page.pathsOf(page.run.value.setup));
    const now = page.held.value;
    page.allControls({ ...now, read: (at) => (assert.ok(paths.has(at), `${at} is asked for`), now.read(at)), has: (at) => (assert.ok(paths.has(at), `${at} is asked for`), now.has(at)) });
    const ids = allControls().map((each) => each.id);
    assert.equal(new Set(ids).size, ids.length, 'each id once');
    const before = page.run.value.result.hash;
    /* Of the tenants, who are alike, the last stands for all. */
    const last = page.tenantRows.value.at(-1).name;
    for (const id of ids) {
      if (id === 'seed' || (control(id).of !== last && page.tenantRows.value.some((row) => row.name === control(id).of))) continue;
      for (const value of otherValues(control(id))) {
        if (isRefused(id, value)) continue;
        await set(id, value);
        assert.ok(page.current.value.sets.length > 1 || id.startsWith('trouble'), `${id}=${value} sets something`);
        const shown = page.findControl(id);
        if (shown) assert.ok(!shown.isMixed && (shown.value === value || page.isSameValue(shown.value, value)), `${id}=${value} shows ${shown.value}`);
        await settled(page.undo());
        assert.equal(page.run.value.result.hash, before, `${id} undone`);
      }
    }
    /* One over the other. What a control opens (a rate, once there is a limit) is used too. */
    for (const id of ids) {
      const each = page.findControl(id);
      const value = each && otherValues(each).find((one) => !isRefused(id, one));
      if (value !== undefined && !id.startsWith('sends:')) await set(id, value);
    }
    await settled(page.resetSets());
    assert.deepEqual(page.current.value.sets, []);
  });

test('a limit of another kind has its place on the slider: a request is taken for 1,500 tokens', async () => {
  await settled(page.loadPreset('default'));
  await set('limit-kind', 'tokens');
  assert.deepEqual([control('limit-rate').value, control('limit-bucket').value].map((text) => [page.parseRate(text), page.parseCount(text)].find((n) => n > 0)), [9000, 90000]);
  await set('limit-rate', '3k/s');
  await set('limit-bucket', '60k');
  await set('limit-kind', 'requests');
  assert.ok(page.isSameValue(control('limit-rate').value, '2/s'), control('limit-rate').value);
  assert.equal(control('limit-bucket').value, '40');
  assert.equal(page.values.value['tenants.agent.limits.tokens'], '', 'the other limit is gone');
  await set('limit-kind', 'none');
  assert.deepEqual(page.current.value.sets, [], 'and nothing is left of it');
});

test('a limit of the file is taken away by none, and comes back with its bucket', async () => {
  await settled(page.loadPreset('request-limits'));
  assert.equal(control('limit-bucket').isMixed, true, 'the agent has a larger one');
  await set('limit-kind', 'tokens');
  assert.equal(page.values.value['tenants.app-1.limits.requests'], '');
  assert.ok(page.run.value.result.tenants.find((tenant) => tenant.name === 'agent').refused > 0);
  await set('limit-kind', 'none');
  assert.equal(page.run.value.result.all.refused, 0);
  await set('limit-kind:agent', 'tokens');
  assert.equal(control('limit-kind').isMixed, true);
});

test('what the requests and tokens do to the apps: docs/lab.md, "The default scenario"', async () => {
  const least = () => Math.min(...page.run.value.result.tenants.filter((tenant) => tenant.name.startsWith('app')).map((tenant) => tenant.goodShare));
  await settled(page.loadPreset('default'));
  await set('scheduler', 'fifo');
  await set('limit-kind', 'requests');
  assert.ok(least() < 0.7, `requests: the agent hurts the apps (${least()})`);
  await set('limit-kind', 'tokens');
  assert.equal(least(), 1, 'tokens: it does not');
  await set('limit-kind', 'none');
  for (const order of ['vtc', 'drr-cost']) {
    await set('scheduler', order);
    assert.ok(least() > 0.98 && page.run.value.result.all.finished === 1640, `${order}: the goal holds, and all is served`);
  }
});

test('an exact value that is none is refused in the words of the loader, and is told at its control', async () => {
  await settled(page.loadPreset('noisy'));
  await page.change(control('weight:batch').sets('0'), 'weight', { control: 'weight:batch', value: '0' });
  assert.equal(page.refusal.value.control, 'weight:batch');
  assert.match(page.refusal.value.problems[0].text, /weight must be a whole number between 1 and 1000, not '0'/);
  await page.change(control('batch-rate').sets('fast'), 'rate', { control: 'batch-rate', value: 'fast' });
  assert.match(page.refusal.value.problems[0].text, /rate must be a rate .* not 'fast'/);
});

test('a dropped file with mistakes: each is told with line and column', async () => {
  await settled(page.loadPreset('default'));
  const shown = page.run.value;
  await page.load({ origin: 'file:w.yaml', text: { name: 'w.yaml', text: 'upstreams:\n- {name: a, url: "http://h", max_in_flight: many}\ntraffic: {tenants: [{name: x, rate: 1}]}\nschedular: vtc\n' }, sets: [], seed: 1, trace: null });
  assert.equal(page.run.value, shown);
  const said = page.problems.value.map((problem) => `${problem.where}:${problem.line}:${problem.column}: ${problem.text}`);
  assert.match(said.join('\n'), /w\.yaml:2:\d+: max_in_flight must be a whole number/);
  assert.match(said.join('\n'), /w\.yaml:3:\d+: rate must be a rate/);
  assert.match(said.join('\n'), /w\.yaml:4:1: unknown key 'schedular' at the top level; did you mean 'scheduler'\?/);
});

test('a configuration without traffic runs with what it is offered', async () => {
  const text = '# Ours.\nupstreams:\n- {name: a, url: "http://h"}\ntenants:\n- {name: search, weight: 2}\n- {name: night}';
  const offer = await page.offerTraffic({ origin: 'file:w.yaml', text: { name: 'w.yaml', text }, sets: [], seed: 1, trace: null });
  assert.deepEqual(offer.tenants, ['search', 'night']);
  await settled(page.load(offer.setup));
  assert.deepEqual(page.run.value.setup.tenants.map((tenant) => [tenant.name, tenant.weight]), [['search', 2], ['night', 1]]);
});

for (const name of page.presetNames)
  test(`${name}: the copied weir.yaml passes weir check; file and command run to the same hash`, async () => {
    await settled(page.loadPreset(name));
    await settled(page.setSeed(3));
    for (const changes of [[], ['scheduler', 'limit-kind', 'client']]) {
      for (const id of changes) await set(id, otherValues(control(id))[0]);
      const { hash } = page.run.value.result;
      const yaml = await page.yamlOf(page.current.value);
      assert.ok(yaml.ok, JSON.stringify(yaml));
      const place = path.join(folder, `${name}-${changes.length}.yaml`);
      writeFileSync(place, yaml.text);
      const check = spawnSync(weir, ['check', place], { encoding: 'utf8' });
      assert.equal(check.status, 0, check.stderr);
      assert.equal(runOf([place, '--seed', '3']).hash, hash, 'the copy');
      const words = JSON.parse(execFileSync('sh', ['-c', `weir() { node -e 'console.log(JSON.stringify(process.argv.slice(1)))' -- "$@"; }; ${page.commandOf(page.current.value)}`], { encoding: 'utf8' }));
      assert.equal(runOf(words.slice(1)).hash, hash, 'the command');
      const link = await page.linkOf(page.current.value, null);
      assert.deepEqual((await page.readLink(link.hash, page.textOf)).setup, page.current.value);
    }
  });

test('with a trace the controls are of whom it has, and drawn traffic has none', async () => {
  const trace = { name: 'arena27.csv', text: readFileSync(here('../../tests/data/traces/arena27.csv'), 'utf8') };
  await settled(page.load({ origin: 'preset:default', text: { name: 'default', text: await page.presetText('default') }, sets: [], seed: 1, trace }));
  const ids = allControls().map((each) => each.id);
  for (const id of ['batch-rate', 'burst', 'agent', 'goal', 'weight:app-1']) assert.ok(!ids.includes(id), id);
  assert.ok(ids.includes('weight:c02'));
  await set('limit-kind', 'tokens');
  assert.ok(page.run.value.setup.tenants.every((tenant) => page.values.value[`tenants.${tenant.name}.limits.tokens`] !== ''));
  await set('weight:c02', '3');
  assert.equal(page.run.value.setup.tenants.find((tenant) => tenant.name === 'c02').weight, 3);
  assert.match(page.commandOf(page.current.value), /^weir lab --trace arena27\.csv --set /);
});
