// What the page and the engine say to each other. A setup is what it is for `weir lab`: the text of a
// configuration, single values set over it, and a seed; so every state of the page is also a command.
//
// Times are seconds, sizes are tokens. A figure of which there is none (a percentile of nothing) is NaN.

/** One value by its path, as `weir lab --set path=value` takes it. */
export interface SetValue {
  path: string;
  value: string;
}

/** Where a setup comes from. */
export interface SetupText {
  /** Shown in messages: "default", "weir.yaml". */
  name: string;
  text: string;
}

/** A recording or another trace, as it was dropped. Parsed by the engine, once. */
export interface TraceText {
  name: string;
  text: string;
}

export interface RunRequest {
  setup: SetupText;
  sets: readonly SetValue[];
  seed: number;
  /** Requests of a trace instead of drawn ones. */
  trace?: TraceText | undefined;
  /** Paths whose values in force are wanted: see Setup.values. */
  paths: readonly string[];
  /** Whether RunResult.requests is wanted. */
  wantsRequests: boolean;
}

/** In the words of `weir check`: what, where, what to do. */
export interface Problem {
  /** The setup's name, a path that was set, or the trace's name. */
  where: string;
  /** From 1; 0: of the whole. */
  line: number;
  column: number;
  text: string;
  isWarning: boolean;
}

export interface TenantSetup {
  name: string;
  lane: string;
  weight: number;
  /** Of its scope; "": none. */
  scope: string;
  /** Longest wait in the queue that meets the goal; NaN: none. */
  goal: number;
  arrivals: "poisson" | "even" | "closed" | "trace";
}

/** A setup as the core understood it. Tenants, upstreams and scopes are in the order of the results. */
export interface Setup {
  tenants: TenantSetup[];
  /** In order of precedence. */
  lanes: { name: string; floorPercent: number }[];
  upstreams: { name: string; replicas: number; sequences: number }[];
  scopes: { name: string; granted: number }[];
  /** Nobody sends anything new after that. */
  time: number;
  /** Every tenant of `tenants:`, `traffic.tenants` and the trace, those that do not send included. */
  tenantNames: string[];
  /** For each path that was asked for, the value in force as it would stand in the file ("1.5/s",
   *  "true", "vtc"); "": there is none; null: there is no such path in this setup. */
  values: Record<string, string | null>;
}

export type Outcome = "finished" | "refused" | "gone" | "failed" | "cut";

export interface TenantFigures {
  sent: number;
  finished: number;
  refused: number;
  failed: number;
  retries: number;
  waitP50: number;
  waitP95: number;
  waitP99: number;
  firstP50: number;
  firstP95: number;
  tokensPerSecond: number;
  /** Of what was sent: finished, and dispatched within the goal; 0 to 1. */
  goodShare: number;
  goodPerSecond: number;
}

/** Series over time, one value a bin. */
export interface TenantSeries {
  /** Requests that came, ended, were refused, failed, in the bin. */
  offered: Float64Array;
  finished: Float64Array;
  refused: Float64Array;
  failed: Float64Array;
  /** How many waited, were in flight, on average over the bin. */
  waiting: Float64Array;
  inFlight: Float64Array;
  /** Longest wait of those that were dispatched in the bin, seconds; NaN: none was. */
  waitMax: Float64Array;
  /** Tokens (prompt and output) of answers that ended, a second. */
  tokens: Float64Array;
}

export interface TenantResult extends TenantFigures {
  name: string;
  series: TenantSeries;
  /** Tries refused, by the reason's code (docs/refusals.md); only those above 0. */
  refusals: Record<string, number>;
  /** What a recording says of the same tenant; absent without one. */
  recorded?: TenantFigures | undefined;
}

export interface UpstreamResult {
  name: string;
  inFlightMax: number;
  inFlight: Float64Array;
  permits: Float64Array;
  /** Share of the bin in which its breaker was not closed, 0 to 1. */
  open: Float64Array;
  trips: number;
}

export interface ScopeResult {
  name: string;
  granted: number;
  committed: number;
  reserved: number;
  overrun: number;
  refused: number;
}

/** Of all windows of ten seconds the one with the largest difference of work for its weight. */
export interface GapResult {
  work: number;
  /** What the order of service guarantees; NaN: nothing. */
  bound: number;
  ahead: string;
  behind: string;
  /** When the window ended. */
  at: number;
  /** Jain's index of all that waited, 0 to 1. */
  jain: number;
}

/** Every request that ended, in the order of its end; parallel arrays. */
export interface Requests {
  count: number;
  tenant: Uint8Array;
  /** When it was first sent. */
  arrival: Float64Array;
  /** When it left the queue for the backend at its last try; NaN: it never did. */
  dispatch: Float64Array;
  /** When its first token came; NaN: none did. */
  first: Float64Array;
  end: Float64Array;
  /** Index into outcomes. */
  outcome: Uint8Array;
  /** Index into reasons, of refused and cut ones; 0: no reason. */
  reason: Uint8Array;
  prompt: Float64Array;
  output: Float64Array;
}
export const outcomes: readonly Outcome[] = ["finished", "refused", "gone", "failed", "cut"];

export interface RunResult {
  /** Over every event: equal to `hash` of `weir lab --json`. */
  hash: string;
  /** Equal for setups that are sent the very same requests. */
  trafficHash: string;
  events: number;
  /** When the last answer ended. */
  end: number;
  bin: number;
  bins: number;
  tenants: TenantResult[];
  all: TenantFigures;
  allRecorded?: TenantFigures | undefined;
  upstreams: UpstreamResult[];
  scopes: ScopeResult[];
  gap: GapResult | null;
  /** Of the replicas' time until the last answer, 0 to 1. */
  busyShare: number;
  /** Tokens made for answers that were not finished. */
  lostTokens: number;
  requests: Requests | null;
  /** Code of each reason, index 0 is "". */
  reasons: string[];
  /** What the run took in the engine, milliseconds. */
  took: number;
}

export type Reply =
  | { ok: true; setup: Setup; result: RunResult; warnings: Problem[] }
  | { ok: false; problems: Problem[] };

/** The engine as the page sees it (client.ts): it runs in a worker, and of requests that come while
 *  one runs only the newest is run; the others resolve to null. */
export interface Engine {
  run(request: RunRequest): Promise<Reply | null>;
  /** The setup as a configuration: only what is not a default; valid for `weir check`. */
  yaml(setup: SetupText, sets: readonly SetValue[]): Promise<{ ok: true; text: string } | { ok: false; problems: Problem[] }>;
}
