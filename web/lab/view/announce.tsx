// What a change did, for those who hear the page: after a run, politely, and the newest only.
import { effect, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { LabRun } from "../state/store";
import { isRunning, previous, run } from "../state/store";
import { figures, modelValue } from "./figures";
import { figure } from "./format";

const said = signal("");
const waitMs = 700;

/** The figures that say most, as text; what they were, where the same was run before. */
function told(now: LabRun, before: LabRun | null): { label: string; value: string; was: string }[] {
  return figures
    .filter((of) => ["wait", "in-goal", "refused"].includes(of.id) && (of.applies?.(now) ?? true))
    .map((of) => {
      const show = (shown: LabRun): string => figure(of.unit, modelValue(of, shown)).replaceAll("\u00a0", " ");
      return { label: of.label, value: show(now), was: before ? show(before) : "" };
    });
}

const sentence = (now: LabRun, before: LabRun | null): string =>
  told(now, before)
    .map(({ label, value, was }) => `${label}: ${value}${was && `, was ${was}`}.`)
    .join(" ");

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
  return (
    <div class="strip">
      {told(now, previous.value).map(({ label, value, was }) => (
        <span key={label}>
          <span>{label}</span>
          <strong>{value}</strong> {was && `was ${was}`}
        </span>
      ))}
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
