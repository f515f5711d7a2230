// The queue at a moment, as the picture shows it, against a count of every request.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const { buildTimeline, countsAt, eachWaiting, fallenByReason } =
  await load('lab/view/timeline.ts');

const REASONS = ['', 'queue_full', 'rate_limit_exceeded'];
const FINISHED = 0, REFUSED = 1, GONE = 2, FAILED = 3, CUT = 4;

// The same numbers every time.
function dice(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state / 2 ** 32) * below;
  };
}

// Requests in the order of their ends, of every kind: served at once, after a wait, out of order, refused at the door
// or after a wait, given up, failed without a token, cut.
function makeRequests(count, tenants, seed, grid) {
  const roll = dice(seed);
  const time = (most) => Math.round(roll(most) / grid) * grid;
  const rows = Array.from({ length: count }, () => {
    const arrival = time(100);
    const kind = roll(1);
    if (kind < 0.2) {
      const end = arrival + (roll(1) < 0.5 ? 0 : time(10));
      return { arrival, dispatch: NaN, first: NaN, end, outcome: REFUSED, reason: 1 + Math.floor(roll(2)) };
    }
    if (kind < 0.25)
      return { arrival, dispatch: NaN, first: NaN, end: arrival + time(20), outcome: GONE, reason: 0 };
    const dispatch = arrival + (roll(1) < 0.4 ? 0 : time(15));
    if (kind < 0.3)
      return { arrival, dispatch, first: NaN, end: dispatch + time(3), outcome: FAILED, reason: 0 };
    const first = dispatch + time(4);
    return { arrival, dispatch, first, end: first + time(20), outcome: kind < 0.35 ? CUT : FINISHED, reason: 0 };
  });
  rows.sort((a, b) => a.end - b.end);
  const column = (name) => Float64Array.from(rows, (row) => row[name]);
  return {
    count,
    tenant: Uint8Array.from(rows, () => Math.floor(roll(tenants))),
    arrival: column('arrival'),
    dispatch: column('dispatch'),
    first: column('first'),
    end: column('end'),
    outcome: Uint8Array.from(rows, (row) => row.outcome),
    reason: Uint8Array.from(rows, (row) => row.reason),
    prompt: new Float64Array(count),
    output: new Float64Array(count),
  };
}

function build(requests, tenants) {
  const steps = buildTimeline(requests, tenants);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

function naive(requests, tenant, at) {
  const counts = { waiting: 0, inFlight: 0, silent: 0, fallen: 0, finished: 0, broken: 0 };
  const queue = [];
  for (let r = 0; r < requests.count; r++) {
    if (requests.tenant[r] !== tenant || requests.arrival[r] > at) continue;
    const { dispatch, first, end, outcome } = {
      dispatch: requests.dispatch[r],
      first: requests.first[r],
      end: requests.end[r],
      outcome: requests.outcome[r],
    };
    const wasSent = !Number.isNaN(dispatch);
    if (at < (wasSent ? dispatch : end)) {
      counts.waiting++;
      queue.push(r);
    } else if (!wasSent) counts.fallen++;
    else if (at < end) {
      counts.inFlight++;
      if (Number.isNaN(first) || at < first) counts.silent++;
    } else if (outcome === FINISHED) counts.finished++;
    else counts.broken++;
  }
  queue.sort((a, b) => requests.arrival[a] - requests.arrival[b] || a - b);
  return { counts, queue };
}

test('at every moment as many wait, are in flight, have ended and fell out as a count of all says', () => {
  for (const [seed, count, tenants, grid] of [
    [1, 400, 3, 0.5], // many at the same time
    [2, 700, 6, 0.001],
    [3, 6000, 2, 0.01], // several sorted runs to merge
    [4, 1, 1, 1],
    [5, 0, 2, 1],
  ]) {
    const requests = makeRequests(count, tenants, seed, grid);
    const timeline = build(requests, tenants);
    assert.equal(timeline.tenants.length, tenants);
    const moments = count > 1000 ? [0, 17.3, 50, 99.99, 200] : [];
    if (count <= 1000) for (let at = -1; at < 145; at += 1.5) moments.push(at);
    for (const at of moments)
      for (let t = 0; t < tenants; t++) {
        const { counts, queue } = naive(requests, t, at);
        assert.deepEqual(countsAt(timeline.tenants[t], at), counts, `seed ${seed}, ${at} s`);
        const seen = [];
        eachWaiting(timeline.tenants[t], at, (r) => seen.push(r) > 0);
        assert.deepEqual(seen, queue, `queue of ${t}, seed ${seed}, ${at} s`);
      }
  }
});

test('the last to come may be the first to leave', () => {
  const count = 5000;
  const requests = makeRequests(count, 1, 12, 0.01);
  for (let r = 0; r < count; r++) {
    requests.arrival[r] = count - r;
    requests.dispatch[r] = count + r;
    requests.end[r] = count + r + 0.5;
  }
  const timeline = build(requests, 1);
  for (const at of [1, 2500, 4999.5, 5000, 7000.25]) {
    const { counts, queue } = naive(requests, 0, at);
    const seen = [];
    eachWaiting(timeline.tenants[0], at, (r) => seen.push(r) > 0);
    assert.deepEqual(seen, queue, `${at} s`);
    assert.equal(countsAt(timeline.tenants[0], at).waiting, counts.waiting);
  }
});

test('a picture that has room for few asks for few, the oldest', () => {
  const requests = makeRequests(700, 1, 7, 0.01);
  const timeline = build(requests, 1);
  const seen = [];
  eachWaiting(timeline.tenants[0], 50, (r) => seen.push(r) < 4);
  assert.deepEqual(seen, naive(requests, 0, 50).queue.slice(0, 4));
});

test('those that fell out are told by their reason, most first', () => {
  const requests = makeRequests(500, 4, 9, 0.01);
  const timeline = build(requests, 4);
  const at = 60;
  const expected = new Map();
  for (let r = 0; r < requests.count; r++)
    if (Number.isNaN(requests.dispatch[r]) && requests.end[r] <= at) {
      const code = REASONS[requests.reason[r]] || 'gave_up';
      expected.set(code, (expected.get(code) ?? 0) + 1);
    }
  const told = fallenByReason(timeline, REASONS, at);
  assert.deepEqual(new Map(told), expected);
  assert.equal(expected.size, 3);
  for (let i = 1; i < told.length; i++) assert.ok(told[i - 1][1] >= told[i][1]);
  assert.deepEqual(fallenByReason(timeline, REASONS, -1), []);
});

test('no step of a long trace takes long', () => {
  const requests = makeRequests(60_000, 2, 11, 0.001);
  const steps = buildTimeline(requests, 2);
  let count = 0;
  while (!steps.next().done) count++;
  assert.ok(count > 60, `${count} steps`);
});
