// Every refusal that this gateway can say, in both dialects: status, code, shape, headers; and what
// the SDKs make of it.
import Anthropic from '@anthropic-ai/sdk';
import AnthropicOld from 'anthropic-0.60';
import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import OpenAI from 'openai';
import OpenAIOld from 'openai-5.12';
import { RawConnection, rawRequest } from './raw.mjs';
import {
  anthropicHeaders, bearer, call, chatAnswer, chatBody, claim, messagesBody, open, postChat, postMessages, readAll, within,
} from './support.mjs';

const anthropicTypes = {
  400: 'invalid_request_error', 401: 'authentication_error', 402: 'billing_error', 403: 'permission_error',
  404: 'not_found_error', 408: 'timeout_error', 413: 'request_too_large', 415: 'invalid_request_error',
  429: 'rate_limit_error', 431: 'invalid_request_error', 501: 'api_error', 502: 'api_error', 503: 'overloaded_error', 504: 'timeout_error',
};

// advice: 'hint' (a wait of at most 60 s), 'long' (a longer one), 'never', 'none'.
function assertRefusal(answer, dialect, status, code, advice) {
  const told = `${dialect} ${code}: ${answer.status} ${answer.text}\n${JSON.stringify(answer.headers)}`;
  assert.equal(answer.status, status, told);
  assert.equal(answer.headers['weir-source'], 'gateway', told);
  assert.equal(answer.headers['weir-reason'], code === 'insufficient_quota' ? 'budget_exhausted' : code, told);
  assert.equal(answer.headers['content-type'], 'application/json', told);
  const id = answer.headers[dialect === 'anthropic' ? 'request-id' : 'x-request-id'];
  assert.match(id, /^wr_[0-9a-f]{16}$/, told);
  const json = answer.json ?? JSON.parse(answer.text);
  if (dialect === 'anthropic') {
    assert.deepEqual(Object.keys(json).sort(), ['error', 'request_id', 'type'], told);
    assert.deepEqual(Object.keys(json.error).sort(), ['message', 'type'], told);
    assert.equal(json.type, 'error');
    assert.equal(json.error.type, anthropicTypes[status], told);
    assert.equal(json.request_id, id);
  } else {
    assert.deepEqual(Object.keys(json), ['error'], told);
    assert.deepEqual(Object.keys(json.error).sort(), ['code', 'message', 'param', 'type'], told);
    assert.equal(json.error.code, code, told);
    assert.ok(json.error.type.length > 0);
  }
  assert.match(json.error.message, /^weir: /, told);
  const { 'retry-after': after, 'retry-after-ms': after_ms, 'x-should-retry': should } = answer.headers;
  if (advice === 'hint') {
    assert.match(after_ms, /^\d+$/, told);
    assert.ok(Number(after_ms) >= 1 && Number(after_ms) <= 60_000, told);
    assert.equal(Number(after), Math.max(1, Math.ceil(Number(after_ms) / 1000)), told);
    assert.notEqual(should, 'false', told);
  } else if (advice === 'long') {
    assert.ok(Number(after) > 60, told);
    assert.equal(after_ms, undefined, told);
    assert.equal(should, 'false', told);
  } else if (advice === 'never') {
    assert.equal(should, 'false', told);
    assert.equal(after_ms, undefined, told);
  } else {
    assert.equal(after, undefined, told);
    assert.equal(after_ms, undefined, told);
    assert.equal(should, undefined, told);
  }
}

// Asks in both dialects and checks both refusals.
async function assertBothRefused(gateway, key, status, code, advice, extra = {}) {
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  const chat = await call(`${gateway.url}/v1/chat/completions`, { headers: { 'content-type': 'application/json', ...headers }, body: chatBody(extra) });
  assertRefusal(chat, 'openai', status, code, advice);
  const { 'x-api-key': _, ...plain } = anthropicHeaders;
  const message = await call(`${gateway.url}/v1/messages`, { headers: { ...plain, ...headers }, body: messagesBody({ max_tokens: 4096, ...extra }) });
  assertRefusal(message, 'anthropic', status, code, advice);
  return { chat, message };
}

// An upstream that answers only when released.
async function held(rig) {
  let release;
  const released = new Promise((resolve) => (release = resolve));
  const upstream = await rig.hand(async (request, response) => {
    await released;
    chatAnswer(response);
  });
  return { upstream, release: () => release() };
}

