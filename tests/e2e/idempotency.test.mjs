// Idempotency keys: one piece of work is sent and charged once, however often it is asked for.
import Anthropic from '@anthropic-ai/sdk';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import OpenAI from 'openai';
import { RawConnection, rawRequest } from './raw.mjs';
import { bearer, call, chatAnswer, chatBody, claim, jsonHeaders, open, postChat, postMessages, until } from './support.mjs';

const keyed = (key, more = {}) => ({ 'idempotency-key': key, ...more });

// An upstream that counts and numbers its answers.
const numbering = (rig) =>
  rig.hand((request, response, number) => {
    response.setHeader('x-number', number);
    chatAnswer(response);
  });

// One whose answers wait until they are released.
async function held(rig, answer = (request, response) => chatAnswer(response)) {
  let release;
  const released = new Promise((resolve) => (release = resolve));
  const upstream = await rig.hand(async (request, response, number) => {
    await released;
    answer(request, response, number);
  });
  return { upstream, release };
}

function assertRefused(answer, status, code, retry) {
  const told = `${answer.status} ${answer.text} ${JSON.stringify(answer.headers)}`;
  assert.equal(answer.status, status, told);
  assert.equal(answer.headers['weir-source'], 'gateway', told);
  if (answer.json.type !== 'error') assert.equal(answer.json.error.code, code, told);
  assert.equal(answer.headers['x-should-retry'], retry ? undefined : 'false', told);
  if (retry) assert.ok(Number(answer.headers['retry-after-ms']) >= 1, told);
  else assert.equal(answer.headers['retry-after-ms'], undefined, told);
}

const assertBusy = (answer) => assertRefused(answer, 409, 'idempotency_in_progress', true);
const assertMismatch = (answer) => assertRefused(answer, 422, 'idempotency_mismatch', false);
function assertLost(answer, why) {
  assertRefused(answer, 409, 'idempotency_answer_lost', false);
  assert.match(answer.json.error.message, why);
}

function assertReplay(answer, first) {
  assert.equal(answer.status, first.status, answer.text);
  assert.equal(answer.headers['weir-replay'], 'true');
  assert.equal(first.headers['weir-replay'], undefined);
  assert.ok(answer.bytes.equals(first.bytes), 'byte for byte');
}

// How often each outcome was found, by the gateway's own count.
async function outcomes(gateway) {
  const { text } = await gateway.admin('/metrics');
  return Object.fromEntries([...text.matchAll(/weir_idempotency_requests_total\{outcome="(\w+)"\} (\d+)/g)].map(([, name, count]) => [name, Number(count)]));
}

