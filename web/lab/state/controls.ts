// The controls. Each is a list of values to be set, and reads what is in force from the engine: what it means is
// decided there. One that has nothing to set in a setup is not in its list.
import type { SetValue, Setup } from "../engine/types";
import { countText, parseCount, parseRate, parseTime, rateText, roundTwo, timeText } from "./units";

/** A place on a slider is a number; the value is its text in the file. */
export interface Scale {
  low: number;
  high: number;
  isLog: boolean;
  /** Of the number, on a scale that is even. */
  step: number;
  parse(text: string): number;
  text(at: number): string;
}

export interface Choice {
  value: string;
  label: string;
}

export type Group = "limits" | "order" | "traffic" | "gateway" | "backend" | "budgets" | "clients";

export interface Control {
  id: string;
  group: Group;
  /** Of a tenant, an upstream: what the label says already; "" for the whole. */
  of: string;
  label: string;
  unit: string;
  /** One line: what it does. */
  help: string;
  kind: "choice" | "slider" | "toggle" | "text";
  /** In force, as it would stand in the file; "": nothing is. Of a toggle "true" or "false". */
  value: string;
  /** It stands for several that differ. */
  isMixed: boolean;
  choices: readonly Choice[];
  scale: Scale | null;
  sets(value: string): SetValue[];
}

/** What the controls are made from. */
export interface Held {
  setup: Setup;
  /** In force, and what the file says by itself. */
  read(path: string): string;
  has(path: string): boolean;
  readFile(path: string): string;
  seed: number;
}

/** A request limit takes a request for so many tokens, so that one slider serves both kinds. */
export const requestTokens = 1500;
/** Where a limit begins that was switched on: docs/lab.md, "The default scenario". */
const limitStart = { rate: 9000, bucket: 90000 };

const counts = (low: number, high: number): Scale => ({ low, high, isLog: true, step: 1, parse: parseCount, text: (n) => countText(Math.max(Math.round(low), roundTwo(n))) });
const even = (low: number, high: number, step = 1): Scale => ({ low, high, isLog: false, step, parse: parseCount, text: (n) => String(Math.round(n)) });
const times = (low: number, high: number): Scale => ({ low, high, isLog: true, step: 1, parse: parseTime, text: (s) => timeText(roundTwo(s)) });
const rates = (low: number, high: number): Scale => ({ low, high, isLog: true, step: 1, parse: parseRate, text: (n) => rateText(roundTwo(n)) });

/** Keys of traffic that would hide a tenant of that name. */
const trafficKeys = ["time", "run", "bin", "ledger_delay", "tenants"];
const trafficOf = (tenant: string): string => (trafficKeys.includes(tenant) ? `traffic.tenants.${tenant}` : `traffic.${tenant}`);

/** All alike: that value; else "" and that they differ. */
function shared(values: readonly string[]): { value: string; isMixed: boolean } {
  const first = values[0] ?? "";
  const isMixed = values.some((value) => value !== first);
  return { value: isMixed ? "" : first, isMixed };
}

/** Whose settings count: all who are named, or with a trace those whom it has, as far as a path can name them. */
export function tenantsOf(setup: Setup): readonly string[] {
  const isTrace = setup.tenants.some((tenant) => tenant.arrivals === "trace");
  return isTrace ? setup.tenants.map((tenant) => tenant.name).filter((name) => /^[A-Za-z0-9][\w.-]*$/.test(name)) : setup.tenantNames;
}

interface Given {
  id: string;
  group: Group;
  label: string;
  help: string;
  value: string;
  sets(value: string): SetValue[];
  of?: string;
  unit?: string;
  isMixed?: boolean;
}

const made = (given: Given, kind: Control["kind"], choices: readonly Choice[], scale: Scale | null): Control => ({
  of: "",
  unit: "",
  isMixed: false,
  ...given,
  kind,
  choices,
  scale,
});
const slider = (given: Given, scale: Scale): Control => made(given, "slider", [], scale);
const choice = (given: Given, choices: readonly Choice[]): Control => made(given, "choice", choices, null);
const toggle = (given: Given): Control => made(given, "toggle", [], null);
const words = (...values: string[]): Choice[] => values.map((value) => ({ value, label: value }));

