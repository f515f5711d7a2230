// A setup as the part of an address behind its #, and as a command.
//
//   #noisy&seed=2&scheduler=vtc&tenants.batch.weight=3     a preset, and what is set over it
//   #mission:retry-storm&...                                a mission
//   #file:weir.yaml&text=...                                a file that was dropped, deflated
//   ...&trace=day.csv&rows=...                              a trace
//   ...&beside=...                                          the setup beside, in the same form, escaped once more
//   ...&lost=weir.yaml                                      what did not fit
import type { SetValue } from "../engine/types";
import { readAll } from "./bytes";
import type { LabSetup } from "./store";

/** Of base64 in a link: mail programs and chats cut longer ones. */
export const heldMax = 16 * 1024;
/** Of a text that comes out of a link, so that a small link cannot fill the memory. */
const textMax = 4 * 1024 * 1024;
/** As the engine and weir lab have it. */
const setsMax = 1000;

export interface Link {
  setup: LabSetup;
  beside: LabSetup | null;
}

/** Characters that are harmless behind a # stay readable. */
const escape = (text: string): string => encodeURIComponent(text).replace(/%(2F|3A|2C|40|5B|5D)/g, (code) => decodeURIComponent(code));

async function through(bytes: Uint8Array<ArrayBuffer>, stream: CompressionStream | DecompressionStream, max: number): Promise<Uint8Array<ArrayBuffer>> {
  const all = await readAll(new Blob([bytes]).stream().pipeThrough(stream), max);
  if (!all) throw new RangeError(`is larger than ${max} bytes once unpacked`);
  return all;
}

async function pack(text: string): Promise<string> {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"), Infinity);
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

async function unpack(packed: string): Promise<string> {
  if (!/^[A-Za-z0-9_-]*$/.test(packed)) throw new SyntaxError("has characters that no link has");
  const binary = atob(packed.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = await through(Uint8Array.from(binary, (c) => c.charCodeAt(0)), new DecompressionStream("deflate-raw"), textMax);
  return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
}

const isNamed = (setup: LabSetup): boolean => setup.origin.startsWith("preset:") || setup.origin.startsWith("mission:");

async function setupText(setup: LabSetup): Promise<{ hash: string; lost: string[] }> {
  const lost: string[] = [];
  const parts = [escape(setup.origin.replace(/^preset:/, ""))];
  if (setup.seed !== 1) parts.push(`seed=${setup.seed}`);
  for (const set of setup.sets) parts.push(`${escape(set.path)}=${escape(set.value)}`);
  const hold = async (key: string, name: string, text: string): Promise<void> => {
    /* What is much larger than any text that packs into the room is not packed at all. */
    const packed = text.length > 64 * heldMax ? "" : await pack(text);
    if (packed === "" || packed.length > heldMax) lost.push(name);
    else parts.push(`${key}=${packed}`);
  };
  if (!isNamed(setup)) await hold("text", setup.text.name, setup.text.text);
  if (setup.trace) {
    parts.push(`trace=${escape(setup.trace.name)}`);
    await hold("rows", setup.trace.name, setup.trace.text);
  }
  for (const name of lost) parts.push(`lost=${escape(name)}`);
  return { hash: parts.join("&"), lost };
}

/** The hash, with its #, and the names of files that are too large for it. */
export async function linkOf(setup: LabSetup, beside: LabSetup | null): Promise<{ hash: string; lost: string[] }> {
  const own = await setupText(setup);
  if (!beside) return { hash: `#${own.hash}`, lost: own.lost };
  const other = await setupText(beside);
  return { hash: `#${own.hash}&beside=${escape(other.hash)}`, lost: [...new Set([...own.lost, ...other.lost])] };
}

/** What is wrong with a link, in a sentence. */
export class LinkError extends Error {}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new LinkError(`The link is damaged at "${text.slice(0, 40)}": a % there is not followed by a character's code.`);
  }
}

async function unpackPart(packed: string, what: string): Promise<string> {
  try {
    return await unpack(packed);
  } catch {
    throw new LinkError(`The link is damaged: its ${what} cannot be unpacked. Perhaps it was cut when it was sent.`);
  }
}

async function readSetup(hash: string, textOf: (origin: string) => Promise<string | undefined>): Promise<Link> {
  const [first = "", ...rest] = hash.split("&");
  const name = decode(first);
  const origin = name === "" ? "preset:default" : name.includes(":") || name === "served" ? name : `preset:${name}`;
  const sets: SetValue[] = [];
  let seed = 1;
  let text: string | undefined;
  let traceName = "";
  let rows: string | undefined;
  let beside: LabSetup | null = null;
  for (const part of rest) {
    if (part === "") continue;
    const at = part.indexOf("=");
    if (at < 1) throw new LinkError(`The link has "${part.slice(0, 40)}", which sets nothing: path=value is expected.`);
    const key = decode(part.slice(0, at));
    const value = decode(part.slice(at + 1));
    if (key === "seed") {
      if (!/^\d{1,15}$/.test(value)) throw new LinkError(`The link's seed is "${value.slice(0, 40)}"; it must be a whole number.`);
      seed = Number(value);
    } else if (key === "text") text = await unpackPart(value, "file");
    else if (key === "trace") traceName = value;
    else if (key === "rows") rows = await unpackPart(value, "trace");
    else if (key === "beside") beside = (await readSetup(value, textOf)).setup;
    else if (key === "lost") throw new LinkError(`This link was made of ${value}, which is too large for a link. Drop that file here, and set what you set again.`);
    else if (sets.length >= setsMax) throw new LinkError(`The link sets more than ${setsMax} values.`);
    else sets.push({ path: key, value });
  }
  const own = text ?? (await textOf(origin));
  if (own === undefined) throw new LinkError(`The link names "${name.slice(0, 60)}", which this page does not have.`);
  const setup: LabSetup = {
    /* Another text is not the preset or mission that it calls itself: neither its command nor its stars. */
    origin: text !== undefined && /^(preset|mission):/.test(origin) ? origin.replace(/^[a-z]+/, "file") : origin,
    text: { name: origin.replace(/^[a-z]+:/, ""), text: own },
    sets,
    seed,
    trace: rows === undefined ? null : { name: traceName || "trace.csv", text: rows },
  };
  return { setup, beside };
}

/** Reads what is behind the #, without it. "" is the default. Throws LinkError. */
export const readLink = (hash: string, textOf: (origin: string) => Promise<string | undefined>): Promise<Link> => readSetup(hash.replace(/^#/, ""), textOf);

/* ---- the same as a command ---- */

/** For a POSIX shell: as it is where that is safe, else in single quotes. */
export function quote(word: string): string {
  return /^[A-Za-z0-9_./:=@%+,-]+$/.test(word) && !word.startsWith("-") ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** The file that has to be beside a command: "" for what `weir lab` has itself. */
export const fileOf = (setup: LabSetup): string => (setup.origin.startsWith("preset:") ? "" : `${setup.text.name.replace(/\.ya?ml$/, "")}.yaml`);

export function commandOf(setup: LabSetup): string {
  const words = ["weir", "lab"];
  const file = fileOf(setup);
  if (file !== "") words.push(quote(file.startsWith("-") ? `./${file}` : file));
  else if (setup.text.name !== "default") words.push(quote(setup.text.name));
  if (setup.trace) words.push("--trace", quote(setup.trace.name.startsWith("-") ? `./${setup.trace.name}` : setup.trace.name));
  for (const set of setup.sets) words.push("--set", quote(`${set.path}=${set.value}`));
  if (setup.seed !== 1) words.push("--seed", String(setup.seed));
  return words.join(" ");
}
