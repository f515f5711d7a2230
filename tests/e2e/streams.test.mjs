// Streams: byte for byte what the upstream sent, event by event, and never a tidy end to a broken one.
import Anthropic from '@anthropic-ai/sdk';
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { createGzip, constants, gunzipSync, gzipSync } from 'node:zlib';
import { RawConnection, rawRequest } from './raw.mjs';
import {
  anthropicHeaders, bearer, call, chatBody, claim, EventReader, messagesBody, open, postChat, readAll, sleep, until,
} from './support.mjs';

const tools = [{ type: 'function', function: { name: 'get_weather', parameters: { type: 'object' } } }];
const anthropicTools = [{ name: 'get_weather', input_schema: { type: 'object' } }];
const responsesBody = (extra = {}) => JSON.stringify({ model: 'mock', input: 'Hello', ...extra });

const requests = {
  'chat stream': ['/v1/chat/completions', chatBody({ stream: true })],
  'chat stream of three choices': ['/v1/chat/completions', chatBody({ stream: true, n: 3 })],
  'chat stream with a tool call': ['/v1/chat/completions', chatBody({ stream: true, tools })],
  'chat stream that asks for usage': ['/v1/chat/completions', chatBody({ stream: true, stream_options: { include_usage: true } })],
  'chat stream that asks for no usage': ['/v1/chat/completions', chatBody({ stream: true, stream_options: { include_usage: false } })],
  'chat stream with other stream options': ['/v1/chat/completions', chatBody({ stream: true, stream_options: { include_obfuscation: false } })],
  'completions stream': ['/v1/completions', JSON.stringify({ model: 'mock', prompt: 'Hello', stream: true })],
  'responses stream': ['/v1/responses', responsesBody({ stream: true })],
  'messages stream': ['/v1/messages', messagesBody({ stream: true })],
  'messages stream with a tool call': ['/v1/messages', messagesBody({ stream: true, tools: anthropicTools })],
  'whole chat answer': ['/v1/chat/completions', chatBody()],
  'whole message': ['/v1/messages', messagesBody()],
  'whole response': ['/v1/responses', responsesBody()],
};

for (const fault of ['', 'bytewise'])
  for (const [name, [path, body]] of Object.entries(requests))
    claim(`${name}${fault && ', a byte at a time'}: the bytes are those of an upstream that was not asked for usage`, async (rig) => {
      const flags = ['--step', '1ms', '--output', fault ? '3' : '24']; // a byte a millisecond: keep it short
      const [direct, behind] = [await rig.mock(...flags), await rig.mock(...flags)];
      const gateway = await rig.gateway(behind);
      const headers = { ...anthropicHeaders, ...(fault && { 'mock-fault': fault }) };
      const [want, got] = await Promise.all([direct, gateway].map((one) => call(`${one.url}${path}`, { headers, body })));
      assert.equal(got.status, 200);
      assert.ok(got.complete);
      assert.ok(want.bytes.length > 100);
      assert.equal(got.text, want.text);
      assert.ok(got.bytes.equals(want.bytes));
      assert.equal(got.headers['content-type'], want.headers['content-type']);
      const [line] = await gateway.accessLines(1);
      assert.equal(line.estimated, false, 'and yet the usage is known');
      assert.ok(line.output_tokens > 0);
    });

claim('usage is asked for in streams of the chat and completions APIs, by the smallest edit', async (rig) => {
  const mock = await rig.mock('--step', '1ms');
  const gateway = await rig.gateway(mock);
  const spaced = '{ "model" : "mock",\n "messages":[{"role":"user","content":"\\ud83d\\ude00 {\\"stream\\":false}"}] , "stream":true }';
  await call(`${gateway.url}/v1/chat/completions`, { headers: bearer('k'), body: spaced });
  const [{ body }] = await mock.requests();
  assert.deepEqual(JSON.parse(body), { ...JSON.parse(spaced), stream_options: { include_usage: true } });
  assert.equal(body.replace(/,?\s*"stream_options":\s*\{"include_usage":\s*true\},?/, ''), spaced, 'the rest stands as it stood');
});

