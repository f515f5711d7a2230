// The ledger's disk fails under a running gateway, and comes back.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { call, claim, postChat, until } from './support.mjs';

// How large a file the process may make from now on: what a full disk is to it.
function limitFiles(pid, bytes) {
  const run = spawnSync('prlimit', ['--pid', `${pid}`, `--fsize=${bytes}:`], { encoding: 'utf8' });
  assert.equal(run.status, 0, run.stderr);
}

const ready = async (gateway) => (await call(`http://127.0.0.1:${gateway.adminPort}/readyz`)).status === 200;

claim('disk full: requests are refused and told so, what ran is booked when there is room, nothing is lost', async (rig) => {
  const hand = await rig.hand(() => {});
  const { gateway, keys } = await rig.keyed({
    upstreams: [{ name: 'up', url: `${hand.url}/v1` }],
    tenants: [{ name: 'a', scope: 'class' }],
    scopes: [{ name: 'class', granted: '1M' }],
    limits: { max_wait: '2s' },
  });
  const totals = async () => (await gateway.adminJson('/v1/ledger')).scopes.find((one) => one.scope === 'class');
  const running = postChat(gateway, { key: keys.a, max_tokens: 50 });
  await hand.arrived(1);
  limitFiles(gateway.pid, statSync(`${gateway.state}/ledger.db-wal`).size);

  const refused = await postChat(gateway, { key: keys.a });
  assert.equal(refused.status, 503, refused.text);
  assert.equal(refused.json.error.code, 'ledger_unavailable');
  assert.ok(Number(refused.headers['retry-after']) >= 1);
  assert.equal(await ready(gateway), false);
  await gateway.watch('what is wrong', () => /error: ledger .*ledger\.db.*No request is admitted/.test(gateway.err));
  assert.equal(hand.received.length, 1, 'nothing was sent that was not held');

  hand.received[0].response.setHeader('content-type', 'application/json');
  hand.received[0].response.end(JSON.stringify({ choices: [], usage: { prompt_tokens: 30, completion_tokens: 12, total_tokens: 42 } }));
  assert.equal((await running).status, 200, 'the client does not wait for the settle');

  limitFiles(gateway.pid, 'unlimited');
  await until('it is ready again', () => ready(gateway));
  await until('what ran is booked', async () => (await totals()).committed_tok === 42);
  assert.equal((await totals()).reserved_tok, 0);
  assert.match(gateway.err, /works again/);
  assert.equal(rig.run(['ledger', 'verify', '-c', `${gateway.state}/weir.yaml`], gateway.state).status, 0);
});
