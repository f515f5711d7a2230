// The runs for what is large and need not be first: tables, small charts and descriptions are made in
// frames of their own, after the tiles have told the news.
import { effect, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import { beside, run, type LabRun } from "../state/store";
import { drawSoon } from "./frames";

/** Takes over what `from` has in one of the next frames. */
function follow<T>(from: () => T, to: Signal<T>): ReadonlySignal<T> {
  effect(() => {
    const newest = from();
    drawSoon(to, () => (to.value = newest));
  });
  return to;
}

/** As `run`, some frames later. */
export const settledRun = follow(() => run.value, signal<LabRun | null>(null));
/** As `run` and `beside`, some frames later. */
export const settledPair = follow(
  () => ({ a: run.value, b: beside.value }),
  signal<{ a: LabRun | null; b: LabRun | null }>({ a: null, b: null }),
);