claim('edits can be switched off: then nothing is asked for and the charge is an estimate', async (rig) => {
  const mock = await rig.mock('--step', '1ms');
  const gateway = await rig.configured({ upstreams: [{ name: 'up', url: `${mock.url}/v1`, edits: { include_usage: false, identity: false } }] });
  const answer = await call(`${gateway.url}/v1/chat/completions`, { headers: { ...bearer('k'), 'accept-encoding': 'gzip' }, body: chatBody({ stream: true }) });
  assert.equal(answer.status, 200);
  const [request] = await mock.requests();
  assert.equal(request.body, chatBody({ stream: true }));
  assert.equal(request.headers['accept-encoding'], 'gzip');
  const [line] = await gateway.accessLines(1);
  assert.equal(line.estimated, true);
  assert.ok(line.charged_tokens > 0);
});

claim('an output limit is put in where configured, and only where the request has none', async (rig) => {
  const mock = await rig.mock('--step', '1ms');
  const gateway = await rig.configured({ upstreams: [{ name: 'up', url: `${mock.url}/v1`, output_limit: 7, edits: { output_limit: true } }] });
  const without = await postChat(gateway);
  assert.equal(without.json.usage.completion_tokens, 7);
  const withOne = await postChat(gateway, { max_tokens: 3 });
  assert.equal(withOne.json.usage.completion_tokens, 3);
  const response = await call(`${gateway.url}/v1/responses`, { headers: bearer('k'), body: responsesBody() });
  assert.equal(response.json.usage.output_tokens, 7);
});

// ---- event by event ----

const chunk = (text, extra = {}) => `data: ${JSON.stringify({
  id: 'c', object: 'chat.completion.chunk', created: 1, model: 'mock',
  choices: [{ index: 0, delta: { content: text }, finish_reason: null }], usage: null, ...extra,
})}\n\n`;
const chatEvents = [
  ...Array.from({ length: 20 }, (_, i) => chunk(`w${i} `)),
  chunk('', { choices: [], usage: { prompt_tokens: 3, completion_tokens: 20, total_tokens: 23 } }),
  'data: [DONE]\n\n',
];
const visibleChatEvents = [...chatEvents.slice(0, 20).map((event) => event.replace(',"usage":null', '')), 'data: [DONE]\n\n'];
const messageEvents = [
  'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"mock","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":1}}}\n\n',
  'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n',
  'event: ping\ndata: {"type": "ping"}\n\n',
  ...Array.from({ length: 10 }, (_, i) => `event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"w${i}"}}      \n\n`),
  ': a comment\n\n',
  'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n',
  'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":10}}\n\n',
  'event: message_stop\ndata: {"type":"message_stop"}\n\n',
];

