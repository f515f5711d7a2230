// Everything that is done to what the page holds. One engine, one setup that is edited, its history, and a
// second setup beside it. A step that the engine refuses is taken back: its problem stays, and the run too.
import { batch, computed, signal } from "@preact/signals";
import type { Engine, Problem, Reply, RunRequest, SetValue } from "../engine/types";
import { pathsOf } from "./controls";
import { addStep, closeSlide, mergeSets, moveBy, noHistory, type History } from "./history";
import { presetText } from "./presets";
import { beside, current, isRunning, missionName, moment, previous, problems, run, type LabRun, type LabSetup } from "./store";
import { isSameValue } from "./units";

/** Texts of values by their path; see Setup.values. */
export type Values = Record<string, string | null>;

/** What the engine said of the last value of a control, when it said no. */
export interface Refusal {
  control: string;
  value: string;
  problems: readonly Problem[];
}

/** What is asked of whoever holds the missions. */
export interface MissionTexts {
  text(name: string): Promise<string | undefined>;
  /** Ids of the controls that it opens. */
  controls(name: string): readonly string[];
}

const history = signal<History>(noHistory);
/** The history as it was when the engine last took it. */
let accepted: History = noHistory;
/** What is to be shown beside, when it has not been run yet. */
let awaited: LabSetup | null = null;
/** The run that was shown before the newest step began. */
let shownBefore: LabRun | null = null;
let engine: Engine | null = null;
let missions: MissionTexts = { text: async () => undefined, controls: () => [] };

export const refusal = signal<Refusal | null>(null);
/** What the file itself says, without anything set: a value that is set back to it needs no set. */
export const base = signal<Values>({});
/** Values in force. */
export const values = computed<Values>(() => run.value?.setup.values ?? {});
/** What undo would take back, and redo do again; "": nothing. */
export const undoLabel = computed(() => (history.value.at > 0 ? (history.value.steps[history.value.at]?.label ?? "") : ""));
export const redoLabel = computed(() => history.value.steps[history.value.at + 1]?.label ?? "");
/** A slider is being moved: more steps come soon. */
export const isSliding = computed(() => (history.value.steps[history.value.at]?.slide ?? "") !== "");
/** Whether the shown run is of what is set: false while a newer one is computed. */
export const isFresh = computed(() => run.value?.of === current.value);

export function connect(to: Engine): void {
  engine = to;
}

/** The setup as a configuration of its own, as the engine prints it. */
export async function yamlOf(setup: LabSetup): Promise<Awaited<ReturnType<Engine["yaml"]>>> {
  if (!engine) return { ok: false, problems: [{ where: "page", line: 0, column: 0, text: "the engine has not started yet", isWarning: false }] };
  return engine.yaml(setup.text, setup.sets);
}

/** Missions have texts of their own; who holds them says so here. */
export function provideMissions(held: MissionTexts): void {
  missions = held;
}

export const controlsOfMission = (name: string): readonly string[] => missions.controls(name);

const isSameFile = (a: LabSetup | undefined, b: LabSetup): boolean =>
  a !== undefined && a.text.text === b.text.text && a.text.name === b.text.name && a.trace?.text === b.trace?.text;

const requestOf = (of: LabSetup, sets: readonly SetValue[], paths: readonly string[], wantsRequests: boolean): RunRequest => ({
  setup: of.text,
  sets,
  seed: of.seed,
  trace: of.trace ?? undefined,
  paths,
  wantsRequests,
});

/** Runs a setup, and asks for the values of all controls that it has. null: something newer is being run. */
async function ask(of: LabSetup): Promise<Reply | null> {
  const known = isSameFile(run.value?.of, of) ? Object.keys(run.value?.setup.values ?? {}) : [];
  let reply = (await engine?.run(requestOf(of, of.sets, known, true))) ?? null;
  if (!reply?.ok) return reply;
  const paths = pathsOf(reply.setup);
  if (!paths.every((path) => path in (reply as { setup: { values: Values } }).setup.values))
    reply = (await engine?.run(requestOf(of, of.sets, paths, true))) ?? null;
  return reply;
}

/** What the file says by itself. Asked once for each file, after its first run. */
async function askBase(of: LabRun): Promise<Values | null> {
  if (of.of.sets.length === 0) return of.setup.values;
  const reply = await engine?.run(requestOf(of.of, [], pathsOf(of.setup), false));
  return reply ? (reply.ok ? reply.setup.values : {}) : null;
}

let baseOf: LabSetup | undefined;

/** A mission is played as long as its setup is edited. */
function hold(setup: LabSetup | null): void {
  current.value = setup;
  missionName.value = setup?.origin.startsWith("mission:") ? setup.origin.slice(8) : "";
}

function takeBack(said: readonly Problem[]): void {
  const refused = history.value.steps[history.value.at];
  batch(() => {
    problems.value = said;
    if (refused?.control) refusal.value = { control: refused.control, value: refused.value, problems: said };
    history.value = accepted;
    hold(accepted.steps[accepted.at]?.setup ?? null);
    isRunning.value = false;
  });
}

async function runCurrent(): Promise<void> {
  const before = shownBefore;
  const asked = current.value;
  if (!asked) return;
  isRunning.value = true;
  const reply = await ask(asked);
  if (!reply) return;
  const isNewest = asked === current.value;
  if (!reply.ok) {
    if (isNewest) takeBack(reply.problems);
    return;
  }
  const isOther = run.value !== null && !isSameFile(run.value.of, asked);
  batch(() => {
    /* What stands beside goes when the new one is sent something else: nothing could be compared. */
    if (isOther && beside.value && beside.value.result.trafficHash !== reply.result.trafficHash) beside.value = null;
    run.value = { of: asked, setup: reply.setup, result: reply.result, warnings: reply.warnings };
    previous.value = before;
    if (moment.value > reply.result.end) moment.value = reply.result.end;
    if (isNewest) {
      accepted = history.value;
      isRunning.value = false;
    }
  });
  if (isNewest) await runOthers(asked);
}

