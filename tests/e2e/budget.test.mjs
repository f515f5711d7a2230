// Budgets end to end: what goes where when one is spent, what an answer does that passes its hold,
// and that many clients at once never get a token more than was granted. Windows: windows.test.mjs.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import {
  anthropicHeaders, bearer, call, chatAnswer, chatBody, claim, EventReader, messagesBody, open, postChat, readAll, until,
} from './support.mjs';

async function scope(gateway, name) {
  const { scopes } = await gateway.adminJson('/v1/ledger');
  const found = scopes.find((one) => one.scope === name);
  assert.ok(found, `a scope ${name} in ${JSON.stringify(scopes.map((one) => one.scope))}`);
  return found;
}

// A balance once nothing is held any more.
async function settled(gateway, name) {
  await until(`${name} holds nothing`, async () => (await scope(gateway, name)).reserved_tok === 0);
  return scope(gateway, name);
}

// ---- fallback ----

// Tenant a, whose 5,000 tokens one answer of `main` uses up; then it goes to `spare`.
async function withSpare(rig, spare, { settings = {}, ...config } = {}) {
  const main = await rig.hand((request, response) => chatAnswer(response, { input: 10, output: 4990 }));
  const { gateway, keys } = await rig.keyed({
    upstreams: [
      { name: 'main', url: `${main.url}/v1` },
      { name: 'spare', url: `${spare.url}/v1`, pool: 'spare', ...settings },
    ],
    tenants: [{ name: 'a', scope: 'class' }],
    scopes: [{ name: 'class', granted: 5000, on_exhausted: { fallback: 'spare' } }],
    ...config,
  });
  assert.equal((await postChat(gateway, { key: keys.a })).status, 200);
  await settled(gateway, 'class');
  return { gateway, key: keys.a, main };
}

