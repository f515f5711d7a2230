// Budgets by the window: what a spent one does with requests, and that the next window serves again.
// The windows are of a few seconds, by the real clock: a claim begins when one has just begun.
import assert from 'node:assert/strict';
import { call, chatAnswer, claim, postChat, until } from './support.mjs';

const WINDOW_MS = 4000;

// One tenant, charged to a scope of 5,000 tokens each window; each answer uses all of them.
async function budgeted(rig, scope, config = {}, upstreams = ['main']) {
  const hands = {};
  for (const name of upstreams)
    hands[name] = await rig.hand((request, response) => chatAnswer(response, { input: 10, output: 4990 }));
  const { gateway, keys } = await rig.keyed({
    upstreams: upstreams.map((name) => ({ name, url: hands[name].url })),
    tenants: [{ name: 'a', scope: 'class' }],
    scopes: [{ name: 'class', granted: 5000, period: `${WINDOW_MS / 1000}s`, ...scope }],
    ...config,
  });
  return { gateway, key: keys.a, hands };
}

const passed = () => Date.now() % WINDOW_MS;

// Waits for the beginning of a window of which the budget is untouched, and spends it.
async function spend(gateway, key) {
  await until('a window has just begun', () => passed() < 300, 2 * WINDOW_MS);
  const first = await postChat(gateway, { key });
  assert.equal(first.status, 200, first.text);
  await gateway.accessLines(1);
}

claim('refuse: a spent window is 402 with the time of the next one, and that one serves', async (rig) => {
  const { gateway, key, hands } = await budgeted(rig, {});
  await spend(gateway, key);
  const left_ms = WINDOW_MS - passed();
  const refused = await postChat(gateway, { key });
  assert.equal(refused.status, 402, refused.text);
  assert.equal(refused.json.error.code, 'budget_exhausted');
  const hint_ms = Number(refused.headers['retry-after']) * 1000;
  assert.ok(hint_ms >= left_ms - 500 && hint_ms <= left_ms + 1000, `${hint_ms} ms told, ${left_ms} ms left`);
  const begun = performance.now();
  await until('the next window serves', async () => (await postChat(gateway, { key })).status === 200, 2 * WINDOW_MS);
  assert.ok(performance.now() - begun >= left_ms - 500, 'not before it has begun');
  assert.equal(hands.main.received.length, 2);
});

claim('queue: a request waits for the next window and is served in it', async (rig) => {
  const { gateway, key, hands } = await budgeted(rig, { on_exhausted: 'queue' });
  await spend(gateway, key);
  const left_ms = WINDOW_MS - passed();
  const second = await postChat(gateway, { key });
  assert.equal(second.status, 200, second.text);
  assert.ok(second.took_ms >= left_ms - 200 && second.took_ms <= left_ms + 1500, `${second.took_ms} ms, ${left_ms} were left`);
  assert.equal(hands.main.received.length, 2);
});

claim('queue: whose deadline is before the next window is refused at once', async (rig) => {
  const { gateway, key } = await budgeted(rig, { on_exhausted: 'queue' }, { limits: { max_wait: '1s' } });
  await spend(gateway, key);
  const refused = await postChat(gateway, { key });
  assert.equal(refused.status, 402, refused.text);
  assert.ok(refused.took_ms < 700, `${refused.took_ms} ms`);
});

claim('fallback: what the budget has no room for goes to the other upstream, and is recorded there', async (rig) => {
  const { gateway, key, hands } = await budgeted(rig, { on_exhausted: { fallback: 'spare' } }, {}, ['main', 'spare']);
  await spend(gateway, key);
  const second = await postChat(gateway, { key });
  assert.equal(second.status, 200, second.text);
  assert.equal(hands.main.received.length, 1);
  assert.equal(hands.spare.received.length, 1);
  let spare;
  await until('the use is in the ledger', async () => {
    const { scopes } = await gateway.adminJson('/v1/ledger');
    spare = scopes.find((one) => one.scope === 'fallback/spare');
    return spare.committed_tok > 0;
  });
  assert.equal(spare.committed_tok, 5000);
});

claim('POST /v1/ledger/clock: an operator confirms the clock', async (rig) => {
  const { gateway } = await budgeted(rig, {});
  const authorization = `Bearer ${gateway.token}`;
  const url = `http://127.0.0.1:${gateway.adminPort}/v1/ledger/clock`;
  assert.equal((await call(url, { headers: {}, body: '' })).status, 401);
  const confirmed = await call(url, { headers: { authorization }, body: '' });
  assert.equal(confirmed.status, 200, confirmed.text);
  assert.deepEqual(confirmed.json, { scopes: 0 });
});