const eventHead = { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' };

// An upstream that sends the events of `list` when told, one by one.
async function stepped(rig) {
  const calls = [];
  const upstream = await rig.hand((request, response) => {
    response.writeHead(200, eventHead);
    response.flushHeaders();
    calls.push({ request, response });
  });
  return { upstream, calls };
}

for (const [name, path, body, events, visible] of [
  ['chat, usage taken out', '/v1/chat/completions', chatBody({ stream: true }), chatEvents, visibleChatEvents],
  ['messages', '/v1/messages', messagesBody({ stream: true }), messageEvents, messageEvents],
])
  claim(`${name}: event k is with the client before the upstream sends event k + 1`, async (rig) => {
    const { upstream, calls } = await stepped(rig);
    const gateway = await rig.gateway(upstream);
    const response = await open(`${gateway.url}${path}`, { headers: anthropicHeaders, body });
    const reader = new EventReader(response);
    let seen = 0;
    for (const event of events) {
      calls[0].response.write(event);
      const hidden = event.includes('"choices":[]');
      if (!hidden) assert.equal(await reader.next(), visible[seen++]);
    }
    calls[0].response.end();
    assert.equal(await reader.next(), null);
    assert.equal(seen, visible.length);
    const [line] = await gateway.accessLines(1);
    assert.equal(line.output_tokens, name === 'messages' ? 10 : 20);
  });

claim('the head of a stream is with the client before its first event', async (rig) => {
  const { upstream, calls } = await stepped(rig);
  const gateway = await rig.gateway(upstream);
  const response = await open(`${gateway.url}/v1/chat/completions`, { headers: bearer('k'), body: chatBody({ stream: true }) });
  assert.equal(response.statusCode, 200);
  assert.equal(response.headers['cache-control'], 'no-cache');
  const reader = new EventReader(response);
  for (const event of chatEvents) calls[0].response.write(event);
  calls[0].response.end();
  assert.deepEqual(await reader.all(), visibleChatEvents);
});

// ---- broken streams ----

const dialects = {
  chat: ['/v1/chat/completions', chatBody({ stream: true })],
  responses: ['/v1/responses', responsesBody({ stream: true })],
  messages: ['/v1/messages', messagesBody({ stream: true })],
};

function assertErrorEvent(kind, text) {
  const lines = text.split('\n').filter((line) => line.length > 0);
  const data = JSON.parse(lines.at(-1).replace(/^data: /, ''));
  if (kind === 'chat') {
    assert.equal(lines.length, 1, text);
    assert.equal(data.error.code, 'upstream_unavailable', text);
  } else {
    assert.equal(lines[0], 'event: error', text);
    assert.equal(data.type, 'error', text);
    if (kind === 'messages') assert.equal(data.error.type, 'api_error', text);
    else assert.equal(data.code, 'upstream_unavailable', text);
  }
}

for (const kind of Object.keys(dialects))
  for (const [fault, how] of [['cut=6', 'closes'], ['cut=6;end=tidy', 'ends tidily without its last word'], ['reset=body', 'resets']])
    claim(`${kind}: an upstream that ${how} in the middle ends in an error event of the API and an unclean close`, async (rig) => {
      const mock = await rig.mock('--step', '1ms');
      const gateway = await rig.gateway(mock);
      const [path, body] = dialects[kind];
      const answer = await call(`${gateway.url}${path}`, { headers: { ...anthropicHeaders, 'mock-fault': fault }, body });
      assert.equal(answer.status, 200);
      assert.equal(answer.complete, false, 'never a tidy end');
      const events = answer.text.split('\n\n').filter((event) => event.length > 0);
      assert.ok(events.length >= 5, answer.text);
      assertErrorEvent(kind, events.at(-1));
      for (const event of events.slice(0, -1)) assert.match(event, /^(event: .*\n)?data: \{.*\}$/);
      const [line] = await gateway.accessLines(1);
      assert.equal(line.outcome, 'cut');
      assert.ok(line.charged_tokens > 0, 'what was generated is charged');
    });

claim('a stream cut inside an event: the broken one is closed off, so that the error event stands alone', async (rig) => {
  const { upstream, calls } = await stepped(rig);
  const gateway = await rig.gateway(upstream);
  const response = await open(`${gateway.url}/v1/messages`, { headers: anthropicHeaders, body: messagesBody({ stream: true }) });
  const rest = readAll(response);
  calls[0].response.write(messageEvents[0]);
  calls[0].response.write(messageEvents[3].slice(0, 60));
  await until('both are through', async () => (await gateway.status()).requests === 1);
  await sleep(100); // the half event has no end that could be waited for
  calls[0].response.destroy();
  const { bytes, complete } = await rest;
  assert.equal(complete, false);
  const events = bytes.toString().split('\n\n').filter((event) => event.trim().length > 0);
  assert.equal(`${events[0]}\n\n`, messageEvents[0]);
  assertErrorEvent('messages', events.at(-1).replace(/^\n/, ''));
});

claim('a stream that falls silent for longer than the idle timeout ends the same way', async (rig) => {
  const mock = await rig.mock('--step', '1ms');
  const gateway = await rig.configured({ upstreams: [{ name: 'up', url: `${mock.url}/v1`, timeouts: { idle: '500ms' } }] });
  const begun = performance.now();
  const answer = await call(`${gateway.url}/v1/messages`, { headers: { ...anthropicHeaders, 'mock-fault': 'stall=body' }, body: messagesBody({ stream: true }) });
  assert.ok(performance.now() - begun >= 490);
  assert.equal(answer.complete, false);
  const last = answer.text.trimEnd().split('\n\n').at(-1);
  assert.match(last, /^event: error\ndata: /);
});

claim('the SDKs throw on a cut stream, however the upstream cut it', async (rig) => {
  const mock = await rig.mock('--step', '1ms');
  const gateway = await rig.configured({ upstreams: [{ name: 'up', url: `${mock.url}/v1`, breaker: { failures: 0, failure_percent: 0 } }] });
  const openai = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'k' });
  const anthropic = new Anthropic({ baseURL: gateway.url, apiKey: 'k' });
  const messages = [{ role: 'user', content: 'Hello' }];
  for (const fault of ['cut=6', 'cut=6;end=tidy', 'reset=body']) {
    const options = { headers: { 'mock-fault': fault } };
    const streams = [
      () => openai.chat.completions.create({ model: 'mock', messages, stream: true }, options),
      () => openai.responses.create({ model: 'mock', input: 'Hello', stream: true }, options),
      () => anthropic.messages.create({ model: 'mock', messages, max_tokens: 20, stream: true }, options),
    ];
    for (const start of streams) {
      const stream = await start();
      let seen = 0;
      await assert.rejects(async () => {
        for await (const _ of stream) seen++;
      }, fault);
      assert.ok(seen >= 3);
    }
  }
  assert.equal((await mock.stats()).requests, 9, 'no SDK repeats what has begun');
});

