// The breaker: what opens it, what is said meanwhile, exactly how many trials it lets out, and what
// becomes of them. And 429, which is no failure but a request to wait.
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { call, chatAnswer, chatBody, bearer, claim, postChat, postMessages, until } from './support.mjs';

function fail(response, status = 500) {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end('{"error":{"message":"ill","type":"server_error","param":null,"code":null}}');
}

const withBreaker = (upstream, breaker, extra = {}) => ({
  upstreams: [{ name: 'up', url: `${upstream.url}/v1`, breaker, ...extra }],
});

function assertOpen(answer, hint_ms) {
  assert.equal(answer.status, 503, answer.text);
  assert.equal(answer.headers['weir-source'], 'gateway');
  assert.equal(answer.json.error.code ?? answer.json.error.type, answer.json.type === 'error' ? 'overloaded_error' : 'upstream_open');
  const told_ms = Number(answer.headers['retry-after-ms']);
  assert.ok(told_ms > 0 && told_ms <= hint_ms, `told ${told_ms} ms, at most ${hint_ms}`);
  return told_ms;
}

for (const status of [500, 502, 503, 529])
  claim(`${status} of the upstream, five in a row, opens it; the sixth is not sent`, async (rig) => {
    const mock = await rig.mock('--fault', `status=${status}`);
    const gateway = await rig.gateway(mock);
    for (let i = 0; i < 5; i++) {
      const answer = await postChat(gateway);
      assert.equal(answer.status, status);
      assert.equal(answer.headers['weir-source'], undefined, "the upstream's own error passes");
    }
    const told_ms = assertOpen(await postChat(gateway), 15_000);
    assert.ok(told_ms > 13_000, 'the rest of the cool-down');
    assertOpen(await postMessages(gateway), 15_000);
    assert.equal((await mock.stats()).requests, 5);
    assert.equal((await gateway.upstream()).breaker, 'open');
  });

claim('timeouts to the first byte open it', async (rig) => {
  const upstream = await rig.hand(() => {});
  const gateway = await rig.configured(withBreaker(upstream, { failures: 3 }, { timeouts: { first_byte_whole: '200ms' } }));
  for (let i = 0; i < 3; i++) assert.equal((await postChat(gateway)).status, 504);
  assertOpen(await postChat(gateway), 15_000);
  assert.equal(upstream.received.length, 3);
});

claim('connections that are refused open it', async (rig) => {
  const gone = await rig.hand(() => {});
  await gone.stop();
  const gateway = await rig.configured(withBreaker(gone, { failures: 3 }));
  for (let i = 0; i < 3; i++) assert.equal((await postChat(gateway)).status, 502);
  assertOpen(await postChat(gateway), 15_000);
});

claim('answers that are cut open it', async (rig) => {
  const mock = await rig.mock('--fault', 'cut=3', '--plain');
  const gateway = await rig.configured(withBreaker(mock, { failures: 3 }));
  for (let i = 0; i < 3; i++) assert.equal((await postChat(gateway, { stream: true })).complete, false);
  assertOpen(await postChat(gateway), 15_000);
});

claim('4xx neither counts nor ends a row of failures; a success ends it', async (rig) => {
  const script = [500, 400, 500, 404, 200, 500, 422, 500, 401, 500];
  const upstream = await rig.hand((request, response, count) => {
    const status = script[count - 1];
    if (status === 200) chatAnswer(response);
    else fail(response, status);
  });
  const gateway = await rig.configured(withBreaker(upstream, { failures: 3 }));
  for (const status of script) assert.equal((await postChat(gateway)).status, status);
  assertOpen(await postChat(gateway), 15_000);
});

claim('half of twenty calls opens it too, without five in a row', async (rig) => {
  const upstream = await rig.hand((request, response, count) => (count % 2 ? chatAnswer(response) : fail(response)));
  const gateway = await rig.gateway(upstream);
  for (let i = 1; i <= 20; i++) assert.equal((await postChat(gateway)).status, i % 2 ? 200 : 500);
  assertOpen(await postChat(gateway), 15_000);
});

claim('when it opens, those in the queue are told at once, with the rest of the cool-down', async (rig) => {
  let release;
  const released = new Promise((resolve) => (release = resolve));
  const upstream = await rig.hand(async (request, response) => {
    await released;
    fail(response);
  });
  const gateway = await rig.configured(withBreaker(upstream, { failures: 1, cooldown: '10s' }, { max_in_flight: 1 }));
  const first = postChat(gateway);
  await upstream.arrived(1);
  const queued = Array.from({ length: 10 }, (_, i) => postChat(gateway, { key: `t${i % 3}` }));
  await gateway.waiting(10);
  const begun = performance.now();
  release();
  assert.equal((await first).status, 500);
  for (const answer of await Promise.all(queued)) assertOpen(answer, 10_000);
  assert.ok(performance.now() - begun < 3000);
  assert.equal(upstream.received.length, 1);
});

