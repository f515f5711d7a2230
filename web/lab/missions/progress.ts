// How far somebody has come in the missions, kept in the browser where it lets us. What is read there may
// be anything: what can be understood counts, and nothing that is there is lost by what can not.
import { signal } from "@preact/signals";

export interface Progress {
  /** Most stars earned of each mission, 0 to 3. */
  stars: Readonly<Record<string, number>>;
  /** Missions whose solution was looked at: the next one is open. */
  seen: readonly string[];
  /** Every mission is open. */
  isAllOpen: boolean;
}

/** The part of Storage that is used. */
export interface Shelf {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
}

const key = "weir-lab-missions";
const none: Progress = { stars: {}, seen: [], isAllOpen: false };

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
const asStars = (value: unknown): number => (typeof value === "number" && value >= 1 ? Math.min(3, Math.floor(value)) : 0);

/** What a kept text says; null: it is none of ours. */
export function parseProgress(text: string): Progress | null {
  let kept: unknown;
  try {
    kept = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isObject(kept)) return null;
  const stars = isObject(kept["stars"]) ? Object.entries(kept["stars"]).map(([id, value]) => [id, asStars(value)] as const) : [];
  return {
    stars: Object.fromEntries(stars.filter(([, count]) => count > 0)),
    seen: Array.isArray(kept["seen"]) ? kept["seen"].filter((id): id is string => typeof id === "string") : [],
    isAllOpen: kept["isAllOpen"] === true,
  };
}

/** Of each the better. */
export function mergeProgress(a: Progress, b: Progress): Progress {
  const stars: Record<string, number> = { ...a.stars };
  for (const [id, count] of Object.entries(b.stars)) stars[id] = Math.max(stars[id] ?? 0, count);
  return { stars, seen: [...new Set([...a.seen, ...b.seen])], isAllOpen: a.isAllOpen || b.isAllOpen };
}

export function readProgress(shelf: Shelf | null): Progress {
  try {
    return parseProgress(shelf?.getItem(key) ?? "{}") ?? none;
  } catch {
    return none; /* storage that is switched off throws */
  }
}

/** Keeps it together with what is there by now (another tab); a text that is none of ours is put aside. */
export function keepProgress(shelf: Shelf | null, progress: Progress): void {
  try {
    const there = shelf?.getItem(key) ?? null;
    const kept = there === null ? none : parseProgress(there);
    if (there !== null && kept === null) shelf?.setItem(`${key}.unread`, there);
    shelf?.setItem(key, JSON.stringify(mergeProgress(kept ?? none, progress)));
  } catch {
    /* full, or switched off: it holds until the page is closed */
  }
}

/** Absent in Node, and refused by a browser that keeps nothing. */
function browserShelf(): Shelf | null {
  try {
    return globalThis.localStorage ?? null;
  } catch {
    return null;
  }
}

export const progress = signal<Progress>(readProgress(browserShelf()));

function add(more: Partial<Progress>): void {
  progress.value = mergeProgress(progress.value, { ...none, ...more });
  keepProgress(browserShelf(), progress.value);
}

/** Notes stars; fewer than there were change nothing. */
export function earn(id: string, stars: number): void {
  if (stars > (progress.value.stars[id] ?? 0)) add({ stars: { [id]: stars } });
}

export const markSeen = (id: string): void => add({ seen: [id] });
export const openAll = (): void => add({ isAllOpen: true });

/** A mission is open when the one before it has a star, or its solution was looked at. */
export function isOpen({ stars, seen, isAllOpen }: Progress, ids: readonly string[], index: number): boolean {
  const before = ids[index - 1];
  return isAllOpen || before === undefined || (stars[before] ?? 0) > 0 || seen.includes(before) || (stars[ids[index] ?? ""] ?? 0) > 0;
}
