// The engine in Node, against the program: the same text, sets and seed give the same run.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { load } from './load.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.resolve(here, '../..');
const weir = process.env.WEIR_RELEASE ?? path.join(root, 'build/src/cli/weir');
const wasm = process.env.WEIR_LAB_WASM ?? path.join(root, 'build/web/lab.wasm');
const folder = path.join(root, 'src/cli/scenarios');
const scenarios = readdirSync(folder).map((file) => ({ name: file.replace('.yaml', ''), text: readFileSync(path.join(folder, file), 'utf8') }));
const compiled = await WebAssembly.compile(readFileSync(wasm));
const { LocalEngine } = await load('lab/engine/engine.ts');

const run = (engine, setup, sets = [], seed = 1, more = {}) =>
  engine.run({ setup, sets, seed, paths: [], wantsRequests: false, ...more });

/** What the program says of the same setup. */
async function native(word, sets, seed) {
  const flags = sets.flatMap(({ path, value }) => ['--set', `${path}=${value}`]);
  const { stdout } = await promisify(execFile)(weir, ['lab', word, '--json', '--seed', String(seed), ...flags]);
  return JSON.parse(stdout);
}

/** A number as the program's JSON tells it: 15 digits, null for none. */
const told = (value) => (Number.isNaN(value) ? null : Number(value.toPrecision(15)));

function compareFigures(ours, theirs, where) {
  const keys = {
    sent: 'sent', finished: 'finished', refused: 'refused', failed: 'failed', retries: 'retries', waitP50: 'queue_wait_p50_s',
    waitP95: 'queue_wait_p95_s', waitP99: 'queue_wait_p99_s', firstP50: 'first_token_p50_s', firstP95: 'first_token_p95_s',
    tokensPerSecond: 'tokens_per_s', goodShare: 'good_share', goodPerSecond: 'goodput_per_s',
  };
  for (const [key, other] of Object.entries(keys)) assert.equal(told(ours[key]), theirs[other], `${where}: ${key}`);
}

function compare(reply, other, where) {
  assert.ok(reply.ok, `${where}: ${JSON.stringify(reply.problems)}`);
  const { result } = reply;
  assert.equal(result.hash, other.hash, where);
  assert.equal(result.events, other.events, where);
  assert.equal(told(result.end), other.end_s, where);
  assert.deepEqual(result.tenants.map((t) => t.name), other.tenants.map((t) => t.name), where);
  result.tenants.forEach((tenant, i) => {
    compareFigures(tenant, other.tenants[i], `${where}, ${tenant.name}`);
    assert.deepEqual(tenant.refusals, other.tenants[i].refusals_of_tries, `${where}, ${tenant.name}: refusals`);
  });
  compareFigures(result.all, other.all, `${where}, all`);
  assert.equal(told(result.busyShare), other.run.backend_busy, where);
  assert.equal(told(result.lostTokens), other.run.lost_tokens, where);
  assert.equal(told(result.gap?.work ?? Number.NaN), other.run.gap_work, where);
  result.scopes.forEach((scope, i) => {
    const { name, granted_tokens: granted, committed_tokens: committed, reserved_tokens: reserved, overrun_tokens: overrun, refused } = other.budgets[i];
    assert.deepEqual(scope, { name, granted, committed, reserved, overrun, refused }, where);
  });
}

test('every scenario gives in Node what it gives in the program, over several seeds', async () => {
  const engine = new LocalEngine(compiled);
  for (const setup of scenarios)
    for (const seed of [1, 7, 4711]) compare(run(engine, setup, [], seed), await native(setup.name, [], seed), `${setup.name}, seed ${seed}`);
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
  ['failing', [['upstreams.main.breaker.failures', '0'], ['upstreams.main.breaker.failure_percent', '0']]],
  ['retry-storm', [['limits.waiters', '50']]],
];

test('values set over a scenario change it as they change it in the program', async () => {
  const engine = new LocalEngine(compiled);
  for (const [name, pairs] of changes) {
    const setup = scenarios.find((one) => one.name === name);
    const sets = pairs.map(([path, value]) => ({ path, value }));
    compare(run(engine, setup, sets, 3), await native(name, sets, 3), `${name} with ${pairs.join(', ')}`);
  }
});
