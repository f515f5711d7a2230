// Who is served next: a queue is filled while the one permit is taken, then served one by one.
import assert from 'node:assert/strict';
import { chatAnswer, claim, postChat, until } from './support.mjs';

const FAIR = ['vtc', 'drr', 'drr-cost'];

function tally(order) {
  const counts = {};
  for (const who of order) counts[who] = (counts[who] ?? 0) + 1;
  return counts;
}

// Fills the queue with `groups` ([{ who, count, output, headers }], in order) and serves it through
// one permit. Returns who was served, in order. tenants: of the configuration; none: pass-through.
async function serveQueue(rig, groups, { tenants, lanes, scheduler }) {
  let release;
  const released = new Promise((resolve) => (release = resolve));
  const order = [];
  const upstream = await rig.hand(async (request, response) => {
    const who = request.headers['x-who'];
    if (who === 'blocker') await released;
    else order.push(who);
    const output = JSON.parse(request.body).max_tokens;
    chatAnswer(response, { input: 10, output });
  });
  const config = { upstreams: [{ name: 'up', url: `${upstream.url}/v1`, max_in_flight: 1 }] };
  if (scheduler) config.scheduler = scheduler;
  if (lanes) config.lanes = lanes;
  if (tenants) config.tenants = [{ name: 'blocker' }, ...tenants];
  const { gateway, keys } = tenants ? await rig.keyed(config) : { gateway: await rig.configured(config), keys: {} };
  const send = ({ who, output = 2, headers }) =>
    postChat(gateway, { key: keys[who] ?? who, headers: { 'x-who': who, ...headers }, max_tokens: output });

  const answers = [send({ who: 'blocker' })];
  await upstream.arrived(1);
  let queued = 0;
  for (const group of groups) {
    for (let i = 0; i < group.count; i++) answers.push(send(group));
    queued += group.count;
    await gateway.waiting(queued);
  }
  release();
  const statuses = (await Promise.all(answers)).map((answer) => answer.status);
  assert.deepEqual([...new Set(statuses)], [200]);
  assert.equal(order.length, queued);
  return order;
}

for (const scheduler of FAIR)
  claim(`${scheduler}: behind forty of tenant A, the one request of tenant B is served next or next but one`, async (rig) => {
    const order = await serveQueue(rig, [{ who: 'A', count: 40 }, { who: 'B', count: 1 }], { scheduler });
    assert.ok(order.indexOf('B') <= 1, `place ${order.indexOf('B')}`);
  });

claim('fifo, the contrast: behind forty of tenant A, the one request of tenant B is served last', async (rig) => {
  const order = await serveQueue(rig, [{ who: 'A', count: 40 }, { who: 'B', count: 1 }], { scheduler: 'fifo' });
  assert.equal(order.indexOf('B'), 40);
});

for (const scheduler of FAIR)
  claim(`${scheduler}: weights 4:1:1 hold on every prefix while all three wait`, async (rig) => {
    const tenants = [{ name: 'A', weight: 4 }, { name: 'B', weight: 1 }, { name: 'C', weight: 1 }];
    const groups = [{ who: 'C', count: 20 }, { who: 'B', count: 20 }, { who: 'A', count: 80 }];
    const order = await serveQueue(rig, groups, { scheduler, tenants });
    for (let n = 1; n <= 96; n++) {
      const counts = { A: 0, B: 0, C: 0, ...tally(order.slice(0, n)) };
      const told = `${n} served: ${JSON.stringify(counts)}`;
      assert.ok(Math.abs(counts.A - (4 * n) / 6) <= 4, told); // a turn of the heaviest tenant
      assert.ok(Math.abs(counts.B - n / 6) <= 1.5, told);
      assert.ok(Math.abs(counts.C - n / 6) <= 1.5, told);
    }
  });

for (const scheduler of ['vtc', 'drr-cost'])
  claim(`${scheduler}: with costs ten to one, the work served is equal on every prefix, not the count`, async (rig) => {
    const output = { A: 200, B: 20 };
    const groups = [{ who: 'A', count: 12, output: output.A }, { who: 'B', count: 100, output: output.B }];
    const order = await serveQueue(rig, groups, { scheduler });
    const cost = (who) => 10 + 2 * output[who];
    const work = { A: 0, B: 0 };
    const left = { A: 12, B: 100 };
    let worst = 0;
    for (const who of order) {
      work[who] += cost(who);
      left[who]--;
      if (left.A === 0 || left.B === 0) break; // no longer both backlogged
      worst = Math.max(worst, Math.abs(work.A - work.B));
    }
    assert.ok(worst <= 2 * cost('A'), `apart by ${worst}, bound ${2 * cost('A')}: ${order.join('')}`);
    assert.ok(work.A >= 4 * cost('A'), `both were served for a while: ${order.join('')}`);
  });

