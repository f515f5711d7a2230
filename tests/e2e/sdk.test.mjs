// The official SDKs of both providers, unmodified, of this year and of last, through weir.
import Anthropic from '@anthropic-ai/sdk';
import AnthropicOld from 'anthropic-0.60';
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import OpenAIOld from 'openai-5.12';
import { call, claim } from './support.mjs';

const openaiVersions = { 'openai 6.49': OpenAI, 'openai 5.12': OpenAIOld };
const anthropicVersions = { 'anthropic 1.14': Anthropic, 'anthropic 0.60': AnthropicOld };
const hello = [{ role: 'user', content: 'Hello' }];
const words = 'the weir holds the stream back';

const weatherParameters = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
};
const openaiTool = { type: 'function', function: { name: 'get_weather', parameters: weatherParameters } };
const anthropicTool = { name: 'get_weather', input_schema: weatherParameters };

async function gatewayAndMock(rig) {
  const mock = await rig.mock('--step', '1ms');
  return { mock, gateway: await rig.gateway(mock) };
}

function openai(Client, gateway, options = {}) {
  return new Client({ baseURL: `${gateway.url}/v1`, apiKey: 'sk-e2e', maxRetries: 0, ...options });
}

function anthropic(Client, gateway, options = {}) {
  return new Client({ baseURL: gateway.url, apiKey: 'sk-ant-e2e', maxRetries: 0, ...options });
}

async function collect(stream) {
  const list = [];
  for await (const item of stream) list.push(item);
  return list;
}