claim('a whole answer that is cut ends uncleanly too', async (rig) => {
  const mock = await rig.mock('--step', '1ms');
  const gateway = await rig.gateway(mock);
  const answer = await postChat(gateway, { headers: { 'mock-fault': 'cut=100' } });
  assert.equal(answer.status, 200);
  assert.equal(answer.complete, false);
  assert.ok(answer.bytes.length <= 100);
  const [line] = await gateway.accessLines(1);
  assert.equal(line.outcome, 'cut');
  assert.ok(line.charged_tokens > 0);
});

claim('an upstream that resets instead of answering is 502, and nothing of it passes', async (rig) => {
  const mock = await rig.mock();
  const gateway = await rig.gateway(mock);
  const answer = await postChat(gateway, { headers: { 'mock-fault': 'reset=head' } });
  assert.equal(answer.status, 502);
  assert.equal(answer.json.error.code, 'upstream_unavailable');
});

// ---- compressed answers, heartbeats ----

claim('a gzip answer is passed on untouched, and its usage is read', async (rig) => {
  const whole = gzipSync(Buffer.from(JSON.stringify({
    id: 'c', object: 'chat.completion', created: 1, model: 'mock', choices: [],
    usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 },
  })));
  const upstream = await rig.hand((request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip', 'content-length': whole.length });
    response.end(whole);
  });
  const gateway = await rig.gateway(upstream);
  const answer = await postChat(gateway);
  assert.equal(answer.headers['content-encoding'], 'gzip');
  assert.ok(answer.bytes.equals(whole));
  assert.equal(upstream.received[0].headers['accept-encoding'], 'identity', 'it was asked not to');
  const [line] = await gateway.accessLines(1);
  assert.deepEqual([line.input_tokens, line.output_tokens, line.estimated], [11, 7, false]);
});

