// What an operator sees: the access log, /metrics as Prometheus reads it, the admin API.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { RawConnection, rawRequest } from './raw.mjs';
import { bearer, call, chatAnswer, chatBody, claim, postChat, postMessages, until } from './support.mjs';

// ---- the text format, strictly ----

const NAME = '[a-zA-Z_:][a-zA-Z0-9_:]*';
const sampleLine = new RegExp(`^(${NAME})(?:\\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\["\\\\n])*",?)*)\\})? (\\S+)$`);
const labelPair = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"/g;
const endings = { histogram: ['_bucket', '_sum', '_count'], counter: [''], gauge: [''] };

// Reads text format 0.0.4: { families: { NAME: { type, help, samples: [{ name, labels, value }] } } }.
// Throws on anything that the format, or Prometheus' own conventions, forbid.
function parseMetrics(text) {
  assert.ok(text.endsWith('\n') && !text.includes('\r'), 'lines end in LF, the last one too');
  const families = {};
  const seen = new Set();
  let current;
  for (const line of text.slice(0, -1).split('\n')) {
    const comment = new RegExp(`^# (HELP|TYPE) (${NAME}) (.+)$`).exec(line);
    if (comment) {
      const [, kind, name, rest] = comment;
      if (kind === 'HELP') {
        assert.equal(families[name], undefined, `one block a family: ${line}`);
        current = families[name] = { help: rest, samples: [] };
      } else {
        assert.equal(families[name], current, `TYPE follows its HELP: ${line}`);
        assert.equal(current.type, undefined, line);
        assert.ok(rest in endings, line);
        current.type = rest;
        current.name = name;
      }
      continue;
    }
    const sample = sampleLine.exec(line);
    assert.ok(sample, `neither comment nor sample: ${line}`);
    const [, name, pairs = '', number] = sample;
    assert.ok(current?.type && endings[current.type].some((ending) => name === current.name + ending), `a sample in its family: ${line}`);
    assert.ok(!pairs.endsWith(','), line);
    const labels = {};
    for (const [, key, value] of pairs.matchAll(labelPair)) {
      assert.ok(!(key in labels) && !key.startsWith('__'), line);
      labels[key] = value;
    }
    const series = name + JSON.stringify(Object.entries(labels).sort());
    assert.ok(!seen.has(series), `a series is named once: ${line}`);
    seen.add(series);
    assert.match(number, /^([+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]Inf|NaN)$/, line);
    current.samples.push({ name, labels, value: Number(number.replace('Inf', 'Infinity')) });
  }
  for (const [name, family] of Object.entries(families)) assertFamily(name, family);
  return families;
}

function assertFamily(name, { type, samples }) {
  assert.ok(type, `${name} has a type`);
  assert.equal(name.endsWith('_total'), type === 'counter', `${name}: counters, and only they, end in _total`);
  assert.ok(!/_(ms|milliseconds|kb|percent)(_|$)/.test(name), `${name}: base units`);
  if (type === 'counter') for (const { value } of samples) assert.ok(value >= 0, name);
  if (type !== 'histogram') return;
  const buckets = samples.filter((sample) => sample.name === `${name}_bucket`);
  const bounds = buckets.map((bucket) => Number(bucket.labels.le.replace('Inf', 'Infinity')));
  assert.deepEqual(bounds, [...bounds].sort((a, b) => a - b), `${name}: buckets rise`);
  assert.equal(bounds.at(-1), Infinity);
  for (let i = 1; i < buckets.length; i++) assert.ok(buckets[i].value >= buckets[i - 1].value, `${name}: cumulative`);
  const count = samples.find((sample) => sample.name === `${name}_count`);
  assert.equal(buckets.at(-1).value, count.value, `${name}: the last bucket is the count`);
  assert.ok(samples.some((sample) => sample.name === `${name}_sum`), name);
}

async function metrics(gateway) {
  const answer = await gateway.admin('/metrics');
  assert.equal(answer.status, 200);
  assert.match(answer.headers['content-type'], /^text\/plain; version=0\.0\.4/);
  return parseMetrics(answer.text);
}

const value = (families, name, labels = {}) =>
  families[name].samples.find((sample) => JSON.stringify(sample.labels) === JSON.stringify(labels))?.value;