for (const [name, Client] of Object.entries(openaiVersions)) {
  claim(`${name}: a whole chat answer has its text, its usage and its request id`, async (rig) => {
    const { mock, gateway } = await gatewayAndMock(rig);
    const answer = await openai(Client, gateway).chat.completions.create({ model: 'mock', messages: hello, max_tokens: 6 });
    assert.equal(answer.choices[0].message.content, words);
    assert.equal(answer.usage.completion_tokens, 6);
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + 6);
    assert.equal(answer._request_id, 'req_mock1');
    const [request] = await mock.requests();
    assert.equal(request.headers.authorization, 'Bearer sk-e2e');
    const [line] = await gateway.accessLines(1);
    assert.equal(line.output_tokens, 6);
    assert.equal(line.input_tokens, answer.usage.prompt_tokens);
    assert.equal(line.estimated, false);
  });

  claim(`${name}: a streamed chat answer is complete, its usage booked though not asked for`, async (rig) => {
    const { gateway } = await gatewayAndMock(rig);
    const stream = await openai(Client, gateway).chat.completions.create({
      model: 'mock', messages: hello, max_tokens: 6, stream: true,
    });
    const chunks = await collect(stream);
    assert.equal(chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join(''), words);
    assert.equal(chunks.at(-1).choices[0].finish_reason, 'stop');
    assert.ok(chunks.every((chunk) => !('usage' in chunk)), 'no trace of the question that weir asked');
    const [line] = await gateway.accessLines(1);
    assert.equal(line.output_tokens, 6);
    assert.equal(line.estimated, false);
  });

  claim(`${name}: a stream that asked for usage gets it, last`, async (rig) => {
    const { gateway } = await gatewayAndMock(rig);
    const stream = await openai(Client, gateway).chat.completions.create({
      model: 'mock', messages: hello, max_tokens: 6, stream: true, stream_options: { include_usage: true },
    });
    const chunks = await collect(stream);
    assert.equal(chunks.at(-1).usage.completion_tokens, 6);
    assert.deepEqual(chunks.at(-1).choices, []);
    assert.ok(chunks.slice(0, -1).every((chunk) => chunk.usage === null));
  });

  claim(`${name}: tool calls come whole and in pieces`, async (rig) => {
    const { gateway } = await gatewayAndMock(rig);
    const client = openai(Client, gateway);
    const request = { model: 'mock', messages: hello, tools: [openaiTool] };
    const whole = await client.chat.completions.create(request);
    const [asked] = whole.choices[0].message.tool_calls;
    assert.equal(asked.function.name, 'get_weather');
    assert.deepEqual(JSON.parse(asked.function.arguments), { city: 'Södra' });
    const chunks = await collect(await client.chat.completions.create({ ...request, stream: true }));
    const pieces = chunks.flatMap((chunk) => chunk.choices[0]?.delta.tool_calls ?? []);
    assert.equal(pieces.map((piece) => piece.function.name ?? '').join(''), 'get_weather');
    assert.deepEqual(JSON.parse(pieces.map((piece) => piece.function.arguments).join('')), { city: 'Södra' });
  });

  claim(`${name}: the responses API works, whole and streamed`, async (rig) => {
    const { gateway } = await gatewayAndMock(rig);
    const client = openai(Client, gateway);
    const request = { model: 'mock', input: 'Hello', max_output_tokens: 6 };
    const whole = await client.responses.create(request);
    assert.equal(whole.output_text, words);
    assert.equal(whole.usage.output_tokens, 6);
    const events = await collect(await client.responses.create({ ...request, stream: true }));
    const text = events.filter((event) => event.type === 'response.output_text.delta').map((event) => event.delta);
    assert.equal(text.join(''), words);
    assert.equal(events.at(-1).type, 'response.completed');
    assert.equal(events.at(-1).response.usage.output_tokens, 6);
    const lines = await gateway.accessLines(2);
    assert.deepEqual(lines.map((line) => line.output_tokens), [6, 6]);
  });

  claim(`${name}: completions, embeddings and the list of models work`, async (rig) => {
    const { gateway } = await gatewayAndMock(rig);
    const client = openai(Client, gateway);
    const whole = await client.completions.create({ model: 'mock', prompt: 'Hello', max_tokens: 6 });
    assert.equal(whole.choices[0].text, words);
    const chunks = await collect(await client.completions.create({ model: 'mock', prompt: 'Hello', max_tokens: 6, stream: true }));
    assert.equal(chunks.map((chunk) => chunk.choices[0].text).join(''), words);
    const embedding = await client.embeddings.create({ model: 'mock', input: 'Hello', encoding_format: 'float' });
    assert.deepEqual(embedding.data[0].embedding, [0.0125, -0.5, 0.25]);
    const models = await collect(await client.models.list());
    assert.deepEqual(models.map((model) => model.id), ['mock']);
    const lines = await gateway.accessLines(4);
    assert.deepEqual(lines.map((line) => line.status), [200, 200, 200, 200]);
    assert.equal(lines[2].input_tokens, embedding.usage.prompt_tokens);
    assert.equal(lines[2].charged_tokens, embedding.usage.total_tokens);
  });

  claim(`${name}: errors of the upstream come as the classes of the SDK`, async (rig) => {
    const { gateway } = await gatewayAndMock(rig);
    const client = openai(Client, gateway);
    const classes = {
      400: Client.BadRequestError, 401: Client.AuthenticationError, 403: Client.PermissionDeniedError,
      404: Client.NotFoundError, 409: Client.ConflictError, 413: Client.APIError, 422: Client.UnprocessableEntityError,
      500: Client.InternalServerError, 503: Client.InternalServerError, 429: Client.RateLimitError,
    };
    for (const [status, Class] of Object.entries(classes)) {
      const asked = client.chat.completions.create({ model: 'mock', messages: hello }, { headers: { 'mock-fault': `status=${status}` } });
      await assert.rejects(asked, (error) => {
        assert.ok(error instanceof Class, `${status}: ${error.constructor.name}`);
        assert.equal(error.status, Number(status));
        assert.match(error.message, /The mock was asked to fail/);
        assert.equal(error.headers.get('weir-source'), null, 'it is the upstream that speaks');
        return true;
      });
    }
  });

  claim(`${name}: an error inside a stream is thrown, with what came before`, async (rig) => {
    const { gateway } = await gatewayAndMock(rig);
    const stream = await openai(Client, gateway).chat.completions.create(
      { model: 'mock', messages: hello, stream: true }, { headers: { 'mock-fault': 'error=4' } });
    const seen = [];
    await assert.rejects(async () => {
      for await (const chunk of stream) seen.push(chunk);
    }, Client.APIError);
    assert.equal(seen.length, 4);
  });
}