// Opens the breaker with one failure, waits for the end of its cool-down, sends fifty requests at once.
// Trials are held: `trials` has them. Other requests are answered with 200.
async function fiftyAtHalfOpen(rig, k) {
  const trials = [];
  let state = 'ill';
  const upstream = await rig.hand((request, response) => {
    if (state === 'ill') {
      state = 'trial';
      fail(response);
    } else if (state === 'trial') {
      trials.push(response);
    } else {
      chatAnswer(response);
    }
  });
  const gateway = await rig.configured(withBreaker(upstream, { failures: 1, cooldown: '400ms', cooldown_max: '10s', trials: k }));
  assert.equal((await postChat(gateway)).status, 500);
  await until('half-open', async () => (await gateway.upstream()).breaker !== 'open');
  const aborts = Array.from({ length: 50 }, () => new AbortController());
  const answers = aborts.map((abort, i) => postChat(gateway, { key: `t${i % 7}`, headers: { 'x-i': String(i) }, signal: abort.signal }));
  await upstream.arrived(1 + k);
  await gateway.waiting(50 - k);
  assert.equal(trials.length, k, 'trials out, and not one more');
  const trialIndex = (nth) => Number(upstream.received[nth].headers['x-i']);
  return { gateway, upstream, trials, aborts, answers, trialIndex, heal: () => (state = 'well') };
}

for (const k of [1, 3]) {
  claim(`${k} trial(s), fifty clients: exactly ${k} are sent; all succeed, it closes, and the rest is served`, async (rig) => {
    const { gateway, upstream, trials, answers, heal } = await fiftyAtHalfOpen(rig, k);
    heal();
    for (const response of trials) chatAnswer(response);
    const statuses = (await Promise.all(answers)).map((answer) => answer.status);
    assert.deepEqual([...new Set(statuses)], [200]);
    assert.equal(upstream.received.length, 51);
    assert.equal((await gateway.upstream()).breaker, 'closed');
  });

  claim(`${k} trial(s), fifty clients: one that fails opens it again for twice as long, and frees all`, async (rig) => {
    const { gateway, upstream, trials, answers } = await fiftyAtHalfOpen(rig, k);
    fail(trials[0], 503);
    await until('open again', async () => (await gateway.upstream()).breaker === 'open');
    for (const response of trials.slice(1)) chatAnswer(response);
    const all = await Promise.all(answers);
    const refused = all.filter((answer) => answer.headers['weir-source'] === 'gateway');
    assert.equal(refused.length, 50 - k);
    for (const answer of refused) assertOpen(answer, 800);
    assert.ok(refused.some((answer) => Number(answer.headers['retry-after-ms']) > 400), 'longer than the first cool-down');
    assert.equal(upstream.received.length, 1 + k);
  });

  claim(`${k} trial(s), fifty clients: a 4xx is no verdict; its place goes to the next`, async (rig) => {
    const { upstream, trials, gateway, answers, heal } = await fiftyAtHalfOpen(rig, k);
    fail(trials[0], 400);
    await upstream.arrived(2 + k);
    await gateway.waiting(49 - k);
    assert.equal(trials.length, k + 1);
    assert.equal((await gateway.upstream()).breaker, 'half-open');
    heal();
    for (const response of trials.slice(1)) chatAnswer(response);
    const statuses = (await Promise.all(answers)).map((answer) => answer.status).sort();
    assert.deepEqual(statuses, [...Array(49).fill(200), 400]);
  });

  claim(`${k} trial(s), fifty clients: a trial whose client leaves gives its place back`, async (rig) => {
    const { upstream, trials, gateway, answers, aborts, trialIndex, heal } = await fiftyAtHalfOpen(rig, k);
    const gone = trialIndex(1);
    const settled = Promise.allSettled(answers);
    aborts[gone].abort();
    await upstream.arrived(2 + k);
    await gateway.waiting(49 - k);
    assert.equal(trials.length, k + 1);
    heal();
    for (const response of trials) if (!response.destroyed) chatAnswer(response);
    const outcomes = await settled;
    assert.equal(outcomes[gone].status, 'rejected');
    assert.equal(outcomes.filter((one) => one.value?.status === 200).length, 49);
  });
}

claim('an SDK waits out the cool-down as told and its repeat is the trial', async (rig) => {
  const upstream = await rig.hand((request, response, count) => (count === 1 ? fail(response) : chatAnswer(response)));
  const gateway = await rig.configured(withBreaker(upstream, { failures: 1, cooldown: '1s' }));
  assert.equal((await postChat(gateway)).status, 500);
  const begun = performance.now();
  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'k' });
  const answer = await client.chat.completions.create({ model: 'mock', messages: [{ role: 'user', content: 'Hello' }] });
  assert.equal(answer.choices[0].message.content, 'so be it');
  const took_ms = performance.now() - begun;
  assert.ok(took_ms > 700 && took_ms < 2500, `${took_ms} ms`);
  assert.equal(upstream.received.length, 2);
  assert.equal(upstream.received[1].headers['x-stainless-retry-count'], '1');
});

// ---- 429 ----