claim('/metrics is Prometheus text, idle and after traffic of every kind', async (rig) => {
  const mock = await rig.mock('--step', '1ms');
  const { gateway, keys } = await rig.keyed({
    upstreams: [{ name: 'up', url: `${mock.url}/v1` }],
    tenants: [{ name: 'alpha' }, { name: 'paused', paused: true }],
  });
  await metrics(gateway);
  await postChat(gateway, { key: keys.alpha, max_tokens: 6 });
  await postChat(gateway, { key: keys.alpha, max_tokens: 6, stream: true });
  await postMessages(gateway, { headers: { 'x-api-key': keys.alpha } });
  await postChat(gateway, { key: keys.alpha, headers: { 'mock-fault': 'status=500' } });
  await postChat(gateway, { key: keys.alpha, headers: { 'mock-fault': 'cut=5' }, stream: true });
  await postChat(gateway, { key: keys.paused });
  await postChat(gateway, { key: 'wrong' });
  await gateway.accessLines(7);
  const seen = await metrics(gateway);
  assert.equal(value(seen, 'weir_refusals_total', { reason: 'tenant_paused' }), 1);
  assert.equal(value(seen, 'weir_refusals_total', { reason: 'key_unknown' }), 1);
  assert.equal(value(seen, 'weir_answers_cut_total'), 1);
  assert.equal(value(seen, 'weir_upstream_calls_total', { upstream: 'up' }), 5);
  assert.equal(value(seen, 'weir_tokens_total', { type: 'output' }), 6 + 6 + 8);
  assert.equal(value(seen, 'weir_tenant_output_tokens_total', { tenant: 'alpha' }) >= 20, true);
  assert.equal(value(seen, 'weir_waiting_requests'), 0);
  assert.equal(value(seen, 'weir_in_flight_requests'), 0);
  assert.equal(seen.weir_queue_wait_seconds.samples.find((one) => one.name.endsWith('_count')).value, 5);
});

claim('what is counted of a tenant is whole tokens, however many, and seconds', async (rig) => {
  const tokens = 1_234_567_890_123;
  const held = [];
  const hand = await rig.hand((request, response) => held.push(() => {
    const usage = { prompt_tokens: tokens, completion_tokens: 0, total_tokens: tokens };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ choices: [], usage }));
  }));
  const { gateway, keys } = await rig.keyed({
    upstreams: [{ name: 'up', url: `${hand.url}/v1`, max_in_flight: 1 }], tenants: [{ name: 'alpha' }],
  });
  const answers = [postChat(gateway, { key: keys.alpha }), postChat(gateway, { key: keys.alpha })];
  await gateway.waiting(1);
  const during = await metrics(gateway);
  for (let i = 0; i < answers.length; i++) {
    await until('a request is sent', () => held[i]);
    held[i]();
  }
  await Promise.all(answers);
  await gateway.accessLines(2);
  const waited = value(during, 'weir_tenant_longest_wait_seconds', { tenant: 'alpha' });
  assert.ok(waited > 0 && waited < 60, `${waited} s`);
  assert.equal(value(await metrics(gateway), 'weir_tenant_input_tokens_total', { tenant: 'alpha' }), 2 * tokens);
});

claim('labels are bounded: no client makes a series by its model, path, header or key', async (rig) => {
  const mock = await rig.mock('--plain');
  const gateway = await rig.configured({ upstreams: [{ name: 'up', url: `${mock.url}/v1` }], limits: { tenants: 8 } });
  const series = async () => Object.values(await metrics(gateway)).reduce((sum, family) => sum + family.samples.length, 0);
  const junk = (i) => call(`${gateway.url}/v1/chat/completions`, {
    headers: { ...bearer(`sk-${i}`), 'x-junk': `j${i}`, 'user-agent': `agent ${i}` }, body: chatBody({ model: `model-${i}` }),
  });
  for (let i = 0; i < 20; i++) assert.equal((await junk(i)).status, 200);
  for (let i = 0; i < 20; i++) await call(`${gateway.url}/v1/path-${i}`, { headers: bearer('sk-1') });
  const before = await series();
  for (let i = 20; i < 120; i++) assert.equal((await junk(i)).status, 200);
  for (let i = 20; i < 60; i++) await call(`${gateway.url}/v1/path-${i}`, { headers: bearer('sk-1') });
  assert.equal(await series(), before);
  const tenants = (await metrics(gateway)).weir_tenant_admitted_total.samples.map((sample) => sample.labels.tenant);
  assert.ok(tenants.includes('overflow') && tenants.length <= 10, `${tenants}`);
  const text = (await gateway.admin('/metrics')).text;
  for (const word of ['model-', 'path-', 'sk-', 'agent', 'junk']) assert.ok(!text.includes(word), word);
});

