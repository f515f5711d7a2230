// Numbers as the page writes them, one way for each unit, and the same digits as the tables of
// `weir lab`. A figure of which there is none (NaN) is "–". Between a number and its unit stands a
// space that does not break.

/** What a figure counts. "work": tokens times their weight, as fairness counts them. */
export type Unit = "seconds" | "count" | "tokens" | "rate" | "share" | "work" | "index";

const GAP = "\u00a0";
const NONE = "–";

/** Whole number with thousands separators, nearest; never "-0". */
function whole(value: number): string {
  const rounded = Math.round(value);
  const digits = Math.abs(rounded)
    .toFixed(0)
    .replace(/\B(?=(\d{3})+$)/g, ",");
  return rounded < 0 ? `-${digits}` : digits;
}

/** "872 ms", "1.31 s", "146 s". */
export function seconds(value: number): string {
  if (!Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  if (size < 1) return `${whole(value * 1000)}${GAP}ms`;
  return `${size < 100 ? value.toFixed(2) : whole(value)}${GAP}s`;
}

/** A moment of a run: "52.5 s", one digit whatever it is, so that it does not jump while it moves. */
export function instant(value: number): string {
  return Number.isFinite(value) ? `${value.toFixed(1)}${GAP}s` : NONE;
}

/** "1,640", "12.5". */
export function count(value: number): string {
  if (!Number.isFinite(value)) return NONE;
  const isWhole = Math.abs(value - Math.round(value)) < 0.001 || Math.abs(value) >= 1000;
  return isWhole ? whole(value) : value.toFixed(1);
}

/** So many a second: "11,130", "0.40". The unit stands in the heading. */
export function rate(value: number): string {
  if (!Number.isFinite(value)) return NONE;
  return Math.abs(value) >= 100 ? whole(value) : value.toFixed(2);
}

/** A part of one, in percent: "98.9 %". */
export function share(value: number): string {
  return Number.isFinite(value) ? `${(value * 100).toFixed(1)}${GAP}%` : NONE;
}

/** Between 0 and 1, as Jain's index: "0.994". */
export function index(value: number): string {
  return Number.isFinite(value) ? value.toFixed(3) : NONE;
}

/** For the axis of a chart: "25k", "1.5M", "250". */
export function short(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toFixed(1))}M`;
  if (size >= 1e4) return `${Number((value / 1e3).toFixed(1))}k`;
  return size >= 1000 ? whole(value) : String(Number(value.toFixed(3)));
}

/** A value in its unit. */
export function figure(unit: Unit, value: number): string {
  switch (unit) {
    case "seconds":
      return seconds(value);
    case "count":
    case "tokens":
    case "work":
      return count(value);
    case "rate":
      return rate(value);
    case "share":
      return share(value);
    case "index":
      return index(value);
  }
}

/** A difference in the unit of its figures, always with a sign: "+1.31 s", "−3.0 points" (of two
 *  shares), "±0" where it is too small to be written. */
export function change(unit: Unit, value: number): string {
  if (!Number.isFinite(value)) return NONE;
  const text =
    unit === "share"
      ? `${Math.abs(value * 100).toFixed(1)}${GAP}points`
      : figure(unit, Math.abs(value));
  if (!/[1-9]/.test(text)) return "±0";
  return `${value < 0 ? "−" : "+"}${text}`;
}

/** One of several: "1 request", "1,640 requests". */
export function many(value: number, one: string, several = `${one}s`): string {
  return `${count(value)}${GAP}${value === 1 ? one : several}`;
}

const reasonWords: Record<string, string> = {
  queue_full: "queue full",
  queue_timeout: "waited too long",
  rate_limit_exceeded: "rate limit",
  budget_busy: "budget held by others",
  request_too_large_for_limit: "larger than the limit",
  budget_exhausted: "budget spent",
  tenant_paused: "tenant paused",
  upstream_open: "breaker open",
  upstream_unavailable: "upstream failed",
  upstream_timeout: "upstream too slow",
};

/** The reason of a refusal in a few words; its code where there are none. */
export function reason(code: string): string {
  return reasonWords[code] ?? code.replaceAll("_", " ");
}