claim('a gzip stream is passed on untouched as it comes, and its usage is read', async (rig) => {
  const packed = [];
  const upstream = await rig.hand((request, response) => {
    response.writeHead(200, { ...eventHead, 'content-encoding': 'gzip' });
    const gzip = createGzip({ flush: constants.Z_SYNC_FLUSH });
    gzip.on('data', (bytes) => {
      packed.push(bytes);
      response.write(bytes);
    });
    gzip.on('end', () => response.end());
    for (const event of chatEvents) gzip.write(event);
    gzip.end();
  });
  const gateway = await rig.gateway(upstream);
  const answer = await postChat(gateway, { stream: true });
  assert.ok(answer.complete);
  assert.ok(answer.bytes.equals(Buffer.concat(packed)));
  assert.equal(gunzipSync(answer.bytes).toString(), chatEvents.join(''));
  const [line] = await gateway.accessLines(1);
  assert.deepEqual([line.input_tokens, line.output_tokens, line.estimated], [3, 20, false]);
});

claim('an answer compressed beyond what is looked into passes, and is charged by estimate', async (rig) => {
  const junk = Buffer.from('this is no gzip, whatever its head says, and it is passed on as it is');
  const upstream = await rig.hand((request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip', 'content-length': junk.length });
    response.end(junk);
  });
  const gateway = await rig.gateway(upstream);
  const answer = await postChat(gateway);
  assert.ok(answer.bytes.equals(junk));
  const [line] = await gateway.accessLines(1);
  assert.equal(line.estimated, true);
  assert.ok(line.charged_tokens > 0);
});

claim('heartbeats: a comment between two events of a silent stream, never inside one, and the SDK minds not', async (rig) => {
  const { upstream, calls } = await stepped(rig);
  const gateway = await rig.configured({ upstreams: [{ name: 'up', url: `${upstream.url}/v1` }], responses: { heartbeat: '1s' } });
  const response = await open(`${gateway.url}/v1/messages`, { headers: anthropicHeaders, body: messagesBody({ stream: true }) });
  const reader = new EventReader(response);
  const upstreamAnswer = calls[0].response;
  upstreamAnswer.write(messageEvents[0]);
  assert.equal(await reader.next(), messageEvents[0]);
  assert.equal(await reader.next(), ': weir\n\n');
  upstreamAnswer.write(messageEvents[3].slice(0, 60)); // half an event: no comment may come now
  await sleep(1500);
  upstreamAnswer.write(messageEvents[3].slice(60));
  assert.equal(await reader.next(), messageEvents[3]);
  for (const event of messageEvents.slice(4)) upstreamAnswer.write(event);
  upstreamAnswer.end();
  assert.deepEqual((await reader.all()).filter((event) => event !== ': weir\n\n'), messageEvents.slice(4));

  const client = new Anthropic({ baseURL: gateway.url, apiKey: 'k' });
  const stream = client.messages.stream({ model: 'mock', max_tokens: 20, messages: [{ role: 'user', content: 'Hello' }] });
  await upstream.arrived(2);
  calls[1].response.write(messageEvents.slice(0, 6).join(''));
  await sleep(1500);
  calls[1].response.end(messageEvents.slice(6).join(''));
  assert.equal((await stream.finalMessage()).content[0].text, 'w0w1w2w3w4w5w6w7w8w9');
});

// ---- slow and absent clients ----

claim('a client that reads slowly holds the upstream back, and gets every byte', async (rig) => {
  const piece = Buffer.alloc(64 * 1024, 'x');
  const total = 48 * 1024 * 1024;
  let sent = 0;
  const upstream = await rig.hand((request, response) => {
    response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': total });
    const more = () => {
      while (sent < total) {
        sent += piece.length;
        if (!response.write(piece)) return response.once('drain', more);
      }
      return response.end();
    };
    more();
  });
  const gateway = await rig.gateway(upstream);
  const response = await open(`${gateway.url}/v1/files/big/content`); // nothing is read before readAll
  let before = -1;
  await until('the upstream is held back', async () => {
    const still = sent === before && sent > 0;
    before = sent;
    await sleep(200);
    return still;
  });
  assert.ok(sent < 24 * 1024 * 1024, `${sent} bytes lie between, in kernels and in weir`);
  const { bytes, complete } = await readAll(response);
  assert.ok(complete);
  assert.equal(bytes.length, total);
});

