// The engine where it is hard: broken input, odd seeds, many runs, and the module's own bounds.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { gzipSync } from 'node:zlib';
import { LocalEngine, bytes, compiled, flags, program, run, scenario, scenarios } from './engine_support.mjs';

const folder = mkdtempSync(path.join(tmpdir(), 'weir-engine-test-'));
test.after(() => rmSync(folder, { recursive: true }));

/** Chance that is the same each time. */
function chance(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

test('the module has no imports, and takes less than 80,000 bytes by gzip', () => {
  assert.deepEqual(WebAssembly.Module.imports(compiled), []);
  assert.ok(gzipSync(bytes, { level: 9 }).length < 80_000, `${gzipSync(bytes, { level: 9 }).length}`);
});

/** Problems as the program prints them. */
const printed = (problems) =>
  problems.map(({ where, line, column, text, isWarning }) => `${where}${line ? `:${line}:${column}` : ''}: ${isWarning ? 'warning: ' : ''}${text}\n`).join('');

/** Both on one text: the same said, the same hash. */
async function both(engine, text, sets = []) {
  const file = path.join(folder, 'weir.yaml');
  writeFileSync(file, text);
  const { stdout, stderr, status } = await program('lab', file, '--json', ...flags(sets));
  const reply = run(engine, { name: file, text }, sets);
  assert.equal(reply.ok, status === 0, `${stderr}\n${JSON.stringify(reply.problems)}\n${text}`);
  const ours = printed(reply.ok ? reply.warnings : reply.problems.map((one) => (one.where.includes('/') ? one : { ...one, where: `--set ${one.where}` })));
  return { reply, ours, theirs: stderr, hash: status === 0 ? JSON.parse(stdout).hash : '' };
}

const up = 'upstreams:\n- {name: a, url: "http://h"}\n';
const mistakes = [
  '', '# only a comment\n', '- a\n', 'listen: 127.0.0.1:1\n', `${up}wieght: 4\n`, `${up}tenats: 4\n`, `${up}ledger: memory\nledger: memory\n`,
  `${up}tenants:\n- name: t\n  weight: four\n`, `${up}tenants:\n  - name: t\n    weight: 0\n    wieght: 1\n`, `${up}tenants: [{name: t, weight: }]\n`,
  `${up}tenants:\n-\n- name: x\n`, `${up}tenants:\n- name: x\n-\n`, `${up}scheduler:\n`, `${up}scheduler: ~\n`, `${up}scheduler: "null"\n`,
  `${up}scheduler: [fifo]\n`, `${up}scheduler: {a: b}\n`, `${up}? scheduler\n: fifoo\n`, `${up}limits: {max_wait: 5, waiters: many}\n`,
  `${up}"scheduler": 'vtcc'\n`, `${up}scheduler: |\n  vtc\n`, `${up}scheduler: >-\n  vtc\n  drr\n`, `${up}tenants: [{name: x, weight: 1, weight: 2}]\n`,
  `${up}lanes: [{name: é, floor: 5}, {name: ü, flor: 3}]\n`, `${up}traffic: {tenants: [{name: a b}]}\n`, `${up}--- \nlisten: x\n`,
  `a: &a [*a]\n${up}`, `upstreams: &u [*u]\n`, `${up}tenants: [&t {name: x, weight: 2000}, *t]\n`, `${up}tenants: [{name: x, limits: &l {requests: 1}}, {name: y, limits: *l}]\n`,
  `%YAML 1.1\n---\n${up}foo: 1\n`, `${up}scopes: [{name: s, granted: 1, period: monday}]\n`, `${up}\r\ntenants:\r\n- name: x\r\n  lane: nowhere\r\n`,
  `${up}traffic: {tenants: [{name: x, rate: 1/s, prompt: {low: 5, high: 2}, output: 5..1}]}\n`, `${up}traffic:\n  tenants:\n  - name: 😀\n    x: 1\n  - {name: ok, rate: 1/s, 😀😀: 2, fooo: 1}\n`,
  `${up}backend: {replicas: 0, troubles: [{kind: slow, from: 5s, until: 1s}]}\n`, `${up}tenants: [[a, b], {name: c}]\n`, `${up}tenants: [a: b]\n`, `${up}a: b: c\n`.replace('a: b: c', 'tls: {cert_file: x}'),
];

test('what is wrong with a file is said as the program says it, at the same place', async () => {
  const engine = new LocalEngine(compiled);
  for (const text of mistakes) {
    const { ours, theirs } = await both(engine, text);
    assert.equal(ours, theirs, text);
  }
});

test('what is no YAML is said at its place, and by the engine with the parser\'s words', async () => {
  const engine = new LocalEngine(compiled);
  for (const text of ['a: [b\n', 'a: b: c\n', '\tx: 1\n', 'a: *nobody\n', '"abc\n', `${up}scheduler: fifo\n  x: 1\n`, '@a: 1\n', '{'.repeat(50), '{a: '.repeat(100_000), 'a\0b: 1\n']) {
    const reply = run(engine, { name: 'x.yaml', text });
    assert.ok(!reply.ok);
    assert.ok(reply.problems.length >= 1 && reply.problems[0].text.length > 5, text.slice(0, 40));
    assert.equal(reply.problems[0].where, 'x.yaml');
  }
  assert.ok(run(engine, scenario('default')).ok, 'and it goes on');
});

test('a value changed by chance is judged alike, at the same place', async () => {
  const engine = new LocalEngine(compiled);
  const draw = chance(11);
  const odd = ['-1', '0', '1e9', '99999999999999999999', 'x', '[]', '{}', '~', '""', '5/s', '300ms', '1..2', 'true', "'a'", '[a, [b], {c: d}]', 'é'];
  for (let i = 0; i < 60; i++) {
    const { text } = scenarios[draw(scenarios.length)];
    const values = [...text.matchAll(/(?<=: )[^\s,{}[\]'"]+/g)].filter((found) => !/^#/.test(text.slice(text.lastIndexOf('\n', found.index) + 1)));
    const { index, 0: old } = values[draw(values.length)];
    const changed = text.slice(0, index) + odd[draw(odd.length)] + text.slice(index + old.length);
    const { reply, ours, theirs, hash } = await both(engine, changed);
    assert.equal(ours, theirs, changed);
    if (reply.ok) assert.equal(reply.result.hash, hash, changed);
  }
});

test('sets that are wrong are said by their path', async () => {
  const engine = new LocalEngine(compiled);
  for (const [at, value] of [['schedular', 'fifo'], ['tenants.nobody.weight', '2'], ['scheduler', ''], ['tenants', '5'], ['traffic.app-1.rate', '5'], ['a'.repeat(400), 'x'], ['tenants.batch', '{}'], ['lanes', '[{name: x, floor: 900}]']]) {
    const { ours, theirs } = await both(engine, scenario('default').text, [{ path: at, value }]);
    assert.equal(ours, theirs, `${at}=${value}`);
  }
});

test('a seed is a whole number', () => {
  const engine = new LocalEngine(compiled);
  for (const seed of [Number.NaN, -1, 1.5, Infinity, 2 ** 53, -0.1, undefined]) {
    const reply = run(engine, scenario('default'), [], seed === undefined ? '7' : seed);
    assert.ok(!reply.ok && reply.problems[0].where === 'seed', String(seed));
  }
  assert.ok(run(engine, scenario('default'), [], Number.MAX_SAFE_INTEGER).ok);
});

test('a megabyte of garbage gets an answer', () => {
  const engine = new LocalEngine(compiled);
  const draw = chance(5);
  const letters = 'abc:{}[],#&*!|>\'"%@`-\n\t ?~é';
  for (let i = 0; i < 4; i++) {
    let text = '';
    while (text.length < (i === 0 ? 1_000_000 : 2_000)) text += letters[draw(letters.length)];
    assert.ok(!run(engine, { name: 'x', text }).ok);
  }
  const rows = Array.from({ length: 20_000 }, (_, i) => `- {name: t${i}, weight: ${i}}`).join('\n');
  const reply = run(engine, { name: 'x', text: `${up}tenants:\n${rows}\n` });
  assert.ok(!reply.ok && reply.problems.length === 200, 'a problem each, 200 of them are told');
  assert.ok(run(engine, scenario('default')).ok);
});

test('random sets never stop the module', () => {
  const engine = new LocalEngine(compiled);
  const draw = chance(3);
  const counts = ['0', '1', '2', '7', '64', '1000'];
  const times = ['0', '10ms', '300ms', '1s', '2s', '30s'];
  const rates = ['1/s', '3/m', '50/s', '1k/s', '100k/m', '2/d'];
  const lengths = ['1', '500', '10..20', '1..100000', '{distribution: exponential, mean: 800}', '{distribution: lognormal, mean: 700, sigma: 1.5}'];
  const paths = {
    scheduler: ['fifo', 'drr', 'drr-cost', 'vtc'], 'limits.waiters': counts, 'limits.waiters_per_tenant': counts, 'limits.max_wait': times,
    'upstreams.max_in_flight': counts, 'upstreams.adaptive.min': counts, 'upstreams.rate': rates, 'upstreams.tokens': rates, 'upstreams.output_limit': counts,
    'upstreams.breaker.failures': counts, 'upstreams.breaker.window': times, 'upstreams.breaker.cooldown': times, 'upstreams.timeouts.first_byte': times, 'upstreams.timeouts.total': times,
    'backend.replicas': counts, 'backend.sequences': counts, 'backend.step': times, 'backend.step_sequence': times, 'backend.prefill': counts, 'backend.kv_tokens': counts, 'backend.latency': times,
    'backend.troubles': ['[{kind: fail, from: 1s, until: 5s}]', '[{kind: slow, replica: 2, from: 0, until: 20s, times: 900}]', '[]'],
    'traffic.run': times, 'traffic.bin': times, 'traffic.ledger_delay': times, 'traffic.batch.rate': rates, 'traffic.batch.prompt': lengths, 'traffic.batch.output': lengths,
    'traffic.batch': ['{name: batch, arrivals: closed, users: 30}'], 'traffic.batch.burst': ['{from: 1s, until: 9s, times: 0}', '{from: 0, until: 2s, times: 30}'], 'traffic.agent.growth': counts,
    'traffic.batch.output_limit': counts, 'traffic.batch.stream': ['true', 'false'], 'traffic.batch.goal': times, 'traffic.agent.sends': ['true', 'false'],
    'traffic.batch.client': ['sdk', 'none', '{retries: 3, gives_up: 2s}', '{retries: 10, obeys_hint: false, backoff: 1ms}'], 'tenants.batch.weight': counts, 'tenants.batch.lane': ['batch', 'interactive'],
    'tenants.batch.limits.requests': rates, 'tenants.batch.limits.tokens': rates, 'tenants.batch.limits.over': ['refuse', 'wait'], 'tenants.batch.paused': ['true'], 'lanes.batch.floor': counts,
    'work.input': counts, 'work.output': counts, scopes: ['[{name: s, granted: 5k, period: 2s, on_exhausted: queue}]', '[{name: s, granted: 0}]', '[{name: s, granted: 50k, on_overrun: cut}]'], 'tenants.batch.scope': ['s'],
  };
  const names = Object.keys(paths);
  let ran = 0;
  for (let i = 0; i < 400; i++) {
    const sets = [{ path: 'traffic.time', value: '4s' }];
    for (let k = draw(4) + 1; k > 0; k--) {
      const at = names[draw(names.length)];
      sets.push({ path: at, value: paths[at][draw(paths[at].length)] });
    }
    const reply = run(engine, scenario('default'), sets, i, { wantsRequests: true });
    ran += reply.ok;
    if (!reply.ok) for (const problem of reply.problems) assert.notEqual(problem.where, 'engine', `${flags(sets).join(' ')}: ${problem.text}`);
  }
  assert.ok(ran > 100, `${ran} of them could be run`);
});

test('repeated loads and runs take no more memory', () => {
  const engine = new LocalEngine(compiled);
  const short = [{ path: 'traffic.time', value: '2s' }, { path: 'limits.waiters', value: '100' }, { path: 'limits.waiters_per_tenant', value: '100' }];
  const trace = { name: 't', text: 'arrival_s,tenant,prompt_tokens,output_tokens\n0.0,app-1,100,10\n0.5,app-2,200,20\n' };
  let before = 0;
  for (let i = 0; i < 2000; i++) {
    const reply = i % 7 === 0 ? run(engine, { name: 'x', text: 'upstreams: [' }) : run(engine, scenario(i % 2 ? 'default' : 'budget'), short, i, { wantsRequests: true, paths: ['lanes', 'x'], trace: i % 50 === 1 ? trace : undefined });
    assert.equal(reply.ok, i % 7 !== 0);
    if (i % 9 === 0) assert.ok(engine.yaml(scenario('failing'), []).ok);
    if (i === 200) before = engine.memoryBytes;
  }
  assert.equal(engine.memoryBytes, before);
});

test('a setup that is too large for a page says so, and the engine goes on', () => {
  const engine = new LocalEngine(compiled);
  const reply = run(engine, scenario('default'), [{ path: 'limits.waiters', value: '1000000' }, { path: 'limits.waiters_per_tenant', value: '1000000' }]);
  assert.ok(!reply.ok);
  assert.match(reply.problems[0].text, /MiB of memory.*lower limits\.waiters/);
  assert.ok(run(engine, scenario('default')).ok);
});

test('a setup that needs more than 4 GiB is too large, not small again', () => {
  const engine = new LocalEngine(compiled);
  for (const count of [4, 8, 12, 16]) {
    const upstreams = Array.from({ length: count }, (_, i) => `- {name: u${i}, url: "http://h${i}", pool: p${i}, models: [m${i}], max_in_flight: 65536}\n`);
    const text = `upstreams:\n${upstreams.join('')}limits: {waiters: 1000000, waiters_per_tenant: 1000000}\nbackend: {replicas: 256, sequences: 65536}\ntraffic: {time: 2s, tenants: [{name: a, rate: 2/s}]}\n`;
    const { problems } = run(engine, { name: 'x', text });
    const mebibytes = Number(/needs (\d+) MiB of memory/.exec(problems[0].text)?.[1]);
    assert.ok(mebibytes >= (count === 4 ? 2800 : 4095), `${count}: ${problems[0].text}`);
  }
});

test('all in one line takes no longer than line by line', () => {
  const engine = new LocalEngine(compiled);
  for (const entry of ['a,', '&a a,', '? a : b,']) {
    const began = performance.now();
    assert.ok(!run(engine, { name: 'x', text: `${up}x: [${entry.repeat(60_000)}]\n` }).ok);
    const took = performance.now() - began;
    assert.ok(took < 5_000, `${entry} took ${took} ms: of a column that is counted from the line's start it is a minute`);
  }
});

test('a configuration larger than a page can take apart is refused before it is', () => {
  const engine = new LocalEngine(compiled);
  const reply = run(engine, { name: 'x.yaml', text: up + '- {name: a}\n'.repeat(500_000) });
  assert.match(reply.problems[0].text, /^is larger than 4 MiB/);
  assert.equal(reply.problems[0].where, 'x.yaml');
});

test('the module\'s memory ends where its addresses would be negative numbers, and that is no defect', () => {
  const engine = new LocalEngine(compiled);
  const { exports } = engine.module;
  for (let bits = 30; bits > 20; bits--) assert.ok(exports.module_alloc(2 ** bits - 16) > 0, `${bits}`);
  const reply = run(engine, { name: 'x', text: up + Array.from({ length: 50_000 }, (_, i) => `k${i}: 1\n`).join('') });
  assert.ok(!reply.ok);
  assert.match(reply.problems[0].text, /needs more memory than a page has/);
  assert.ok(run(engine, scenario('default')).ok, 'and it goes on');
});