/* ---- limits of tenants ---- */

interface Limit {
  tenant: string;
  kind: "none" | "requests" | "tokens" | "both";
  /** In tokens, whatever the kind. */
  rate: number;
  bucket: number;
  over: string;
}

function limitOf(held: Held, tenant: string): Limit {
  const at = `tenants.${tenant}.limits`;
  const requests = parseRate(held.read(`${at}.requests`));
  const burst = parseCount(held.read(`${at}.burst`));
  const tokens = parseRate(held.read(`${at}.tokens`));
  const tokensBurst = parseCount(held.read(`${at}.tokens_burst`));
  const over = held.read(`${at}.over`) || "wait";
  if (!Number.isNaN(tokens)) return { tenant, kind: Number.isNaN(requests) ? "tokens" : "both", rate: tokens, bucket: tokensBurst, over };
  if (!Number.isNaN(requests)) return { tenant, kind: "requests", rate: requests * requestTokens, bucket: burst * requestTokens, over };
  return { tenant, kind: "none", ...limitStart, over };
}

const rateScale = (kind: string): Scale =>
  kind === "requests"
    ? { ...rates(500, 60000), parse: (text) => parseRate(text) * requestTokens, text: (n) => rateText(roundTwo(n) / requestTokens) }
    : rates(500, 60000);
const bucketScale = (kind: string): Scale =>
  kind === "requests"
    ? { ...counts(1500, 1500000), parse: (text) => parseCount(text) * requestTokens, text: (n) => String(Math.max(1, Math.round(n / requestTokens))) }
    : counts(1500, 1500000);

const rateSet = (limit: Limit, kind: string, value: string): SetValue => ({ path: `tenants.${limit.tenant}.limits.${kind}`, value });
const bucketSet = (limit: Limit, kind: string, value: string): SetValue => ({
  path: `tenants.${limit.tenant}.limits.${kind === "requests" ? "burst" : "tokens_burst"}`,
  value,
});

/** A limit of another kind, at the same place of the slider. */
function kindSets(held: Held, limit: Limit, kind: string): SetValue[] {
  const gone = (each: "requests" | "tokens"): SetValue[] => {
    const isOfFile = held.readFile(rateSet(limit, each, "").path) !== "";
    return [rateSet(limit, each, isOfFile ? "none" : ""), ...(isOfFile ? [] : [bucketSet(limit, each, "")])];
  };
  if (kind === limit.kind) return [];
  if (kind === "none") return [...gone("requests"), ...gone("tokens")];
  return [
    ...gone(kind === "tokens" ? "requests" : "tokens"),
    rateSet(limit, kind, rateScale(kind).text(limit.rate)),
    bucketSet(limit, kind, bucketScale(kind).text(limit.bucket)),
  ];
}

const kinds: Choice[] = [
  { value: "none", label: "none" },
  { value: "requests", label: "requests" },
  { value: "tokens", label: "tokens" },
];

function limitControls(held: Held): Control[] {
  const limits = tenantsOf(held.setup).map((tenant) => limitOf(held, tenant));
  const kind = shared(limits.map((limit) => limit.kind));
  const limited = limits.filter((limit) => limit.kind === "requests" || limit.kind === "tokens");
  const limitedKind = shared(limited.map((limit) => limit.kind)).value;
  const found: Control[] = [
    choice(
      {
        id: "limit-kind",
        group: "limits",
        label: "Limit",
        help: "A request counts as one, whatever its size. In tokens it counts with its prompt and output limit; what it did not use is given back.",
        ...kind,
        sets: (value) => limits.flatMap((limit) => kindSets(held, limit, value)),
      },
      kinds,
    ),
  ];
  if (limitedKind === "") return found;
  found.push(
    slider(
      {
        id: "limit-rate",
        group: "limits",
        label: "Limit per tenant",
        unit: limitedKind,
        help: `How fast each tenant's bucket fills.${limitedKind === "requests" ? ` The slider takes a request for ${requestTokens} tokens.` : ""}`,
        ...shared(limited.map((limit) => held.read(rateSet(limit, limit.kind, "").path))),
        sets: (value) => limited.map((limit) => rateSet(limit, limit.kind, value)),
      },
      rateScale(limitedKind),
    ),
    slider(
      {
        id: "limit-bucket",
        group: "limits",
        label: "Bucket size",
        unit: limitedKind,
        help: "What a tenant may use at once after a pause. Too small: bursts are refused. Too big: one of them hurts the others.",
        ...shared(limited.map((limit) => held.read(bucketSet(limit, limit.kind, "").path))),
        sets: (value) => limited.map((limit) => bucketSet(limit, limit.kind, value)),
      },
      bucketScale(limitedKind),
    ),
    choice(
      {
        id: "over",
        group: "limits",
        label: "Above the limit",
        help: "Wait in the queue until the bucket has enough, or be refused with 429 at once.",
        ...shared(limited.map((limit) => limit.over)),
        sets: (value) => limited.map((limit) => ({ path: `tenants.${limit.tenant}.limits.over`, value })),
      },
      words("wait", "refuse"),
    ),
  );
  return found;
}

