// The rules of the missions: what a mission is, and how many stars a run has earned. Everything judged is
// a figure of the run as the engine told it; nothing is decided here that the gateway decides.
import type { RunResult, ScopeResult, SetValue, SetupText, TenantFigures, TenantResult, UpstreamResult } from "../engine/types";
import type { Unit } from "../view/format";

/** One figure held against one bound, or two. In the file shares are percent, all else as in RunResult. */
export interface Condition {
  figure: string;
  /** Every one of them must meet it; none named: all together. */
  tenants?: readonly string[];
  scope?: string;
  upstream?: string;
  at_least?: number;
  at_most?: number;
}

export interface Star {
  text: string;
  all: readonly Condition[];
}

/** web/missions/README.md says what each part is for. */
export interface Mission {
  id: string;
  title: string;
  story: readonly string[];
  reach: string;
  /** Three; the first is the goal itself, and each counts with those before it. */
  stars: readonly Star[];
  hint: string;
  debrief: string;
  /** Where the documentation explains it: a file, and the anchor of a heading. */
  docs: string;
  /** Ids of the controls that are open (state/controls.ts). */
  controls: readonly string[];
  /** Changes that earn three stars, as path=value. */
  solution: readonly string[];
  setup: SetupText;
}

/** With what only the tests need. */
export interface MissionFile extends Mission {
  /** Changes that must not earn three stars. */
  traps: readonly { text: string; sets: readonly string[] }[];
  /** Controls that may earn three stars by themselves: the lesson is that one. */
  alone?: readonly string[];
}

export interface ConditionState {
  /** "first token p95, app-1"; of several tenants the one that is worst off. */
  label: string;
  unit: Unit;
  /** NaN: there is none, and no bound is met. A share is 0 to 1, and so are its bounds. */
  now: number;
  atLeast: number | undefined;
  atMost: number | undefined;
  isMet: boolean;
}

export interface StarState {
  text: string;
  isMet: boolean;
  conditions: readonly ConditionState[];
}

interface Figure<From> {
  label: string;
  unit: Unit;
  of: (from: From, run: RunResult) => number;
}

interface Value {
  label: string;
  unit: Unit;
  now: number;
}

/** The longest stretch in which its requests waited and not one of them ended, seconds. */
function standstill(tenant: TenantResult, { bin }: RunResult): number {
  const { waiting, finished } = tenant.series;
  let longest = 0;
  let bins = 0;
  for (let i = 0; i < waiting.length; i++) {
    bins = (waiting[i] ?? 0) > 0 && finished[i] === 0 ? bins + 1 : 0;
    longest = Math.max(longest, bins);
  }
  return longest * bin;
}

const finishedShare = ({ sent, finished }: TenantFigures): number => (sent > 0 ? finished / sent : Number.NaN);

const ofTenants: Record<string, Figure<TenantFigures>> = {
  goodShare: { label: "within the goal", unit: "share", of: (t) => t.goodShare },
  finishedShare: { label: "finished", unit: "share", of: finishedShare },
  finished: { label: "finished requests", unit: "count", of: (t) => t.finished },
  failed: { label: "failed requests", unit: "count", of: (t) => t.failed },
  retries: { label: "tries beyond the first", unit: "count", of: (t) => t.retries },
  waitP95: { label: "wait p95", unit: "seconds", of: (t) => t.waitP95 },
  firstP95: { label: "first token p95", unit: "seconds", of: (t) => t.firstP95 },
  tokensPerSecond: { label: "tokens a second", unit: "rate", of: (t) => t.tokensPerSecond },
};
/** There are none of all tenants together. */
const ofTenant: Record<string, Figure<TenantResult>> = {
  standstill: { label: "longest standstill", unit: "seconds", of: standstill },
};
const ofScope: Record<string, Figure<ScopeResult>> = {
  granted: { label: "budget granted", unit: "tokens", of: (s) => s.granted },
  committed: { label: "tokens used of the budget", unit: "tokens", of: (s) => s.committed },
};
const ofUpstream: Record<string, Figure<UpstreamResult>> = {
  inFlightMax: { label: "in flight at most", unit: "count", of: (u) => u.inFlightMax },
  openSeconds: { label: "breaker open", unit: "seconds", of: (u, { bin }) => u.open.reduce((sum, share) => sum + share * bin, 0) },
};