claim('a token limit that counts nothing is warned of, once, until it counts again', async (rig) => {
  let input = 0;
  const hand = await rig.hand((request, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ choices: [], usage: { prompt_tokens: input, completion_tokens: 0, total_tokens: input } }));
  });
  const { gateway, keys } = await rig.keyed({
    upstreams: [{ name: 'up', url: `${hand.url}/v1` }],
    tenants: [{ name: 'alpha', limits: { tokens: '1M/m' } }, { name: 'free' }],
  });
  const warnings = () => gateway.err.split('\n').filter((line) => /token limit limits nothing/.test(line));
  const idle = async () => value(await metrics(gateway), 'weir_limiters_idle');
  for (let i = 0; i < 99; i++) await postChat(gateway, { key: keys.alpha });
  for (let i = 0; i < 101; i++) await postChat(gateway, { key: keys.free });
  assert.equal(await idle(), 0);
  for (let i = 0; i < 2; i++) await postChat(gateway, { key: keys.alpha });
  await gateway.watch('the warning', () => warnings().length === 1);
  assert.match(warnings()[0], /tenant alpha: its last 100 answers/);
  assert.equal(await idle(), 1);
  input = 7;
  await postChat(gateway, { key: keys.alpha });
  await until('it counts again', async () => (await idle()) === 0);
  assert.equal(warnings().length, 1);
});

// ---- the access log ----

const SECRET = 'the-words-of-a-prompt-that-nobody-may-log';
const fields = [
  'time', 'id', 'tenant', 'route', 'model', 'outcome', 'reason', 'status', 'upstream', 'attempts', 'queue_ms', 'first_byte_ms',
  'total_ms', 'estimate_tokens', 'input_tokens', 'cached_tokens', 'output_tokens', 'charged_tokens', 'estimated', 'body_bytes', 'answer_bytes',
];

