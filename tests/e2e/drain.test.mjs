// The end: the first signal drains, the second stops at once.
import assert from 'node:assert/strict';
import { RawConnection, rawRequest } from './raw.mjs';
import { anthropicHeaders, bearer, call, chatAnswer, chatBody, claim, EventReader, messagesBody, open, postChat, postMessages, until } from './support.mjs';

const event = (i) => `event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"w${i}"}}\n\n`;
const last = 'event: message_stop\ndata: {"type":"message_stop"}\n\n';

for (const signal of ['SIGTERM', 'SIGINT'])
  claim(`${signal}: streams finish, queued requests are served, new ones are 503 draining, and it exits with 0`, async (rig) => {
    const streams = [];
    const upstream = await rig.hand((request, response) => {
      if (!JSON.parse(request.body).stream) return chatAnswer(response);
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(event(0));
      return streams.push(response);
    });
    const gateway = await rig.gateway(upstream, '--max-in-flight', '1');
    const response = await open(`${gateway.url}/v1/messages`, { headers: anthropicHeaders, body: messagesBody({ stream: true }) });
    const reader = new EventReader(response);
    assert.equal(await reader.next(), event(0));
    const queued = postChat(gateway);
    await gateway.waiting(1);
    const idle = await RawConnection.open(gateway.port);
    const pending = await RawConnection.open(gateway.port);
    pending.write('POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer k\r\ncontent-length: 63\r\n\r\n');
    await until('connected', async () => (await gateway.status()).connections === 4);

    gateway.signal(signal);
    await gateway.watch('draining', () => /draining/.test(gateway.err));
    assert.equal((await gateway.admin('/readyz', {})).status, 503);
    assert.equal((await gateway.status()).phase, 'draining');
    assert.equal((await gateway.admin('/healthz', {})).status, 200, 'it is alive while it drains');

    // One that was about to ask is told, in its dialect, and its connection is closed.
    pending.write(chatBody());
    const refused = await pending.response();
    assert.equal(refused.status, 503, refused.text);
    assert.equal(JSON.parse(refused.text).error.code, 'draining');
    assert.ok(Number(refused.headers['retry-after-ms']) > 0);
    assert.equal(refused.headers.connection, 'close');
    assert.notEqual(await pending.untilClosed(), 'reset');
    assert.notEqual(await idle.untilClosed(), 'reset', 'idle connections are closed');

    for (let i = 1; i < 5; i++) {
      streams[0].write(event(i));
      assert.equal(await reader.next(), event(i));
    }
    assert.equal(gateway.ended, undefined, 'it waits for the stream');
    streams[0].end(last);
    assert.deepEqual(await reader.all(), [last]);
    assert.equal((await queued).status, 200, 'who was in the queue is served');
    assert.deepEqual(await gateway.exit, { code: 0, signal: null });
    for (const one of [idle, pending]) one.close();
  });

claim('a second signal stops at once with 130 and cuts what is left', async (rig) => {
  const upstream = await rig.hand((request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(event(0));
  });
  const gateway = await rig.gateway(upstream);
  const response = await open(`${gateway.url}/v1/messages`, { headers: anthropicHeaders, body: messagesBody({ stream: true }) });
  const reader = new EventReader(response);
  assert.equal(await reader.next(), event(0));
  gateway.signal('SIGTERM');
  await gateway.watch('draining', () => /draining/.test(gateway.err));
  gateway.signal('SIGTERM');
  assert.deepEqual(await gateway.exit, { code: 130, signal: null });
  await assert.rejects(reader.all(), /cut/);
});

claim('a second signal finds requests in every phase, and nothing of them is lost or leaked', async (rig) => {
  const upstream = await rig.hand((request, response) => {
    if (!JSON.parse(request.body).stream) return; // never answered
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(event(0));
  });
  const gateway = await rig.gateway(upstream, '--max-in-flight', '2');
  const response = await open(`${gateway.url}/v1/messages`, { headers: anthropicHeaders, body: messagesBody({ stream: true }) });
  const reader = new EventReader(response);
  assert.equal(await reader.next(), event(0));
  const unanswered = [postChat(gateway), postChat(gateway)].map((one) => one.then((answer) => answer.status, () => 'broken'));
  await gateway.waiting(1);
  const half = await RawConnection.open(gateway.port);
  half.write('POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{"model":');
  const idle = await RawConnection.open(gateway.port);
  idle.write(rawRequest('POST', '/v1/chat/completions', [['authorization', 'Bearer a'], ['x-api-key', 'b']], chatBody()));
  assert.equal((await idle.response()).status, 400);
  gateway.signal('SIGTERM');
  await gateway.watch('draining', () => /draining/.test(gateway.err));
  gateway.signal('SIGINT');
  assert.deepEqual(await gateway.exit, { code: 130, signal: null }, 'a leak would be another status');
  await assert.rejects(reader.all(), /cut/);
  for (const outcome of await Promise.all(unanswered)) assert.ok(['broken', 502, 503].includes(outcome), `${outcome}`);
  for (const one of [half, idle]) one.close();
});

claim('queued requests are refused when the time for them is over, running ones cut when theirs is', async (rig) => {
  const upstream = await rig.hand((request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(event(0));
  });
  const gateway = await rig.configured({
    upstreams: [{ name: 'up', url: `${upstream.url}/v1`, max_in_flight: 1 }], limits: { drain_queue: '300ms', drain_streams: '900ms' },
  });
  const response = await open(`${gateway.url}/v1/messages`, { headers: anthropicHeaders, body: messagesBody({ stream: true }) });
  const reader = new EventReader(response);
  assert.equal(await reader.next(), event(0));
  const queued = postMessages(gateway);
  await gateway.waiting(1);
  const begun = performance.now();
  gateway.signal('SIGTERM');
  const refused = await queued;
  assert.equal(refused.status, 503);
  assert.equal(refused.json.error.type, 'overloaded_error');
  assert.ok(performance.now() - begun >= 290);
  assert.match(await reader.next(), /^event: error\ndata: /);
  await assert.rejects(reader.next(), /cut/);
  assert.ok(performance.now() - begun >= 890);
  assert.deepEqual(await gateway.exit, { code: 0, signal: null });
});

claim('an idle gateway drains at once', async (rig) => {
  const mock = await rig.mock();
  const gateway = await rig.gateway(mock);
  assert.equal((await postChat(gateway)).status, 200);
  const begun = performance.now();
  assert.deepEqual(await gateway.stop(), { code: 0, signal: null });
  assert.ok(performance.now() - begun < 2000);
});

claim('with nothing given it serves its own mock, which dies with it', async (rig) => {
  const gateway = await rig.serve([]);
  const answer = await postChat(gateway);
  assert.equal(answer.status, 200);
  const [{ url }] = (await gateway.adminJson('/v1/upstreams')).upstreams;
  assert.equal((await call(new URL('/mock/stats', url).href)).status, 200);
  // The line it prints works as pasted.
  const curl = /try: +curl (\S+)/.exec(gateway.out)[1];
  assert.equal((await call(curl, { headers: bearer('x'), body: chatBody() })).status, 200);
  assert.deepEqual(await gateway.stop(), { code: 0, signal: null });
  await assert.rejects(call(new URL('/mock/stats', url).href), /ECONNREFUSED/);
});

claim('killed outright, its mock dies too', async (rig) => {
  const gateway = await rig.serve([]);
  const [{ url }] = (await gateway.adminJson('/v1/upstreams')).upstreams;
  gateway.signal('SIGKILL');
  await gateway.exit;
  await until('the mock is gone', () => call(new URL('/mock/stats', url).href).then(() => false, () => true));
});
