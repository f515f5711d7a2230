// Controls of what a tenant may send.
import type { SetValue } from "../engine/types";
import { choice, counts, rates, shared, slider, tenantsOf, words, type Scale, type Choice, type Control, type Held } from "./control";
import { parseCount, parseRate, rateText, roundTwo } from "./units";

/** A request limit takes a request for so many tokens, so that one slider serves both kinds. */
export const requestTokens = 1500;
/** Where a limit begins that was switched on: docs/lab.md, "The default scenario". */
const limitStart = { rate: 9000, bucket: 90000 };

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

export function limitControls(held: Held): Control[] {
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
export function tenantLimits(held: Held, tenant: string): Control[] {
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
