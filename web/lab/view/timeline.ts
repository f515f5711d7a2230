// What stood where at a moment of a run, for the picture of the queue. Built once a run in steps (a long
// trace must not hold up the page); afterwards every count is two binary searches.
//
// A request waits from its arrival until it leaves for the backend at its last try (between two tries, too),
// is in flight until its end, and one that never left has fallen out at its end. The moment itself belongs to what
// comes after it.
import type { Requests } from "../engine/types";

/** One tenant's requests; all times in seconds. */
export interface TenantTimeline {
  /** Indexes into Requests by arrival, and in that order: */
  byArrival: Uint32Array;
  arrival: Float64Array;
  /** when each left the queue, whether for the backend or not; */
  leave: Float64Array;
  /** the latest of these so far: before it none stands in the queue that came earlier. */
  leaveMax: Float64Array;
  /** `leave`, sorted. */
  left: Float64Array;
  /** Of those that went to the backend, each sorted by itself: when they left the queue, got the first token (or
   *  ended without), ended. */
  dispatched: Float64Array;
  begun: Float64Array;
  ended: Float64Array;
  /** Indexes into Requests by end: those dispatched, and those never dispatched with the time of that. */
  byEnd: Uint32Array;
  fallen: Uint32Array;
  fell: Float64Array;
  /** Of those dispatched: how many of the first n were not finished. */
  brokenBefore: Uint32Array;
}

export interface Timeline {
  requests: Requests;
  tenants: TenantTimeline[];
}

/** How many of a tenant's requests are where. */
export interface Counts {
  waiting: number;
  inFlight: number;
  /** Of those in flight: without a token so far. */
  silent: number;
  /** So far: never dispatched; finished; dispatched but ended otherwise. */
  fallen: number;
  finished: number;
  broken: number;
}

/** How many of the sorted values are at most `limit`. */
export function countUpTo(sorted: Float64Array, limit: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] as number) <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

const RUN = 2048;

/** Sorts `order` by `keys`, equal ones as they stood, in steps of some thousand comparisons. */
function* sortInSteps(order: Uint32Array, keys: Float64Array): Generator<void, Uint32Array> {
  for (let from = 0; from < order.length; from += RUN) {
    order
      .subarray(from, from + RUN)
      .sort((a, b) => (keys[a] as number) - (keys[b] as number) || a - b);
    yield;
  }
  let source: Uint32Array = order;
  let target: Uint32Array = new Uint32Array(order.length);
  for (let width = RUN; width < order.length; width *= 2) {
    for (let from = 0; from < order.length; from += 2 * width) {
      const middle = Math.min(from + width, order.length);
      const until = Math.min(from + 2 * width, order.length);
      let left = from;
      let right = middle;
      for (let to = from; to < until; to++) {
        const takesLeft =
          right === until ||
          (left < middle &&
            (keys[source[left] as number] as number) <= (keys[source[right] as number] as number));
        target[to] = source[takesLeft ? left++ : right++] as number;
        if (to % RUN === 0) yield;
      }
    }
    [source, target] = [target, source];
  }
  return source;
}

function* buildTenant(requests: Requests, own: Uint32Array): Generator<void, TenantTimeline> {
  const { arrival, dispatch, first, end, outcome } = requests;
  const count = own.length;
  const byEnd = own.filter((r) => !Number.isNaN(dispatch[r]));
  const fallen = own.filter((r) => Number.isNaN(dispatch[r]));
  yield;
  const byArrival = yield* sortInSteps(own.slice(), arrival);
  const leave = new Float64Array(count);
  const leaveMax = new Float64Array(count);
  let latest = -Infinity;
  for (let i = 0; i < count; i++) {
    const r = byArrival[i] as number;
    const at = dispatch[r] as number;
    leave[i] = Number.isNaN(at) ? (end[r] as number) : at;
    latest = Math.max(latest, leave[i] as number);
    leaveMax[i] = latest;
  }
  yield;
  const left = leave.slice().sort();
  yield;
  const dispatched = Float64Array.from(byEnd, (r) => dispatch[r] as number).sort();
  yield;
  const begun = Float64Array.from(byEnd, (r) => {
    const at = first[r] as number;
    return Number.isNaN(at) ? (end[r] as number) : at;
  }).sort();
  yield;
  const brokenBefore = new Uint32Array(byEnd.length + 1);
  for (let i = 0; i < byEnd.length; i++)
    brokenBefore[i + 1] = (brokenBefore[i] as number) + (outcome[byEnd[i] as number] ? 1 : 0);
  return {
    byArrival,
    arrival: Float64Array.from(byArrival, (r) => arrival[r] as number),
    leave,
    leaveMax,
    left,
    dispatched,
    begun,
    ended: Float64Array.from(byEnd, (r) => end[r] as number),
    byEnd,
    fallen,
    fell: Float64Array.from(fallen, (r) => end[r] as number),
    brokenBefore,
  };
}

/** The timeline of a run's requests, which are in the order of their ends. Each step takes well below a
 *  millisecond for a few thousand requests, and some for a hundred thousand. */
export function* buildTimeline(
  requests: Requests,
  tenantCount: number,
): Generator<void, Timeline> {
  const sizes = new Uint32Array(tenantCount);
  for (let r = 0; r < requests.count; r++) {
    const t = requests.tenant[r] as number;
    sizes[t] = (sizes[t] as number) + 1;
  }
  const own = Array.from(sizes, (size) => new Uint32Array(size));
  sizes.fill(0);
  for (let r = 0; r < requests.count; r++) {
    const t = requests.tenant[r] as number;
    const at = sizes[t] as number;
    (own[t] as Uint32Array)[at] = r;
    sizes[t] = at + 1;
  }
  const tenants: TenantTimeline[] = [];
  for (const indexes of own) tenants.push(yield* buildTenant(requests, indexes));
  return { requests, tenants };
}

export function countsAt(tenant: TenantTimeline, at: number): Counts {
  const dispatched = countUpTo(tenant.dispatched, at);
  const ended = countUpTo(tenant.ended, at);
  const broken = tenant.brokenBefore[ended] as number;
  return {
    waiting: countUpTo(tenant.arrival, at) - countUpTo(tenant.left, at),
    inFlight: dispatched - ended,
    silent: dispatched - countUpTo(tenant.begun, at),
    fallen: countUpTo(tenant.fell, at),
    finished: ended - broken,
    broken,
  };
}

/** Calls `visit` with the requests that wait at a moment, the oldest first, until it answers false. */
export function eachWaiting(
  tenant: TenantTimeline,
  at: number,
  visit: (request: number) => boolean,
): void {
  const until = countUpTo(tenant.arrival, at);
  for (let i = countUpTo(tenant.leaveMax, at); i < until; i++)
    if ((tenant.leave[i] as number) > at && !visit(tenant.byArrival[i] as number)) return;
}

/** How many fell out until a moment, by the code of the reason ("gave_up", "failed" where the gateway had
 *  none), most first. */
export function fallenByReason(
  timeline: Timeline,
  reasons: readonly string[],
  at: number,
): [string, number][] {
  const { reason, outcome } = timeline.requests;
  const counts = new Map<string, number>();
  for (const tenant of timeline.tenants) {
    const until = countUpTo(tenant.fell, at);
    for (let i = 0; i < until; i++) {
      const r = tenant.fallen[i] as number;
      const code = reasons[reason[r] as number] || (outcome[r] === 2 ? "gave_up" : "failed");
      counts.set(code, (counts.get(code) ?? 0) + 1);
    }
  }
  return [...counts].sort((a, b) => b[1] - a[1]);
}
