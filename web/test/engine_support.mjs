// What the engine's tests share: the module and the program as they were built, and the scenarios.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { load } from './load.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
export const root = path.resolve(here, '../..');
export const weir = process.env.WEIR_RELEASE ?? path.join(root, 'build/src/cli/weir');
const folder = path.join(root, 'src/cli/scenarios');
export const scenarios = readdirSync(folder).map((file) => ({ name: file.replace('.yaml', ''), text: readFileSync(path.join(folder, file), 'utf8') }));
export const scenario = (name) => scenarios.find((one) => one.name === name);
export const bytes = readFileSync(process.env.WEIR_LAB_WASM ?? path.join(root, 'build/web/lab.wasm'));
export const compiled = await WebAssembly.compile(bytes);
export const { LocalEngine } = await load('lab/engine/engine.ts');

export const run = (engine, setup, sets = [], seed = 1, more = {}) => engine.run({ setup, sets, seed, paths: [], wantsRequests: false, ...more });

/** The program's answer: what it prints, and its status. */
export async function program(...words) {
  try {
    const { stdout, stderr } = await promisify(execFile)(weir, words, { maxBuffer: 1 << 28 });
    return { stdout, stderr, status: 0 };
  } catch (fault) {
    if (typeof fault.code !== 'number') throw fault;
    return { stdout: fault.stdout, stderr: fault.stderr, status: fault.code };
  }
}

export const flags = (sets) => sets.flatMap(({ path: at, value }) => ['--set', `${at}=${value}`]);

/** What the program says of a run. */
export async function native(word, sets, seed, ...more) {
  const { stdout, stderr, status } = await program('lab', word, '--json', '--seed', String(seed), ...flags(sets), ...more);
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

/** A number as the program's JSON tells it: 15 digits, null for none. */
export const told = (value) => (Number.isNaN(value) ? null : Number(value.toPrecision(15)));

export const figureKeys = {
  sent: 'sent', finished: 'finished', refused: 'refused', failed: 'failed', retries: 'retries', waitP50: 'queue_wait_p50_s',
  waitP95: 'queue_wait_p95_s', waitP99: 'queue_wait_p99_s', firstP50: 'first_token_p50_s', firstP95: 'first_token_p95_s',
  tokensPerSecond: 'tokens_per_s', goodShare: 'good_share', goodPerSecond: 'goodput_per_s',
};

export function compareFigures(ours, theirs, where) {
  for (const [key, other] of Object.entries(figureKeys)) assert.equal(told(ours[key]), theirs[other], `${where}: ${key}`);
}

/** One run of the engine with one of the program. */
export function compare(reply, other, where) {
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
