// Recorded traffic: the engine sends what the program sends, and tells what a recording measured.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { LocalEngine, compare, compiled, figureKeys, flags, native, program, run, scenario, told } from './engine_support.mjs';

const folder = mkdtempSync(path.join(tmpdir(), 'weir-trace-test-'));
test.after(() => rmSync(folder, { recursive: true }));

async function record(name, ...more) {
  const file = path.join(folder, `${name}.csv`);
  const { status, stderr } = await program('lab', name, '--record', file, ...more);
  assert.equal(status, 0, stderr);
  return file;
}

test('a recording is sent again as the program sends it', async () => {
  const engine = new LocalEngine(compiled);
  for (const name of ['default', 'budget', 'retry-storm']) {
    const file = await record(name);
    const trace = { name: file, text: readFileSync(file, 'utf8') };
    for (const sets of [[], [{ path: 'scheduler', value: 'fifo' }]]) {
      const reply = run(engine, scenario(name), sets, 2, { trace });
      compare(reply, await native(name, sets, 2, '--trace', file), `${name} ${flags(sets)}`);
      assert.ok(reply.setup.tenants.every((tenant) => tenant.arrivals === 'trace'));
    }
  }
  compare(run(engine, scenario('budget'), [], 1), await native('budget', [], 1), 'without a trace again');
});

test('what a recording measured is what the run that was recorded came to', async () => {
  const engine = new LocalEngine(compiled);
  const file = await record('default');
  const once = run(engine, scenario('default'));
  // The same tenants with the same goals, but what they send comes from the trace.
  const text = scenario('default').text.replace(/rate: [\d.]+\/s/g, 'arrivals: trace').replace(/, burst: \{[^}]*\}/g, '').replace(/\n *burst: \{[^}]*\}/g, '').replace(/, growth: 60/, '');
  const reply = run(engine, { name: 'default', text }, [], 1, { trace: { name: 'r.csv', text: readFileSync(file, 'utf8') } });
  assert.ok(reply.ok, JSON.stringify(reply.problems));
  reply.result.tenants.forEach((tenant) => {
    const before = once.result.tenants.find((one) => one.name === tenant.name);
    for (const key of Object.keys(figureKeys)) {
      if (key === 'retries') assert.ok(Number.isNaN(tenant.recorded.retries));
      else if (/wait|first/.test(key)) assert.ok(Math.abs(tenant.recorded[key] - before[key]) <= before[key] * 0.04 + 1e-6, `${tenant.name} ${key}: ${tenant.recorded[key]}, not ${before[key]}`);
      else if (/PerSecond/.test(key)) assert.ok(Math.abs(tenant.recorded[key] - before[key]) <= before[key] * 0.02, `${tenant.name} ${key}: ${tenant.recorded[key]}, not ${before[key]}`);
      else assert.equal(told(tenant.recorded[key]), told(before[key]), `${tenant.name} ${key}`);
    }
  });
  assert.equal(reply.result.allRecorded.finished, once.result.all.finished);
});

const arena = (rows) => `arrival_s,tenant,prompt_tokens,output_tokens,scheduler,first_token_s,latency_s\n${rows.join('\n')}\n`;

test('of a file with several measured runs one is chosen, and it is said which', () => {
  const engine = new LocalEngine(compiled);
  const rows = ['fcfs', 'vtc'].flatMap((order) => [`0.0,a,100,10,${order},0.5,1.0`, `0.5,b,200,20,${order},0.6,2.0`]);
  const reply = run(engine, scenario('default'), [], 1, { trace: { name: 'arena.csv', text: arena(rows) } });
  assert.ok(reply.ok, JSON.stringify(reply.problems));
  assert.equal(reply.result.all.sent, 2);
  assert.ok(reply.warnings.some((one) => one.where === 'arena.csv' && /fcfs, vtc.*'vtc'/.test(one.text)), JSON.stringify(reply.warnings));
  assert.equal(reply.result.tenants[0].recorded.firstP50.toFixed(2), '0.50');
  assert.ok(Number.isNaN(reply.result.tenants[0].recorded.waitP50), 'such a file tells no queue waits');
});