/** The same of one tenant: cells of the table. */
function tenantLimits(held: Held, tenant: string): Control[] {
  const limit = limitOf(held, tenant);
  const given = { group: "limits" as const, of: tenant };
  const found: Control[] = [
    choice(
      { ...given, id: `limit-kind:${tenant}`, label: `Limit of ${tenant}`, help: "What this tenant is limited in.", value: limit.kind, sets: (value) => kindSets(held, limit, value) },
      limit.kind === "both" ? [...kinds, { value: "both", label: "both" }] : kinds,
    ),
  ];
  if (limit.kind === "none") return found;
  const kind = limit.kind === "requests" ? "requests" : "tokens";
  found.push(
    slider(
      {
        ...given,
        id: `limit-rate:${tenant}`,
        label: `Rate of ${tenant}`,
        unit: kind,
        help: "How fast its bucket fills.",
        value: held.read(rateSet(limit, kind, "").path),
        sets: (value) => [rateSet(limit, kind, value)],
      },
      rateScale(kind),
    ),
    slider(
      {
        ...given,
        id: `limit-bucket:${tenant}`,
        label: `Bucket of ${tenant}`,
        unit: kind,
        help: "What it may use at once after a pause.",
        value: held.read(bucketSet(limit, kind, "").path),
        sets: (value) => [bucketSet(limit, kind, value)],
      },
      bucketScale(kind),
    ),
    choice(
      {
        ...given,
        id: `over:${tenant}`,
        label: `Above the limit, ${tenant}`,
        help: "Wait in the queue, or be refused.",
        value: limit.over,
        sets: (value) => [{ path: `tenants.${tenant}.limits.over`, value }],
      },
      words("wait", "refuse"),
    ),
  );
  return found;
}

/* ---- order of service ---- */

/** A tenant's lane, whether or not it is one of the configuration's. */
function laneOf(held: Held, tenant: string): string {
  return held.setup.tenants.find((each) => each.name === tenant)?.lane || held.read(`tenants.${tenant}.lane`) || (held.setup.lanes[0]?.name ?? "");
}

function floorSets(held: Held, lane: string, value: string): SetValue[] {
  if (held.has(`lanes.${lane}.floor`)) return [{ path: `lanes.${lane}.floor`, value }];
  const all = held.setup.lanes.map((each) => `{name: ${each.name}, floor: ${each.name === lane ? value : each.floorPercent}}`);
  return [{ path: "lanes", value: `[${all.join(", ")}]` }];
}

/** Who gives way when lanes are switched on: jobs by their name, or all that have no goal. */
function givingWay(held: Held): string[] {
  const jobs = held.setup.tenants.filter((tenant) => /batch|job|night|report|crawl/i.test(tenant.name));
  return (jobs.length > 0 ? jobs : held.setup.tenants.filter((tenant) => Number.isNaN(tenant.goal))).map((tenant) => tenant.name);
}