claim('a client that stops reading is gone after client_stall, and the upstream is let go', async (rig) => {
  let closed = false;
  const upstream = await rig.hand((request, response) => {
    response.on('close', () => (closed = true));
    response.writeHead(200, { 'content-type': 'application/octet-stream' });
    const more = () => {
      while (!closed && response.write(Buffer.alloc(64 * 1024)));
      if (!closed) response.once('drain', more);
    };
    more();
  });
  const gateway = await rig.configured({ upstreams: [{ name: 'up', url: `${upstream.url}/v1` }], limits: { client_stall: '1s' } });
  const client = await RawConnection.open(gateway.port);
  client.socket.pause();
  client.write(rawRequest('GET', '/v1/files/big/content'));
  await until('the upstream is let go', () => closed, 8000);
  const [line] = await gateway.accessLines(1);
  assert.equal(line.outcome, 'client_gone');
  client.close();
});

claim('a client that leaves mid-stream: the upstream is closed within a second and what came is charged', async (rig) => {
  const { upstream, calls } = await stepped(rig);
  const gateway = await rig.gateway(upstream);
  const response = await open(`${gateway.url}/v1/messages`, { headers: anthropicHeaders, body: messagesBody({ stream: true }) });
  const reader = new EventReader(response);
  for (const event of messageEvents.slice(0, 6)) calls[0].response.write(event);
  for (let i = 0; i < 6; i++) await reader.next();
  let closed = false;
  calls[0].response.on('close', () => (closed = true));
  reader.over = { error: null };
  response.destroy();
  await until('the upstream call is closed', () => closed, 1000);
  const [line] = await gateway.accessLines(1);
  assert.equal(line.outcome, 'client_gone');
  assert.ok(line.charged_tokens > 0);
});

claim('a client that leaves is seen in every phase: queued, before the first byte, before its body is whole', async (rig) => {
  let closed = 0;
  const upstream = await rig.hand((request, response) => response.on('close', () => closed++));
  const gateway = await rig.gateway(upstream, '--max-in-flight', '1');
  const abort = [new AbortController(), new AbortController()];
  const ends = abort.map((one) => postChat(gateway, { signal: one.signal }).catch((error) => error.name));
  await upstream.arrived(1);
  await gateway.waiting(1);
  const first = upstream.received[0];
  abort[1].abort(); // one of the two: perhaps the one in the queue, perhaps the one under way
  await until('one is gone', async () => (await gateway.status()).requests === 1, 1000);
  abort[0].abort();
  await until('both are gone', async () => (await gateway.status()).requests === 0, 1000);
  await until('and so is the call', () => closed >= 1 && first.response.destroyed, 1000);
  assert.deepEqual(await Promise.all(ends), ['AbortError', 'AbortError']);
  const half = await RawConnection.open(gateway.port);
  half.write('POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{"model":');
  await until('it is connected', async () => (await gateway.status()).connections >= 1);
  half.reset();
  await until('it is forgotten', async () => (await gateway.status()).connections === 0);
  assert.ok(upstream.received.length <= 2);
});

claim('on_client_gone drain: the answer is read to its end, so that its usage is known', async (rig) => {
  const { upstream, calls } = await stepped(rig);
  const gateway = await rig.configured({ upstreams: [{ name: 'up', url: `${upstream.url}/v1`, on_client_gone: 'drain' }] });
  const response = await open(`${gateway.url}/v1/messages`, { headers: anthropicHeaders, body: messagesBody({ stream: true }) });
  response.on('error', () => {});
  calls[0].response.write(messageEvents[0]);
  await new Promise((resolve) => response.once('data', resolve));
  response.destroy();
  await until('the client is gone', async () => (await gateway.status()).connections === 0);
  for (const event of messageEvents.slice(1)) calls[0].response.write(event);
  calls[0].response.end();
  const [line] = await gateway.accessLines(1);
  assert.equal(line.outcome, 'client_gone');
  assert.deepEqual([line.input_tokens, line.output_tokens, line.estimated], [3, 10, false]);
});
