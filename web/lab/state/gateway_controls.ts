// Controls of queue, permits and budgets, and of what stands behind them.
import type { SetValue } from "../engine/types";
import { choice, counts, even, slider, tenantsOf, times, toggle, words, type Choice, type Control, type Held } from "./control";
import { parseCount, timeText } from "./units";

export function gatewayControls(held: Held): Control[] {
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

export function backendControls(held: Held): Control[] {
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

export function budgetControls(held: Held): Control[] {
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