function laneControls(held: Held): Control[] {
  const { lanes, tenants } = held.setup;
  const used = new Set(tenants.map((tenant) => tenant.lane));
  const jobs = givingWay(held);
  const last = lanes[lanes.length - 1]?.name ?? "";
  const first = tenants.find((tenant) => !jobs.includes(tenant.name))?.lane ?? lanes[0]?.name ?? "";
  const found: Control[] = [];
  if (lanes.length > 1 && ((jobs.length > 0 && jobs.length < tenants.length) || used.size > 1))
    found.push(
      toggle({
        id: "lanes",
        group: "order",
        label: "Lanes",
        help: `A lane is served before those below it. On: ${jobs.join(", ")} in ${last}, below the others.`,
        value: String(used.size > 1),
        sets: (value) =>
          value === "true" ? jobs.map((tenant) => ({ path: `tenants.${tenant}.lane`, value: last })) : tenants.filter((tenant) => tenant.lane !== first).map((tenant) => ({ path: `tenants.${tenant.name}.lane`, value: first })),
      }),
    );
  for (const lane of lanes.slice(1)) {
    if (!used.has(lane.name) || used.size < 2) continue;
    found.push(
      slider(
        {
          id: `floor:${lane.name}`,
          group: "order",
          of: lane.name,
          label: `Floor of lane ${lane.name}`,
          unit: "%",
          help: "What it gets of the work dispatched while it has waiters, whatever those above ask for. 0: it can starve.",
          value: held.read(`lanes.${lane.name}.floor`) || String(lane.floorPercent),
          sets: (value) => floorSets(held, lane.name, value),
        },
        even(0, 60),
      ),
    );
  }
  return found;
}

function orderControls(held: Held): Control[] {
  return [
    choice(
      {
        id: "scheduler",
        group: "order",
        label: "Queue order",
        help: "fifo: as they came. drr: tenants in turn, a request each. drr-cost: in turn, by tokens. vtc: whoever was served least so far.",
        value: held.read("scheduler"),
        sets: (value) => [{ path: "scheduler", value }],
      },
      words("fifo", "drr", "drr-cost", "vtc"),
    ),
    ...laneControls(held),
  ];
}

/* ---- who sends what ---- */

function trafficControls(held: Held): Control[] {
  const { setup } = held;
  const found: Control[] = [];
  const drawn = tenantsOf(setup).filter((name) => held.has(`${trafficOf(name)}.sends`) && !setup.tenants.some((tenant) => tenant.arrivals === "trace"));
  const job = ["batch", "job", "night"].find((name) => drawn.includes(name) && held.read(`${trafficOf(name)}.rate`) !== "");
  if (job !== undefined && held.read(`${trafficOf(job)}.sends`) !== "false")
    found.push(rateControl(held, job, "batch-rate", "traffic", job === "batch" ? "Batch rate" : `Rate of ${job}`));
  const bursty = drawn.map((name) => ({ name, at: `${trafficOf(name)}.burst` })).filter(({ at }) => !["", "0"].includes(held.read(`${at}.until`)));
  if (bursty.length > 0)
    found.push(
      toggle({
        id: "burst",
        group: "traffic",
        label: "Burst",
        help: `For a while ${bursty.map(({ name }) => name).join(", ")} send more: ${bursty.map(({ at }) => `${held.readFile(`${at}.times`) || held.read(`${at}.times`)} times as much from ${held.read(`${at}.from`)} to ${held.read(`${at}.until`)}`)[0] ?? ""}.`,
        value: String(bursty.some(({ at }) => held.read(`${at}.times`) !== "1")),
        sets: (value) => bursty.map(({ at }) => ({ path: `${at}.times`, value: value === "false" ? "1" : held.readFile(`${at}.times`) || "2.5" })),
      }),
    );
  if (drawn.includes("agent"))
    found.push(
      toggle({
        id: "agent",
        group: "traffic",
        label: "Agent",
        help: "Its context grows with each turn: a request is as much work as many of an app's.",
        value: held.read(`${trafficOf("agent")}.sends`) || "true",
        sets: (value) => [{ path: `${trafficOf("agent")}.sends`, value }],
      }),
    );
  found.push({
    ...made({ id: "seed", group: "traffic", label: "Seed", help: "The chance of the run. The same seed is the same requests, whatever else is set.", value: String(held.seed), sets: () => [] }, "text", [], null),
  });
  return found;
}

