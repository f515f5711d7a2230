// The engine without a worker: what Node's tests use, and what worker.ts answers with. A setup goes in as
// text, sets and a seed; what comes out is what types.ts says.
import type {
  GapResult,
  Outcome,
  Problem,
  Reply,
  Requests,
  RunRequest,
  RunResult,
  ScopeResult,
  SetValue,
  Setup,
  SetupText,
  TenantFigures,
  TenantResult,
  TenantSeries,
  TenantSetup,
  TraceText,
  UpstreamResult,
} from "./types";
import { outcomes } from "./types";
import { LabModule } from "./wasm";
import { packTree, readYaml } from "./yaml";

export type YamlReply = { ok: true; text: string } | { ok: false; problems: Problem[] };

const setsMax = 1000;
/** Of a configuration's text. Taken apart here it needs some two hundred times as much memory: what the program
 *  takes, 64 MiB, would end the tab. */
const textMax = 4 * 1024 * 1024;
const nsPerSecond = 1e9;

/** The module's description of a setup. */
interface Description {
  tenants: { name: string; lane: string; weight: number; scope: string; goal_ns: number; arrivals: TenantSetup["arrivals"] }[];
  lanes: Setup["lanes"];
  upstreams: Setup["upstreams"];
  scopes: Setup["scopes"];
  names: string[];
  time_ns: number;
  merged: number;
  left_out: number;
  values: (string | null)[];
}

/** The module's account of a run. */
interface Account {
  hash: string;
  trafficHash: string;
  events: number;
  now_ns: number;
  bin_ns: number;
  bins: number;
  requests: number;
  refusals: number[][];
  upstreams: { inFlightMax: number; trips: number }[];
  scopes: ScopeResult[];
  gap: { gap_uwork: number; bound_uwork: number | null; ahead: string; behind: string; ended_ns: number; jain_ppm: number } | null;
}

/** The module's account of a trace. */
interface TraceAbout {
  line: number;
  text: string;
  schedulers: string;
  remark: string;
  isMeasured: boolean;
}

const figureKeys: Record<keyof TenantFigures, string> = {
  sent: "sent",
  finished: "finished",
  refused: "refused",
  failed: "failed",
  retries: "retries",
  waitP50: "queue_wait_p50_s",
  waitP95: "queue_wait_p95_s",
  waitP99: "queue_wait_p99_s",
  firstP50: "first_token_p50_s",
  firstP95: "first_token_p95_s",
  tokensPerSecond: "tokens_per_s",
  goodShare: "good_share",
  goodPerSecond: "goodput_per_s",
};

/** Arrays of one length, one behind the other in one piece of memory: that is what goes to the page. */
class Columns {
  private readonly all: Float64Array<ArrayBuffer>;
  private used = 0;

  constructor(
    count: number,
    private readonly length: number,
  ) {
    this.all = new Float64Array(count * length);
  }

  next(): Float64Array<ArrayBuffer> {
    const from = this.length * this.used++;
    return this.all.subarray(from, from + this.length);
  }
}

const at = (numbers: ArrayLike<number>, index: number): number => numbers[index] ?? Number.NaN;

/** A seed as `--seed` takes it, or what is wrong with it. */
function readSeed(seed: number): bigint | Problem {
  if (Number.isSafeInteger(seed) && seed >= 0) return BigInt(seed);
  const text = `must be a whole number between 0 and ${Number.MAX_SAFE_INTEGER}, not '${String(seed)}'`;
  return { where: "seed", line: 0, column: 0, text, isWarning: false };
}

export class LocalEngine {
  private module: LabModule;
  private lastText = "";
  private lastTree: Uint8Array | null = null;
  /** The trace that the module has, and what is to be said of it. */
  private trace: { name: string; text: string; isMeasured: boolean; remarks: Problem[] } | null = null;

  constructor(private readonly compiled: WebAssembly.Module) {
    this.module = new LabModule(compiled);
  }

  /** Of the module, in bytes. */
  get memoryBytes(): number {
    return this.module.bytes;
  }

  run(request: RunRequest): Reply {
    const seed = readSeed(request.seed);
    if (typeof seed !== "bigint") return { ok: false, problems: [seed] };
    return this.guarded(() => this.runGuarded(request, seed));
  }

  yaml(setup: SetupText, sets: readonly SetValue[]): YamlReply {
    return this.guarded((): YamlReply => {
      const problems = this.push(setup, sets);
      if (problems) return { ok: false, problems };
      if (!this.module.load(false, this.trace !== null)) return { ok: false, problems: this.problems() };
      return { ok: true, text: this.module.yaml() };
    });
  }

