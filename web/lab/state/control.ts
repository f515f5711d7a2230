// What a control is, and the kinds that there are.
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

export const counts = (low: number, high: number): Scale => ({ low, high, isLog: true, step: 1, parse: parseCount, text: (n) => countText(Math.max(Math.round(low), roundTwo(n))) });
export const even = (low: number, high: number, step = 1): Scale => ({ low, high, isLog: false, step, parse: parseCount, text: (n) => String(Math.round(n)) });
export const times = (low: number, high: number): Scale => ({ low, high, isLog: true, step: 1, parse: parseTime, text: (s) => timeText(roundTwo(s)) });
export const rates = (low: number, high: number): Scale => ({ low, high, isLog: true, step: 1, parse: parseRate, text: (n) => rateText(roundTwo(n)) });

/** Keys of traffic that would hide a tenant of that name. */
const trafficKeys = ["time", "run", "bin", "ledger_delay", "tenants"];
export const trafficOf = (tenant: string): string => (trafficKeys.includes(tenant) ? `traffic.tenants.${tenant}` : `traffic.${tenant}`);

/** All alike: that value; else "" and that they differ. */
export function shared(values: readonly string[]): { value: string; isMixed: boolean } {
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

export const made = (given: Given, kind: Control["kind"], choices: readonly Choice[], scale: Scale | null): Control => ({
  of: "",
  unit: "",
  isMixed: false,
  ...given,
  kind,
  choices,
  scale,
});
export const slider = (given: Given, scale: Scale): Control => made(given, "slider", [], scale);
export const choice = (given: Given, choices: readonly Choice[]): Control => made(given, "choice", choices, null);
export const toggle = (given: Given): Control => made(given, "toggle", [], null);
export const words = (...values: string[]): Choice[] => values.map((value) => ({ value, label: value }));
