// Values as they stand in a configuration ("9k/s", "1m30s") and as numbers. What a value means is the
// engine's business: here it only gets a place on a slider.

const counts: Record<string, number> = { "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12 };
const times: Record<string, number> = { d: 86400, h: 3600, m: 60, s: 1, ms: 1e-3, us: 1e-6, ns: 1e-9 };
const per: Record<string, number> = { s: 1, m: 60, min: 60, h: 3600, d: 86400 };

/** NaN: not a count. */
export function parseCount(text: string): number {
  const match = /^(\d+(?:\.\d+)?)([kMGT]?)$/.exec(text.trim());
  return match ? Number(match[1]) * (counts[match[2] ?? ""] ?? NaN) : NaN;
}

/** Seconds; NaN: not a duration. */
export function parseTime(text: string): number {
  const trimmed = text.trim();
  if (trimmed === "0") return 0;
  if (!/^(\d+(\.\d+)?(d|h|ms|m|us|s|ns))+$/.test(trimmed)) return NaN;
  let sum = 0;
  for (const part of trimmed.matchAll(/(\d+(?:\.\d+)?)(d|h|ms|m|us|s|ns)/g)) sum += Number(part[1]) * (times[part[2] ?? ""] ?? NaN);
  return sum;
}

/** A second; NaN: not a rate. */
export function parseRate(text: string): number {
  const [count, unit, ...rest] = text.trim().split("/");
  return rest.length > 0 ? NaN : parseCount(count ?? "") / (per[unit ?? ""] ?? NaN);
}

/** As short as it is exact: 9000 is 9k, 1500 is 1500. */
export function countText(n: number): string {
  const whole = Math.round(n);
  for (const unit of ["G", "M", "k"]) {
    const size = counts[unit] ?? 1;
    if (whole >= size && whole % (size / 10) === 0) return `${whole / size}${unit}`;
  }
  return String(whole);
}

export function timeText(seconds: number): string {
  const ms = Math.round(seconds * 1000);
  if (ms === 0) return "0";
  if (ms % 3600000 === 0) return `${ms / 3600000}h`;
  if (ms % 60000 === 0) return `${ms / 60000}m`;
  return ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`;
}

/** Of a rate a second, in the smallest of second, minute and hour in which it is a short number. */
export function rateText(perSecond: number): string {
  for (const [unit, seconds] of [["s", 1], ["m", 60], ["h", 3600]] as const) {
    const count = perSecond * seconds;
    if (Math.abs(count * 10 - Math.round(count * 10)) < 1e-6) {
      const tenths = Math.round(count * 10);
      return `${tenths % 10 === 0 ? countText(tenths / 10) : String(tenths / 10)}/${unit}`;
    }
  }
  return `${Math.max(1, Math.round(perSecond * 3600))}/h`;
}

/** The nearest number with two digits that count (1, 1.1, 1.2 .. 9.9, 10, 11 ..), so that a slider stops at round ones. */
export function roundTwo(n: number): number {
  if (n <= 0) return 0;
  const size = 10 ** (Math.floor(Math.log10(n)) - 1);
  return Number((Math.round(n / size) * size).toPrecision(6));
}

/** Whether two texts are one value of whatever kind: "9k/s" and "9000/s". */
export function isSameValue(a: string, b: string): boolean {
  if (a === b) return true;
  const parse = [parseCount, parseTime, parseRate].find((each) => !Number.isNaN(each(a)) && !Number.isNaN(each(b)));
  return parse !== undefined && Math.abs(parse(a) - parse(b)) < 1e-9 * Math.max(1, parse(a));
}
