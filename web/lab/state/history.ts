// Undo and redo, as a list of states and a place in it. Nothing here changes what it is given, so an older
// history can be gone back to.
import type { SetValue } from "../engine/types";
import type { LabSetup } from "./store";

export interface Step {
  setup: LabSetup;
  /** What led here, in words that go on after "Undo": "queue order: fifo". */
  label: string;
  /** The control that was used and what it was given; "": none. */
  control: string;
  value: string;
  /** Steps of one control while it is moved are one step. "": a step of its own. */
  slide: string;
}

export interface History {
  steps: readonly Step[];
  at: number;
}

const stepsMax = 100;

export const noHistory: History = { steps: [], at: -1 };

export function addStep(history: History, step: Step): History {
  const here = history.steps[history.at];
  const goesOn = step.slide !== "" && here?.slide === step.slide;
  const kept = history.steps.slice(0, goesOn ? history.at : history.at + 1);
  const steps = [...kept, step].slice(-stepsMax);
  return { steps, at: steps.length - 1 };
}

/** The slider was let go: its next move is a new step. */
export function closeSlide(history: History): History {
  const here = history.steps[history.at];
  if (!here || here.slide === "") return history;
  return { steps: history.steps.map((step) => (step === here ? { ...step, slide: "" } : step)), at: history.at };
}

/** By -1 or 1; the same history when there is nothing there. */
export function moveBy(history: History, by: number): History {
  const at = history.at + by;
  return at >= 0 && at < history.steps.length ? { ...history, at } : history;
}

const isUnder = (path: string, parent: string): boolean => path === parent || path.startsWith(`${parent}.`);

/** Lays values over older ones: a value goes in the place of the same path's and of those below it; an empty
 *  one only takes those away. */
export function mergeSets(old: readonly SetValue[], added: readonly SetValue[]): SetValue[] {
  let merged = [...old];
  for (const set of added) {
    merged = merged.filter((each) => !isUnder(each.path, set.path));
    if (set.value !== "") merged.push(set);
  }
  return merged;
}