const up = (upstream, extra = {}) => [{ name: 'up', url: `${upstream.url}/v1`, ...extra }];

// ---- the queue ----

claim('queue_full: more waiters in all than limits.waiters is 429 with a hint', async (rig) => {
  const { upstream, release } = await held(rig);
  const gateway = await rig.configured({ upstreams: up(upstream, { max_in_flight: 1 }), limits: { waiters: 2 } });
  const waiting = [postChat(gateway, { key: 'a' })];
  await upstream.arrived(1);
  waiting.push(postChat(gateway, { key: 'b' }), postChat(gateway, { key: 'c' }));
  await gateway.waiting(2);
  await assertBothRefused(gateway, 'd', 429, 'queue_full', 'hint');
  release();
  assert.deepEqual((await Promise.all(waiting)).map((answer) => answer.status), [200, 200, 200]);
  assert.equal(upstream.received.length, 3, 'nothing of a refused request reached the upstream');
});

claim("queue_full: more of one tenant's waiters than limits.waiters_per_tenant is 429; another tenant still gets in", async (rig) => {
  const { upstream, release } = await held(rig);
  const gateway = await rig.configured({ upstreams: up(upstream, { max_in_flight: 1 }), limits: { waiters_per_tenant: 2 } });
  const waiting = [postChat(gateway, { key: 'a' })];
  await upstream.arrived(1);
  waiting.push(postChat(gateway, { key: 'a' }), postChat(gateway, { key: 'a' }));
  await gateway.waiting(2);
  await assertBothRefused(gateway, 'a', 429, 'queue_full', 'hint');
  waiting.push(postChat(gateway, { key: 'b' }));
  await gateway.waiting(3);
  release();
  assert.deepEqual((await Promise.all(waiting)).map((answer) => answer.status), [200, 200, 200, 200]);
});

claim('queue_full: one connection more than a tenant may have is 429', async (rig) => {
  const { upstream, release } = await held(rig);
  const gateway = await rig.configured({ upstreams: up(upstream), limits: { connections_per_tenant: 2 } });
  const held_ones = [postChat(gateway, { key: 'a' }), postChat(gateway, { key: 'a' })];
  await upstream.arrived(2);
  await assertBothRefused(gateway, 'a', 429, 'queue_full', 'hint');
  release();
  await Promise.all(held_ones);
});

claim('queue_full: one connection more than an address may have is 429, before anything is read', async (rig) => {
  const mock = await rig.mock();
  const gateway = await rig.configured({ upstreams: up(mock), limits: { connections_per_address: 2 } });
  const first = await RawConnection.open(gateway.port);
  const second = await RawConnection.open(gateway.port);
  first.write(rawRequest('GET', '/v1/models'));
  assert.equal((await first.response()).status, 200);
  second.write(rawRequest('GET', '/v1/models'));
  assert.equal((await second.response()).status, 200);
  const third = await RawConnection.open(gateway.port);
  third.write(rawRequest('GET', '/v1/models'));
  const answer = await third.response();
  assertRefusal(answer, 'openai', 429, 'queue_full', 'hint');
  await third.untilClosed();
  for (const one of [first, second, third]) one.close();
});

claim('queue_timeout: a deadline that passes in the queue is 429 with a hint, at that time', async (rig) => {
  const { upstream, release } = await held(rig);
  const gateway = await rig.gateway(upstream, '--max-in-flight', '1', '--max-wait', '700ms');
  const first = postChat(gateway, { key: 'a' });
  await upstream.arrived(1);
  const [chat, message] = await Promise.all([postChat(gateway, { key: 'b' }), postMessages(gateway)]);
  assertRefusal(chat, 'openai', 429, 'queue_timeout', 'hint');
  assertRefusal(message, 'anthropic', 429, 'queue_timeout', 'hint');
  assert.ok(chat.took_ms >= 690 && chat.took_ms < 2500, `after ${chat.took_ms} ms`);
  release();
  assert.equal((await first).status, 200);
});

claim("queue_timeout: the client's own timeout, when it tells it, ends the wait before it gives up", async (rig) => {
  const { upstream, release } = await held(rig);
  const gateway = await rig.gateway(upstream, '--max-in-flight', '1');
  const first = postChat(gateway, { key: 'a' });
  await upstream.arrived(1);
  const answer = await postChat(gateway, { key: 'b', headers: { 'x-stainless-timeout': '1' } });
  assertRefusal(answer, 'openai', 429, 'queue_timeout', 'hint');
  assert.ok(answer.took_ms < 1000, `after ${answer.took_ms} ms`);
  release();
  await first;
});