claim('vtc: a tenant that was idle has earned no credit', async (rig) => {
  // B comes after A was served twenty times: they alternate from there, B does not catch up.
  const upstream = await rig.hand(async (request, response) => {
    order.push(request.headers['x-who']);
    await gate;
    chatAnswer(response, { input: 10, output: 2 });
  });
  const order = [];
  let open;
  let gate = Promise.resolve();
  const gateway = await rig.gateway(upstream, '--max-in-flight', '1');
  const send = (who) => postChat(gateway, { key: who, headers: { 'x-who': who }, max_tokens: 2 });
  for (let i = 0; i < 20; i++) assert.equal((await send('A')).status, 200);
  gate = new Promise((resolve) => (open = resolve));
  const answers = [send('A')];
  await upstream.arrived(21);
  for (let i = 0; i < 10; i++) answers.push(send('A'), send('B'));
  await gateway.waiting(20);
  open();
  await Promise.all(answers);
  const after = order.slice(21);
  for (let n = 1; n <= 18; n++) {
    const { A = 0, B = 0 } = tally(after.slice(0, n));
    assert.ok(Math.abs(A - B) <= 2, `${after.join('')}`);
  }
});

claim('inside a tenant, requests are served in the order they came', async (rig) => {
  const groups = Array.from({ length: 12 }, (_, i) => ({ who: 'A', count: 1, headers: { 'x-who': `A${i}` } }));
  const order = await serveQueue(rig, groups, {});
  assert.deepEqual(order, groups.map((_, i) => `A${i}`));
});

const laneTenants = [
  { name: 'fast', lane: 'interactive' }, { name: 'usual', lane: 'standard' }, { name: 'bulk', lane: 'batch' },
];
const noFloors = [{ name: 'interactive' }, { name: 'standard' }, { name: 'batch' }];

claim('a higher lane goes first, whoever came first, where lanes have no floor', async (rig) => {
  const groups = [{ who: 'bulk', count: 8 }, { who: 'usual', count: 8 }, { who: 'fast', count: 8 }];
  const order = await serveQueue(rig, groups, { tenants: laneTenants, lanes: noFloors });
  assert.deepEqual(order, [...Array(8).fill('fast'), ...Array(8).fill('usual'), ...Array(8).fill('bulk')]);
});

claim('the default floors: of every prefix, standard gets a fifth and batch a twentieth while they wait', async (rig) => {
  const groups = [{ who: 'bulk', count: 30 }, { who: 'usual', count: 30 }, { who: 'fast', count: 60 }];
  const order = await serveQueue(rig, groups, { tenants: laneTenants });
  for (let n = 1; n <= 60; n++) {
    const { usual = 0, bulk = 0 } = tally(order.slice(0, n));
    const told = `${n} served: ${JSON.stringify(tally(order.slice(0, n)))}`;
    assert.ok(usual >= 0.2 * n - 1.5 && usual <= 0.2 * n + 1.5, told);
    assert.ok(bulk >= 0.05 * n - 1.5 && bulk <= 0.05 * n + 1.5, told);
  }
});

claim('a weir-lane header lowers the lane of a request and never raises it', async (rig) => {
  const groups = [
    { who: 'fast', count: 4, headers: { 'weir-lane': 'batch', 'x-who': 'fast but lowered' } },
    { who: 'bulk', count: 4, headers: { 'weir-lane': 'interactive', 'x-who': 'bulk that wants more' } },
    { who: 'usual', count: 4 },
  ];
  const order = await serveQueue(rig, groups, { tenants: laneTenants, lanes: noFloors });
  assert.deepEqual(order.slice(0, 4), Array(4).fill('usual'));
});

// ---- the live bound ----

// The value of one series of /metrics; undefined: there is none.
async function metric(gateway, name, labels) {
  const { text } = await gateway.admin('/metrics');
  const pairs = Object.entries(labels).map(([key, value]) => `${key}="${value}"`);
  const line = text.split('\n').find((one) => one.startsWith(`${name}{`) && pairs.every((pair) => one.includes(pair)));
  return line && Number(line.slice(line.lastIndexOf(' ') + 1));
}

