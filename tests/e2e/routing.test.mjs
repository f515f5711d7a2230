// Where a request goes, what is passed on both ways, and HTTP itself through the whole.
import assert from 'node:assert/strict';
import http from 'node:http';
import { RawConnection, rawRequest } from './raw.mjs';
import { anthropicHeaders, bearer, call, chatAnswer, chatBody, claim, messagesBody, postChat, postMessages } from './support.mjs';

const answering = (rig, name) =>
  rig.hand((request, response) => {
    response.setHeader('x-answered-by', name);
    chatAnswer(response);
  });

const by = (answer) => answer.headers['x-answered-by'];

// ---- routes ----

claim('a request goes to the upstream that serves its model; the most exact match wins', async (rig) => {
  const [a, b, c] = [await answering(rig, 'a'), await answering(rig, 'b'), await answering(rig, 'c')];
  const gateway = await rig.configured({
    upstreams: [
      { name: 'any', url: `${a.url}/v1`, models: ['gpt-*'] },
      { name: 'exact', url: `${b.url}/v1`, models: ['gpt-4o'] },
      { name: 'other', url: `${c.url}/v1`, models: ['llama-3'] },
    ],
  });
  assert.equal(by(await postChat(gateway, { model: 'gpt-5' })), 'a');
  assert.equal(by(await postChat(gateway, { model: 'gpt-4o' })), 'b');
  assert.equal(by(await postChat(gateway, { model: 'llama-3' })), 'c');
  const unknown = await postChat(gateway, { model: 'mistral' });
  assert.equal(unknown.status, 404);
  assert.equal(unknown.json.error.code, 'model_unknown');
});

claim('a request goes to an upstream that speaks its API', async (rig) => {
  const [a, b] = [await answering(rig, 'openai'), await answering(rig, 'anthropic')];
  const gateway = await rig.configured({
    upstreams: [{ name: 'o', url: `${a.url}/v1`, api: 'openai' }, { name: 'a', url: b.url, api: 'anthropic' }],
  });
  assert.equal(by(await postChat(gateway)), 'openai');
  assert.equal(by(await postMessages(gateway)), 'anthropic');
  assert.equal(b.received[0].url, '/v1/messages');
  const models = (headers) => call(`${gateway.url}/v1/models`, { headers });
  assert.equal(by(await models(bearer('k'))), 'openai');
  assert.equal(by(await models(anthropicHeaders)), 'anthropic');
});

