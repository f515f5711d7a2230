// The adaptive limit against a mock of known capacity: replicas that work on so many requests at
// once and let the rest wait, before their first byte.
import assert from 'node:assert/strict';
import http from 'node:http';
import { bearer, call, chatBody, claim, until } from './support.mjs';

// A batch of 16 that steps in 2 ms and 0.2 ms a sequence: at its knee about 100 answers a second.
const SEQUENCES = 16;
const replica = ['--replicas', '1', '--sequences', String(SEQUENCES), '--step', '2ms', '--step-sequence', '200us', '--output', '60'];

const adaptive = (mock, limits, extra = {}) => ({
  upstreams: [{ name: 'up', url: `${mock.url}/v1`, ...limits }],
  ...extra,
});

// So many clients that each send, wait for the whole answer and send again, until stopped.
function keepAsking(gateway, clients, { stream = true } = {}) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: clients });
  const asked = { answers: 0, statuses: new Map(), stopped: false };
  const one = async (seed) => {
    for (let i = seed; !asked.stopped; i++) {
      const answer = await call(`${gateway.url}/v1/chat/completions`, {
        headers: bearer('k'),
        body: chatBody({ stream, max_tokens: 10 + ((i * 37) % 29), messages: [{ role: 'user', content: 'word '.repeat((i * 53) % 140) }] }),
        agent,
      });
      asked.answers++;
      asked.statuses.set(answer.status, (asked.statuses.get(answer.status) ?? 0) + 1);
    }
  };
  const all = Array.from({ length: clients }, (_, i) => one(i * 7));
  asked.stop = async () => {
    asked.stopped = true;
    await Promise.all(all);
    agent.destroy();
  };
  return asked;
}

const permits = async (gateway) => (await gateway.upstream('up')).permits;

// The limit each time it was looked at, while so many further answers come.
async function watchLimit(gateway, asked, answers) {
  const seen = [];
  const end = asked.answers + answers;
  await until(`${answers} answers`, async () => {
    seen.push(await permits(gateway));
    return asked.answers >= end;
  }, 40_000);
  return seen;
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

claim('from far below it finds what the upstream carries, and stays there', async (rig) => {
  const mock = await rig.mock(...replica);
  const gateway = await rig.configured(adaptive(mock, { max_in_flight: 200, adaptive: { min: 2 } }));
  assert.equal(await permits(gateway), 2);
  const asked = keepAsking(gateway, 60);
  await until('the limit is at the knee', async () => (await permits(gateway)) >= SEQUENCES, 40_000);
  await watchLimit(gateway, asked, 300); // it has found its first queue and come back
  const seen = await watchLimit(gateway, asked, 500);
  await asked.stop();
  assert.deepEqual([...asked.statuses.keys()], [200]);
  const off = mean(seen) / SEQUENCES - 1;
  assert.ok(Math.abs(off) < 0.25, `the mean limit is ${mean(seen)}, the knee ${SEQUENCES}`);
  assert.ok(Math.max(...seen) < 2 * SEQUENCES, `as high as ${Math.max(...seen)}`);
  assert.match(gateway.err, /upstream up: at most \d+ requests in flight now \(before: 2\)/);
  const { text } = await gateway.admin('/metrics');
  assert.match(text, /weir_upstream_permits\{upstream="up"\} \d+/);
});

claim('it never passes max_in_flight', async (rig) => {
  const mock = await rig.mock(...replica);
  const gateway = await rig.configured(adaptive(mock, { max_in_flight: 6, adaptive: { min: 2, start: 4 } }));
  const asked = keepAsking(gateway, 30);
  await until('the limit is the ceiling', async () => (await permits(gateway)) === 6, 40_000);
  const seen = await watchLimit(gateway, asked, 100);
  await asked.stop();
  assert.deepEqual([...new Set(seen)], [6]);
});

claim('without streams it stays where it began', async (rig) => {
  const mock = await rig.mock(...replica);
  const gateway = await rig.configured(adaptive(mock, { max_in_flight: 200, adaptive: { min: 2, start: 5 } }));
  const asked = keepAsking(gateway, 30, { stream: false });
  const seen = await watchLimit(gateway, asked, 60);
  await asked.stop();
  assert.deepEqual([...new Set(seen)], [5]);
});

claim('429 lowers it, an eighth at a time, and not below min', async (rig) => {
  const mock = await rig.mock(...replica, '--fault', 'status=429;retry-after=1', '--fault-every', '2');
  const gateway = await rig.configured(adaptive(mock, { max_in_flight: 200, adaptive: { min: 30, start: 40 } }));
  const asked = keepAsking(gateway, 60);
  await until('the limit is 35', async () => (await permits(gateway)) === 35, 20_000);
  await until('the limit is 31', async () => (await permits(gateway)) === 31, 20_000);
  await until('the limit is 30', async () => (await permits(gateway)) === 30, 20_000);
  await asked.stop();
  assert.ok(asked.statuses.get(429) > 0);
});