  /** What stops the module must not stop the page: it is begun anew, and the reply says what it was. */
  private guarded<T>(work: () => T): T | { ok: false; problems: Problem[] } {
    try {
      return work();
    } catch (fault) {
      if (!(fault instanceof WebAssembly.RuntimeError || fault instanceof RangeError)) throw fault;
      const panic = this.module.panic();
      this.module = new LabModule(this.compiled);
      this.trace = null;
      const text = panic.startsWith("out of memory")
        ? "the setup, or what is sent to it, needs more memory than a page has; `weir lab` takes the same setup"
        : `the model stopped at a defect of its own (${panic || fault.message}); it was started anew. Please report this setup`;
      return { ok: false, problems: [{ where: "engine", line: 0, column: 0, text, isWarning: false }] };
    }
  }

  private pack(text: string): Uint8Array {
    return packTree(readYaml(text), this.module.layout);
  }

  private push(setup: SetupText, sets: readonly SetValue[]): Problem[] | null {
    if (sets.length > setsMax)
      return [{ where: setup.name, line: 0, column: 0, text: `more than ${setsMax} values are set over it`, isWarning: false }];
    if (setup.text.length > textMax)
      return [{ where: setup.name, line: 0, column: 0, text: "is larger than 4 MiB, which is more than a page takes of a configuration; `weir lab` takes 64 MiB", isWarning: false }];
    if (!this.lastTree || this.lastText !== setup.text) {
      this.lastTree = this.pack(setup.text);
      this.lastText = setup.text;
    }
    this.module.begin(setup.name, this.lastTree);
    for (const { path, value } of sets) this.module.pushSet(path, value, this.pack(value));
    return null;
  }

  private problems(): Problem[] {
    const problems = this.module.problems() as Problem[];
    return problems.map((problem) => ({ ...problem, where: problem.where.replace(/^--set /, "") }));
  }

  /** Reads the trace, unless it is the one that was read last. */
  private readTrace(trace: TraceText | undefined): Problem[] | null {
    if (!trace) {
      if (this.trace) this.module.dropTrace();
      this.trace = null;
      return null;
    }
    if (this.trace?.name === trace.name && this.trace.text === trace.text) return null;
    this.trace = null;
    const say = (line: number, text: string, isWarning: boolean): Problem => ({ where: trace.name, line, column: 0, text, isWarning });
    const remarks: Problem[] = [];
    let isRead = this.module.readTrace(trace.text, null);
    let about = this.module.traceAbout() as TraceAbout;
    const runs = about.schedulers.split("\n");
    if (!isRead && runs.length > 1) {
      // Several measured runs in one file: that of the order the gateway has by default, or the first.
      const chosen = runs.includes("vtc") ? "vtc" : (runs[0] ?? "");
      isRead = this.module.readTrace(trace.text, chosen);
      about = this.module.traceAbout() as TraceAbout;
      if (isRead) remarks.push(say(0, `holds the measured runs ${runs.join(", ")}: that of '${chosen}' is sent and shown`, true));
    }
    if (!isRead) return [say(about.line, about.text, false)];
    if (about.remark) remarks.push(say(0, about.remark, true));
    this.trace = { name: trace.name, text: trace.text, isMeasured: about.isMeasured, remarks };
    return null;
  }

  private runGuarded(request: RunRequest, seed: bigint): Reply {
    const began = performance.now();
    const wrong = this.readTrace(request.trace) ?? this.push(request.setup, request.sets);
    if (wrong) return { ok: false, problems: wrong };
    if (!this.module.load(true, this.trace !== null) || !this.module.run(seed)) return { ok: false, problems: this.problems() };
    const description = this.module.describe(request.paths) as Description;
    const result = this.result(description, request.wantsRequests);
    if (this.trace?.isMeasured) this.addRecorded(result);
    result.took = performance.now() - began;
    const warnings = [...this.problems(), ...this.traceWarnings(description, request.setup.name)];
    return { ok: true, setup: toSetup(description, request.paths), result, warnings };
  }

  /** What really happened to the same requests. */
  private addRecorded(result: RunResult): void {
    const figures = this.module.traceFigures(result.tenants.length);
    result.tenants.forEach((tenant, i) => (tenant.recorded = this.figuresOf(figures, i)));
    result.allRecorded = this.figuresOf(figures, result.tenants.length);
  }

  private traceWarnings(description: Description, setup: string): Problem[] {
    if (!this.trace) return [];
    const where = this.trace.name;
    const texts: string[] = [];
    if (description.left_out > 0)
      texts.push(`is what is sent; the traffic of ${description.left_out} tenants of ${setup} is left out`);
    if (description.merged > 0)
      texts.push(`has more than 64 tenants; the ${description.merged} with the fewest requests stand together as 'others'`);
    return [...this.trace.remarks, ...texts.map((text) => ({ where, line: 0, column: 0, text, isWarning: true }))];
  }