for (const [name, Client] of Object.entries(anthropicVersions)) {
  claim(`${name}: a whole message has its text, its usage and its request id`, async (rig) => {
    const { gateway } = await gatewayAndMock(rig);
    const answer = await anthropic(Client, gateway).messages.create({ model: 'mock', messages: hello, max_tokens: 6 });
    assert.equal(answer.content[0].text, words);
    assert.equal(answer.usage.output_tokens, 6);
    assert.equal(answer._request_id, 'req_mock1');
    const [line] = await gateway.accessLines(1);
    assert.equal(line.route, 'anthropic-messages');
    assert.equal(line.output_tokens, 6);
    assert.equal(line.input_tokens, answer.usage.input_tokens);
  });

  claim(`${name}: a streamed message is complete, by events and by the stream helper`, async (rig) => {
    const { gateway } = await gatewayAndMock(rig);
    const client = anthropic(Client, gateway);
    const request = { model: 'mock', messages: hello, max_tokens: 6 };
    const events = await collect(await client.messages.create({ ...request, stream: true }));
    const text = events.filter((event) => event.type === 'content_block_delta').map((event) => event.delta.text);
    assert.equal(text.join(''), words);
    assert.equal(events.at(-1).type, 'message_stop');
    const final = await client.messages.stream(request).finalMessage();
    assert.equal(final.content[0].text, words);
    assert.equal(final.usage.output_tokens, 6);
    const lines = await gateway.accessLines(2);
    assert.deepEqual(lines.map((line) => [line.output_tokens, line.estimated]), [[6, false], [6, false]]);
  });

  claim(`${name}: tool use comes whole and in pieces`, async (rig) => {
    const { gateway } = await gatewayAndMock(rig);
    const client = anthropic(Client, gateway);
    const request = { model: 'mock', messages: hello, max_tokens: 8, tools: [anthropicTool] };
    const whole = await client.messages.create(request);
    assert.equal(whole.stop_reason, 'tool_use');
    assert.deepEqual(whole.content[0].input, { city: 'Södra' });
    const final = await client.messages.stream(request).finalMessage();
    assert.equal(final.content[0].name, 'get_weather');
    assert.deepEqual(final.content[0].input, { city: 'Södra' });
  });

  claim(`${name}: counting tokens and the list of models work, and count as requests only`, async (rig) => {
    const { gateway } = await gatewayAndMock(rig);
    const client = anthropic(Client, gateway);
    const counted = await client.messages.countTokens({ model: 'mock', messages: hello });
    assert.ok(counted.input_tokens > 0);
    const models = await collect(await client.models.list());
    assert.deepEqual(models.map((model) => model.id), ['mock']);
    const lines = await gateway.accessLines(2);
    assert.deepEqual(lines.map((line) => line.charged_tokens), [0, 0]);
  });

  claim(`${name}: errors of the upstream come as the classes of the SDK`, async (rig) => {
    const { gateway } = await gatewayAndMock(rig);
    const client = anthropic(Client, gateway);
    const classes = {
      400: Client.BadRequestError, 401: Client.AuthenticationError, 403: Client.PermissionDeniedError,
      404: Client.NotFoundError, 409: Client.ConflictError, 413: Client.APIError, 422: Client.UnprocessableEntityError,
      500: Client.InternalServerError, 529: Client.InternalServerError, 429: Client.RateLimitError,
    };
    for (const [status, Class] of Object.entries(classes)) {
      const asked = client.messages.create(
        { model: 'mock', messages: hello, max_tokens: 8 }, { headers: { 'mock-fault': `status=${status}` } });
      await assert.rejects(asked, (error) => {
        assert.ok(error instanceof Class, `${status}: ${error.constructor.name}`);
        assert.equal(error.status, Number(status));
        assert.equal(error.error.type, 'error');
        return true;
      });
    }
  });

  claim(`${name}: an error inside a stream is thrown, with what came before`, async (rig) => {
    const { gateway } = await gatewayAndMock(rig);
    const stream = await anthropic(Client, gateway).messages.create(
      { model: 'mock', messages: hello, max_tokens: 8, stream: true }, { headers: { 'mock-fault': 'error=5' } });
    const seen = [];
    await assert.rejects(async () => {
      for await (const event of stream) seen.push(event);
    }, Client.APIError);
    assert.ok(seen.length >= 4, `${seen.length} events (pings are not shown)`);
  });
}