claim('a wait that must pass the deadline is refused on arrival, with the time until it can succeed', async (rig) => {
  const upstream = await rig.hand((request, response) => chatAnswer(response));
  const gateway = await rig.gateway(upstream, '--rate', '1/s', '--burst', '1', '--max-wait', '1500ms');
  assert.equal((await postChat(gateway)).status, 200);
  const waits = postChat(gateway); // fits: about 1 s
  await gateway.waiting(1);
  const answer = await postChat(gateway);
  assertRefusal(answer, 'openai', 429, 'queue_timeout', 'hint');
  assert.ok(answer.took_ms < 500, `at once, not after ${answer.took_ms} ms`);
  assert.equal((await waits).status, 200);
});

// ---- the tenant's own limits ----

claim('rate_limit_exceeded: over refuse is 429 at once, its hint is right, and the limit is shown in both dialects', async (rig) => {
  const mock = await rig.mock('--plain');
  const { gateway, keys } = await rig.keyed({
    upstreams: up(mock),
    tenants: [{ name: 'a', limits: { requests: '2/s', burst: 1, over: 'refuse' } }],
  });
  assert.equal((await postChat(gateway, { key: keys.a })).status, 200);
  const { chat, message } = await assertBothRefused(gateway, keys.a, 429, 'rate_limit_exceeded', 'hint');
  assert.ok(Number(chat.headers['retry-after-ms']) <= 500, chat.headers['retry-after-ms']);
  assert.equal(chat.headers['x-ratelimit-limit-requests'], '1');
  assert.equal(chat.headers['x-ratelimit-remaining-requests'], '0');
  assert.match(chat.headers['x-ratelimit-reset-requests'], /^\d+(\.\d+)?m?s$/);
  assert.equal(message.headers['anthropic-ratelimit-requests-limit'], '1');
  assert.equal(message.headers['anthropic-ratelimit-requests-remaining'], '0');
  assert.match(message.headers['anthropic-ratelimit-requests-reset'], /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/);
  assert.equal((await mock.stats()).requests, 1);
});

claim('rate_limit_exceeded: a hint obeyed to the millisecond is enough', async (rig) => {
  const mock = await rig.mock('--plain');
  const { gateway, keys } = await rig.keyed({
    upstreams: up(mock),
    tenants: [{ name: 'a', limits: { requests: '5/s', burst: 1, over: 'refuse' } }],
  });
  for (let i = 0; i < 10; i++) {
    assert.equal((await postChat(gateway, { key: keys.a })).status, 200);
    const refused = await postChat(gateway, { key: keys.a });
    assertRefusal(refused, 'openai', 429, 'rate_limit_exceeded', 'hint');
    const wait_ms = Number(refused.headers['retry-after-ms']);
    await new Promise((resolve) => setTimeout(resolve, wait_ms + 1)); // timers of Node may be 1 ms early
  }
});

claim('rate_limit_exceeded: a wait of more than a minute is told truly, with x-should-retry: false', async (rig) => {
  const mock = await rig.mock('--plain');
  const { gateway, keys } = await rig.keyed({ upstreams: up(mock), tenants: [{ name: 'a', limits: { requests: '1/h', burst: 1 } }] });
  assert.equal((await postChat(gateway, { key: keys.a })).status, 200);
  const { chat } = await assertBothRefused(gateway, keys.a, 429, 'rate_limit_exceeded', 'long');
  const after_s = Number(chat.headers['retry-after']);
  assert.ok(after_s > 3590 && after_s < 3620, `${after_s} s: an hour, and the rounding of the rate`);
});

claim('request_too_large_for_limit: more than a bucket can ever hold is 413 and final', async (rig) => {
  const mock = await rig.mock('--plain');
  const { gateway, keys } = await rig.keyed({
    upstreams: up(mock),
    tenants: [{ name: 'a', limits: { tokens: '1000/m', tokens_burst: 1000 } }],
  });
  await assertBothRefused(gateway, keys.a, 413, 'request_too_large_for_limit', 'never');
  assert.equal((await postChat(gateway, { key: keys.a, max_tokens: 100 })).status, 200);
  assert.equal((await mock.stats()).requests, 1);
});