  private result(description: Description, wantsRequests: boolean): RunResult {
    const account = this.module.result() as Account;
    const tenants = description.tenants.length;
    const figures = this.module.figures(tenants);
    const { tenantSeries, upstreamSeries } = this.module.layout;
    const columns = new Columns(tenants * tenantSeries.length + description.upstreams.length * upstreamSeries.length, account.bins);
    const whole = (key: string): number => {
      const index = this.module.layout.wholes.indexOf(key);
      return at(figures, (tenants + 1) * this.module.layout.figures.length + index);
    };
    return {
      hash: account.hash,
      trafficHash: account.trafficHash,
      events: account.events,
      end: account.now_ns / nsPerSecond,
      bin: account.bin_ns / nsPerSecond,
      bins: account.bins,
      tenants: description.tenants.map(
        (tenant, i): TenantResult => ({
          name: tenant.name,
          ...this.figuresOf(figures, i),
          series: this.seriesOf(i, columns),
          refusals: this.refusalsOf(account.refusals[i] ?? []),
        }),
      ),
      all: this.figuresOf(figures, tenants),
      upstreams: description.upstreams.map((upstream, i) => this.upstream(upstream.name, i, account, columns)),
      scopes: account.scopes,
      gap: toGap(account.gap),
      busyShare: whole("backend_busy"),
      lostTokens: whole("lost_tokens"),
      requests: wantsRequests ? this.requests(account.requests) : null,
      reasons: this.module.layout.reasons,
      took: 0,
    };
  }

  private figuresOf(figures: Float64Array, row: number): TenantFigures {
    const names = this.module.layout.figures;
    const of = (key: keyof TenantFigures): number => at(figures, row * names.length + names.indexOf(figureKeys[key]));
    return {
      sent: of("sent"),
      finished: of("finished"),
      refused: of("refused"),
      failed: of("failed"),
      retries: of("retries"),
      waitP50: of("waitP50"),
      waitP95: of("waitP95"),
      waitP99: of("waitP99"),
      firstP50: of("firstP50"),
      firstP95: of("firstP95"),
      tokensPerSecond: of("tokensPerSecond"),
      goodShare: of("goodShare"),
      goodPerSecond: of("goodPerSecond"),
    };
  }

  private seriesOf(tenant: number, columns: Columns): TenantSeries {
    const of = (name: keyof TenantSeries) => {
      const column = columns.next();
      this.module.tenantSeries(tenant, name, column);
      return column;
    };
    return {
      offered: of("offered"),
      finished: of("finished"),
      refused: of("refused"),
      failed: of("failed"),
      waiting: of("waiting"),
      inFlight: of("inFlight"),
      waitMax: of("waitMax"),
      tokens: of("tokens"),
    };
  }

  /** Two reasons may share a code. */
  private refusalsOf(counts: readonly number[]): Record<string, number> {
    const refusals: Record<string, number> = {};
    counts.forEach((count, reason) => {
      const code = this.module.layout.reasons[reason];
      if (count > 0 && code) refusals[code] = (refusals[code] ?? 0) + count;
    });
    return refusals;
  }

  private upstream(name: string, index: number, account: Account, columns: Columns): UpstreamResult {
    const series = (which: string) => {
      const column = columns.next();
      this.module.upstreamSeries(index, which, column);
      return column;
    };
    return {
      name,
      inFlightMax: account.upstreams[index]?.inFlightMax ?? 0,
      inFlight: series("inFlight"),
      permits: series("permits"),
      open: series("open"),
      trips: account.upstreams[index]?.trips ?? 0,
    };
  }

  private requests(count: number): Requests {
    const columns = new Columns(6, count);
    const fill = (name: string, to: Float64Array<ArrayBuffer>) => {
      this.module.requestColumn(name, to);
      return to;
    };
    const column = (name: string) => fill(name, columns.next());
    const scratch = new Float64Array(count);
    const number = new Map(Object.entries(this.module.layout.outcomes).map(([name, value]) => [value, outcomes.indexOf(name as Outcome)]));
    return {
      count,
      tenant: Uint8Array.from(fill("tenant", scratch)),
      arrival: column("arrival"),
      dispatch: column("dispatch"),
      first: column("first"),
      end: column("end"),
      outcome: Uint8Array.from(fill("outcome", scratch), (value) => number.get(value) ?? 0),
      reason: Uint8Array.from(fill("reason", scratch)),
      prompt: column("prompt"),
      output: column("output"),
    };
  }
}

function toSetup(description: Description, paths: readonly string[]): Setup {
  return {
    tenants: description.tenants.map(({ goal_ns, ...tenant }) => ({ ...tenant, goal: goal_ns > 0 ? goal_ns / nsPerSecond : Number.NaN })),
    lanes: description.lanes,
    upstreams: description.upstreams,
    scopes: description.scopes,
    time: description.time_ns / nsPerSecond,
    tenantNames: [...new Set(description.names)],
    values: Object.fromEntries(paths.map((path, i) => [path, description.values[i] ?? null])),
  };
}

function toGap(gap: Account["gap"]): GapResult | null {
  if (!gap) return null;
  return {
    work: gap.gap_uwork / 1e6,
    bound: gap.bound_uwork === null ? Number.NaN : gap.bound_uwork / 1e6,
    ahead: gap.ahead,
    behind: gap.behind,
    at: gap.ended_ns / nsPerSecond,
    jain: gap.jain_ppm / 1e6,
  };
}