claim('the Anthropic key is taken from x-api-key (old SDK) and from Authorization (new SDK), and passed on as it came', async (rig) => {
  const { mock, gateway } = await gatewayAndMock(rig);
  const request = { model: 'mock', messages: hello, max_tokens: 6 };
  await anthropic(AnthropicOld, gateway).messages.create(request);
  await anthropic(Anthropic, gateway).messages.create(request);
  const [old, fresh] = await mock.requests();
  assert.equal(old.headers['x-api-key'], 'sk-ant-e2e');
  assert.equal(old.headers.authorization, undefined);
  assert.equal(old.headers['anthropic-version'], '2023-06-01');
  assert.equal(fresh.headers.authorization, 'Bearer sk-ant-e2e');
  assert.equal(fresh.headers['x-api-key'], undefined);
  const lines = await gateway.accessLines(2);
  assert.equal(lines[0].tenant, lines[1].tenant, 'the same credential is the same tenant, whatever carries it');
});

claim('the Anthropic key opens the gateway in either header when tenants have weir keys', async (rig) => {
  const mock = await rig.mock('--key', 'sk-of-the-operator');
  const gateway = await rig.configured(
    { upstreams: [{ name: 'up', url: `${mock.url}/v1`, key_env: 'E2E_KEY' }], tenants: [{ name: 'alpha' }] },
    { E2E_KEY: 'sk-of-the-operator' });
  const key = rig.newKey(gateway, 'alpha');
  const request = { model: 'mock', messages: hello, max_tokens: 6 };
  const clients = [
    anthropic(AnthropicOld, gateway, { apiKey: key }), anthropic(Anthropic, gateway, { apiKey: key }),
  ];
  // The gateway takes a new key in within a second or two; until then it is a 401.
  const end = performance.now() + 5000;
  while ((await call(`${gateway.url}/v1/models`, { headers: { 'x-api-key': key } })).status === 401)
    assert.ok(performance.now() < end, 'the new key is taken in');
  for (const client of clients) {
    const answer = await client.messages.create(request);
    assert.equal(answer.content[0].text, words);
  }
  for (const request of await mock.requests()) assert.ok(!request.head.includes('wk_'));
});

claim('fifty concurrent streams of both SDKs all arrive complete', async (rig) => {
  const { gateway } = await gatewayAndMock(rig);
  const ask = openai(OpenAI, gateway);
  const tell = anthropic(Anthropic, gateway);
  const request = { model: 'mock', messages: hello, max_tokens: 6, stream: true };
  const texts = await Promise.all(Array.from({ length: 50 }, async (_, i) => {
    if (i % 2) {
      const events = await collect(await tell.messages.create(request));
      return events.filter((event) => event.type === 'content_block_delta').map((event) => event.delta.text).join('');
    }
    const chunks = await collect(await ask.chat.completions.create(request));
    return chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join('');
  }));
  assert.deepEqual([...new Set(texts)], [words]);
});