const rateControl = (held: Held, tenant: string, id: string, group: Group, label: string): Control =>
  slider(
    {
      id,
      group,
      label,
      unit: "requests",
      help: `How many requests ${tenant} sends.`,
      value: held.read(`${trafficOf(tenant)}.rate`),
      sets: (value) => [{ path: `${trafficOf(tenant)}.rate`, value }],
    },
    rates(0.1, 40),
  );

/* ---- queue, permits, backend ---- */

function gatewayControls(held: Held): Control[] {
  const found: Control[] = [];
  for (const { name } of held.setup.upstreams) {
    const at = `upstreams.${name}`;
    const adaptiveMin = parseCount(held.read(`${at}.adaptive.min`)) || 0;
    const permits = parseCount(held.read(`${at}.max_in_flight`));
    const given = { group: "gateway" as const, of: name };
    const of = held.setup.upstreams.length > 1 ? ` of ${name}` : "";
    found.push(
      slider(
        {
          ...given,
          id: `permits:${name}`,
          label: `Permits${of}`,
          unit: "requests",
          help: "Requests the upstream works on at once. Too few: it idles. Too many: the queue stands where no order helps.",
          value: held.read(`${at}.max_in_flight`),
          /* An adaptive limit begins below it. */
          sets: (value) => [
            { path: `${at}.max_in_flight`, value },
            ...(parseCount(value) < adaptiveMin ? [{ path: `${at}.adaptive.min`, value }] : []),
          ],
        },
        counts(1, 1000),
      ),
      toggle({
        ...given,
        id: `adaptive:${name}`,
        label: `Adaptive permits${of}`,
        help: "The limit in flight finds itself, between 8 and the permits above, by how fast streams come.",
        value: String(adaptiveMin > 0),
        sets: (value) => [{ path: `${at}.adaptive.min`, value: value === "false" ? "0" : String(Math.min(parseCount(held.readFile(`${at}.adaptive.min`)) || 8, permits)) }],
      }),
      slider(
        {
          ...given,
          id: `output-limit:${name}`,
          label: `Output assumed${of}`,
          unit: "tokens",
          help: "Held for a request that names no limit. Too low: budgets are overrun. Too high: they look used up early.",
          value: held.read(`${at}.output_limit`),
          sets: (value) => [{ path: `${at}.output_limit`, value }],
        },
        counts(16, 100000),
      ),
    );
  }
  found.push(
    slider(
      {
        id: "max-wait",
        group: "gateway",
        label: "Longest wait",
        help: "A request that has waited so long is refused. A late no helps nobody.",
        value: held.read("limits.max_wait"),
        sets: (value) => [{ path: "limits.max_wait", value }],
      },
      times(0.1, 600),
    ),
    slider(
      {
        id: "waiters",
        group: "gateway",
        label: "Waiters per tenant",
        unit: "requests",
        help: "How many of a tenant's requests may wait; more are refused at once.",
        value: held.read("limits.waiters_per_tenant"),
        sets: (value) => [{ path: "limits.waiters_per_tenant", value }],
      },
      counts(1, 10000),
    ),
  );
  return found;
}

/** The path of what stands behind an upstream; "": the file has no word of it. */
function backendOf(held: Held, upstream: string): string {
  const own = `backend.${upstream}`;
  if (held.has(`${own}.replicas`)) return own;
  const isShared = held.has("backend.replicas") && !held.setup.upstreams.some((each) => held.has(`backend.${each.name}.replicas`));
  return isShared ? "backend" : "";
}

const troubles: Choice[] = [
  { value: "none", label: "none" },
  { value: "slow", label: "one replica is slow" },
  { value: "fail", label: "one replica fails" },
  { value: "all", label: "all replicas fail" },
];

function troubleText(held: Held, value: string): string {
  const from = timeText(Math.round(held.setup.time / 3));
  const until = timeText(Math.round((held.setup.time * 7) / 12));
  if (value === "none") return "[]";
  const what = value === "slow" ? "kind: slow, replica: 1, times: 3" : value === "fail" ? "kind: fail, replica: 1" : "kind: fail";
  return `[{${what}, from: ${from}, until: ${until}}]`;
}

