// The figures that a run is judged by: what each is, in which direction it is better, and how it compares with
// another run's. No drawing here.
import type { RunResult, Setup, TenantFigures } from "../engine/types";
import { change, count, figure, index, many, rate, reason, seconds, share, type Unit } from "./format";

/** A run, as far as figures need it. */
export interface Judged {
  setup: Setup;
  result: RunResult;
}

/** Who is measured: the model's tenants, or those of a recording. */
interface Measured {
  tenants: readonly TenantFigures[];
  all: TenantFigures;
}

export type Better = "less" | "more" | "neither";

export interface Figure {
  id: string;
  label: string;
  unit: Unit;
  /** The unit, where the value is written without. */
  unitName: string;
  /** One line. */
  help: string;
  better: Better;
  /** NaN: there is none. */
  value(run: Judged, measured: Measured): number;
  /** What else there is to say of the value. */
  note?(run: Judged): string;
  /** Whether a goal is kept; null: there is none. */
  isMet?(run: Judged): boolean | null;
  /** Whether the figure means anything in this run; always, if absent. */
  applies?(run: Judged): boolean;
  /** Whether a recording has it, too. */
  isRecorded?: boolean;
  /** How it went over time. */
  series?(run: Judged): ArrayLike<number>;
}

const sum = (values: Iterable<number>): number => {
  let total = 0;
  for (const value of values) total += value;
  return total;
};

/** Indexes of the tenants with a goal; of all, where none has one. */
function judgedTenants(run: Judged): number[] {
  const all = run.setup.tenants.map((_, t) => t);
  const withGoal = all.filter((t) => Number.isFinite(run.setup.tenants[t]?.goal));
  return withGoal.length > 0 ? withGoal : all;
}

const hasGoals = (run: Judged): boolean =>
  run.setup.tenants.some((tenant) => Number.isFinite(tenant.goal));

/** The judged tenant with the worst value for its goal, -1: none has a value. */
function worstTenant(
  run: Judged,
  measured: Measured,
  value: (figures: TenantFigures) => number,
): number {
  let worst = -1;
  let worstRatio = -Infinity;
  for (const t of judgedTenants(run)) {
    const figures = measured.tenants[t];
    const goal = run.setup.tenants[t]?.goal ?? NaN;
    const ratio = (figures ? value(figures) : NaN) / (Number.isFinite(goal) ? goal : 1);
    if (ratio > worstRatio) [worst, worstRatio] = [t, ratio];
  }
  return worst;
}

const waitP95 = (figures: TenantFigures): number => figures.waitP95;
const firstP95 = (figures: TenantFigures): number => figures.firstP95;

function worstValue(value: (figures: TenantFigures) => number) {
  return (run: Judged, measured: Measured): number => {
    const figures = measured.tenants[worstTenant(run, measured, value)];
    return figures ? value(figures) : NaN;
  };
}

/** Sums a series of some tenants bin by bin. */
function addSeries(
  run: Judged,
  tenants: readonly number[],
  pick: (t: RunResult["tenants"][number]["series"]) => Float64Array,
): Float64Array {
  const total = new Float64Array(run.result.bins);
  for (const t of tenants) {
    const series = run.result.tenants[t];
    if (!series) continue;
    const values = pick(series.series);
    for (let i = 0; i < total.length; i++) total[i] = (total[i] as number) + (values[i] ?? 0);
  }
  return total;
}

const everyone = (run: Judged): number[] => run.result.tenants.map((_, t) => t);

/** Permits in use and permits there are, all upstreams together, by bin. */
export function permitSeries({ result }: Pick<Judged, "result">): { used: Float64Array; permits: Float64Array } {
  const used = new Float64Array(result.bins);
  const permits = new Float64Array(result.bins);
  for (const upstream of result.upstreams)
    for (let i = 0; i < used.length; i++) {
      used[i] = (used[i] as number) + (upstream.inFlight[i] ?? 0);
      permits[i] = (permits[i] as number) + (upstream.permits[i] ?? 0);
    }
  // The run ends within its last bin: its means are of the whole bin, the permits were there until the end.
  const last = result.bins - 1;
  const part = result.end / result.bin - last;
  if (part > 0 && part < 1) permits[last] = (permits[last] as number) / part;
  return { used, permits };
}

function busyPermits(run: Judged): number {
  const { used, permits } = permitSeries(run);
  const until = Math.min(run.result.bins, Math.ceil(run.setup.time / run.result.bin));
  const there = sum(permits.subarray(0, until));
  // More than all are in flight where some were taken away in the meantime.
  const busy = used.subarray(0, until).map((value, i) => Math.min(value, permits[i] as number));
  return there > 0 ? sum(busy) / there : NaN;
}

/** Longest wait of the judged tenants, by bin. */
function worstWaits(run: Judged): Float64Array {
  const worst = new Float64Array(run.result.bins);
  for (const t of judgedTenants(run)) {
    const waits = run.result.tenants[t]?.series.waitMax;
    if (waits)
      for (let i = 0; i < worst.length; i++)
        worst[i] = Math.max(worst[i] as number, waits[i] || 0);
  }
  return worst;
}