claim('request_too_large_for_limit: more than the whole grant is 413 and final', async (rig) => {
  const mock = await rig.mock('--plain');
  const { gateway, keys } = await rig.keyed({
    upstreams: up(mock), tenants: [{ name: 'a', scope: 'class' }], scopes: [{ name: 'class', granted: 1000 }],
  });
  await assertBothRefused(gateway, keys.a, 413, 'request_too_large_for_limit', 'never');
  assert.equal((await mock.stats()).requests, 0);
});

claim('budget_busy: while holds take the rest of the budget a request waits, and at its deadline it is 429', async (rig) => {
  const { upstream, release } = await held(rig);
  const { gateway, keys } = await rig.keyed({
    upstreams: up(upstream), tenants: [{ name: 'a', scope: 'class' }], scopes: [{ name: 'class', granted: 6000 }],
    limits: { max_wait: '700ms' },
  });
  const first = postChat(gateway, { key: keys.a });
  await upstream.arrived(1);
  const answer = await postChat(gateway, { key: keys.a });
  assertRefusal(answer, 'openai', 429, 'budget_busy', 'hint');
  assert.ok(answer.took_ms >= 690, `after ${answer.took_ms} ms`);
  const waiting = postChat(gateway, { key: keys.a });
  release();
  assert.equal((await first).status, 200);
  assert.equal((await waiting).status, 200, 'what was held and not used is free again');
});

claim('budget_exhausted: a spent budget is 402 and final, in both dialects', async (rig) => {
  const upstream = await rig.hand((request, response) => chatAnswer(response, { input: 10, output: 4990 }));
  const { gateway, keys } = await rig.keyed({
    upstreams: up(upstream), tenants: [{ name: 'a', scope: 'class' }], scopes: [{ name: 'class', granted: 5000 }],
  });
  assert.equal((await postChat(gateway, { key: keys.a })).status, 200);
  await gateway.accessLines(1);
  await assertBothRefused(gateway, keys.a, 402, 'budget_exhausted', 'never', { max_tokens: 10 });
  assert.equal(upstream.received.length, 1);
});

claim('budget_exhausted: as 429 insufficient_quota when so configured, and final all the same', async (rig) => {
  const upstream = await rig.hand((request, response) => chatAnswer(response, { input: 10, output: 4990 }));
  const { gateway, keys } = await rig.keyed({
    upstreams: up(upstream), tenants: [{ name: 'a', scope: 'class' }], scopes: [{ name: 'class', granted: 5000 }],
    responses: { exhausted_status: 429 },
  });
  assert.equal((await postChat(gateway, { key: keys.a })).status, 200);
  await gateway.accessLines(1);
  await assertBothRefused(gateway, keys.a, 429, 'insufficient_quota', 'never', { max_tokens: 10 });
});

claim('tenant_paused: 403 and final', async (rig) => {
  const mock = await rig.mock('--plain');
  const { gateway, keys } = await rig.keyed({ upstreams: up(mock), tenants: [{ name: 'a', paused: true }] });
  await assertBothRefused(gateway, keys.a, 403, 'tenant_paused', 'never');
  assert.equal((await mock.stats()).requests, 0);
});

// ---- the upstream ----

claim('upstream_unavailable: nobody listens there: 502', async (rig) => {
  const gone = await rig.hand(() => {});
  await gone.stop();
  const gateway = await rig.gateway({ url: gone.url });
  await assertBothRefused(gateway, 'k', 502, 'upstream_unavailable', 'hint');
});

claim('upstream_unavailable: a connection that is reset before an answer is 502, and is not tried again: it may have been read', async (rig) => {
  const upstream = await rig.hand((request, response) => response.socket.resetAndDestroy());
  const gateway = await rig.gateway(upstream);
  const answer = await postChat(gateway);
  assertRefusal(answer, 'openai', 502, 'upstream_unavailable', 'hint');
  assert.equal(upstream.received.length, 1);
});

claim('upstream_timeout: no first byte in time is 504', async (rig) => {
  const upstream = await rig.hand(() => {});
  const gateway = await rig.configured({ upstreams: up(upstream, { timeouts: { first_byte: '300ms', first_byte_whole: '600ms' } }) });
  const whole = await postChat(gateway);
  assertRefusal(whole, 'openai', 504, 'upstream_timeout', 'hint');
  assert.ok(whole.took_ms >= 590, `${whole.took_ms} ms`);
  const stream = await postMessages(gateway, { stream: true });
  assertRefusal(stream, 'anthropic', 504, 'upstream_timeout', 'hint');
  assert.ok(stream.took_ms >= 290 && stream.took_ms < 590, `${stream.took_ms} ms`);
});