function troubleOf(held: Held, at: string): string {
  const kind = held.read(`${at}.troubles.1.kind`);
  const replica = held.read(`${at}.troubles.1.replica`);
  if (held.read(`${at}.troubles.2.kind`) !== "") return "several";
  if (kind === "") return "none";
  return kind === "slow" ? "slow" : replica === "" || replica === "0" ? "all" : "fail";
}

function backendControls(held: Held): Control[] {
  const found: Control[] = [];
  const { upstreams } = held.setup;
  for (const { name, replicas } of upstreams) {
    const at = backendOf(held, name);
    const given = { group: "backend" as const, of: name };
    const of = upstreams.length > 1 ? ` of ${name}` : "";
    const breaker = `upstreams.${name}.breaker`;
    const sets = (key: string, value: string): SetValue[] => [at === "" ? { path: "backend", value: `{${key}: ${value}}` } : { path: `${at}.${key}`, value }];
    if (at !== "" || !held.has("backend.replicas")) {
      const trouble = troubleOf(held, at);
      const noTrouble = held.readFile(`${at}.troubles.1.kind`) === "" ? "" : "[]";
      found.push(
        slider(
          {
            ...given,
            id: `replicas:${name}`,
            label: `Replicas${of}`,
            help: "Each works on 48 requests at once, if the file does not say otherwise.",
            value: held.read(`${at}.replicas`) || String(replicas),
            sets: (value) => sets("replicas", value),
          },
          even(1, 16),
        ),
        choice(
          {
            ...given,
            id: `trouble:${name}`,
            label: `Trouble${of}`,
            help: "A failing replica answers 503; a slow one takes three times as long for a step.",
            value: trouble,
            sets: (value) => (value === "none" && noTrouble === "" ? sets("troubles", "") : sets("troubles", troubleText(held, value))),
          },
          trouble === "several" ? [...troubles, { value: "several", label: "as the file says" }] : troubles,
        ),
      );
    }
    const isOn = held.read(`${breaker}.failures`) !== "0" || held.read(`${breaker}.failure_percent`) !== "0";
    found.push(
      toggle({
        ...given,
        id: `breaker:${name}`,
        label: `Breaker${of}`,
        help: "After five failures in a row, or half of those in 30 s, the upstream is left alone for a while.",
        value: String(isOn),
        sets: (value) =>
          (["failures", "failure_percent"] as const).map((key) => {
            const own = held.readFile(`${breaker}.${key}`);
            return { path: `${breaker}.${key}`, value: value === "false" ? "0" : own !== "" && own !== "0" ? own : key === "failures" ? "5" : "50" };
          }),
      }),
    );
    if (isOn)
      found.push(
        slider(
          {
            ...given,
            id: `cooldown:${name}`,
            label: `Cool-down${of}`,
            help: "How long the breaker stays open at first; it doubles with each trial that fails.",
            value: held.read(`${breaker}.cooldown`),
            sets: (value) => [{ path: `${breaker}.cooldown`, value }],
          },
          times(0.1, 300),
        ),
      );
    const others = upstreams.map((each) => each.name).filter((each) => each !== name);
    const fallbacks = [...(held.readFile(`upstreams.${name}.fallback`) === "" ? [{ value: "", label: "none" }] : []), ...words(...others)];
    if (fallbacks.length > 1)
      found.push(
        choice(
          {
            ...given,
            id: `fallback:${name}`,
            label: `Fallback${of}`,
            help: "Who takes over while its breaker is open.",
            value: held.read(`upstreams.${name}.fallback`),
            sets: (value) => [{ path: `upstreams.${name}.fallback`, value }],
          },
          fallbacks,
        ),
      );
  }
  return found;
}

/* ---- budgets ---- */