claim('the access log has one line a request with ids, waits, tokens and bytes', async (rig) => {
  const mock = await rig.mock('--step', '1ms');
  const { gateway, keys } = await rig.keyed({
    upstreams: [{ name: 'up', url: `${mock.url}/v1`, models: ['mock'] }], tenants: [{ name: 'alpha' }],
  });
  const answer = await postChat(gateway, { key: keys.alpha, max_tokens: 6 });
  const refused = await postChat(gateway, { key: 'wrong' });
  const ill = await postChat(gateway, { key: keys.alpha, headers: { 'mock-fault': 'status=400' } });
  const [good, no, passed] = await gateway.accessLines(3);
  for (const line of [good, no, passed]) {
    assert.deepEqual(Object.keys(line), fields);
    assert.match(line.time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert.match(line.id, /^wr_[0-9a-f]{16}$/);
  }
  const { time, id, queue_ms, first_byte_ms, total_ms, estimate_tokens, ...rest } = good;
  assert.deepEqual(rest, {
    tenant: 'alpha', route: 'openai-chat', model: 'mock', outcome: 'answered', reason: '', status: 200, upstream: 'up', attempts: 1,
    input_tokens: answer.json.usage.prompt_tokens, cached_tokens: 0, output_tokens: 6, charged_tokens: answer.json.usage.total_tokens,
    estimated: false, body_bytes: chatBody({ max_tokens: 6 }).length, answer_bytes: answer.bytes.length,
  });
  assert.ok(queue_ms >= 0 && first_byte_ms >= 0 && total_ms >= first_byte_ms);
  assert.ok(estimate_tokens >= good.charged_tokens, 'the estimate is the upper side');
  assert.deepEqual([no.outcome, no.reason, no.status, no.charged_tokens], ['refused', 'key_unknown', 401, 0]);
  assert.equal(no.id, refused.headers['x-request-id'], 'the id that the client was told');
  assert.deepEqual([passed.outcome, passed.status, passed.charged_tokens], ['answered', 400, 0]);
  assert.equal(ill.status, 400);
});

claim('no prompt, completion or credential is in any log, metric or admin page, whatever goes wrong', async (rig) => {
  const upstream = await rig.hand((request, response, count) => {
    if (count === 1) return chatAnswer(response);
    if (count === 2) return response.socket.resetAndDestroy();
    response.writeHead(500, { 'content-type': 'application/json' });
    return response.end(JSON.stringify({ error: { message: `${SECRET}-completion`, type: 'x', param: null, code: SECRET } }));
  });
  const { gateway, keys } = await rig.keyed(
    { upstreams: [{ name: 'up', url: `${upstream.url}/v1`, key_env: 'E2E_KEY', models: ['mock'] }], tenants: [{ name: 'alpha' }] },
    { E2E_KEY: 'sk-operator-secret' });
  const send = (body, key = keys.alpha, target = '/v1/chat/completions') => call(`${gateway.url}${target}`, { headers: { ...bearer(key), 'x-note': SECRET }, body });
  const prompt = chatBody({ messages: [{ role: 'user', content: SECRET }] });
  for (let i = 0; i < 3; i++) await send(prompt);
  await send(prompt.slice(0, -5)); // malformed
  await send(chatBody({ model: SECRET }));
  await send(prompt, `${SECRET}-as-a-key`);
  await send(prompt, keys.alpha, `/v1/chat/completions?q=${SECRET}`);
  await send(prompt, keys.alpha, `/v1/${SECRET}`);
  const raw = await RawConnection.open(gateway.port);
  raw.write(rawRequest('POST', '/v1/chat/completions', [[`bad header ${SECRET}`, SECRET]], prompt));
  await raw.response();
  raw.close();
  await gateway.accessLines(9);
  const pages = await Promise.all(['/metrics', '/v1/status', '/v1/tenants', '/v1/upstreams', '/v1/holds'].map((page) => gateway.admin(page)));
  for (const text of [gateway.err, gateway.out, ...pages.map((page) => page.text)])
    for (const secret of [SECRET, keys.alpha, 'sk-operator-secret', gateway.token]) assert.ok(!text.includes(secret));
});

claim('the access log goes to a file, or nowhere, as configured', async (rig) => {
  const mock = await rig.mock('--plain');
  const file = path.join(rig.folder(), 'access.log');
  const filed = await rig.gateway(mock, '--access-log', file);
  const silent = await rig.gateway(mock, '--access-log', 'off');
  for (const gateway of [filed, silent]) assert.equal((await postChat(gateway)).status, 200);
  assert.deepEqual(await filed.stop(), { code: 0, signal: null });
  assert.deepEqual(await silent.stop(), { code: 0, signal: null });
  assert.equal(JSON.parse(readFileSync(file, 'utf8')).status, 200);
  assert.equal(filed.accessLog().length + silent.accessLog().length, 0);
});

// ---- the admin API ----

claim('the admin API shows who waits, what is in flight and what is held, and forgets it when done', async (rig) => {
  let release;
  const released = new Promise((resolve) => (release = resolve));
  const upstream = await rig.hand(async (request, response) => {
    await released;
    chatAnswer(response);
  });
  const { gateway, keys } = await rig.keyed({
    upstreams: [{ name: 'up', url: `${upstream.url}/v1`, max_in_flight: 1, rate: '100/s' }],
    tenants: [{ name: 'alpha', weight: 3, lane: 'interactive' }],
  });
  const answers = [postChat(gateway, { key: keys.alpha })];
  await upstream.arrived(1);
  answers.push(postChat(gateway, { key: keys.alpha }));
  await gateway.waiting(1);
  const status = await gateway.status();
  assert.deepEqual([status.requests, status.waiting, status.in_flight, status.holds], [2, 1, 1, 2]);
  assert.ok(status.waiting_bytes > 100);
  const alpha = await gateway.tenant('alpha');
  assert.deepEqual([alpha.weight, alpha.lane, alpha.waiting, alpha.in_flight, alpha.admitted], [3, 'interactive', 1, 1, 2]);
  const up = await gateway.upstream('up');
  assert.deepEqual([up.permits, up.in_flight, up.breaker, up.pool_waiting], [1, 1, 'closed', 1]);
  const { holds, more } = await gateway.adminJson('/v1/holds');
  assert.equal(holds.length, 2);
  assert.equal(more, false);
  for (const hold of holds) {
    assert.equal(typeof hold.hold, 'string', 'ids of 64 bits are strings');
    assert.equal(hold.tenant, 'alpha');
    assert.ok(hold.estimate_tokens > 4096);
  }
  release();
  assert.deepEqual((await Promise.all(answers)).map((answer) => answer.status), [200, 200]);
  await gateway.accessLines(2);
  assert.equal((await gateway.adminJson('/v1/holds')).holds.length, 0);
  assert.equal((await gateway.tenant('alpha')).finished, 2);
});