// ---- the request itself ----

claim('key_unknown: no key, a wrong key, and a key that is not one are 401', async (rig) => {
  const mock = await rig.mock('--plain');
  const { gateway, keys } = await rig.keyed({ upstreams: up(mock), tenants: [{ name: 'a' }] });
  const wrong = keys.a.slice(0, -1) + (keys.a.endsWith('x') ? 'y' : 'x');
  for (const key of [null, wrong, `wk_${'a'.repeat(49)}`, 'sk-something', 'wk_'])
    await assertBothRefused(gateway, key, 401, 'key_unknown', 'none');
  assert.equal((await mock.stats()).requests, 0);
});

claim('path_not_metered: an unknown path is 403 for a tenant with a token budget, until the route has a cost', async (rig) => {
  const mock = await rig.mock('--plain');
  const { gateway, keys } = await rig.keyed({
    upstreams: up(mock),
    tenants: [{ name: 'poor', scope: 'class' }, { name: 'free' }],
    scopes: [{ name: 'class', granted: 5000 }],
    routes: [{ path: '/v1/images*', cost_tok: 1000 }],
  });
  const ask = (key, path) => call(`${gateway.url}${path}`, { headers: bearer(key), body: '{}' });
  assertRefusal(await ask(keys.poor, '/v1/audio/speech'), 'openai', 403, 'path_not_metered', 'none');
  assert.equal((await ask(keys.free, '/v1/audio/speech')).status, 200);
  for (let i = 0; i < 5; i++) assert.equal((await ask(keys.poor, '/v1/images/generations')).status, 200);
  assertRefusal(await ask(keys.poor, '/v1/images/generations'), 'openai', 402, 'budget_exhausted', 'never');
});

claim('model_not_allowed is 403 and model_unknown 404, in both dialects', async (rig) => {
  const mock = await rig.mock('--plain');
  const { gateway, keys } = await rig.keyed({
    upstreams: up(mock, { models: ['mock', 'other-*'] }), tenants: [{ name: 'a', models: ['mock', 'unserved'] }],
  });
  assert.equal((await postChat(gateway, { key: keys.a })).status, 200);
  const { chat } = await assertBothRefused(gateway, keys.a, 403, 'model_not_allowed', 'none', { model: 'other-1' });
  assert.equal(chat.json.error.param, 'model');
  await assertBothRefused(gateway, keys.a, 404, 'model_unknown', 'none', { model: 'unserved' });
});

claim('body_too_large is 413, told before the body is sent where the client asks or says its size', async (rig) => {
  const mock = await rig.mock('--plain');
  const gateway = await rig.configured({ upstreams: up(mock), limits: { body: '64KiB' } });
  await assertBothRefused(gateway, 'k', 413, 'body_too_large', 'none', { user: 'x'.repeat(70_000) });
  const client = await RawConnection.open(gateway.port);
  client.write('POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 104857600\r\nexpect: 100-continue\r\n\r\n');
  assertRefusal(await client.response(), 'openai', 413, 'body_too_large', 'none');
  client.close();
  assert.equal((await mock.stats()).requests, 0);
});

claim('head_too_large is 431, a head of 1 MB too', async (rig) => {
  const mock = await rig.mock('--plain');
  const gateway = await rig.gateway(mock);
  for (const bytes of [70_000, 1_000_000]) {
    const client = await RawConnection.open(gateway.port);
    client.write(rawRequest('POST', '/v1/messages', [['x-long', 'x'.repeat(bytes)]], messagesBody()));
    const answer = await client.response();
    assert.equal(answer.status, 431);
    assert.equal(answer.headers['weir-source'], 'gateway');
    client.close();
  }
  assert.equal((await mock.stats()).requests, 0);
});

claim('encoding_unknown is 415, told before the body is sent', async (rig) => {
  const mock = await rig.mock('--plain');
  const gateway = await rig.gateway(mock);
  const client = await RawConnection.open(gateway.port);
  client.write('POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-encoding: br\r\ncontent-length: 50\r\nexpect: 100-continue\r\n\r\n');
  assertRefusal(await client.response(), 'anthropic', 415, 'encoding_unknown', 'none');
  client.close();
});