function budgetControls(held: Held): Control[] {
  const { scopes, upstreams } = held.setup;
  const found: Control[] = [];
  const isOurs = scopes.length === 1 && scopes[0]?.name === "all";
  if ((scopes.length === 0 || isOurs) && !held.readFile(`scopes.all.granted`))
    found.push(
      toggle({
        id: "budget",
        group: "budgets",
        label: "A budget for all",
        help: "One grant of tokens that every tenant is charged to. Once it is spent, requests are refused with 402.",
        value: String(isOurs),
        sets: (value) => [
          { path: "scopes", value: value === "true" ? "[{name: all, granted: 2M}]" : "" },
          ...(value === "true" ? [] : [{ path: "scopes.all", value: "" }]),
          ...tenantsOf(held.setup).map((tenant) => ({ path: `tenants.${tenant}.scope`, value: value === "true" ? "all" : "" })),
        ],
      }),
    );
  for (const { name } of scopes) {
    const at = `scopes.${name}`;
    if (!held.has(`${at}.granted`)) continue;
    const given = { group: "budgets" as const, of: name };
    const fallback = held.read(`${at}.on_exhausted.fallback`);
    found.push(
      slider(
        {
          ...given,
          id: `budget:${name}`,
          label: `Budget ${name}`,
          unit: "tokens",
          help: "Tokens, prompt and output, that may be spent.",
          value: held.read(`${at}.granted`),
          sets: (value) => [{ path: `${at}.granted`, value }],
        },
        counts(1000, 20e6),
      ),
      choice(
        {
          ...given,
          id: `exhausted:${name}`,
          label: `${name} is spent`,
          help: "Refuse with 402, wait for the next period, or go to another upstream at its own cost.",
          value: fallback || held.read(`${at}.on_exhausted`) || "refuse",
          sets: (value) => [{ path: `${at}.on_exhausted`, value: value === "refuse" || value === "queue" ? value : `{fallback: ${value}}` }],
        },
        [
          ...words("refuse", "queue"),
          ...(upstreams.length > 1 ? upstreams.map((each) => ({ value: each.name, label: `go to ${each.name}` })) : []),
        ],
      ),
      choice(
        {
          ...given,
          id: `overrun:${name}`,
          label: `Streams above their hold, ${name}`,
          help: "log: they run on, and all is booked. cut: they end when there is nothing more to hold.",
          value: held.read(`${at}.on_overrun`),
          sets: (value) => [{ path: `${at}.on_overrun`, value }],
        },
        words("log", "cut"),
      ),
    );
  }
  return found;
}

/* ---- clients ---- */

const clients: Choice[] = [
  { value: "none", label: "try once" },
  { value: "sdk", label: "retry as SDKs do" },
  { value: "hammer", label: "hammer, without hints" },
];

function clientOf(held: Held, tenant: string): string {
  const at = `${trafficOf(tenant)}.client`;
  const retries = held.read(`${at}.retries`);
  const obeys = held.read(`${at}.obeys_hint`) !== "false";
  if (retries === "" || retries === "0") return "none";
  return obeys && retries === "2" ? "sdk" : !obeys && retries === "5" ? "hammer" : "other";
}

const clientSet = (tenant: string, value: string): SetValue => ({
  path: `${trafficOf(tenant)}.client`,
  value: value === "hammer" ? "{retries: 5, obeys_hint: false}" : value,
});

const clientChoices = (values: readonly string[]): Choice[] => (values.includes("other") ? [...clients, { value: "other", label: "as the file says" }] : clients);

function clientControls(held: Held): Control[] {
  const senders = tenantsOf(held.setup).filter((tenant) => held.has(`${trafficOf(tenant)}.sends`));
  if (senders.length === 0) return [];
  const now = senders.map((tenant) => clientOf(held, tenant));
  const goals = senders.filter((tenant) => !["", "0"].includes(held.read(`${trafficOf(tenant)}.goal`)));
  const found = [
    choice(
      {
        id: "client",
        group: "clients",
        label: "Clients",
        help: "What a client does with a no. SDKs try twice more and obey the hint; one that hammers tries five times more, on its own clock.",
        ...shared(now),
        sets: (value) => senders.map((tenant) => clientSet(tenant, value)),
      },
      clientChoices(now),
    ),
  ];
  if (goals.length > 0)
    found.push(
      slider(
        {
          id: "goal",
          group: "clients",
          label: "Goal",
          help: `Those of ${goals.join(", ")} that waited longer in the queue do not count as good.`,
          ...shared(goals.map((tenant) => held.read(`${trafficOf(tenant)}.goal`))),
          sets: (value) => goals.map((tenant) => ({ path: `${trafficOf(tenant)}.goal`, value })),
        },
        times(0.1, 60),
      ),
    );
  return found;
}

