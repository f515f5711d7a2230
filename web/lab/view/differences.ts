// In what two setups differ, as text.
import type { LabRun } from "../state/store";

export interface Difference {
  what: string;
  a: string;
  b: string;
}

/** The value a path has in a run: as set, else as the engine says it is in force. */
function valueOf(run: LabRun, path: string): string {
  const set = run.of.sets.findLast((one) => one.path === path);
  if (set) return set.value || "as in the file";
  return run.setup.values[path] || "as in the file";
}

/** Where the setups come from, their seeds and traces, and every value that one of them sets, as far as they
 *  differ. Empty: they are the same. */
export function differences(a: LabRun, b: LabRun): Difference[] {
  const found: Difference[] = [];
  const add = (what: string, ofA: string, ofB: string) => {
    if (ofA !== ofB) found.push({ what, a: ofA, b: ofB });
  };
  add("setup", a.of.text.name, b.of.text.name);
  if (a.of.text.name === b.of.text.name && a.of.text.text !== b.of.text.text)
    found.push({ what: "setup", a: "its text differs", b: "its text differs" });
  add("trace", a.of.trace?.name ?? "none", b.of.trace?.name ?? "none");
  add("seed", String(a.of.seed), String(b.of.seed));
  const paths = new Set([...a.of.sets, ...b.of.sets].map((set) => set.path));
  for (const path of [...paths].sort()) add(path, valueOf(a, path), valueOf(b, path));
  return found;
}