/** What may wait until the newest result is shown: what the file says by itself, and the setup beside. */
async function runOthers(after: LabSetup): Promise<void> {
  const shown = run.value;
  if (shown && !isSameFile(baseOf, after)) {
    const found = await askBase(shown);
    if (!found) return;
    base.value = found;
    baseOf = after;
  }
  const wanted = awaited ?? beside.value?.of;
  if (!wanted || current.value !== after) return;
  const alike = { ...wanted, seed: after.seed };
  if (!awaited && wanted.seed === after.seed) return;
  const reply = await ask(alike);
  if (!reply) return;
  awaited = null;
  if (reply.ok) beside.value = { of: alike, setup: reply.setup, result: reply.result, warnings: reply.warnings };
  else problems.value = reply.problems;
}

function take(setup: LabSetup, label: string, control = "", value = "", slide = ""): Promise<void> {
  const here = history.value.steps[history.value.at];
  const goesOn = slide !== "" && here?.slide === slide;
  if (!goesOn) shownBefore = isSameFile(run.value?.of, setup) ? run.value : null;
  batch(() => {
    problems.value = [];
    refusal.value = null;
    history.value = addStep(history.value, { setup, label, control, value, slide });
    hold(setup);
  });
  return runCurrent();
}

/** A value that the file has anyway is taken away; so the link and the command hold what differs. */
function withoutBase(setup: LabSetup, sets: readonly SetValue[]): SetValue[] {
  if (!isSameFile(baseOf, setup)) return [...sets];
  return sets.map((set) => {
    const own = base.value[set.path];
    const isOwn = own !== undefined && own !== null && isSameValue(own === "" ? "none" : own, set.value);
    return isOwn ? { path: set.path, value: "" } : set;
  });
}

export interface By {
  /** The control's id and what was given, for a refusal to be shown there. */
  control?: string;
  value?: string;
  /** While it is moved: all until endSlide is one step. */
  isSliding?: boolean;
}

/** Lays values over the setup and runs it. An empty value takes an older one of its path away. */
export function change(sets: readonly SetValue[], label: string, by: By = {}): Promise<void> {
  const setup = current.value;
  if (!setup) return Promise.resolve();
  const merged = mergeSets(setup.sets, withoutBase(setup, sets));
  return take({ ...setup, sets: merged }, label, by.control, by.value, by.isSliding ? (by.control ?? label) : "");
}

/** Back to what the file says. */
export function resetSets(): Promise<void> {
  const setup = current.value;
  if (!setup || setup.sets.length === 0) return Promise.resolve();
  return take({ ...setup, sets: [] }, "all changes back");
}

export function endSlide(): void {
  history.value = closeSlide(history.value);
}

export function setSeed(seed: number, by: By = {}): Promise<void> {
  const setup = current.value;
  if (!setup || seed === setup.seed) return Promise.resolve();
  return take({ ...setup, seed }, `seed ${seed}`, by.control ?? "seed", String(seed));
}

/** The next seed: other requests of the same kind. */
export const newSeed = (): Promise<void> => setSeed((current.value?.seed ?? 0) + 1);

/** Goes over to another setup. One that is impossible is not taken, and problems says why. */
export function load(setup: LabSetup, label = setup.text.name): Promise<void> {
  return take(setup, label);
}

export async function loadPreset(name: string): Promise<void> {
  const origin = `preset:${name}`;
  const text = await textOf(origin);
  if (text !== undefined) await load({ origin, text: { name, text }, sets: [], seed: current.value?.seed ?? 1, trace: null });
}

/** Always with seed 1, so that a mission is the same for all who play it. */
export async function loadMission(name: string): Promise<void> {
  const origin = `mission:${name}`;
  const text = await textOf(origin);
  if (text !== undefined) await load({ origin, text: { name, text }, sets: [], seed: 1, trace: null }, `mission ${name}`);
}

/** The text of a preset or mission by its origin, "preset:noisy"; undefined: there is none. A part that has to be
 *  loaded and cannot be is a problem of the page. */
export async function textOf(origin: string): Promise<string | undefined> {
  const [kind, name = ""] = origin.split(":");
  try {
    if (kind === "mission") return await missions.text(name);
    return kind === "preset" ? await presetText(name) : undefined;
  } catch {
    problems.value = [{ where: name, line: 0, column: 0, text: "could not be loaded; is the gateway that serves this page still running?", isWarning: false }];
    return undefined;
  }
}

function go(by: number): Promise<void> {
  const moved = moveBy(history.value, by);
  const to = moved.steps[moved.at];
  if (moved === history.value || !to) return Promise.resolve();
  shownBefore = isSameFile(run.value?.of, to.setup) ? run.value : null;
  batch(() => {
    problems.value = [];
    refusal.value = null;
    history.value = moved;
    hold(to.setup);
  });
  return runCurrent();
}

export const undo = (): Promise<void> => go(-1);
export const redo = (): Promise<void> => go(1);

/** Keeps the setup that is shown, to compare with. */
export function pinBeside(): void {
  beside.value = run.value;
}

export function dropBeside(): void {
  awaited = null;
  beside.value = null;
}

/** The setup beside becomes the one that is edited, and the other way round. */
export function swapBeside(): Promise<void> {
  const other = beside.value;
  if (!other || !run.value) return Promise.resolve();
  beside.value = run.value;
  return take(other.of, "the setup beside");
}

/** A setup to be shown beside, from a link. */
export function awaitBeside(setup: LabSetup | null): void {
  awaited = setup;
  if (!setup) beside.value = null;
}