// A fills the queue before B while the one permit is taken; when the gateway has seen both wait all
// through a second, `serve` requests are served at once, and the second in which that happened is
// looked at when it is over: { gap, bound, broken, ahead, unit } of the widest window of 1 s.
async function widestSecond(rig, scheduler, serve) {
  let left = 0;
  const stopped = [];
  const upstream = await rig.hand((request, response) => {
    const answer = () => chatAnswer(response, { input: 10, output: 20 });
    if (left-- > 0) answer();
    else stopped.push(answer);
  });
  const tenants = [{ name: 'A' }, { name: 'B' }];
  const upstreams = [{ name: 'up', url: `${upstream.url}/v1`, max_in_flight: 1 }];
  const { gateway, keys } = await rig.keyed({ upstreams, scheduler, tenants });
  const answers = [];
  for (const who of ['A', 'B']) {
    for (let i = 0; i < 2 * serve; i++) answers.push(postChat(gateway, { key: keys[who], max_tokens: 20 }));
    await until(`all of ${who} are there`, async () => (await gateway.status()).requests === answers.length);
  }
  const lane = async () => (await gateway.status()).fairness.find((one) => one.lane === 'standard');
  const second = async () => (await lane()).windows.find((one) => one.window_s === 1);
  await until('both waited all through a second', async () => (await second()).compared === 2);

  const waits = await Promise.all(['A', 'B'].map((tenant) => metric(gateway, 'weir_tenant_longest_wait_seconds', { tenant })));
  assert.ok(waits[1] >= 1 && waits[0] >= waits[1], `A came first, and B waited all through a second: ${waits}`);
  assert.ok((await gateway.tenant('A')).longest_wait_s >= waits[0]);

  left = serve;
  const go = stopped.shift();
  const widest = { gap: -1 };
  const labels = { pool: (await lane()).pool, lane: 'standard', window: '1s' };
  go();
  await upstream.arrived(serve + 1);
  const end = (await gateway.status()).uptime_s + 2;
  await until('the second of serving is over', async () => {
    const { unit } = await lane();
    const [gap, bound, jain, compared] = await Promise.all([
      metric(gateway, `weir_fairness_gap_${unit}`, labels), metric(gateway, `weir_fairness_bound_${unit}`, labels),
      metric(gateway, 'weir_fairness_jain_ratio', labels), metric(gateway, 'weir_fairness_compared_tenants', labels),
    ]);
    const { ahead, behind } = await second();
    assert.equal(compared, 2);
    if (gap > widest.gap) Object.assign(widest, { gap, bound, jain, ahead, behind, unit });
    return (await gateway.status()).uptime_s > end;
  });
  widest.broken = await metric(gateway, 'weir_fairness_bound_broken_total', labels);
  left = Infinity;
  for (const answer of stopped.splice(0)) answer();
  const statuses = (await Promise.all(answers)).map((answer) => answer.status);
  assert.deepEqual([...new Set(statuses)], [200]);
  assert.equal(await metric(gateway, 'weir_fairness_backlogged_tenants', { pool: labels.pool, lane: 'standard' }), 0);
  return widest;
}

claim('the live gap is within its bound under the fair schedulers, and far beyond theirs under fifo, which has none', async (rig) => {
  const serve = 16; // and one more is let go: no even number
  const [vtc, cost, turns, fifo] = await Promise.all(
    ['vtc', 'drr-cost', 'drr', 'fifo'].map((scheduler) => widestSecond(rig, scheduler, serve)),
  );
  const told = JSON.stringify({ vtc, cost, turns, fifo });
  for (const fair of [vtc, cost, turns]) {
    assert.equal(fair.broken, 0, told);
    assert.ok(fair.gap <= fair.bound, told);
    assert.ok(fair.jain > 0.9, told);
  }
  assert.equal(turns.unit, 'requests');
  assert.ok(turns.bound < 1.01, told); // one turn
  assert.equal(fifo.unit, 'work');
  assert.ok(Number.isNaN(fifo.bound) && fifo.broken === 0, told);
  assert.equal(fifo.ahead, 'A', told);
  assert.equal(fifo.behind, 'B', told);
  assert.equal(fifo.jain, 0.5, told); // one got all
  assert.ok(fifo.gap > vtc.bound && fifo.gap > cost.bound, told);
});