/** Scopes that are no part of another: what is booked on a part is booked on the whole, too. */
function rootScopes(run: Judged) {
  const names = run.result.scopes.map((scope) => `${scope.name}/`);
  return run.result.scopes.filter(
    (scope) => !names.some((name) => scope.name.startsWith(name)),
  );
}

const overspent = (run: Judged): number =>
  sum(run.result.scopes.map((scope) => Math.max(0, scope.committed - scope.granted)));

/** Unspent in the scopes that sent somebody away. */
const stranded = (run: Judged): number =>
  sum(
    run.result.scopes
      .filter((scope) => scope.refused > 0)
      .map((scope) => Math.max(0, scope.granted - scope.committed)),
  );

const hasScopes = (run: Judged): boolean => run.result.scopes.length > 0;

function mostFrequentRefusal(run: Judged): string {
  const tries: Record<string, number> = {};
  for (const tenant of run.result.tenants)
    for (const [code, number] of Object.entries(tenant.refusals))
      tries[code] = (tries[code] ?? 0) + number;
  const [most] = Object.entries(tries).sort((a, b) => b[1] - a[1]);
  return most ? `${many(sum(Object.values(tries)), "try", "tries")}, most often: ${reason(most[0])}` : "";
}

export const figures: readonly Figure[] = [
  {
    id: "wait",
    label: "Interactive wait, p95",
    unit: "seconds",
    unitName: "",
    help: "95 of 100 dispatched requests waited less, of the tenant with the worst wait for its goal.",
    better: "less",
    isRecorded: true,
    value: worstValue(waitP95),
    note(run) {
      const t = worstTenant(run, run.result, waitP95);
      const tenant = run.setup.tenants[t];
      if (!tenant) return "nobody was dispatched";
      return Number.isFinite(tenant.goal)
        ? `goal of ${tenant.name}: ${seconds(tenant.goal)}`
        : `${tenant.name}; no tenant has a goal`;
    },
    isMet(run) {
      const t = worstTenant(run, run.result, waitP95);
      const goal = run.setup.tenants[t]?.goal ?? NaN;
      return Number.isFinite(goal) ? (run.result.tenants[t]?.waitP95 ?? NaN) <= goal : null;
    },
    series: worstWaits,
  },
  {
    id: "in-goal",
    label: "In goal",
    unit: "share",
    unitName: "",
    help: "Of what tenants with a goal sent: finished, and dispatched within the goal.",
    better: "more",
    isRecorded: true,
    value(run, measured) {
      const tenants = judgedTenants(run).flatMap((t) => measured.tenants[t] ?? []);
      return sum(tenants.map((t) => t.sent && t.goodShare * t.sent)) / sum(tenants.map((t) => t.sent));
    },
    note: (run) =>
      hasGoals(run) ? `of all tenants: ${share(run.result.all.goodShare)}` : "no tenant has a goal",
  },
  {
    id: "finished",
    label: "Finished",
    unit: "count",
    unitName: "requests",
    help: "Requests that were answered in full.",
    better: "more",
    isRecorded: true,
    value: (_, measured) => measured.all.finished,
    note: (run) => `of ${count(run.result.all.sent)} sent`,
  },
  {
    id: "refused",
    label: "Refused",
    unit: "count",
    unitName: "requests",
    help: "Requests whose last try the gateway refused.",
    better: "less",
    isRecorded: true,
    value: (_, measured) => measured.all.refused,
    note: mostFrequentRefusal,
    series: (run) => addSeries(run, everyone(run), (series) => series.refused),
  },
  {
    id: "tokens",
    label: "Throughput",
    unit: "rate",
    unitName: "tokens/s",
    help: "Prompt and output of finished requests a second, over the run.",
    better: "more",
    isRecorded: true,
    value: (_, measured) => measured.all.tokensPerSecond,
    note(run) {
      const judged = judgedTenants(run);
      if (judged.length === run.setup.tenants.length) return "";
      const own = sum(judged.map((t) => run.result.tenants[t]?.tokensPerSecond ?? 0));
      const rest = Math.max(0, run.result.all.tokensPerSecond - own);
      return `with a goal ${rate(own)}, without ${rate(rest)}`;
    },
    series: (run) => addSeries(run, everyone(run), (series) => series.tokens),
  },
  {
    id: "first",
    label: "First token, p95",
    unit: "seconds",
    unitName: "",
    help: "From the first try to the first token; 95 of 100 were faster, of the slowest tenant with a goal.",
    better: "less",
    isRecorded: true,
    value: worstValue(firstP95),
    note(run) {
      const tenant = run.setup.tenants[worstTenant(run, run.result, firstP95)];
      return tenant ? `of ${tenant.name}` : "nobody got one";
    },
  },
  {
    id: "gap",
    label: "Fairness gap",
    unit: "work",
    unitName: "work",
    help: "Largest difference of work for its weight between two tenants that both waited for ten seconds.",
    better: "less",
    value: (run) => run.result.gap?.work ?? NaN,
    note(run) {
      const { gap } = run.result;
      if (!gap) return "no two tenants waited that long";
      const bound = Number.isFinite(gap.bound) ? `bound ${count(gap.bound)}` : "no bound";
      return `${gap.ahead} before ${gap.behind}; ${bound}; Jain ${index(gap.jain)}`;
    },
    isMet: ({ result: { gap } }) =>
      gap && Number.isFinite(gap.bound) ? gap.work <= gap.bound : null,
  },
  {
    id: "permits",
    label: "Permits busy",
    unit: "share",
    unitName: "",
    help: "Of the permits, in use on average while requests come. High is good only while nobody waits too long.",
    better: "neither",
    value: busyPermits,
    note: (run) => `replicas busy ${share(run.result.busyShare)}`,
    series(run) {
      const { used, permits } = permitSeries(run);
      return used.map((value, i) => Math.min(1, value / Math.max(1, permits[i] as number)));
    },
  },
  {
    id: "overrun",
    label: "Budget overrun",
    unit: "tokens",
    unitName: "tokens",
    help: "Used beyond what was held for the request; it is booked all the same.",
    better: "less",
    applies: hasScopes,
    value: (run) => sum(rootScopes(run).map((scope) => scope.overrun)),
    note: (run) => `beyond the grants: ${count(overspent(run))}`,
  },
  {
    id: "stranded",
    label: "Budget stranded",
    unit: "tokens",
    unitName: "tokens",
    help: "Granted and not spent, in scopes that refused requests.",
    better: "less",
    applies: hasScopes,
    value: stranded,
    note(run) {
      const granted = sum(rootScopes(run).map((scope) => scope.granted));
      const spent = sum(rootScopes(run).map((scope) => scope.committed));
      return `spent ${count(spent)} of ${count(granted)}`;
    },
  },
  {
    id: "retries",
    label: "Retries",
    unit: "count",
    unitName: "tries",
    help: "Tries beyond the first of a request.",
    better: "less",
    isRecorded: true,
    applies: (run) => run.result.all.retries > 0,
    value: (_, measured) => measured.all.retries,
  },
  {
    id: "lost",
    label: "Made in vain",
    unit: "tokens",
    unitName: "tokens",
    help: "Tokens made for answers that were not finished.",
    better: "less",
    applies: (run) => run.result.lostTokens > 0,
    value: (run) => run.result.lostTokens,
  },
];