claim('fallback: what a spent budget has no room for goes to the other upstream, and is charged there', async (rig) => {
  const spare = await rig.mock('--plain');
  const { gateway, key, main } = await withSpare(rig, spare);
  const whole = await postChat(gateway, { key, max_tokens: 7 });
  assert.equal(whole.status, 200, whole.text);
  const stream = await call(`${gateway.url}/v1/chat/completions`, {
    headers: bearer(key), body: chatBody({ stream: true, max_tokens: 9, stream_options: { include_usage: true } }),
  });
  assert.match(stream.text, /data: \[DONE\]\n\n$/);
  const told = JSON.parse(/data: (\{.*"usage":\{.*)\n/.exec(stream.text)[1]).usage;
  const used = whole.json.usage.total_tokens + told.total_tokens;
  assert.equal((await settled(gateway, 'fallback/spare')).committed_tok, used);
  assert.equal((await scope(gateway, 'class')).committed_tok, 5000, 'nothing more');
  assert.equal(main.received.length, 1);
  assert.equal(whole.json.model, 'mock', 'the model as it was');
});

claim('fallback: its refusals are told as they are, and leave nothing held', async (rig) => {
  const gone = await rig.hand(() => {});
  await gone.stop();
  const { gateway, key } = await withSpare(rig, gone);
  const refused = await postChat(gateway, { key });
  assert.equal(refused.status, 502, refused.text);
  assert.match(refused.json.error.message, /spare/);
  assert.equal((await settled(gateway, 'fallback/spare')).committed_tok, 0);

  const spare = await rig.hand(() => {}); // never answers
  const other = await withSpare(rig, spare, { settings: { max_in_flight: 1 }, limits: { max_wait: '300ms' } });
  const hanging = new AbortController();
  const first = postChat(other.gateway, { key: other.key, signal: hanging.signal }).catch(() => {});
  await spare.arrived(1);
  const late = await postChat(other.gateway, { key: other.key });
  assert.equal(late.json.error.code, 'queue_timeout', late.text);
  hanging.abort();
  await first;
  const left = await settled(other.gateway, 'fallback/spare');
  assert.ok(left.committed_tok > 0, 'the client left after its request was sent: that is not free');
});

claim('fallback: what it does not speak or serve is refused as spent, and never sent there', async (rig) => {
  for (const settings of [{ api: 'anthropic' }, { models: ['cheap', 'small-*'] }]) {
    const spare = await rig.hand((request, response) => chatAnswer(response));
    const { gateway, key, main } = await withSpare(rig, spare, { settings });
    const refused = await postChat(gateway, { key });
    assert.equal(refused.status, 402, refused.text);
    assert.equal(refused.json.error.code, 'budget_exhausted');
    assert.equal(spare.received.length, 0);
    assert.equal(main.received.length, 1);
    if (!settings.models) continue;
    for (const model of settings.models) assert.equal((await postChat(gateway, { key, model: model.replace('*', '1') })).status, 200);
    assert.equal(spare.received.length, 2);
  }
});

// ---- an answer passes its hold ----

// A stream of `events` events of 30 bytes, one after another as `more` is called; then its usage.
function slowChat(rig) {
  const state = { streams: [] };
  const event = (data) => `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'mock', ...data })}\n\n`;
  return rig.hand((request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.flushHeaders();
    state.streams.push({
      response,
      more: (tokens) => {
        const content = 'abcde '.repeat(tokens); // 6 bytes: two tokens by the count of three bytes
        response.write(event({ choices: [{ index: 0, delta: { content }, finish_reason: null }] }));
      },
      end: (output) => {
        response.write(event({ choices: [], usage: { prompt_tokens: 10, completion_tokens: output, total_tokens: 10 + output } }));
        response.end('data: [DONE]\n\n');
      },
    });
  }).then((upstream) => Object.assign(upstream, state));
}

async function streaming(rig, policy, granted) {
  const upstream = await slowChat(rig);
  const { gateway, keys } = await rig.keyed({
    upstreams: [{ name: 'main', url: `${upstream.url}/v1`, output_limit: 100 }],
    tenants: [{ name: 'a', scope: 'class' }],
    scopes: [{ name: 'class', granted, on_overrun: policy }],
  });
  const response = await open(`${gateway.url}/v1/chat/completions`, { headers: bearer(keys.a), body: chatBody({ stream: true }) });
  await upstream.arrived(1);
  return { gateway, key: keys.a, upstream, stream: upstream.streams[0], reader: new EventReader(response) };
}

claim('extend: a stream that passes its hold has it enlarged as it goes, and is charged what it used', async (rig) => {
  const { gateway, stream, reader } = await streaming(rig, 'cut', 100_000);
  const held = async () => (await scope(gateway, 'class')).reserved_tok;
  const first = await held();
  assert.ok(first > 100 && first < 200, `${first} tokens held`);
  stream.more(500);
  await until('the hold grows', async () => (await held()) > first);
  const grown = await held();
  assert.ok(grown >= 1000 + 1024 && grown < 2200, `${grown} tokens held`);
  stream.more(100);
  await reader.next();
  await reader.next();
  assert.equal(await held(), grown, 'there is room in it still');
  stream.more(1500);
  await until('it grows again', async () => (await held()) > 4200);
  stream.end(2000);
  assert.match((await reader.all()).at(-1), /DONE/);
  const balance = await settled(gateway, 'class');
  assert.equal(balance.committed_tok, 2010);
  assert.equal(balance.overrun_tok, 0, 'it was held for, at every moment');
});

claim('extend: no room, policy cut: the stream ends with an error event and is charged what was seen', async (rig) => {
  const { gateway, upstream, stream, reader } = await streaming(rig, 'cut', 1000);
  stream.more(10);
  assert.match(await reader.next(), /abcde/);
  stream.more(600);
  let text = '';
  await assert.rejects(async () => {
    for (let event = await reader.next(); event !== null; event = await reader.next()) text += event;
  }, /cut/);
  assert.match(text, /budget_exhausted/);
  await until('the upstream is let go', () => upstream.received[0].response.destroyed, 2000);
  const [line] = await gateway.accessLines(1);
  assert.equal(line.outcome, 'cut');
  assert.equal(line.reason, 'budget_exhausted');
  assert.equal(line.estimated, true);
  const balance = await settled(gateway, 'class');
  assert.ok(balance.committed_tok >= 1220 && balance.committed_tok <= 1240, `${balance.committed_tok} tokens`);
});

claim('extend: no room, policy log: the stream goes on, all of it is booked, and others are refused', async (rig) => {
  const { gateway, key, stream, reader } = await streaming(rig, 'log', 1000);
  stream.more(600);
  const shows = async (line) => (await gateway.admin('/metrics')).text.includes(`\n${line}\n`);
  await until('the overrun is shown', () => shows('weir_overruns 1'));
  stream.more(600);
  stream.end(2400);
  assert.match((await reader.all()).at(-1), /DONE/);
  const balance = await settled(gateway, 'class');
  assert.equal(balance.committed_tok, 2410);
  assert.ok(balance.overrun_tok > 2000);
  for (const line of ['weir_overruns 0', 'weir_overruns_total 1', 'weir_overruns_cut_total 0']) assert.ok(await shows(line), line);
  const refused = await postChat(gateway, { key, max_tokens: 5 });
  assert.equal(refused.json.error.code, 'budget_exhausted', refused.text);
});

claim('extend: a request that names its limit asks for nothing, whatever its bytes look like', async (rig) => {
  const upstream = await slowChat(rig);
  const { gateway, keys } = await rig.keyed({
    upstreams: [{ name: 'main', url: `${upstream.url}/v1` }],
    tenants: [{ name: 'a', scope: 'class' }],
    scopes: [{ name: 'class', granted: 1000, on_overrun: 'cut' }],
  });
  const response = await open(`${gateway.url}/v1/chat/completions`, {
    headers: bearer(keys.a), body: chatBody({ stream: true, max_tokens: 800 }),
  });
  await upstream.arrived(1);
  upstream.streams[0].more(700); // 1,400 tokens by our count, 700 by the provider's
  upstream.streams[0].end(700);
  assert.match((await new EventReader(response).all()).at(-1), /DONE/);
  assert.equal((await settled(gateway, 'class')).committed_tok, 710);
});

// ---- an interrupted answer is not free ----

claim('an Anthropic stream cut after message_start is charged, and flagged as our count', async (rig) => {
  const mock = await rig.mock('--step', '1ms');
  const gateway = await rig.gateway(mock);
  const cut = await call(`${gateway.url}/v1/messages`, {
    headers: { ...anthropicHeaders, 'mock-fault': 'cut=1' }, body: messagesBody({ stream: true }),
  });
  assert.match(cut.text, /message_start/);
  assert.match(cut.text, /event: error/);
  const [line] = await gateway.accessLines(1);
  assert.equal(line.outcome, 'cut');
  assert.equal(line.estimated, true);
  assert.ok(line.charged_tokens > 1, `${line.charged_tokens} tokens`);
});

// ---- the ledger is away ----

// Another process has the ledger's file, until it is let go.
async function stranger(file) {
  const script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.execute('BEGIN IMMEDIATE'); print('has it', flush=True); sys.stdin.read()";
  const child = spawn('python3', ['-c', script, file], { stdio: ['pipe', 'pipe', 'inherit'] });
  const gone = new Promise((resolve) => child.on('close', resolve));
  await new Promise((resolve, reject) => {
    child.stdout.once('data', resolve);
    child.once('error', reject);
    child.once('close', () => reject(new Error('python3 did not get the file')));
  });
  return async () => {
    child.stdin.end();
    await gone;
  };
}

claim('ledger away: the first waits to its deadline, the rest are 503 at once, apart from 429; then all goes on', async (rig) => {
  const mock = await rig.mock('--plain');
  const { gateway, keys } = await rig.keyed({
    upstreams: [{ name: 'main', url: `${mock.url}/v1` }],
    tenants: [{ name: 'a', scope: 'class' }],
    scopes: [{ name: 'class', granted: 1_000_000 }],
    limits: { max_wait: '3s' },
  });
  assert.equal((await postChat(gateway, { key: keys.a })).status, 200);
  await settled(gateway, 'class');
  const letGo = await stranger(`${gateway.state}/ledger.db`);
  try {
    const away = async () => {
      const answer = await postChat(gateway, { key: keys.a });
      assert.equal(answer.status, 503, answer.text);
      assert.equal(answer.json.error.code, 'ledger_unavailable');
      const hint = Number(answer.headers['retry-after-ms']);
      assert.ok(hint >= 1 && hint <= 5000, answer.headers['retry-after-ms']);
      return answer.took_ms;
    };
    await until('of two at once one is refused at once', async () => Math.min(...(await Promise.all([away(), away()]))) < 500, 20_000);
    const took = await Promise.all(Array.from({ length: 20 }, away));
    assert.ok(took.filter((ms) => ms < 500).length >= 19, `${took.map(Math.round)} ms`);
    assert.ok(Math.max(...took) <= 3500, `${took.map(Math.round)} ms`);
    assert.equal((await mock.stats()).requests, 1, 'nothing is sent that was not held');
  } finally {
    await letGo();
  }
  await until('it is back', async () => (await postChat(gateway, { key: keys.a })).status === 200, 20_000);
  const metrics = (await gateway.admin('/metrics')).text;
  const refused = [...metrics.matchAll(/^weir_refusals_total\{([^}]*)\} (\d+)$/gm)].filter(([, , n]) => n !== '0');
  assert.ok(refused.length > 0, metrics);
  for (const [line, labels] of refused) assert.match(labels, /ledger_unavailable/, line);
});

// ---- many at once ----

const input = 'The quick brown fox jumps over the lazy dog, again and again.';
const routes = {
  'chat/completions': { body: { messages: [{ role: 'user', content: input }], max_tokens: 40 } },
  'chat/completions, streams': {
    path: 'chat/completions',
    body: { messages: [{ role: 'user', content: input }], max_tokens: 40, stream: true, stream_options: { include_usage: true } },
  },
  completions: { body: { prompt: input, max_tokens: 40 } },
  responses: { body: { input, max_output_tokens: 40 } },
  embeddings: { body: { input } },
  messages: { body: { messages: [{ role: 'user', content: input }], max_tokens: 40 }, headers: (key) => ({ ...anthropicHeaders, 'x-api-key': key }) },
};

for (const [name, { path = name, body, headers = bearer }] of Object.entries(routes)) {
  for (const ledger of ['memory', 'file']) {
    claim(`32 clients against a grant of 50 estimates, ${name}, ledger in ${ledger}: not a token too many`, async (rig) => {
      const mock = await rig.mock('--plain');
      const config = {
        upstreams: [{ name: 'main', url: `${mock.url}/v1`, api: 'both', max_in_flight: 8 }],
        tenants: [{ name: 'probe' }, { name: 'a', scope: 'class' }],
        ...(ledger === 'memory' && { ledger: 'memory' }),
      };
      const ask = (gateway, key) =>
        call(`${gateway.url}/v1/${path}`, { headers: headers(key), body: JSON.stringify({ model: 'mock', ...body }) });
      // What one of them is estimated at, from a gateway of its own.
      const first = await rig.keyed({ ...config, scopes: [{ name: 'class', granted: 1_000_000 }] });
      assert.equal((await ask(first.gateway, first.keys.a)).status, 200);
      const estimate = (await first.gateway.accessLines(1))[0].estimate_tokens;

      const granted = 50 * estimate;
      const { gateway, keys } = await rig.keyed({ ...config, scopes: [{ name: 'class', granted }] });
      const before = (await mock.stats()).requests;
      let served = 0;
      let most = 0;
      let over = false;
      const client = async () => {
        for (let turn = 0; turn < 200; turn++) {
          const answer = await ask(gateway, keys.a);
          if (answer.status !== 200) {
            assert.equal(answer.status, 402, answer.text);
            return;
          }
          served++;
        }
        assert.fail('the budget was never spent');
      };
      const watch = (async () => {
        while (!over) {
          const { reserved_tok, committed_tok, lapsed_tok } = await scope(gateway, 'class');
          most = Math.max(most, reserved_tok + committed_tok + lapsed_tok);
        }
      })();
      await Promise.all(Array.from({ length: 32 }, client));
      over = true;
      await watch;
      const balance = await settled(gateway, 'class');
      assert.ok(most <= granted, `${most} of ${granted} at once`);
      assert.equal(balance.overrun_tok, 0);
      assert.ok(balance.committed_tok <= granted);
      assert.ok(balance.committed_tok > granted - 2 * estimate, `${balance.committed_tok} of ${granted} were used`);
      assert.ok(served >= 50, `${served} served`);
      assert.equal((await mock.stats()).requests - before, served, 'nothing was sent that was refused');
    });
  }
}
