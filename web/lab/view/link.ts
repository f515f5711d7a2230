// The address follows the setup, and the setup an address that is opened.
import { effect, signal } from "@preact/signals";
import { LinkError, linkOf, readLink } from "../state/link";
import { awaitBeside, isSliding, load, loadPreset, textOf } from "../state/setup";
import { beside, current, problems, run, type LabSetup } from "../state/store";
import { loadMissions } from "./later";

/** Files that the address cannot hold; empty: it holds all. */
export const lost = signal<readonly string[]>([]);

/** While a slider is moved: browsers let a page change its address some hundred times a minute. */
const waitMs = 400;
let written = "";
let timer = 0;
/** How many addresses were opened: of several in a row only the last counts. */
let opened = 0;

const complain = (text: string): void => {
  problems.value = [{ where: "link", line: 0, column: 0, text, isWarning: false }];
};

/** Writes a setup into the address; its whole. */
export async function writeLink(setup: LabSetup, other?: LabSetup): Promise<string> {
  clearTimeout(timer);
  const link = await linkOf(setup, other ?? null);
  lost.value = link.lost;
  if (setup === current.value) {
    written = link.hash;
    if (location.hash !== written) history.replaceState(history.state, "", written);
  }
  return new URL(link.hash, location.href).href;
}

async function openLink(): Promise<void> {
  const mine = ++opened;
  try {
    if (location.hash.includes("mission:")) await loadMissions();
    const link = await readLink(location.hash, textOf);
    if (mine !== opened) return;
    awaitBeside(link.beside);
    await load(link.setup);
    /* Not when something else was chosen while it was read. */
    if (!current.value) await loadPresetKeeping();
  } catch (reason) {
    if (mine !== opened) return;
    if (!current.value) await loadPreset("default");
    complain(reason instanceof LinkError ? reason.message : `The link cannot be read: ${String(reason)}`);
  }
}

/** A link to a setup that is impossible: the default, and what was wrong with the other. */
async function loadPresetKeeping(): Promise<void> {
  const said = problems.value;
  await loadPreset("default");
  problems.value = said;
}

/** Once, when the engine is there. */
export async function followLink(): Promise<void> {
  addEventListener("hashchange", () => {
    if (location.hash !== written) void openLink();
  });
  await openLink();
  effect(() => {
    /* Of what the engine took; the one beside is part of it. */
    const other = beside.value;
    const shown = run.value;
    if (!shown || shown.of !== current.value) return;
    clearTimeout(timer);
    if (isSliding.value) timer = window.setTimeout(() => void writeLink(shown.of, other?.of), waitMs);
    else void writeLink(shown.of, other?.of);
  });
}