claim('slow_body: a head or a body that comes too slowly is 408', async (rig) => {
  const mock = await rig.mock('--plain');
  const gateway = await rig.configured({
    upstreams: up(mock), limits: { head_time: '500ms', body_rate: '10KiB', body_grace: '500ms' },
  });
  const head = await RawConnection.open(gateway.port);
  head.write('POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n');
  const early = await head.response();
  assert.equal(early.status, 408);
  const body = await RawConnection.open(gateway.port);
  body.write('POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n{');
  assertRefusal(await body.response(), 'anthropic', 408, 'slow_body', 'none');
  head.close();
  body.close();
  assert.equal((await mock.stats()).requests, 0);
});

claim('an upgrade is 501', async (rig) => {
  const mock = await rig.mock('--plain');
  const gateway = await rig.gateway(mock);
  const client = await RawConnection.open(gateway.port);
  client.write(rawRequest('GET', '/v1/realtime', [['connection', 'upgrade'], ['upgrade', 'websocket']]));
  assertRefusal(await client.response(), 'openai', 501, 'upgrade_not_supported', 'none');
  client.close();
  assert.equal((await mock.stats()).requests, 0);
});

claim('compressed request bodies are looked into within bounds and forwarded as they are; a bomb is 413', async (rig) => {
  const mock = await rig.mock();
  const gateway = await rig.configured({ upstreams: up(mock, { models: ['mock'] }), limits: { inspect: '1MiB' } });
  const send = (bytes) => call(`${gateway.url}/v1/chat/completions`, { headers: { ...bearer('k'), 'content-encoding': 'gzip' }, body: bytes });
  const bomb = gzipSync(Buffer.from(chatBody({ user: 'x'.repeat(4_000_000) })));
  assertRefusal(await send(bomb), 'openai', 413, 'body_too_large', 'none');
  assertRefusal(await send(Buffer.from('this is no gzip')), 'openai', 400, 'malformed', 'none');
  assertRefusal(await send(gzipSync(Buffer.from(chatBody({ model: 'unserved' })))), 'openai', 404, 'model_unknown', 'none');
  assert.equal((await mock.stats()).requests, 0);
  const upstream = await rig.hand((request, response) => chatAnswer(response));
  const second = await rig.gateway(upstream);
  const packed = gzipSync(Buffer.from(chatBody()));
  const answer = await call(`${second.url}/v1/chat/completions`, { headers: { ...bearer('k'), 'content-encoding': 'gzip' }, body: packed });
  assert.equal(answer.status, 200);
  assert.equal(upstream.received[0].headers['content-encoding'], 'gzip');
  assert.equal(Number(upstream.received[0].headers['content-length']), packed.length);
});

// ---- what the SDKs make of it ----

// An SDK client that counts its attempts and when they were made.
function counting(Client, gateway, key) {
  const attempts = [];
  const client = new Client({
    baseURL: Client === OpenAI || Client === OpenAIOld ? `${gateway.url}/v1` : gateway.url,
    apiKey: key,
    fetch: async (...args) => {
      const attempt = { begun_ms: performance.now() };
      attempts.push(attempt);
      const response = await fetch(...args);
      attempt.ended_ms = performance.now();
      attempt.hint_ms = Number(response.headers.get('retry-after-ms') ?? NaN);
      attempt.status = response.status;
      return response;
    },
  });
  const messages = [{ role: 'user', content: 'Hello' }];
  const ask = (extra = {}) =>
    client.chat
      ? client.chat.completions.create({ model: 'mock', messages, max_tokens: 10, ...extra })
      : client.messages.create({ model: 'mock', messages, max_tokens: 10, ...extra });
  return { ask, attempts, client };
}

const clients = { 'openai 6.49': OpenAI, 'openai 5.12': OpenAIOld, 'anthropic 1.14': Anthropic, 'anthropic 0.60': AnthropicOld };

