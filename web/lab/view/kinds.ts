// What is shown over time, tenant by tenant: by the charts, and by the comparison of two setups.
import type { TenantSeries } from "../engine/types";
import type { Unit } from "./format";

export interface ChartKind {
  id: string;
  title: string;
  unit: Unit;
  unitName: string;
  help: string;
  series: "waitMax" | "waiting" | "inFlight" | "tokens" | "refused";
  /** Instead of a chart of zeros. */
  none: string;
  /** Whether single events are spread over five seconds. */
  isSmooth?: boolean;
}

export const kinds: readonly ChartKind[] = [
  { id: "wait", none: "Nobody waited in the queue.", title: "Longest wait", unit: "seconds", unitName: "s", series: "waitMax", help: "Of those dispatched in the bin, time in the queue." },
  { id: "waiting", none: "Nobody waited in the queue.", title: "Waiting", unit: "count", unitName: "requests", series: "waiting", help: "In the queue, on average over the bin." },
  { id: "in-flight", none: "Nothing was in flight.", title: "In flight", unit: "count", unitName: "requests", series: "inFlight", help: "At the backend, on average over the bin. Grey: all together; dashed: the permits." },
  { id: "tokens", none: "No answer ended.", title: "Tokens", unit: "rate", unitName: "tokens/s", isSmooth: true, series: "tokens", help: "Prompt and output of the answers that ended, mean over five seconds." },
  { id: "refused", none: "Nobody was refused.", title: "Refused", unit: "rate", unitName: "requests/s", isSmooth: true, series: "refused", help: "By the gateway, mean over five seconds." },
];

/** Single events are spread over so many seconds. */
const SMOOTH_S = 5;

/** Mean over five seconds around each bin: answers end one by one, and each brings all of its tokens at once. */
function smooth(values: Float64Array, bin: number): Float64Array {
  const reach = Math.floor(SMOOTH_S / bin / 2);
  let sum = 0;
  let from = 0;
  let until = 0;
  return values.map((_, i) => {
    while (until < Math.min(values.length, i + reach + 1)) sum += values[until++] as number;
    while (from < i - reach) sum -= values[from++] as number;
    return Math.max(0, sum / (until - from));
  });
}

/** The values of a kind as they are shown. */
export function valuesOf(kind: ChartKind, series: TenantSeries, bin: number): Float64Array {
  const values = series[kind.series];
  if (!kind.isSmooth) return values;
  return smooth(kind.series === "refused" ? values.map((value) => value / bin) : values, bin);
}
