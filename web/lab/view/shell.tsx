// The page: a bar with what is done to the whole, the controls, and what comes of them.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { SetValue } from "../engine/types";
import { aboutOf, presetNames } from "../state/presets";
import { change, dropBeside, isFresh, loadPreset, pinBeside, redo, redoLabel, resetSets, swapBeside, undo, undoLabel } from "../state/setup";
import { beside, current, isRunning, missionName, problems, run } from "../state/store";
import { About } from "./about";
import { Announcer, Strip, toResults } from "./announce";
import { Controls, problemText } from "./controls";
import { DropZone, OwnFiles } from "./drop";
import { Compare, MissionList, MissionPanel, Take } from "./later";
import { Queue } from "./queue";
import { Charts } from "./charts";
import { Tiles } from "./tiles";
import { TenantSettings } from "./tenants";

/** Keys for the whole page; in a field of text they are the field's. */
function useKeys(): void {
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      const at = event.target as HTMLElement | null;
      const isText = at?.matches("input[type=text], input[type=password], textarea, dialog *") ?? false;
      if (isText || event.altKey || !(event.ctrlKey || event.metaKey)) return;
      const key = event.key.toLowerCase();
      if (key !== "z" && key !== "y") return;
      event.preventDefault();
      void (key === "y" || event.shiftKey ? redo() : undo());
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

function Chooser() {
  const origin = current.value?.origin ?? "";
  const isPreset = origin.startsWith("preset:");
  const isMission = origin.startsWith("mission:");
  const name = isPreset ? origin.slice(7) : "";
  return (
    <label class="chooser">
      <span>Scenario</span>
      <select
        data-control="preset"
        value={name}
        onChange={(event) => {
                  void loadPreset(event.currentTarget.value);
        }}
      >
        {!isPreset && (
          <option value="" disabled selected>
            {isMission ? `mission: ${current.value?.text.name}` : (current.value?.text.name ?? "…")}
          </option>
        )}
        {presetNames.map((preset) => (
          <option value={preset} key={preset} selected={preset === name}>
            {preset}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A button that opens a panel, which is loaded when it is first opened. */
function Opener({ id, label, title, kind, children }: { id: string; label: string; title: string; kind?: string; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const isOpen = useSignal(false);
  /* A mission that was begun closes the list. */
  useEffect(() => {
    if (missionName.value !== "") dialog.current?.close();
  }, [missionName.value]);
  return (
    <>
      <button
        type="button"
        class={kind}
        data-control={id}
        onClick={() => {
          isOpen.value = true;
          dialog.current?.showModal();
        }}
      >
        {label}
      </button>
      <dialog ref={dialog} aria-labelledby={`${id}-title`} onClose={() => (isOpen.value = false)}>
        <div class="row spread">
          <h2 id={`${id}-title`}>{title}</h2>
          <button type="button" onClick={() => dialog.current?.close()}>
            Close
          </button>
        </div>
        {isOpen.value && children}
      </dialog>
    </>
  );
}

function Bar() {
  const hasBeside = beside.value !== null;
  return (
    <header class="bar">
      <div class="brand">
        <h1>weir lab</h1>
        <span class="tag">calculated, not measured</span>
      </div>
      <Chooser />
      <Opener id="missions" label="Missions" title="Missions">
        <MissionList />
      </Opener>
      <div class="row pair">
        <button type="button" data-control="undo" disabled={undoLabel.value === ""} onClick={() => void undo()} title={undoLabel.value && `Undo ${undoLabel.value} (Ctrl-Z)`} aria-label={`Undo ${undoLabel.value}`}>
          <span aria-hidden="true">↶</span> Undo
        </button>
        <button type="button" data-control="redo" disabled={redoLabel.value === ""} onClick={() => void redo()} title={redoLabel.value && `Redo ${redoLabel.value} (Ctrl-Shift-Z)`} aria-label={`Redo ${redoLabel.value}`}>
          <span aria-hidden="true">↷</span> Redo
        </button>
      </div>
      <button type="button" data-control="pin" disabled={!run.value} onClick={pinBeside} title="Keeps this setup beside the one that you go on with">
        {hasBeside ? "Pin this instead" : "Pin to compare"}
      </button>
      <Opener id="take" label="Take it home" title="Take this setup home" kind="main">
        <Take />
      </Opener>
    </header>
  );
}

/** Values of the same key that are alike for several tenants (or upstreams) stand together: tenants.*.weight=2. */
function together(sets: readonly SetValue[]): { shown: string; paths: string[] }[] {
  const found = new Map<string, string[]>();
  for (const set of sets) {
    const shown = `${set.path.replace(/^(tenants|traffic)\.[^=]*?\.(?=(limits\.|burst\.)?[a-z_]+$)/, "$1.*.")}=${set.value}`;
    found.set(shown, [...(found.get(shown) ?? []), set.path]);
  }
  return [...found].map(([shown, paths]) => ({ shown: paths.length > 1 ? shown : `${paths[0] ?? ""}${shown.slice(shown.indexOf("="))}`, paths }));
}

const shortened = (text: string): string => (text.length > 70 ? `${text.slice(0, 67)}…` : text);

/** What is set over the file, each with a way back. */
function Changes() {
  const sets = current.value?.sets ?? [];
  const isAll = useSignal(false);
  if (sets.length === 0) return null;
  const chips = together(sets);
  const shown = isAll.value ? chips : chips.slice(0, 6);
  return (
    <div class="changes">
      <ul aria-label="Values set over the file">
        {shown.map(({ shown: text, paths }) => (
          <li key={text} title={paths.join(", ")}>
            <code>{shortened(text)}</code>
            <button
              type="button"
              aria-label={`Set ${paths.join(", ")} back`}
              title="Back to what the file says"
              onClick={() =>
                void change(
                  paths.map((path) => ({ path, value: "" })),
                  `${text.slice(0, text.indexOf("="))} back`,
                )
              }
            >
              ×
            </button>
          </li>
        ))}
      </ul>
      {chips.length > 6 && (
        <button type="button" class="quiet" onClick={() => (isAll.value = !isAll.value)} aria-expanded={isAll.value}>
          {isAll.value ? "fewer" : `and ${chips.length - 6} more`}
        </button>
      )}
      <button type="button" class="quiet" data-control="reset" onClick={() => void resetSets()}>
        all back
      </button>
    </div>
  );
}

function Headline() {
  const setup = current.value;
  if (!setup) return null;
  const about = aboutOf(setup.text.text);
  return (
    <div class="headline">
      <p>
        <strong>
          {setup.origin.startsWith("mission:") && "Mission "}
          {setup.text.name}
        </strong>
        {about && ` · ${about}`}
      </p>
      <Changes />
    </div>
  );
}

function Problems() {
  const said = problems.value;
  const warnings = run.value?.warnings ?? [];
  return (
    <>
      <div role="alert">
        {said.length > 0 && (
          <div class="card problems" data-problems>
            <h2>{run.value ? "Not taken; what is shown is still the setup before" : "This cannot be run"}</h2>
            <ul>
              {said.slice(0, 12).map((problem) => (
                <li>{problemText(problem)}</li>
              ))}
            </ul>
            {said.length > 12 && <p>and {said.length - 12} more</p>}
            <button type="button" onClick={() => (problems.value = [])}>
              Dismiss
            </button>
          </div>
        )}
      </div>
      {warnings.length > 0 && (
        <details class="warnings">
          <summary>
            {warnings.length} {warnings.length === 1 ? "remark" : "remarks"} on this setup
          </summary>
          <ul>
            {warnings.slice(0, 20).map((problem) => (
              <li>{problemText(problem)}</li>
            ))}
          </ul>
        </details>
      )}
    </>
  );
}

function SideBySide() {
  if (!beside.value) return null;
  return (
    <section class="card" aria-labelledby="beside-title">
      <div class="row spread">
        <h2 id="beside-title">Side by side</h2>
        <div class="row">
          <button type="button" data-control="swap" onClick={() => void swapBeside()}>
            Swap
          </button>
          <button type="button" data-control="drop-beside" onClick={dropBeside}>
            Drop
          </button>
        </div>
      </div>
      <Compare />
    </section>
  );
}

export function Shell() {
  useKeys();
  const isOpen = useSignal(false);
  return (
    <div class={isFresh.value ? "page" : "page stale"} aria-busy={isRunning.value}>
      <a class="skip" href="#results" onClick={toResults}>
        Skip to the results
      </a>
      <Bar />
      <Announcer />
      <div class="layout">
        <section class={isOpen.value ? "side open" : "side"} aria-label="Controls">
          <button type="button" class="side-toggle" aria-expanded={isOpen.value} onClick={() => (isOpen.value = !isOpen.value)}>
            {isOpen.value ? "Hide the controls" : "Change the setup"}
          </button>
          <Strip />
          <div class="side-body">
            <h2 class="hidden-text">Controls</h2>
            <Controls />
            <OwnFiles />
          </div>
        </section>
        <main id="results" tabIndex={-1}>
          <Headline />
          <Problems />
          <DropZone />
          {missionName.value !== "" && <MissionPanel />}
          <Tiles />
          <SideBySide />
          <Queue />
          <Charts />
          <TenantSettings />
          <About />
        </main>
      </div>
    </div>
  );
}