for (const [name, Client] of Object.entries(clients)) {
  claim(`${name} waits as told after rate_limit_exceeded, and then succeeds`, async (rig) => {
    const mock = await rig.mock('--plain');
    const { gateway, keys } = await rig.keyed({
      upstreams: up(mock), tenants: [{ name: 'a', limits: { requests: '1/s', burst: 1, over: 'refuse' } }],
    });
    const { ask, attempts } = counting(Client, gateway, keys.a);
    await ask();
    await ask();
    assert.deepEqual(attempts.map((attempt) => attempt.status), [200, 429, 200]);
    const waited_ms = attempts[2].begun_ms - attempts[1].ended_ms;
    assert.ok(waited_ms >= attempts[1].hint_ms - 5, `waited ${waited_ms} ms, told ${attempts[1].hint_ms}`);
    assert.ok(waited_ms <= attempts[1].hint_ms + 400, `waited ${waited_ms} ms, told ${attempts[1].hint_ms}`);
    assert.equal((await mock.stats()).requests, 2);
  });

  claim(`${name} tries a full queue three times in all, waiting as told`, async (rig) => {
    const { upstream, release } = await held(rig);
    const gateway = await rig.configured({ upstreams: up(upstream, { max_in_flight: 1 }), limits: { waiters: 1, max_wait: '30s' } });
    const first = postChat(gateway, { key: 'a' });
    await upstream.arrived(1);
    const second = postChat(gateway, { key: 'b' });
    await gateway.waiting(1);
    const { ask, attempts, client } = counting(Client, gateway, 'c');
    await assert.rejects(ask(), client.constructor.RateLimitError);
    assert.deepEqual(attempts.map((attempt) => attempt.status), [429, 429, 429]);
    for (const i of [1, 2]) assert.ok(attempts[i].begun_ms - attempts[i - 1].ended_ms >= attempts[i - 1].hint_ms - 5);
    release();
    await Promise.all([first, second]);
  });

  claim(`${name} does not repeat what cannot succeed: 402, 413, 403, 401, 429 insufficient_quota, a wait above a minute`, async (rig) => {
    const upstream = await rig.hand((request, response) => chatAnswer(response, { input: 10, output: 4990 }));
    const config = (extra) => ({ upstreams: up(upstream), ...extra });
    const expectOne = async (gateway, key, status, extra) => {
      const { ask, attempts, client } = counting(Client, gateway, key);
      await assert.rejects(ask(extra), (error) => {
        assert.ok(error instanceof client.constructor.APIError);
        assert.equal(error.status, status);
        assert.equal(error.headers.get('weir-source'), 'gateway');
        return true;
      });
      assert.deepEqual(attempts.map((attempt) => attempt.status), [status]);
    };
    const { gateway, keys } = await rig.keyed(config({
      tenants: [
        { name: 'spent', scope: 'class' }, { name: 'small', limits: { tokens: '100/m' } }, { name: 'paused', paused: true },
        { name: 'slow', limits: { requests: '1/h', burst: 1 } },
      ],
      scopes: [{ name: 'class', granted: 5000 }],
    }));
    assert.equal((await postChat(gateway, { key: keys.spent })).status, 200);
    assert.equal((await postChat(gateway, { key: keys.slow })).status, 200);
    await gateway.accessLines(2);
    await expectOne(gateway, keys.spent, 402);
    await expectOne(gateway, keys.small, 413, { max_tokens: 1000 });
    await expectOne(gateway, keys.paused, 403);
    await expectOne(gateway, keys.slow, 429);
    await expectOne(gateway, 'sk-wrong', 401);
    const quota = await rig.keyed(config({
      tenants: [{ name: 'spent', scope: 'class' }], scopes: [{ name: 'class', granted: 5000 }], responses: { exhausted_status: 429 },
    }));
    assert.equal((await postChat(quota.gateway, { key: quota.keys.spent })).status, 200);
    await quota.gateway.accessLines(1);
    await expectOne(quota.gateway, quota.keys.spent, 429);
    assert.equal(upstream.received.length, 3);
  });
}

claim('a refusal leaves the connection usable, unless it says that it closes', async (rig) => {
  const mock = await rig.mock('--plain');
  const { gateway, keys } = await rig.keyed({ upstreams: up(mock), tenants: [{ name: 'a' }] });
  const client = await RawConnection.open(gateway.port);
  client.write(rawRequest('POST', '/v1/chat/completions', [['authorization', 'Bearer wrong']], chatBody()));
  assertRefusal(await client.response(), 'openai', 401, 'key_unknown', 'none');
  client.write(rawRequest('POST', '/v1/chat/completions', [['authorization', `Bearer ${keys.a}`]], chatBody()));
  assert.equal((await client.response()).status, 200);
  client.close();
});