claim('upstreams of one pool share the load by their share in flight', async (rig) => {
  const held = [];
  const make = () => rig.hand((request, response) => held.push(response));
  const [a, b] = [await make(), await make()];
  const gateway = await rig.configured({
    upstreams: [{ name: 'a', url: `${a.url}/v1`, max_in_flight: 2 }, { name: 'b', url: `${b.url}/v1`, max_in_flight: 4 }],
  });
  const answers = Array.from({ length: 9 }, () => postChat(gateway));
  await gateway.waiting(3);
  await a.arrived(2);
  await b.arrived(4);
  assert.deepEqual([a.received.length, b.received.length], [2, 4]);
  for (let i = 0; i < 9; i++) {
    await Promise.race([a.arrived(1), b.arrived(1)]);
    while (held.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    chatAnswer(held.shift());
  }
  assert.deepEqual((await Promise.all(answers)).map((answer) => answer.status), Array(9).fill(200));
});

claim('paths are joined by their overlap', async (rig) => {
  const upstream = await answering(rig, 'a');
  const cases = [
    ['', '/v1/chat/completions', '/v1/chat/completions'], ['/', '/v1/chat/completions', '/v1/chat/completions'],
    ['/v1', '/v1/chat/completions', '/v1/chat/completions'], ['/api/v1', '/v1/chat/completions', '/api/v1/chat/completions'],
    ['/api/v1/', '/v1/chat/completions?x=1', '/api/v1/chat/completions?x=1'],
  ];
  for (const [prefix, path, want] of cases) {
    const gateway = await rig.serve(['--upstream', `${upstream.url}${prefix}`]);
    assert.equal((await call(`${gateway.url}${path}`, { headers: bearer('k'), body: chatBody() })).status, 200);
    assert.equal(upstream.received.at(-1).url, want);
  }
});

claim('any other path is forwarded as it is and counted as a request', async (rig) => {
  const mock = await rig.mock();
  const gateway = await rig.gateway(mock);
  const answer = await call(`${gateway.url}/v1/audio/speech?voice=x%20y`, { headers: bearer('k'), body: 'no json {' });
  assert.equal(answer.status, 200);
  const [request] = await mock.requests();
  assert.equal(request.target, '/v1/audio/speech?voice=x%20y');
  assert.equal(request.body, 'no json {');
  const [line] = await gateway.accessLines(1);
  assert.equal(line.charged_tokens, 0);
});

// ---- fallback ----

claim('when the breaker opens, the fallback takes over, those in the queue included', async (rig) => {
  let release;
  const released = new Promise((resolve) => (release = resolve));
  const ill = await rig.hand(async (request, response) => {
    await released;
    response.writeHead(500).end('{}');
  });
  const well = await answering(rig, 'fallback');
  const gateway = await rig.configured({
    upstreams: [
      { name: 'main', url: `${ill.url}/v1`, max_in_flight: 1, breaker: { failures: 1 }, fallback: 'spare' },
      { name: 'spare', url: `${well.url}/v1` },
    ],
  });
  const first = postChat(gateway);
  await ill.arrived(1);
  const queued = Array.from({ length: 5 }, () => postChat(gateway));
  await gateway.waiting(5);
  release();
  assert.equal((await first).status, 500, 'what was answered is answered');
  for (const answer of await Promise.all(queued)) assert.equal(by(answer), 'fallback');
  assert.equal(by(await postChat(gateway)), 'fallback');
  assert.equal(ill.received.length, 1);
});

claim('an upstream that cannot be reached at all falls back at once: no byte was sent', async (rig) => {
  const gone = await rig.hand(() => {});
  await gone.stop();
  const well = await answering(rig, 'fallback');
  const gateway = await rig.configured({
    upstreams: [{ name: 'main', url: `${gone.url}/v1`, fallback: 'spare' }, { name: 'spare', url: `${well.url}/v1` }],
  });
  const answer = await postChat(gateway);
  assert.equal(by(answer), 'fallback');
  const [line] = await gateway.accessLines(1);
  assert.equal(line.attempts, 2);
  assert.equal(line.upstream, 'spare');
});

claim('a request that may have been read is not sent again, unless it has an idempotency key', async (rig) => {
  const broken = await rig.hand((request, response) => response.socket.resetAndDestroy());
  const well = await answering(rig, 'fallback');
  const gateway = await rig.configured({
    upstreams: [
      { name: 'main', url: `${broken.url}/v1`, fallback: 'spare', breaker: { failures: 0, failure_percent: 0 } },
      { name: 'spare', url: `${well.url}/v1` },
    ],
  });
  assert.equal((await postChat(gateway)).status, 502);
  assert.equal(well.received.length, 0);
  const keyed = await postChat(gateway, { headers: { 'idempotency-key': '"once"' } });
  assert.equal(by(keyed), 'fallback');
  assert.equal(broken.received.length, 2);
  assert.equal(well.received.length, 1, 'each target once');
});

claim('cycles of fallbacks are refused at load', async (rig) => {
  const config = { upstreams: [{ name: 'a', url: 'http://127.0.0.1:1', fallback: 'b' }, { name: 'b', url: 'http://127.0.0.1:2', fallback: 'a' }] };
  await assert.rejects(rig.configured(config), /ended before/);
  assert.equal(rig.processes.at(-1).ended.code, 2);
  assert.match(rig.processes.pop().err, /fallback/);
});

// ---- what passes ----

claim('redirects are passed on, not followed', async (rig) => {
  const mock = await rig.mock();
  const gateway = await rig.gateway(mock);
  const answer = await postChat(gateway, { headers: { 'mock-fault': 'redirect' } });
  assert.equal(answer.status, 307);
  assert.equal(answer.headers.location, 'http://127.0.0.1:1/elsewhere');
  assert.equal((await mock.stats()).requests, 1);
});

claim('hop-by-hop headers, and those that Connection names, pass in neither direction; others pass as they are', async (rig) => {
  const upstream = await rig.hand((request, response) => {
    response.sendDate = false;
    response.setHeader('connection', 'x-local');
    response.setHeader('x-local', 'of the upstream');
    response.setHeader('keep-alive', 'timeout=5');
    response.setHeader('proxy-authenticate', 'Basic');
    response.setHeader('x-passes', ['one', 'two']);
    chatAnswer(response);
  });
  const gateway = await rig.gateway(upstream);
  const client = await RawConnection.open(gateway.port);
  client.write(rawRequest('POST', '/v1/chat/completions', [
    ['connection', 'keep-alive, X-Mine'], ['x-mine', 'of the client'], ['keep-alive', '5'], ['te', 'trailers'], ['proxy-connection', 'x'],
    ['X-Passes', 'One'], ['x-passes', 'two'], ['accept', 'application/json'],
  ], chatBody()));
  const answer = await client.response();
  assert.equal(answer.status, 200);
  const seen = upstream.received[0].headers;
  for (const name of ['x-mine', 'keep-alive', 'te', 'proxy-connection']) assert.equal(seen[name], undefined, name);
  assert.equal(seen['x-passes'], 'One, two');
  assert.equal(seen.accept, 'application/json');
  assert.equal(seen.host, `127.0.0.1:${upstream.port}`);
  for (const name of ['x-local', 'keep-alive', 'proxy-authenticate']) assert.equal(answer.headers[name], undefined, name);
  assert.deepEqual(answer.pairs.filter(([name]) => name === 'x-passes').map(([, value]) => value), ['one', 'two']);
  client.close();
});

claim('HEAD is forwarded as HEAD, its answer has no body, and the connection goes on', async (rig) => {
  const upstream = await rig.hand((request, response) => {
    response.writeHead(200, { 'content-type': 'text/plain', 'content-length': 12345, 'x-method': request.method });
    response.end();
  });
  const gateway = await rig.gateway(upstream);
  const client = await RawConnection.open(gateway.port);
  for (let i = 0; i < 3; i++) {
    client.write(rawRequest('HEAD', '/v1/files/1'));
    const answer = await client.response({ noBody: true });
    assert.equal(answer.status, 200);
    assert.equal(answer.headers['x-method'], 'HEAD');
    assert.equal(answer.headers['content-length'], '12345');
  }
  assert.equal(client.bytes.length, 0);
  client.close();
});

claim('204 and 304 have no body and keep the connection', async (rig) => {
  const upstream = await rig.hand((request, response) => response.writeHead(Number(request.url.slice(-3))).end());
  const gateway = await rig.gateway(upstream);
  const client = await RawConnection.open(gateway.port);
  for (const status of [204, 304, 204]) {
    client.write(rawRequest('DELETE', `/v1/files/${status}`));
    assert.equal((await client.response()).status, status);
  }
  assert.equal(client.bytes.length, 0);
  client.close();
});

claim('keep-alive: many requests on one connection, one connection to the upstream', async (rig) => {
  const sockets = new Set();
  const upstream = await rig.hand((request, response) => {
    sockets.add(response.socket);
    chatAnswer(response);
  });
  const gateway = await rig.gateway(upstream);
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  for (let i = 0; i < 30; i++) assert.equal((await call(`${gateway.url}/v1/chat/completions`, { headers: bearer('k'), body: chatBody(), agent })).status, 200);
  assert.equal((await gateway.status()).connections, 1);
  assert.equal(sockets.size, 1);
  agent.destroy();
});

claim('pipelined requests are answered in order, refusals among them', async (rig) => {
  const upstream = await rig.hand((request, response) => {
    const { user } = JSON.parse(request.body);
    // The first takes longest: order is kept all the same.
    setTimeout(() => {
      response.setHeader('x-user', user);
      chatAnswer(response);
    }, user === '0' ? 200 : 0);
  });
  const gateway = await rig.gateway(upstream);
  const client = await RawConnection.open(gateway.port);
  const one = (user) => rawRequest('POST', '/v1/chat/completions', [['authorization', 'Bearer k']], chatBody({ user }));
  const bad = rawRequest('POST', '/v1/chat/completions', [['authorization', 'Bearer k']], '{"model":');
  client.write(one('0') + one('1') + bad + one('2') + one('3'));
  const seen = [];
  for (let i = 0; i < 5; i++) {
    const answer = await client.response();
    seen.push(answer.status === 200 ? answer.headers['x-user'] : answer.status);
  }
  assert.deepEqual(seen, ['0', '1', 400, '2', '3']);
  client.close();
});

claim('a chunked request body arrives whole; Expect is answered with 100 and not forwarded', async (rig) => {
  const upstream = await answering(rig, 'a');
  const gateway = await rig.gateway(upstream);
  const client = await RawConnection.open(gateway.port);
  client.write('POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer k\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n');
  assert.equal((await client.response()).status, 100);
  const body = chatBody({ user: 'x'.repeat(1000) });
  for (const byte of body.slice(0, 50)) client.write(`1;ext=1\r\n${byte}\r\n`);
  client.write(`${(body.length - 50).toString(16)}\r\n${body.slice(50)}\r\n0\r\nx-trailer: 1\r\n\r\n`);
  assert.equal((await client.response()).status, 200);
  const [seen] = upstream.received;
  assert.equal(seen.body, body);
  assert.equal(seen.headers['content-length'], String(body.length));
  assert.equal(seen.headers.expect, undefined);
  assert.equal(seen.headers['transfer-encoding'], undefined);
  client.close();
});

claim('a chunked answer passes, and an answer without length to a client of HTTP/1.0 ends with the connection', async (rig) => {
  const upstream = await rig.hand((request, response) => {
    response.writeHead(200, { 'content-type': 'text/plain' });
    response.write('part one, ');
    response.end('part two');
  });
  const gateway = await rig.gateway(upstream);
  const answer = await call(`${gateway.url}/v1/x`);
  assert.equal(answer.text, 'part one, part two');
  assert.ok(answer.complete);
  const old = await RawConnection.open(gateway.port);
  old.write('GET /v1/x HTTP/1.0\r\nhost: x\r\n\r\n');
  const oldAnswer = await old.response();
  assert.equal(oldAnswer.headers['transfer-encoding'], undefined);
  assert.equal(oldAnswer.text, 'part one, part two');
  old.close();
});

claim('a pooled connection that the upstream closed is not used, and a large body is passed whole', async (rig) => {
  const upstream = await answering(rig, 'a');
  const gateway = await rig.gateway(upstream);
  assert.equal((await postChat(gateway)).status, 200);
  upstream.server.closeAllConnections();
  for (let i = 0; i < 5; i++) assert.equal((await postChat(gateway)).status, 200);
  const body = chatBody({ user: 'y'.repeat(20_000_000) });
  const answer = await call(`${gateway.url}/v1/chat/completions`, { headers: bearer('k'), body });
  assert.equal(answer.status, 200);
  assert.equal(upstream.received.at(-1).body.length, body.length);
  assert.ok(upstream.received.at(-1).body === body);
});