test('a trace that measured nothing has no recorded figures', () => {
  const engine = new LocalEngine(compiled);
  const text = 'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n';
  const reply = run(engine, scenario('default'), [], 1, { trace: { name: 'azure.csv', text } });
  assert.ok(reply.ok, JSON.stringify(reply.problems));
  assert.equal(reply.result.all.finished, 2);
  assert.equal(reply.result.tenants[0].recorded, undefined);
  assert.equal(reply.result.allRecorded, undefined);
});

test('of more than 64 tenants the smallest stand together, as in the program', async () => {
  const engine = new LocalEngine(compiled);
  const many = ['arrival_s,tenant,prompt_tokens,output_tokens'];
  for (let i = 0; i < 300; i++) many.push(`${(i / 10).toFixed(1)},t${i < 200 ? i % 10 : i},${100 + i},20`);
  const file = path.join(folder, 'many.csv');
  writeFileSync(file, `${many.join('\n')}\n`);
  const reply = run(engine, scenario('default'), [], 1, { trace: { name: file, text: readFileSync(file, 'utf8') } });
  compare(reply, await native('default', [], 1, '--trace', file), 'many tenants');
  const sets = [{ path: 'tenants.t3.weight', value: '9' }, { path: 'tenants.t4.limits.tokens', value: '1k/m' }];
  const changed = run(engine, scenario('default'), sets, 1, { trace: { name: file, text: readFileSync(file, 'utf8') }, paths: ['tenants.t3.weight'] });
  compare(changed, await native('default', sets, 1, '--trace', file), 'a tenant that only the trace has');
  assert.equal(changed.setup.values['tenants.t3.weight'], '9');
  assert.match(engine.yaml(scenario('default'), sets).text, /name: t3, weight: 9/);
  assert.ok(reply.setup.tenants.some((tenant) => tenant.name === 'others'));
  assert.ok(reply.warnings.some((one) => /more than 64 tenants/.test(one.text)));
});

test('a trace that cannot be read says where and why, as the program does', async () => {
  const engine = new LocalEngine(compiled);
  const file = path.join(folder, 'bad.csv');
  for (const text of [
    '', 'a,b,c\n1,2,3\n', 'arrival_s,tenant,prompt_tokens,output_tokens\n', 'arrival_s,tenant,prompt_tokens,output_tokens\n0,a,x,1\n',
    arena(['0.0,a,1,"2,vtc,0.5,1.0']), '#weir recording 1 began x\n', '{"json": true}', '\0\0\0', 'x'.repeat(100_000),
  ]) {
    writeFileSync(file, text);
    const { stderr, status } = await program('lab', 'default', '--trace', file, '--json');
    const reply = run(engine, scenario('default'), [], 1, { trace: { name: file, text } });
    assert.equal(status, 2, stderr);
    assert.ok(!reply.ok, text.slice(0, 60));
    const [problem] = reply.problems;
    assert.equal(`${problem.where}${problem.line ? `:${problem.line}` : ''}: ${problem.text}\n`, stderr);
    assert.ok(run(engine, scenario('default')).ok, 'and the engine goes on');
  }
});

test('a letter of two units where one portion of the file ends and the next begins stays whole', () => {
  const engine = new LocalEngine(compiled);
  const row = '0.5,🙂🙂🙂🙂,100,10\n';
  for (let shift = 0; shift < row.length; shift++) {
    const text = `arrival_s,tenant,prompt_tokens,output_tokens\n0.5,${'a'.repeat(shift + 1)},1,1\n${row.repeat(66_000 / row.length)}`;
    const reply = run(engine, scenario('default'), [], 1, { trace: { name: 't', text } });
    assert.deepEqual(reply.setup.tenants.map((tenant) => tenant.name).sort(), ['a'.repeat(shift + 1), '🙂🙂🙂🙂'], `${shift}`);
  }
});