export function modelValue(of: Figure, run: Judged): number {
  return of.value(run, run.result);
}

/** What a recording says of the same figure; null: it does not. */
export function recordedValue(of: Figure, run: Judged): number | null {
  const { tenants, allRecorded } = run.result;
  if (!of.isRecorded || !allRecorded) return null;
  const none: TenantFigures = { ...allRecorded, sent: 0, waitP95: NaN, firstP95: NaN, tokensPerSecond: 0 };
  const value = of.value(run, {
    tenants: tenants.map((tenant) => tenant.recorded ?? none),
    all: allRecorded,
  });
  return Number.isFinite(value) ? value : null;
}

export type Verdict = "better" | "worse" | "more" | "less" | "same" | "none";

export interface Change {
  verdict: Verdict;
  /** With a sign; "": nothing to compare. */
  amount: string;
  /** Of the number, whatever is better. */
  direction: "up" | "down" | "";
}

/** Less than this part of the value is no change that anybody would notice. */
const HARDLY = 0.005;

/** How a value stands to another of the same figure; "same" is hardly any change, too. "more" and "less" where neither is better; "none" where
 *  one of them is no number. */
export function compare(of: Pick<Figure, "unit" | "better">, now: number, before: number): Change {
  if (!Number.isFinite(now) || !Number.isFinite(before))
    return { verdict: "none", amount: "", direction: "" };
  // A large rate is written without digits behind the point, and so is its change.
  const unit = of.unit === "rate" && Math.abs(before) >= 100 ? "work" : of.unit;
  const difference = unit === "work" ? Math.round(now - before) : now - before;
  const amount = change(unit, difference);
  if (amount === "±0") return { verdict: "same", amount, direction: "" };
  const isExact = of.unit === "count" || of.unit === "share" || of.unit === "index";
  if (!isExact && Math.abs(difference) < HARDLY * Math.abs(before))
    return { verdict: "same", amount, direction: "" };
  const isMore = now > before;
  const direction = isMore ? "up" : "down";
  if (of.better === "neither") return { verdict: isMore ? "more" : "less", amount, direction };
  return { verdict: isMore === (of.better === "more") ? "better" : "worse", amount, direction };
}

/** The same in words: "−3.97 s, better", "no change", "none before". */
export function inWords(of: Pick<Figure, "unit" | "better">, now: number, before: number): string {
  const { verdict, amount } = compare(of, now, before);
  switch (verdict) {
    case "none":
      if (Number.isFinite(now)) return "none before";
      return Number.isFinite(before) ? `before: ${figure(of.unit, before)}` : "no change";
    case "same":
      return amount === "±0" ? "no change" : `${amount}, hardly any`;
    case "more":
    case "less":
      return amount;
    case "better":
    case "worse":
      return `${amount}, ${verdict}`;
  }
}
