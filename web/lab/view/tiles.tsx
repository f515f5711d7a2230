// The figures of the run as tiles, each with what the last change did to it.
import { signal } from "@preact/signals";
import { previous, run, type LabRun } from "../state/store";
import { compare, figures, inWords, modelValue, recordedValue, type Figure } from "./figures";
import { figure } from "./format";
import { Spark } from "./spark";
import "./views.css";

const arrows = { up: "▲", down: "▼", "": "" } as const;

/** Whether the explanations stand under the figures where there is little room; else they do always. */
const isExplained = signal(false);

/** The run to compare with; null where it was of something else. */
function comparable(now: LabRun, before: LabRun | null): LabRun | null {
  return before && before !== now && before.of.origin === now.of.origin ? before : null;
}

function Change({ of, now, before }: { of: Figure; now: number; before: number }) {
  const { verdict, direction } = compare(of, now, before);
  return (
    <p class={`v-change v-${verdict}`}>
      {direction && <span aria-hidden="true">{arrows[direction]}</span>} {inWords(of, now, before)}
    </p>
  );
}

function Tile({ of, now, before }: { of: Figure; now: LabRun; before: LabRun | null }) {
  const value = modelValue(of, now);
  const isMet = of.isMet?.(now) ?? null;
  const note = of.note?.(now) ?? "";
  const recorded = recordedValue(of, now);
  const verdict = before ? compare(of, value, modelValue(of, before)).verdict : "none";
  return (
    <li class={`v-tile v-is-${verdict}`} data-figure={of.id} data-verdict={before ? verdict : "first"} title={of.help}>
      <h3>{of.label}</h3>
      <p class="v-value">
        {figure(of.unit, value)} {of.unitName && <span class="v-unit">{of.unitName}</span>}
        {isMet !== null && (
          <span class={isMet ? "v-met" : "v-missed"}>{isMet ? "✓ kept" : "✕ missed"}</span>
        )}
      </p>
      {before ? <Change of={of} now={value} before={modelValue(of, before)} /> : <p />}
      <div>
        {recorded !== null && (
          <p class="v-recorded">
            recorded <b>{figure(of.unit, recorded)}</b> {of.unitName}
          </p>
        )}
        <p class="v-note">{note}</p>
      </div>
      <div>{of.series && <Spark values={of.series(now)} before={before ? of.series(before) : null} />}</div>
      <p class="v-help">{of.help}</p>
    </li>
  );
}

export function Tiles() {
  const now = run.value;
  const before = now && comparable(now, previous.value);
  const seen = now ? figures.filter((of) => !of.applies || of.applies(now) || (before && of.applies(before))) : [];
  const isOtherTraffic = before && now && before.result.trafficHash !== now.result.trafficHash;
  return (
    <section class={isExplained.value ? "v-tiles v-explained" : "v-tiles"} aria-labelledby="v-tiles">
      <div class="v-head">
        <h2 id="v-tiles">What came of it</h2>
        <button type="button" class="v-explain" aria-pressed={isExplained.value} onClick={() => (isExplained.value = !isExplained.value)}>
          Explain
        </button>
      </div>
      {!before && <p class="v-lead">{now ? "Change something, and each figure says what that did to it." : "Nothing has run yet."}</p>}
      {isOtherTraffic && (
        <p class="v-lead">The last change also changed what is sent, so not all of the difference is the gateway's.</p>
      )}
      <ul>{now && seen.map((of) => <Tile key={of.id} of={of} now={now} before={before ?? null} />)}</ul>
    </section>
  );
}
