// A file that was dropped or chosen: a configuration or a trace, told apart by what is in it. Whether it is right
// is the loader's to say; here only what it is, and that it is text of a bearable size.
import type { Problem, SetupText, TraceText } from "../engine/types";
import { readAll } from "./bytes";
import { yamlOf } from "./setup";
import type { LabSetup } from "./store";

/** Of a file, and of what a gzip file unpacks to. Of a configuration the engine takes less. */
export const fileMax = 64 * 1024 * 1024;

export type Dropped = { kind: "config"; text: SetupText } | { kind: "trace"; trace: TraceText } | { kind: "none"; problem: Problem };

const problemOf = (where: string, text: string): Problem => ({ where, line: 0, column: 0, text, isWarning: false });
const none = (where: string, text: string): Dropped => ({ kind: "none", problem: problemOf(where, text) });

const columns = /(^|,)\s*"?(timestamp|contexttokens|generatedtokens|arrival_s|arrival_ms|prompt_tokens|output_tokens)"?\s*(,|$)/i;

/** By the first line that is neither blank nor a comment. A first line of many cells is a trace too, if a
 *  damaged one: its reader says what is missing. */
export function kindOf(text: string): "config" | "trace" | "none" {
  if (text.startsWith("#weir recording")) return "trace";
  const lines = text.slice(0, 64 * 1024).split(/\r?\n/);
  const first = lines.find((line) => line.trim() !== "" && !line.startsWith("#")) ?? "";
  if (columns.test(first)) return "trace";
  if (/^---\s*$/.test(first) || /^\s*[{[]/.test(first) || /^\s*(- )?["']?[\w.-]+["']?\s*:(\s|$)/.test(first)) return "config";
  return first.split(",").length > 2 ? "trace" : "none";
}

/** Takes a file apart. Never rejects: what is wrong is a problem with the file's name. */
export async function readDropped(file: Blob & { readonly name: string }): Promise<Dropped> {
  const { name } = file;
  if (file.size === 0) return none(name, "is empty");
  if (file.size > fileMax) return none(name, "is larger than 64 MiB");
  try {
    const head = new Uint8Array(await file.slice(0, 2).arrayBuffer());
    const isGzip = head[0] === 0x1f && head[1] === 0x8b;
    const stream = file.stream() as ReadableStream<Uint8Array<ArrayBuffer>>;
    const bytes = await readAll(isGzip ? stream.pipeThrough(new DecompressionStream("gzip")) : stream, fileMax).catch((reason: unknown) => {
      if (isGzip) return undefined;
      throw reason;
    });
    if (bytes === undefined) return none(name, "begins as gzip and cannot be unpacked: it is damaged or was cut");
    if (bytes === null) return none(name, "is larger than 64 MiB once unpacked");
    if ((bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff)) return none(name, "is UTF-16; save it as UTF-8");
    if (bytes.includes(0)) return none(name, "is a binary file; a configuration (YAML) or a trace (CSV) is expected");
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    const plain = name.replace(/\.gz$/i, "");
    switch (kindOf(text)) {
      case "config":
        return { kind: "config", text: { name: plain, text } };
      case "trace":
        return { kind: "trace", trace: { name: plain, text } };
      case "none":
        return none(name, "is neither a configuration (YAML, with upstreams: and more) nor a trace (CSV with a first line of column names: docs/traces.md)");
    }
  } catch (reason) {
    return none(name, reason instanceof TypeError ? "is not UTF-8 text" : `cannot be read: ${reason instanceof Error ? reason.message : String(reason)}`);
  }
}

/** Whether a configuration says who sends. */
export const hasTraffic = (text: string): boolean => /^traffic\s*:/m.test(text) || /^\s*\{[^]*["']?traffic["']?\s*:/.test(text);

/** Names of the tenants in a configuration as the engine prints it. */
export function tenantsIn(printed: string): string[] {
  const part = /^tenants:\n((?:[ -].*\n?)*)/m.exec(printed)?.[1] ?? "";
  return [...part.matchAll(/^- \{?name: "?([^",}\n]+)/gm)].map((match) => match[1] ?? "");
}

export interface Offer {
  setup: LabSetup;
  /** What is added, for the user to see. */
  added: string;
  tenants: readonly string[];
}

/** A configuration without traffic, with some for each of its tenants. Problems instead, when it is wrong anyway. */
export async function offerTraffic(setup: LabSetup): Promise<Offer | readonly Problem[]> {
  const printed = await yamlOf(setup);
  if (!printed.ok) return printed.problems;
  const own = tenantsIn(printed.text);
  const tenants = own.length > 0 ? own.slice(0, 32) : ["app-1", "app-2", "app-3"];
  const rows = tenants.map((name) => `  - {name: ${name}, rate: 1/s, prompt: 300..1500, output: 100..400, output_limit: 1024, goal: 2s}`);
  const added = `# Added by the lab page: who sends what. Change it to what is yours.\ntraffic:\n  time: 120s\n  tenants:\n${rows.join("\n")}\n`;
  const isBlock = !/^\s*[{[]/.test(setup.text.text) && !/^\.\.\.\s*$/m.test(setup.text.text);
  if (isBlock) {
    const text = `${setup.text.text.trimEnd()}\n\n${added}`;
    return { setup: { ...setup, text: { ...setup.text, text } }, added, tenants };
  }
  const value = `{time: 120s, tenants: [${rows.map((row) => row.trim().slice(2)).join(", ")}]}`;
  return { setup: { ...setup, sets: [...setup.sets, { path: "traffic", value }] }, added, tenants };
}

export type Served = { ok: true; text: SetupText } | { ok: false; why: string };

/** The configuration of the gateway that serves this page. The token goes nowhere else and is not kept. */
export async function fetchServed(token: string): Promise<Served> {
  /* What no header can hold would be told as a network's fault. */
  if (!/^[\x21-\x7e]+$/.test(token.trim())) return { ok: false, why: "That is no token: it is one word, in the file admin.token of the gateway's state directory." };
  let answer: Response;
  try {
    answer = await fetch("../v1/config", { headers: { authorization: `Bearer ${token.trim()}` }, cache: "no-store" });
  } catch {
    return { ok: false, why: "The gateway cannot be reached. Is it still running?" };
  }
  if (answer.status === 401 || answer.status === 403)
    return { ok: false, why: `The gateway does not take this token (${answer.status}). It is in the file admin.token of its state directory.` };
  if (!answer.ok) return { ok: false, why: `The gateway answered ${answer.status} where its configuration was asked for.` };
  return { ok: true, text: { name: "served.yaml", text: await answer.text() } };
}
