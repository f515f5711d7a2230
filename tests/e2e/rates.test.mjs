// Bounds on the upstream: rate and burst, requests in flight; and what waits, waits in order.
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { chatAnswer, claim, postChat, until } from './support.mjs';

const INTERVAL_MS = 500; // of --rate 2/s
const EARLY_MS = 300; // the first arrival, which the others are measured from, may have been noticed late
const LATE_MS = 900;

// Arrival times at the upstream after the first one.
function offsets(upstream) {
  return upstream.received.map((one) => one.at_ms - upstream.received[0].at_ms);
}

function assertRate(times, burst) {
  for (const [i, at] of times.entries()) {
    const due = i < burst ? 0 : (i - burst + 1) * INTERVAL_MS;
    assert.ok(at >= due - EARLY_MS, `request ${i} at ${at} ms, not before ${due}: ${times.map(Math.round)}`);
    assert.ok(at <= due + LATE_MS, `request ${i} at ${at} ms, due at ${due}: ${times.map(Math.round)}`);
  }
}

claim('14 jobs at once at 2/s with burst 5: the upstream sees 5 at once, the rest in order at the rate; all succeed', async (rig) => {
  const upstream = await rig.hand((request, response) => chatAnswer(response));
  const gateway = await rig.gateway(upstream, '--rate', '2/s', '--burst', '5');
  const answers = [];
  for (let i = 0; i < 14; i++) {
    answers.push(postChat(gateway, { headers: { 'x-job': String(i) } }));
    // One after the other into the gateway, so that the order is known; no answer is waited for.
    await until(`job ${i} is in`, async () => {
      const status = await gateway.status();
      return status.requests + status.finished === i + 1;
    });
  }
  const statuses = (await Promise.all(answers)).map((answer) => answer.status);
  assert.deepEqual(statuses, Array(14).fill(200));
  assert.deepEqual(upstream.received.map((one) => Number(one.headers['x-job'])), Array.from({ length: 14 }, (_, i) => i));
  assertRate(offsets(upstream), 5);
});

claim('14 jobs of an SDK at once at 2/s with burst 5: all succeed at the first attempt', async (rig) => {
  const upstream = await rig.hand((request, response) => chatAnswer(response));
  const gateway = await rig.gateway(upstream, '--rate', '2/s', '--burst', '5');
  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'ci' });
  const jobs = Array.from({ length: 14 }, (_, i) =>
    client.chat.completions.create({ model: 'mock', messages: [{ role: 'user', content: `job ${i}` }] }));
  const texts = (await Promise.all(jobs)).map((answer) => answer.choices[0].message.content);
  assert.deepEqual(texts, Array(14).fill('so be it'));
  assert.deepEqual(upstream.received.map((one) => one.headers['x-stainless-retry-count']), Array(14).fill('0'));
  assertRate(offsets(upstream), 5);
  const lines = await gateway.accessLines(14);
  assert.equal(lines.filter((line) => line.queue_ms >= 400).length, 9, 'nine have waited, and the log says so');
});

claim('never more in flight than --max-in-flight, and all of them used', async (rig) => {
  const mock = await rig.mock('--latency', '30ms', '--step', '1ms', '--output', '2');
  const gateway = await rig.gateway(mock, '--max-in-flight', '3');
  const answers = await Promise.all(Array.from({ length: 30 }, (_, i) => postChat(gateway, { key: `tenant-${i % 7}` })));
  assert.deepEqual([...new Set(answers.map((answer) => answer.status))], [200]);
  const stats = await mock.stats();
  assert.equal(stats.requests, 30);
  assert.equal(stats.in_flight_peak, 3);
});

claim('one permit is strictly one after the other, and is free again before the answer is told', async (rig) => {
  const mock = await rig.mock('--plain');
  const gateway = await rig.gateway(mock, '--max-in-flight', '1');
  for (let i = 0; i < 40; i++) {
    assert.equal((await postChat(gateway)).status, 200);
    assert.equal((await gateway.status()).in_flight, 0);
  }
  assert.equal((await mock.stats()).in_flight_peak, 1);
});

claim("a tenant's own rate makes it wait, and nobody else", async (rig) => {
  const upstream = await rig.hand((request, response) => chatAnswer(response));
  const { gateway, keys } = await rig.keyed({
    upstreams: [{ name: 'up', url: `${upstream.url}/v1`, max_in_flight: 2 }],
    tenants: [{ name: 'slow', limits: { requests: '2/s', burst: 1 } }, { name: 'free' }],
  });
  const bound = Array.from({ length: 5 }, () => postChat(gateway, { key: keys.slow }));
  await gateway.waiting(4);
  const begun = performance.now();
  for (let i = 0; i < 10; i++) assert.equal((await postChat(gateway, { key: keys.free })).status, 200);
  assert.ok(performance.now() - begun < 1500, 'the free tenant does not wait behind the slow one');
  assert.deepEqual((await Promise.all(bound)).map((answer) => answer.status), Array(5).fill(200));
});