/* ---- one tenant ---- */

/** Cells of the tenant's row in the table of tenants. */
export function tenantControls(held: Held, tenant: string): Control[] {
  const given = { group: "limits" as const, of: tenant };
  const traffic = trafficOf(tenant);
  const found: Control[] = [
    slider(
      {
        ...given,
        id: `weight:${tenant}`,
        label: `Weight of ${tenant}`,
        help: "Its share among the tenants of its lane that wait.",
        value: held.read(`tenants.${tenant}.weight`) || String(held.setup.tenants.find((each) => each.name === tenant)?.weight ?? 1),
        sets: (value) => [{ path: `tenants.${tenant}.weight`, value }],
      },
      counts(1, 100),
    ),
    choice(
      {
        ...given,
        id: `lane:${tenant}`,
        label: `Lane of ${tenant}`,
        help: "A lane is served before those below it.",
        value: laneOf(held, tenant),
        sets: (value) => [{ path: `tenants.${tenant}.lane`, value }],
      },
      words(...held.setup.lanes.map((lane) => lane.name)),
    ),
    ...tenantLimits(held, tenant),
  ];
  if (!held.has(`${traffic}.sends`)) return found;
  if (tenantsOf(held.setup).length > 1)
    found.push(
      toggle({
        ...given,
        id: `sends:${tenant}`,
        label: `${tenant} sends`,
        help: "Off: it sends nothing.",
        value: held.read(`${traffic}.sends`) || "true",
        sets: (value) => [{ path: `${traffic}.sends`, value }],
      }),
    );
  found.push(
    choice(
      { ...given, id: `client:${tenant}`, label: `Client of ${tenant}`, help: "What it does with a no.", value: clientOf(held, tenant), sets: (value) => [clientSet(tenant, value)] },
      clientChoices([clientOf(held, tenant)]),
    ),
  );
  if (held.read(`${traffic}.rate`) !== "") found.push({ ...rateControl(held, tenant, `rate:${tenant}`, "traffic", `Requests of ${tenant}`), of: tenant });
  return found;
}

/** All of a setup, but for those of single tenants. */
export function controlsOf(held: Held): Control[] {
  return [...limitControls(held), ...orderControls(held), ...trafficControls(held), ...gatewayControls(held), ...backendControls(held), ...budgetControls(held), ...clientControls(held)];
}

export function allControls(held: Held): Control[] {
  return [...controlsOf(held), ...tenantsOf(held.setup).flatMap((tenant) => tenantControls(held, tenant))];
}

export const groups: readonly { id: Group; title: string; isOpen: boolean }[] = [
  { id: "limits", title: "Limits", isOpen: true },
  { id: "order", title: "Queue order", isOpen: true },
  { id: "traffic", title: "Traffic", isOpen: true },
  { id: "gateway", title: "Queue and permits", isOpen: false },
  { id: "backend", title: "Backend and breaker", isOpen: false },
  { id: "budgets", title: "Budgets", isOpen: false },
  { id: "clients", title: "Clients and goal", isOpen: false },
];

let pathsKey = "";
let paths: readonly string[] = [];

/** Every path that the controls of a setup may read. */
export function pathsOf(setup: Setup): readonly string[] {
  const names = [setup.lanes, setup.upstreams, setup.scopes].map((list) => list.map((each) => each.name));
  const key = JSON.stringify([setup.tenantNames, names, setup.tenants.map((tenant) => [tenant.name, tenant.lane, tenant.arrivals])]);
  if (key !== pathsKey) {
    paths = findPaths(setup);
    pathsKey = key;
  }
  return paths;
}

/* The controls are made with made-up values. What may be asked behind any of them is asked at once. */
function findPaths(setup: Setup): string[] {
  const found = new Set<string>();
  for (const answer of ["", "0", "1", "1/s"]) {
    const note = (path: string): string => {
      found.add(path);
      return answer;
    };
    for (const known of [() => true, () => false, (path: string) => path === "backend.replicas"])
      allControls({
        setup,
        read: note,
        readFile: note,
        has: (path) => {
          found.add(path);
          return known(path);
        },
        seed: 1,
      });
  }
  return [...found];
}
