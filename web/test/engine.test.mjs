// The engine in Node, against the program: the same text, sets and seed give the same run.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { LocalEngine, compare, compiled, native, program, flags, root, run, scenario, scenarios } from './engine_support.mjs';

// Kept, so that a change of compiler, of the module's or of the program's, does not go unseen. After a change that is meant to change it:
//   for each scenario and seed: weir lab NAME --seed N --json, and its hash
const kept = readFileSync(path.join(root, 'tests/data/lab/scenario_hashes.txt'), 'utf8').trim().split('\n').map((line) => line.split(' '));

test('every scenario gives in Node what it gives in the program, over several seeds, and the bytes that are kept', async () => {
  const engine = new LocalEngine(compiled);
  assert.deepEqual([...new Set(kept.map(([name]) => name))], scenarios.map(({ name }) => name), 'every scenario is kept');
  for (const [name, seed, hash] of kept) {
    const reply = run(engine, scenario(name), [], Number(seed));
    compare(reply, await native(name, [], seed), `${name}, seed ${seed}`);
    assert.equal(reply.result.hash, hash, `${name}, seed ${seed}: tests/data/lab/scenario_hashes.txt`);
  }
});

const changes = [
  ['default', [['scheduler', 'fifo']]],
  ['default', [['scheduler', 'drr'], ['traffic.agent.sends', 'false']]],
  ['default', [['scheduler', 'drr-cost'], ['tenants.batch.weight', '3'], ['upstreams.backend.max_in_flight', '64']]],
  ['default', [['tenants.batch.lane', 'batch'], ['traffic.batch.rate', '90/m'], ['backend.replicas', '2']]],
  ['default', [['tenants.agent.limits.tokens', '5k/s'], ['tenants.agent.limits.tokens_burst', '30k']]],
  ['default', [['traffic.app-1.prompt', '{distribution: lognormal, mean: 900, sigma: 1.2}'], ['traffic.time', '30s']]],
  ['budget', [['scopes.class/a.on_exhausted', 'queue'], ['scopes.class/a.period', '60s']]],
  ['budget', [['scopes.class.granted', '1M'], ['tenants.team-a.scope', 'class/b']]],
  ['failing', [['upstreams.main.breaker.failures', '0'], ['upstreams.main.breaker.failure_percent', '0'], ['backend.main.troubles', '[]']]],
  ['retry-storm', [['limits.waiters', '50'], ['limits.waiters_per_tenant', '50']]],
].map(([name, pairs]) => ({ setup: scenario(name), sets: pairs.map(([path, value]) => ({ path, value })) }));

test('values set over a scenario change it as they change it in the program', async () => {
  const engine = new LocalEngine(compiled);
  for (const { setup, sets } of changes)
    compare(run(engine, setup, sets, 3), await native(setup.name, sets, 3), `${setup.name} with ${flags(sets).join(' ')}`);
});

test('the configuration it prints is that of the program, and runs to the same hash', async () => {
  const engine = new LocalEngine(compiled);
  for (const { setup, sets } of [...scenarios.map((one) => ({ setup: one, sets: [] })), ...changes]) {
    const printed = engine.yaml(setup, sets);
    assert.ok(printed.ok, JSON.stringify(printed.problems));
    const { stdout } = await program('lab', setup.name, '--yaml', ...flags(sets));
    assert.equal(printed.text, stdout.replace(/^#.*\n/, ''));
    const again = run(engine, { name: 'copy', text: printed.text });
    const before = run(engine, setup, sets);
    assert.equal(again.result.hash, before.result.hash, printed.text);
    assert.equal(engine.yaml({ name: 'copy', text: printed.text }, []).text, printed.text, 'a copy of the copy is the copy');
  }
});

test('values in force are told by their path, and set again change nothing', () => {
  const engine = new LocalEngine(compiled);
  const paths = [
    'scheduler', 'tenants.batch.weight', 'tenants.batch.limits.tokens', 'traffic.batch.rate', 'traffic.app-1.prompt', 'traffic.app-1.burst',
    'traffic.agent.growth', 'upstreams.backend.max_in_flight', 'upstreams.breaker.cooldown', 'limits.max_wait', 'limits.waiting_bytes',
    'backend.step', 'lanes.batch.floor', 'listen', 'traffic.app-1.client', 'lanes',
  ];
  const { setup } = run(engine, scenario('default'), [], 1, { paths: [...paths, 'tenants.nobody.weight', 'schedular', ''] });
  assert.equal(setup.values.scheduler, 'vtc');
  assert.equal(setup.values['tenants.batch.limits.tokens'], '', 'no limit');
  assert.equal(setup.values['traffic.batch.rate'], '4/s');
  assert.equal(setup.values['traffic.app-1.prompt'], '300..1500');
  assert.equal(setup.values['traffic.app-1.burst'], '{from: 40s, until: 70s, times: 2.5}');
  for (const none of ['tenants.nobody.weight', 'schedular', '']) assert.equal(setup.values[none], null);
  const sets = paths.filter((path) => setup.values[path]).map((path) => ({ path, value: setup.values[path] }));
  const again = run(engine, scenario('default'), sets, 1, { paths });
  assert.ok(again.ok, JSON.stringify(again.problems));
  assert.equal(again.result.hash, run(engine, scenario('default')).result.hash);
  for (const path of paths) assert.equal(again.setup.values[path], setup.values[path], path);
});

test('series, requests and figures of a run say the same', () => {
  const engine = new LocalEngine(compiled);
  for (const setup of scenarios) {
    const { result } = run(engine, setup, [], 5, { wantsRequests: true });
    const { requests } = result;
    const sum = (series) => series.reduce((a, b) => a + b, 0);
    result.tenants.forEach((tenant, i) => {
      for (const key of ['finished', 'refused', 'failed']) assert.equal(sum(tenant.series[key]), tenant[key], `${setup.name} ${tenant.name} ${key}`);
      assert.equal(sum(tenant.series.offered), tenant.sent);
      const own = requests.outcome.filter((_, k) => requests.tenant[k] === i);
      assert.equal(own.filter((outcome) => outcome === 0).length, tenant.finished);
      assert.equal(own.filter((outcome) => outcome === 1).length, tenant.refused);
      assert.equal(own.filter((outcome) => outcome > 1).length, tenant.failed);
    });
    for (let k = 0; k < requests.count; k++) {
      const times = [requests.arrival[k], requests.dispatch[k], requests.first[k], requests.end[k]].filter((time) => !Number.isNaN(time));
      assert.deepEqual(times, [...times].sort((a, b) => a - b), `${setup.name}: request ${k}`);
      if (requests.outcome[k] === 0) assert.equal(times.length, 4);
      assert.equal(requests.reason[k] > 0, requests.outcome[k] === 1 || (requests.outcome[k] === 4 && requests.reason[k] > 0), `${setup.name}: request ${k}`);
    }
  }
});