function tooMany(response, headers) {
  response.writeHead(429, { 'content-type': 'application/json', ...headers });
  response.end('{"error":{"message":"slow  down","type":"tokens","param":null,"code":"rate_limit_exceeded"}}');
}

claim('429 passes unchanged, pauses the upstream by its hint, and requests that come meanwhile wait and succeed', async (rig) => {
  const upstream = await rig.hand((request, response, count) =>
    count === 1 ? tooMany(response, { 'retry-after-ms': '1500', 'x-ratelimit-remaining-tokens': '0' }) : chatAnswer(response));
  const gateway = await rig.gateway(upstream);
  const first = await postChat(gateway);
  assert.equal(first.status, 429);
  assert.equal(first.text, '{"error":{"message":"slow  down","type":"tokens","param":null,"code":"rate_limit_exceeded"}}');
  assert.equal(first.headers['retry-after-ms'], '1500');
  assert.equal(first.headers['x-ratelimit-remaining-tokens'], '0');
  assert.equal(first.headers['weir-source'], undefined);
  const later = await Promise.all(Array.from({ length: 8 }, (_, i) => postChat(gateway, { key: `t${i}` })));
  assert.deepEqual(later.map((answer) => answer.status), Array(8).fill(200));
  const pause_ms = upstream.received[1].at_ms - upstream.received[0].at_ms;
  assert.ok(pause_ms >= 1450 && pause_ms < 3000, `the upstream had ${pause_ms} ms of peace`);
  assert.equal((await gateway.upstream()).breaker, 'closed');
});

claim('a retry-after in seconds pauses too, and the admin API shows the rest of it', async (rig) => {
  const upstream = await rig.hand((request, response, count) =>
    count === 1 ? tooMany(response, { 'retry-after': '2' }) : chatAnswer(response));
  const gateway = await rig.gateway(upstream);
  assert.equal((await postChat(gateway)).status, 429);
  const { paused_for_s } = await gateway.upstream();
  assert.ok(paused_for_s > 1 && paused_for_s <= 2, `${paused_for_s} s`);
  assert.equal((await postChat(gateway)).status, 200);
  assert.ok(upstream.received[1].at_ms - upstream.received[0].at_ms >= 1950);
});

claim('any number of 429 leaves it closed', async (rig) => {
  const responses = [];
  const upstream = await rig.hand((request, response) => {
    responses.push(response);
    if (responses.length <= 20) {
      if (responses.length === 20) for (const one of responses) tooMany(one, {});
    } else {
      chatAnswer(response);
    }
  });
  const gateway = await rig.gateway(upstream);
  const answers = await Promise.all(Array.from({ length: 20 }, () => postChat(gateway)));
  assert.deepEqual([...new Set(answers.map((answer) => answer.status))], [429]);
  assert.equal((await gateway.upstream()).breaker, 'closed');
  assert.equal((await postChat(gateway)).status, 200);
});

claim('a pause that outlasts the deadline is 503 at once, with the rest of the pause', async (rig) => {
  const upstream = await rig.hand((request, response) => tooMany(response, { 'retry-after': '30' }));
  const gateway = await rig.gateway(upstream, '--max-wait', '2s');
  assert.equal((await postChat(gateway)).status, 429);
  const answer = await postChat(gateway);
  const told_ms = assertOpen(answer, 30_000);
  assert.ok(told_ms > 28_000, `${told_ms} ms`);
  assert.ok(answer.took_ms < 1000);
  assert.equal(upstream.received.length, 1);
});

claim('a request with a body of the Anthropic API is told in that dialect', async (rig) => {
  const mock = await rig.mock('--fault', 'status=529');
  const gateway = await rig.configured(withBreaker(mock, { failures: 1 }));
  const ill = await postMessages(gateway);
  assert.equal(ill.status, 529);
  assert.equal(ill.json.error.type, 'overloaded_error');
  const open = await postMessages(gateway);
  assert.equal(open.json.type, 'error');
  assertOpen(open, 15_000);
});

claim("errors of the upstream pass byte for byte, whatever their body", async (rig) => {
  const bodies = {
    400: ['application/json', '{ "error" : {"message":"caf\\u00e9","type":"x","param":null,"code":null} }\n'],
    418: ['text/plain', 'short and stout'],
    500: ['text/html', '<html>Internal <b>error</b></html>'],
  };
  const upstream = await rig.hand((request, response) => {
    const status = Number(request.headers['x-status']);
    response.writeHead(status, { 'content-type': bodies[status][0], 'x-own': 'yes' });
    response.end(bodies[status][1]);
  });
  const gateway = await rig.gateway(upstream);
  for (const [status, [type, body]] of Object.entries(bodies)) {
    const answer = await call(`${gateway.url}/v1/chat/completions`, { headers: { ...bearer('k'), 'x-status': status }, body: chatBody() });
    assert.equal(answer.status, Number(status));
    assert.equal(answer.headers['content-type'], type);
    assert.equal(answer.headers['x-own'], 'yes');
    assert.equal(answer.text, body);
  }
});