const residentBytes = (gateway) => 1024 * Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${gateway.pid}/status`, 'utf8'))[1]);

// ---- replays ----

claim('a repeat gets the stored answer: nothing is sent, reserved or charged', async (rig) => {
  const upstream = await rig.hand((request, response, number) => {
    response.setHeader('x-number', number);
    response.setHeader('set-cookie', 'session=1');
    response.setHeader('x-ratelimit-remaining-requests', '7');
    response.setHeader('retry-after', '9');
    response.setHeader('date', 'Sun, 06 Nov 1994 08:49:37 GMT');
    chatAnswer(response);
  });
  const gateway = await rig.gateway(upstream);
  const headers = keyed('"one"');
  const first = await postChat(gateway, { headers });
  assert.equal(first.status, 200);
  assert.equal(first.headers.date, 'Sun, 06 Nov 1994 08:49:37 GMT');
  const second = await postChat(gateway, { headers });
  assertReplay(second, first);
  for (const name of ['x-number', 'content-type', 'content-length', 'x-request-id']) assert.equal(second.headers[name], first.headers[name], name);
  for (const name of ['set-cookie', 'retry-after', 'x-ratelimit-remaining-requests']) assert.equal(second.headers[name], undefined, `${name} was true then`);
  assert.ok(Math.abs(Date.parse(second.headers.date) - Date.now()) < 60_000, 'a date of its own');
  assertReplay(await postChat(gateway, { headers: keyed('one') }), first); // bare: the same key
  assert.equal(upstream.received.length, 1);
  const lines = await gateway.accessLines(3);
  assert.deepEqual(lines.map((line) => line.outcome), ['answered', 'replayed', 'replayed']);
  assert.deepEqual(lines.map((line) => line.charged_tokens), [5, 0, 0]);
  assert.deepEqual(lines.map((line) => line.attempts), [1, 0, 0]);
  assert.equal(lines[1].answer_bytes, first.bytes.length);
  assert.deepEqual(await outcomes(gateway), { new: 1, in_progress: 0, mismatch: 0, replayed: 2, lost: 0, full: 0 });
  const status = await gateway.status();
  assert.equal(status.holds, 0);
});

claim('streams are replayed byte for byte, in both dialects, chunked as they were', async (rig) => {
  const mock = await rig.mock();
  const gateway = await rig.gateway(mock);
  for (const [post, extra] of [[postChat, { stream: true }], [postMessages, { stream: true, max_tokens: 50 }], [postChat, { stream: true, stream_options: { include_usage: true } }]]) {
    const headers = keyed(`stream-${post.name}-${Object.keys(extra).length}`);
    const first = await post(gateway, { headers, ...extra });
    assert.equal(first.status, 200);
    assert.ok(first.text.split('\n\n').length > 4, first.text);
    const second = await post(gateway, { headers, ...extra });
    assertReplay(second, first);
    assert.equal(second.headers['transfer-encoding'], 'chunked');
    assert.equal(second.headers['content-type'], first.headers['content-type']);
  }
  assert.equal((await mock.stats()).requests, 3);
});

claim('without a key, or with another one, a request is a new one', async (rig) => {
  const upstream = await numbering(rig);
  const gateway = await rig.gateway(upstream);
  for (const headers of [{}, {}, keyed('a'), keyed('b'), keyed('"A"')]) assert.equal((await postChat(gateway, { headers })).headers['weir-replay'], undefined);
  assert.equal(upstream.received.length, 5);
  const get = () => call(`${gateway.url}/v1/files`, { headers: { ...bearer('k'), ...keyed('a') } });
  await get();
  await get();
  assert.equal(upstream.received.length, 7, 'only POST has keys');
});

claim('thirty-two at once: exactly one goes upstream, the others are told to wait, then all get its answer', async (rig) => {
  const { upstream, release } = await held(rig);
  const gateway = await rig.gateway(upstream);
  const headers = keyed('together');
  const early = Array.from({ length: 32 }, () => postChat(gateway, { headers }));
  await until('31 are turned away', async () => (await outcomes(gateway)).in_progress === 31);
  release();
  const answers = await Promise.all(early);
  const [first, ...none] = answers.filter((answer) => answer.status === 200);
  assert.equal(none.length, 0);
  for (const answer of answers) if (answer !== first) assertBusy(answer);
  const late = await Promise.all(Array.from({ length: 32 }, () => postChat(gateway, { headers })));
  for (const answer of late) assertReplay(answer, first);
  assert.equal(upstream.received.length, 1);
});

claim('one waiting in the queue is under way too; refused there, its key may come anew', async (rig) => {
  const { upstream, release } = await held(rig);
  const gateway = await rig.gateway(upstream, '--max-in-flight', '1', '--max-wait', '600ms');
  const running = postChat(gateway);
  await upstream.arrived(1);
  const waiting = postChat(gateway, { headers: keyed('q') });
  await gateway.waiting(1);
  assertBusy(await postChat(gateway, { headers: keyed('q') }));
  const refused = await waiting;
  assert.equal(refused.status, 429);
  assert.equal(refused.json.error.code, 'queue_timeout');
  release();
  assert.equal((await running).status, 200);
  const again = await postChat(gateway, { headers: keyed('q') });
  assert.equal(again.status, 200);
  assertReplay(await postChat(gateway, { headers: keyed('q') }), again);
});

claim('the same key with another body, path or coding is refused, while the first runs and after', async (rig) => {
  const { upstream, release } = await held(rig);
  const gateway = await rig.gateway(upstream);
  const headers = keyed('m');
  const first = postChat(gateway, { headers });
  await upstream.arrived(1);
  assertMismatch(await postChat(gateway, { headers, max_tokens: 7 }));
  release();
  assert.equal((await first).status, 200);
  assertMismatch(await postChat(gateway, { headers, max_tokens: 7 }));
  const other = (path, body, more) => call(`${gateway.url}${path}`, { headers: { ...bearer('k'), ...headers, ...more }, body });
  assertMismatch(await other('/v1/chat/completions?x=1', chatBody()));
  assertMismatch(await other('/v1/files', chatBody()));
  const message = await postMessages(gateway, { headers: { ...headers, authorization: 'Bearer k', 'x-api-key': 'k' } });
  assert.notEqual(message.status, 422, 'other credentials: another client');
  assert.equal((await postChat(gateway, { headers })).headers['weir-replay'], 'true', 'the first stands');
  assert.equal(upstream.received.length, 2);
});

claim('equal keys of two tenants are two keys, in key mode and in pass-through', async (rig) => {
  const upstream = await numbering(rig);
  const { gateway, keys } = await rig.keyed({ upstreams: [{ name: 'up', url: `${upstream.url}/v1` }], tenants: [{ name: 'alpha' }, { name: 'beta' }] });
  const headers = keyed('"1"');
  const alpha = await postChat(gateway, { key: keys.alpha, headers });
  const beta = await postChat(gateway, { key: keys.beta, headers });
  assert.deepEqual([alpha.headers['x-number'], beta.headers['x-number']], ['1', '2']);
  assertReplay(await postChat(gateway, { key: keys.alpha, headers }), alpha);
  assertReplay(await postChat(gateway, { key: keys.beta, headers }), beta);
  const sent = upstream.received.map((one) => one.headers['idempotency-key']);
  assert.match(sent[0], /^"weir-[0-9a-f]{32}"$/, 'the upstream sees a key of the tenant');
  assert.notEqual(sent[0], sent[1]);
  const second = rig.newKey(gateway, 'alpha');
  await until('the second key is known', async () => (await postChat(gateway, { key: second })).status === 200);
  assertReplay(await postChat(gateway, { key: second, headers }), alpha); // whichever key the tenant uses
  const passing = await rig.gateway(upstream);
  const [one, two] = [await postChat(passing, { key: 'k1', headers }), await postChat(passing, { key: 'k2', headers })];
  assert.notEqual(one.headers['x-number'], two.headers['x-number']);
  assertReplay(await postChat(passing, { key: 'k2', headers }), two);
  assert.equal(upstream.received.at(-1).headers['idempotency-key'], '"1"', 'in pass-through it is forwarded as it came');
  const nobody = { ...jsonHeaders, ...headers };
  const ask = (more) => call(`${passing.url}/v1/chat/completions`, { headers: { ...nobody, ...more }, body: chatBody() });
  const none = await ask({});
  assert.equal(none.headers['weir-replay'], undefined);
  assertReplay(await ask({}), none);
  const azure = await ask({ 'api-key': 'z' });
  assert.equal(azure.headers['weir-replay'], undefined, 'a credential weir does not use still says who it is');
});

claim('tenants above limits.tenants share a record, but not their keys', async (rig) => {
  const upstream = await numbering(rig);
  const gateway = await rig.configured({ upstreams: [{ name: 'up', url: `${upstream.url}/v1` }], limits: { tenants: 1 } });
  for (const key of ['a', 'b', 'c']) assert.equal((await postChat(gateway, { key, headers: keyed('x') })).headers['weir-replay'], undefined, key);
  for (const key of ['a', 'b', 'c']) assert.equal((await postChat(gateway, { key, headers: keyed('x') })).headers['weir-replay'], 'true', key);
  assert.equal(upstream.received.length, 3);
});

claim('routes that are not metered have keys too', async (rig) => {
  const upstream = await rig.hand((request, response, number) => response.writeHead(201, { 'content-type': 'text/plain' }).end(`number ${number}`));
  const gateway = await rig.gateway(upstream);
  const post = () => call(`${gateway.url}/v1/audio/speech`, { headers: { ...bearer('k'), ...keyed('s') }, body: 'no json {' });
  const first = await post();
  assert.equal(first.status, 201);
  assertReplay(await post(), first);
  assert.equal(upstream.received.length, 1);
});

claim('a value that cannot be a key is refused before the body, and says why', async (rig) => {
  const upstream = await numbering(rig);
  const gateway = await rig.gateway(upstream);
  for (const [value, why] of [['', /it is empty/], ['""', /it is empty/], ['"open', /does not end/], ['a b', /not visible/], ['a,b', /without quotes/], ['k'.repeat(256), /longer than 255/]]) {
    const answer = await postChat(gateway, { headers: keyed(value) });
    assert.equal(answer.status, 400, value);
    assert.equal(answer.json.error.code, 'malformed');
    assert.match(answer.json.error.message, why);
    assert.match(answer.json.error.message, /Send 1 to 255 visible ASCII characters/);
  }
  const client = await RawConnection.open(gateway.port);
  client.write(rawRequest('POST', '/v1/chat/completions', [['idempotency-key', 'a'], ['idempotency-key', 'a'], ['expect', '100-continue'], ['content-length', '99']]));
  const answer = await client.response();
  assert.equal(answer.status, 400);
  assert.match(answer.text, /more than once/);
  client.close();
  assert.equal(upstream.received.length, 0);
});

// ---- what is kept, and what is not ----

claim('an upstream error that says "not now" is not kept: the same key may succeed later', async (rig) => {
  const statuses = [401, 403, 408, 409, 429, 500, 502, 503, 529];
  const upstream = await rig.hand((request, response, number) => {
    const status = statuses[number - 1];
    if (!status) return chatAnswer(response);
    response.writeHead(status, { 'content-type': 'application/json', 'retry-after-ms': '1' });
    response.end('{"error":{"message":"no","type":"t","param":null,"code":"c"}}');
  });
  const gateway = await rig.configured({ upstreams: [{ name: 'up', url: `${upstream.url}/v1`, breaker: { failures: 0, failure_percent: 0 } }] });
  for (const status of statuses) {
    const answer = await until('the pause of a 429 is over', async () => {
      const tried = await postChat(gateway, { headers: keyed('e') });
      return tried.headers['weir-source'] === 'gateway' ? null : tried;
    });
    assert.equal(answer.status, status);
    assert.equal(answer.headers['weir-replay'], undefined);
  }
  const first = await postChat(gateway, { headers: keyed('e') });
  assert.equal(first.status, 200);
  assertReplay(await postChat(gateway, { headers: keyed('e') }), first);
  assert.equal(upstream.received.length, statuses.length + 1);
});

claim('an upstream error about the request itself is a result', async (rig) => {
  for (const status of [400, 404, 413, 422]) {
    const upstream = await rig.hand((request, response) => response.writeHead(status, { 'content-type': 'application/json' }).end('{"error":{"message":"bad"}}'));
    const gateway = await rig.gateway(upstream);
    const first = await postChat(gateway, { headers: keyed('e') });
    assert.equal(first.status, status);
    assertReplay(await postChat(gateway, { headers: keyed('e') }), first);
    assert.equal(upstream.received.length, 1);
  }
});

claim('refusals leave no trace: budget, rate, no upstream; a call that never left', async (rig) => {
  const gone = await rig.hand(() => {});
  await gone.stop();
  const unreachable = await rig.configured({ upstreams: [{ name: 'up', url: `${gone.url}/v1`, breaker: { failures: 0, failure_percent: 0 } }] });
  for (let i = 0; i < 2; i++) assert.equal((await postChat(unreachable, { headers: keyed('u') })).status, 502);
  assert.deepEqual(await outcomes(unreachable), { new: 2, in_progress: 0, mismatch: 0, replayed: 0, lost: 0, full: 0 });
  const upstream = await numbering(rig);
  const { gateway, keys } = await rig.keyed({
    upstreams: [{ name: 'up', url: `${upstream.url}/v1`, output_limit: 100 }],
    tenants: [{ name: 'poor', scope: 'little' }],
    scopes: [{ name: 'little', granted: 50 }],
  });
  for (let i = 0; i < 2; i++) assert.equal((await postChat(gateway, { key: keys.poor, headers: keyed('b') })).status, 413);
  const small = await postChat(gateway, { key: keys.poor, headers: keyed('b'), max_tokens: 2 });
  assert.equal(small.status, 200, 'the key is free, for another body too');
  assertReplay(await postChat(gateway, { key: keys.poor, headers: keyed('b'), max_tokens: 2 }), small);
});

claim('sent, but never answered: lost, unless a repeat of the gateway\'s own brings an answer', async (rig) => {
  const upstream = await rig.hand((request, response) => response.socket.resetAndDestroy());
  const gateway = await rig.configured({ upstreams: [{ name: 'up', url: `${upstream.url}/v1`, breaker: { failures: 0, failure_percent: 0 } }] });
  const unanswered = await postChat(gateway, { headers: keyed('n') });
  assertRefused(unanswered, 502, 'upstream_unavailable', false);
  assert.match(unanswered.json.error.message, /its idempotency key is used up/);
  assertRefused(await postChat(gateway, { headers: {} }), 502, 'upstream_unavailable', true);
  upstream.received.length = 1;
  assertLost(await postChat(gateway, { headers: keyed('n') }), /no answer came/);
  assert.equal(upstream.received.length, 1);
  const spare = await numbering(rig);
  const two = await rig.configured({
    upstreams: [{ name: 'up', url: `${upstream.url}/v1`, fallback: 'spare', breaker: { failures: 0, failure_percent: 0 } }, { name: 'spare', url: `${spare.url}/v1` }],
  });
  const first = await postChat(two, { headers: keyed('n') });
  assert.equal(first.headers['x-number'], '1');
  assertReplay(await postChat(two, { headers: keyed('n') }), first);
});

claim('an error that was charged all the same is lost, not frozen and not sent again', async (rig) => {
  const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 };
  const upstream = await rig.hand((request, response) => {
    response.writeHead(500, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ error: { message: 'broken' }, usage }));
  });
  const gateway = await rig.configured({ upstreams: [{ name: 'up', url: `${upstream.url}/v1`, breaker: { failures: 0, failure_percent: 0 } }] });
  const first = await postChat(gateway, { headers: keyed('e') });
  assert.equal(first.status, 500);
  assert.match(first.text, /broken/);
  assertLost(await postChat(gateway, { headers: keyed('e') }), /was answered with an error, which is not kept/);
  assert.equal(upstream.received.length, 1);
});

claim('a cut answer is lost: its work was done, what came of it is not known', async (rig) => {
  const upstream = await rig.hand((request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n', () => response.socket.resetAndDestroy());
  });
  const gateway = await rig.gateway(upstream);
  const first = await postChat(gateway, { headers: keyed('c'), stream: true });
  assert.match(first.text, /half/);
  assertLost(await postChat(gateway, { headers: keyed('c'), stream: true }), /broke off/);
  assert.equal(upstream.received.length, 1);
});

claim('a client that leaves: lost when the call was cancelled, kept when it is drained, forgotten in the queue', async (rig) => {
  for (const drain of [false, true]) {
    const calls = [];
    const upstream = await rig.hand((request, response) => calls.push(response));
    const gateway = await rig.configured({ upstreams: [{ name: 'up', url: `${upstream.url}/v1`, max_in_flight: 1, on_client_gone: drain ? 'drain' : 'cancel' }] });
    const ask = (key) => ({ headers: { ...bearer('k'), ...keyed(key) }, body: chatBody({ stream: true }) });
    const response = await Promise.all([open(`${gateway.url}/v1/chat/completions`, ask('g')), until('asked', () => calls[0]?.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: {"choices":[{"index":0,"delta":{"content":"one"}}]}\n\n'))]);
    const waiting = new AbortController();
    const queued = call(`${gateway.url}/v1/chat/completions`, { ...ask('w'), signal: waiting.signal }).catch(() => null);
    await gateway.waiting(1);
    waiting.abort();
    await queued;
    await gateway.waiting(0);
    response[0].on('error', () => {});
    response[0].destroy();
    await until('the client is gone', async () => (await gateway.status()).connections === 0);
    if (!drain) {
      assertLost(await postChat(gateway, { headers: keyed('g'), stream: true }), /client left/);
    } else {
      assertBusy(await postChat(gateway, { headers: keyed('g'), stream: true }));
      const tail = 'data: {"choices":[{"index":0,"delta":{"content":"two"},"finish_reason":"stop"}]}\n\ndata: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\ndata: [DONE]\n\n';
      calls[0].end(tail);
      await gateway.accessLines(2, (line) => line.outcome === 'client_gone');
      const replay = await postChat(gateway, { headers: keyed('g'), stream: true });
      assert.equal(replay.headers['weir-replay'], 'true');
      assert.match(replay.text, /one[^]*two[^]*\[DONE\]/);
      assert.doesNotMatch(replay.text, /usage/, 'as the client would have got it: it had not asked');
    }
    const again = postChat(gateway, { headers: keyed('w'), stream: true });
    await until('the queued one is new', () => calls.length === 2);
    calls[1].writeHead(200, { 'content-type': 'text/event-stream' }).end('data: [DONE]\n\n');
    assert.equal((await again).status, 200);
  }
});

// ---- bounds ----

claim('an answer above the bound passes as ever and is lost for a repeat; at the bound it is kept', async (rig) => {
  const sizes = { whole: 20_000, 'stream-big': 20_000, fits: 3_000 };
  const upstream = await rig.hand((request, response) => {
    const name = /"name":"([^"]+)"/.exec(request.body)[1];
    const body = 'x'.repeat(sizes[name]);
    response.writeHead(200, { 'content-type': 'text/plain', ...(name === 'whole' ? { 'content-length': body.length } : {}) });
    for (let i = 0; i < body.length; i += 500) response.write(body.slice(i, i + 500));
    response.end();
  });
  const gateway = await rig.configured({ upstreams: [{ name: 'up', url: `${upstream.url}/v1` }], idempotency: { answer: '8KiB', answers: '12KiB' } });
  const post = (name, key = name) => call(`${gateway.url}/v1/anything`, { headers: { ...bearer('k'), ...keyed(key) }, body: JSON.stringify({ name }) });
  for (const name of ['whole', 'stream-big']) {
    assert.equal((await post(name)).bytes.length, sizes[name]);
    assertLost(await post(name), /larger than the gateway keeps/);
  }
  const first = await post('fits');
  assertReplay(await post('fits'), first);
  for (let i = 0; i < 4; i++) await post('fits', `more-${i}`);
  assertLost(await post('fits'), /made room for others/);
  assert.equal((await post('fits', 'more-3')).headers['weir-replay'], 'true');
  const { text } = await gateway.admin('/metrics');
  assert.ok(Number(/weir_idempotency_answer_bytes (\d+)/.exec(text)[1]) <= 12 * 1024, text);
  assert.ok(Number(/weir_idempotency_answers_pushed_out_total (\d+)/.exec(text)[1]) >= 1, text);
});

claim('keys: when there are too many the oldest that ended is forgotten; 0 switches them off', async (rig) => {
  const upstream = await numbering(rig);
  const gateway = await rig.configured({ upstreams: [{ name: 'up', url: `${upstream.url}/v1` }], idempotency: { keys: 2 } });
  for (const key of ['1', '2', '3']) await postChat(gateway, { headers: keyed(key) });
  assert.equal((await postChat(gateway, { headers: keyed('3') })).headers['weir-replay'], 'true');
  assert.equal((await postChat(gateway, { headers: keyed('1') })).headers['weir-replay'], undefined);
  const off = await rig.configured({ upstreams: [{ name: 'up', url: `${upstream.url}/v1` }], idempotency: { keys: 0 } });
  for (let i = 0; i < 2; i++) assert.equal((await postChat(off, { headers: keyed('"not a key') })).headers['weir-replay'], undefined);
});

claim('keys are remembered for as long as is said', async (rig) => {
  const upstream = await numbering(rig);
  const gateway = await rig.configured({ upstreams: [{ name: 'up', url: `${upstream.url}/v1` }], idempotency: { keep: '1s' } });
  await postChat(gateway, { headers: keyed('t') });
  assert.equal((await postChat(gateway, { headers: keyed('t') })).headers['weir-replay'], 'true');
  await until('it is forgotten', async () => (await postChat(gateway, { headers: keyed('t') })).headers['weir-replay'] === undefined, 5000);
});

claim('a large replay does not pile up for a client that reads nothing', async (rig) => {
  const body = Buffer.alloc(12 << 20, 'y');
  const upstream = await rig.hand((request, response) => response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': body.length }).end(body));
  const gateway = await rig.configured({ upstreams: [{ name: 'up', url: `${upstream.url}/v1` }], idempotency: { answer: '16MiB' }, limits: { client_stall: '2s' } });
  const post = () => call(`${gateway.url}/v1/anything`, { headers: { ...bearer('k'), ...keyed('l') }, body: '1' });
  const first = await post();
  assert.equal(first.bytes.length, body.length);
  const before = residentBytes(gateway);
  const stalled = await Promise.all(Array.from({ length: 20 }, async () => {
    const client = await RawConnection.open(gateway.port);
    client.socket.pause();
    client.write(rawRequest('POST', '/v1/anything', [...Object.entries(bearer('k')), ['idempotency-key', 'l']], '1'));
    return client;
  }));
  await until('all are being answered', async () => (await outcomes(gateway)).replayed === 20);
  const after = residentBytes(gateway);
  assert.ok(after - before < 100 << 20, `no 20 copies are made: ${(after - before) >> 20} MiB more`);
  assertReplay(await post(), first);
  await until('those that do not read are gone', async () => (await gateway.status()).requests === 0, 8000);
  assertReplay(await post(), first);
  for (const client of stalled) client.close();
});

// ---- restarts ----

claim('after a crash: what was or may have been charged is lost and says so; what cost nothing, or was void, is free', async (rig) => {
  const held = new Map();
  const upstream = await rig.hand((request, response, number) => {
    const name = /"user":"(\w+)"/.exec(request.body)?.[1];
    if (name === 'ill') return response.writeHead(500, { 'content-type': 'application/json' }).end('{}');
    if (name === 'held' || name === 'other') return held.set(name, response);
    response.setHeader('x-number', number);
    return chatAnswer(response);
  });
  const state = rig.folder();
  const keys = Object.fromEntries(['alpha', 'beta'].map((name) => [name, rig.newKey({ state }, name)]));
  const config = {
    upstreams: [{ name: 'up', url: `${upstream.url}/v1`, max_in_flight: 2, breaker: { failures: 0, failure_percent: 0 } }],
    tenants: [{ name: 'alpha' }, { name: 'beta' }],
    ledger: `${state}/ledger.db`,
    limits: { max_wait: '500ms' },
  };
  const before = await rig.configured(config, {}, state);
  const ask = (gateway, user, tenant = 'alpha') => postChat(gateway, { key: keys[tenant], headers: keyed(user), user });
  assert.equal((await ask(before, 'ill')).status, 500);
  const crashed = ask(before, 'held').catch(() => 'crashed');
  const other = ask(before, 'other');
  await until('both are under way', () => held.size === 2);
  assert.equal((await ask(before, 'queued')).json.error.code, 'queue_timeout');
  chatAnswer(held.get('other'));
  assert.equal((await other).status, 200);
  const done = await ask(before, 'done');
  assert.equal(done.status, 200);
  assertReplay(await ask(before, 'done'), done);
  // Whatever was settled or void before this one's hold is in the file with it.
  assert.equal((await ask(before, 'last')).status, 200);
  const sent = upstream.received.length;
  before.signal('SIGKILL');
  await before.exit;
  assert.equal(await crashed, 'crashed');

  const after = await rig.configured(config, {}, state);
  for (const user of ['done', 'held', 'other', 'last']) {
    const lost = await ask(after, user);
    assertLost(lost, /came at (\S+Z), and its answer was lost when the gateway restarted at (\S+Z)/);
    const [, created, restarted] = /came at (\S+Z), .* restarted at (\S+Z)/.exec(lost.json.error.message);
    assert.ok(Date.parse(created) <= Date.parse(restarted) && Date.now() - Date.parse(created) < 60_000, lost.text);
  }
  assertMismatch(await postChat(after, { key: keys.alpha, headers: keyed('done'), user: 'something' }));
  assert.equal(upstream.received.length, sent, 'nothing was sent twice');
  assert.equal((await ask(after, 'queued')).status, 200);
  assert.equal((await ask(after, 'ill')).status, 500);
  assert.equal((await ask(after, 'done', 'beta')).status, 200, 'of another tenant');
  assert.equal((await ask(after, 'new')).status, 200);
  assert.equal(upstream.received.length, sent + 4);
  assert.deepEqual((await outcomes(after)).lost, 4);
});

claim('after a restart in order, and with keys younger than they are kept only', async (rig) => {
  const upstream = await numbering(rig);
  const state = rig.folder();
  const config = (keep) => ({ upstreams: [{ name: 'up', url: `${upstream.url}/v1` }], ledger: `${state}/ledger.db`, idempotency: { keep } });
  const first = await rig.configured(config('1h'), {}, state);
  assert.equal((await postChat(first, { headers: keyed('older') })).status, 200);
  assert.equal((await postChat(first, { headers: keyed('r') })).status, 200);
  await first.stop();
  const small = await rig.configured({ ...config('1h'), idempotency: { keys: 1 } }, {}, state);
  assert.match(small.err, /more idempotency keys .* the 1 oldest are forgotten/);
  assertLost(await postChat(small, { headers: keyed('r') }), /restarted/);
  await small.stop();
  const second = await rig.configured(config('1h'), {}, state);
  assertLost(await postChat(second, { headers: keyed('r') }), /restarted/);
  await second.stop();
  const third = await rig.configured({ ...config('1h'), ledger: 'memory' }, {}, state);
  assert.equal((await postChat(third, { headers: keyed('r') })).status, 200, 'a ledger in memory knows nothing');
  await third.stop();
  const fourth = await rig.configured(config('1s'), {}, state);
  await until('it is over', async () => (await postChat(fourth, { headers: keyed('r') })).status === 200, 5000);
});

// ---- all at once ----

// Every request is one of a few keys; upstream and clients do at each step what a seed says.
claim('whatever goes wrong and whenever: no key has two answers, and none is sent again after one began', async (rig) => {
  const seed = Number(process.env.WEIR_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31));
  let at = seed;
  const random = (below) => {
    at = (Math.imul(at, 1103515245) + 12345) & 0x7fffffff;
    return Math.floor((at / 0x80000000) * below);
  };
  const calls = new Map(); // key: what the upstream did with it, in order
  const upstream = await rig.hand(async (request, response) => {
    const key = /"user":"(\w+)"/.exec(request.body)[1];
    const did = calls.get(key) ?? calls.set(key, []).get(key);
    const what = random(60) === 0 ? '429' : ['whole', 'whole', 'stream', 'cut', 'reset', '500', '400'][random(7)];
    did.push(what);
    if (random(3) === 0) await new Promise((resolve) => setTimeout(resolve, random(30)));
    const unique = `${key}-${did.length}-${random(1e9)}`;
    if (what === 'reset') return response.socket.destroy();
    if (what === '429') return response.writeHead(429, { 'retry-after-ms': '1' }).end('{}');
    if (what === '500' || what === '400') return response.writeHead(Number(what)).end(`{"${unique}":1}`);
    if (what === 'whole') return response.writeHead(200, { 'x-unique': unique }).end(`{"${unique}":1,"pad":"${'p'.repeat(random(4000))}"}`);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(`data: {"id":"${unique}"}\n\n`);
    await new Promise((resolve) => setTimeout(resolve, random(20)));
    if (what === 'cut') return response.socket.destroy();
    return response.end('data: [DONE]\n\n');
  });
  const gateway = await rig.configured({
    upstreams: [{ name: 'up', url: `${upstream.url}/v1`, max_in_flight: 6, breaker: { failures: 0, failure_percent: 0 } }],
    idempotency: { answer: '3KiB', answers: '64KiB' },
    log: { access: 'off' },
  });
  const answers = new Map(); // key: bodies of whole answers
  const client = async () => {
    for (let i = 0; i < 25; i++) {
      const user = `k${random(40)}`;
      const abort = new AbortController();
      if (random(5) === 0) setTimeout(() => abort.abort(), random(25));
      const answer = await postChat(gateway, { headers: keyed(user), user, signal: abort.signal }).catch(() => null);
      if (answer?.complete && (answer.status === 200 || answer.status === 400) && answer.headers['weir-source'] === undefined) {
        (answers.get(user) ?? answers.set(user, new Set()).get(user)).add(answer.text);
      }
    }
  };
  await Promise.all(Array.from({ length: 16 }, client));
  const told = (key) => `seed ${seed}, key ${key}: ${calls.get(key)}`;
  for (const [key, bodies] of answers) assert.equal(bodies.size, 1, `${told(key)}\n${[...bodies].join('\n')}`);
  for (const [key, did] of calls) {
    const last = did.findIndex((what) => ['whole', 'stream', 'cut', '400'].includes(what));
    assert.ok(last < 0 || last === did.length - 1, `sent again after its answer began: ${told(key)}`);
  }
  const found = await outcomes(gateway);
  for (const outcome of ['new', 'in_progress', 'replayed', 'lost']) assert.ok(found[outcome] > 0, `${outcome} was never seen, seed ${seed}`);
});

// ---- clients ----

claim('the SDKs: their own repeats after a 409 in progress get the answer', async (rig) => {
  const mock = await rig.mock();
  const gateway = await rig.gateway(mock);
  const openai = new OpenAI({ apiKey: 'k', baseURL: `${gateway.url}/v1`, maxRetries: 4 });
  const ask = () => openai.chat.completions.create({ model: 'mock', messages: [{ role: 'user', content: 'Hello' }] }, { headers: { 'Idempotency-Key': 'sdk', 'mock-fault': 'latency=300ms' } });
  const all = await Promise.all([ask(), ask(), ask()]);
  for (const one of all) assert.deepEqual(one.choices, all[0].choices);
  const streamed = async () => {
    let text = '';
    const stream = await openai.chat.completions.create({ model: 'mock', stream: true, messages: [{ role: 'user', content: 'Hi' }] }, { headers: { 'Idempotency-Key': 'sdk-stream' } });
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
    return text;
  };
  const text = await streamed();
  assert.ok(text.length > 0);
  assert.equal(await streamed(), text);
  const anthropic = new Anthropic({ apiKey: 'k', baseURL: gateway.url });
  const message = () => anthropic.messages.create({ model: 'mock', max_tokens: 20, messages: [{ role: 'user', content: 'Hello' }] }, { headers: { 'Idempotency-Key': 'sdk-message' } });
  assert.deepEqual(await message(), await message());
  await assert.rejects(
    anthropic.messages.create({ model: 'mock', max_tokens: 21, messages: [{ role: 'user', content: 'Hello' }] }, { headers: { 'Idempotency-Key': 'sdk-message' } }),
    (error) => error.status === 422,
  );
  assert.equal((await mock.stats()).requests, 3);
  await assert.rejects(
    openai.chat.completions.create({ model: 'mock', messages: [{ role: 'user', content: 'Hello' }] }, { headers: { 'Idempotency-Key': 'sdk-lost', 'mock-fault': 'reset=head' } }),
    (error) => error.status === 502 && /used up/.test(error.message),
  );
  assert.equal((await outcomes(gateway)).lost, 0, 'the SDK does not try again what can only be refused');
});

// ---- the gateway's own repeat ----

claim('a pooled connection that dies unanswered: a repeatable request is sent anew, silently; another is not', async (rig) => {
  const upstream = await rig.hand((request, response, number) => {
    if (number % 2 === 0) return response.socket.destroy();
    return chatAnswer(response);
  });
  const seen = () => upstream.received.length;
  const gateway = await rig.configured({ upstreams: [{ name: 'up', url: `${upstream.url}/v1`, breaker: { failures: 0, failure_percent: 0 } }] });
  assert.equal((await postChat(gateway)).status, 200); // 1: leaves a pooled connection
  assert.equal((await postChat(gateway, { headers: keyed('p') })).status, 200); // 2 dies, 3 is answered
  assert.equal(seen(), 3);
  assert.equal((await postChat(gateway)).status, 502); // 4 dies
  assert.equal(seen(), 4);
  const [, line] = await gateway.accessLines(3);
  assert.equal(line.attempts, 1);
  assert.equal(line.charged_tokens, 5);
  assert.equal((await postChat(gateway)).status, 200); // 5
  assert.equal((await call(`${gateway.url}/v1/models`, { headers: bearer('k') })).status, 200); // 6 dies, 7 is answered
  assert.equal(seen(), 7);
});
