// What the page holds. Everything shown follows from these signals; everything done goes through the
// functions of setup.ts, so that undo, the link and the command line know of it.
import { signal } from "@preact/signals";
import type { Problem, RunResult, SetValue, Setup, SetupText, TraceText } from "../engine/types";

/** A setup as the page holds it: all that the engine needs, and where it came from. */
export interface LabSetup {
  /** "preset:default", "mission:request-limits", "file:weir.yaml", "served". */
  origin: string;
  text: SetupText;
  sets: readonly SetValue[];
  seed: number;
  trace: TraceText | null;
}

/** A setup with what came of it. */
export interface LabRun {
  of: LabSetup;
  setup: Setup;
  result: RunResult;
  warnings: Problem[];
}

/** The setup that is edited. */
export const current = signal<LabSetup | null>(null);
/** The newest run of it; of an older state of it while a run is under way. */
export const run = signal<LabRun | null>(null);
/** The run before the last change, with which the tiles compare. */
export const previous = signal<LabRun | null>(null);
/** The second setup beside it; null: none. */
export const beside = signal<LabRun | null>(null);
/** What is wrong with the last thing done (a file dropped, a value set); the run stays. */
export const problems = signal<readonly Problem[]>([]);
export const isRunning = signal(false);

/** The moment that the queue and the charts show, seconds. */
export const moment = signal(0);
export const isPlaying = signal(false);
/** The tenant under the pointer or focus, by index; -1: none. Views bring it out. */
export const pointed = signal(-1);
/** The mission that is played; "": none. */
export const missionName = signal("");
