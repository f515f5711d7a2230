// What a change did, for those who hear the page: after a run, politely, and the newest only.
import { effect, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { LabRun } from "../state/store";
import { isRunning, previous, run } from "../state/store";
import { count, seconds, share } from "./format";

const said = signal("");
const waitMs = 700;

/** Those with a goal, or all when nobody has one. */
function watched(of: LabRun): { name: string; wait: number; good: number } {
  const tenants = of.result.tenants.filter((_, i) => !Number.isNaN(of.setup.tenants[i]?.goal ?? NaN));
  if (tenants.length === 0) return { name: "all", wait: of.result.all.waitP95, good: of.result.all.goodShare };
  const slowest = tenants.reduce((a, b) => (b.waitP95 > a.waitP95 ? b : a));
  return { name: slowest.name, wait: slowest.waitP95, good: Math.min(...tenants.map((tenant) => tenant.goodShare)) };
}

const plain = (text: string): string => text.replaceAll("\u00a0", " ");

export function sentence(now: LabRun, before: LabRun | null): string {
  const here = watched(now);
  const there = before && watched(before);
  const was = (text: string): string => (there ? `, was ${text}` : "");
  const refused = now.result.all.refused;
  return plain(
    `Longest wait p95: ${here.name} ${seconds(here.wait)}${was(there ? seconds(there.wait) : "")}. ` +
      `Least in goal ${share(here.good)}${was(there ? share(there.good) : "")}. ` +
      `Refused ${refused}${was(String(before?.result.all.refused ?? 0))}.`,
  );
}

export function Announcer() {
  useEffect(() => {
    let timer = 0;
    const stop = effect(() => {
      const now = run.value;
      const before = previous.value;
      clearTimeout(timer);
      if (now && !isRunning.value) timer = window.setTimeout(() => (said.value = sentence(now, before)), waitMs);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, []);
  return (
    <p class="hidden-text" role="status" aria-live="polite" data-said>
      {said}
    </p>
  );
}

/** The main figures, in view while the controls of a narrow page are open. */
export function Strip() {
  const now = run.value;
  if (!now) return null;
  const here = watched(now);
  const there = previous.value && watched(previous.value);
  return (
    <div class="strip">
      <span>
        <span>wait p95, {here.name}</span>
        <strong>{seconds(here.wait)}</strong>
        {there && ` was ${seconds(there.wait)}`}
      </span>
      <span>
        <span>least in goal</span>
        <strong>{share(here.good)}</strong>
      </span>
      <span>
        <span>refused</span>
        <strong>{count(now.result.all.refused)}</strong>
      </span>
      <a href="#results" onClick={toResults}>
        Results
      </a>
    </div>
  );
}

/** To the results without a word in the address: that holds the setup. */
export function toResults(event: Event): void {
  event.preventDefault();
  const results = document.getElementById("results");
  results?.scrollIntoView();
  results?.focus({ preventScroll: true });
}