/** Every figure that a condition can name. */
export const figureNames: readonly string[] = [ofTenants, ofTenant, ofScope, ofUpstream].flatMap((each) => Object.keys(each));

function named<From extends { name: string }>(figure: Figure<From>, from: readonly From[], name: string, run: RunResult): Value {
  const one = from.find((each) => each.name === name);
  return { label: `${figure.label}, ${name}`, unit: figure.unit, now: one ? figure.of(one, run) : Number.NaN };
}

/** What the condition looks at: of several tenants each. */
function valuesOf(condition: Condition, run: RunResult): Value[] {
  const { figure, tenants, scope = "", upstream = "" } = condition;
  const common = ofTenants[figure];
  if (common && !tenants) return [{ label: `${common.label}, all`, unit: common.unit, now: common.of(run.all, run) }];
  const own: Figure<TenantResult> | undefined = common ?? ofTenant[figure];
  if (own) return (tenants ?? []).map((name) => named(own, run.tenants, name, run));
  const scoped = ofScope[figure];
  if (scoped) return [named(scoped, run.scopes, scope, run)];
  const upstreamed = ofUpstream[figure];
  return upstreamed ? [named(upstreamed, run.upstreams, upstream, run)] : [];
}

function judgeCondition(condition: Condition, run: RunResult): ConditionState {
  const values = valuesOf(condition, run);
  const scale = values[0]?.unit === "share" ? 0.01 : 1;
  const atLeast = condition.at_least === undefined ? undefined : condition.at_least * scale;
  const atMost = condition.at_most === undefined ? undefined : condition.at_most * scale;
  /** How far inside the bounds; below 0: outside. */
  const slack = ({ now }: Value): number =>
    Number.isNaN(now) ? Number.NEGATIVE_INFINITY : Math.min(now - (atLeast ?? Number.NEGATIVE_INFINITY), (atMost ?? Number.POSITIVE_INFINITY) - now);
  const none: Value = { label: condition.figure, unit: "count", now: Number.NaN };
  const worst = values.reduce((so, each) => (slack(each) < slack(so) ? each : so), values[0] ?? none);
  return { ...worst, atLeast, atMost, isMet: slack(worst) >= 0 };
}

/** What each star asks, and whether this run gives it. */
export function judge(mission: Mission, run: RunResult): StarState[] {
  return mission.stars.map(({ text, all }) => {
    const conditions = all.map((condition) => judgeCondition(condition, run));
    return { text, isMet: conditions.every((each) => each.isMet), conditions };
  });
}

/** Below this part of its requests answered a tenant counts as shut out. */
export const shutOutShare = 0.05;

/** A tenant that gets next to nothing: a setup that shuts somebody out solves nothing. */
export function shutOut(run: RunResult): string | undefined {
  return run.tenants.find((tenant) => tenant.sent > 0 && tenant.finished / tenant.sent < shutOutShare)?.name;
}

/** Stars earned: each only with those before it, and none while somebody is shut out. */
export function starsEarned(states: readonly StarState[], run: RunResult): number {
  if (shutOut(run) !== undefined) return 0;
  const open = states.findIndex((each) => !each.isMet);
  return open < 0 ? states.length : open;
}

/** "path=value" as the engine takes it. */
export function parseSet(text: string): SetValue {
  const at = text.indexOf("=");
  return { path: text.slice(0, at), value: text.slice(at + 1) };
}

/** The first set that changes what a mission gives, its traffic or backend: with it no star counts. */
export const worldChange = (sets: readonly SetValue[]): SetValue | undefined =>
  sets.find(({ path }) => /^(traffic|backend)(\.|$)/.test(path));
