// The controls as they are touched. Each has its label, its value as it would stand in the file, and a line that
// says what it does. What the engine does not take stays in the field, with the loader's words below it.
import { useSignal } from "@preact/signals";
import { useEffect, useId } from "preact/hooks";
import type { Problem } from "../engine/types";
import type { Control, Group, Scale } from "../state/control";
import { groups } from "../state/controls";
import { controls, findControl } from "../state/held";
import { isSameValue } from "../state/units";
import { change, controlsOfMission, endSlide, isFresh, newSeed, refusal, setSeed } from "../state/setup";
import { missionName, run } from "../state/store";
import { Fold } from "./fold";

/** A problem in a few words: where, if it is in the file, and what. */
export function problemText(problem: Problem): string {
  const place = problem.line > 0 ? `:${problem.line}:${problem.column}` : "";
  return `${problem.where.replace(/^--set /, "")}${place}: ${problem.text}`;
}

const evenSteps = 1000;

/** Where a value stands on a slider, 0 to steps. */
function positionOf(scale: Scale, text: string): number {
  const n = scale.parse(text);
  if (Number.isNaN(n)) return 0;
  if (!scale.isLog) return Math.round((n - scale.low) / scale.step);
  const share = Math.log(Math.max(n, scale.low) / scale.low) / Math.log(scale.high / scale.low);
  return Math.round(evenSteps * Math.min(1, share));
}

function textAt(scale: Scale, position: number): string {
  const n = scale.isLog ? scale.low * (scale.high / scale.low) ** (position / evenSteps) : scale.low + position * scale.step;
  return scale.text(n);
}

const stepsOf = (scale: Scale): number => (scale.isLog ? evenSteps : Math.round((scale.high - scale.low) / scale.step));

function set(control: Control, value: string, isSliding = false): void {
  if (control.id === "seed") {
    const seed = Number(value.trim());
    if (Number.isSafeInteger(seed) && seed >= 0) void setSeed(seed, { control: control.id });
    else refusal.value = { control: control.id, value, problems: [{ where: "seed", line: 0, column: 0, text: `must be a whole number from 0 on, not '${value}'`, isWarning: false }] };
    return;
  }
  void change(control.sets(value), `${control.label}: ${control.kind === "toggle" ? (value === "true" ? "on" : "off") : labelOf(control, value)}`, { control: control.id, value, isSliding });
}

const labelOf = (control: Control, value: string): string => control.choices.find((choice) => choice.value === value)?.label ?? value;

/** The line that says what it does, behind a button. */
function Help({ control }: { control: Control }) {
  const id = useId();
  const isOpen = useSignal(false);
  return (
    <>
      <button type="button" class="help" aria-expanded={isOpen.value} aria-controls={id} aria-label={`What ${control.label} does`} title={control.help} onClick={() => (isOpen.value = !isOpen.value)}>
        ?
      </button>
      <p class="help-text" id={id} hidden={!isOpen.value}>
        {control.help}
      </p>
    </>
  );
}

/** The problem of what was given last, if the engine did not take it. */
function refusalOf(control: Control) {
  const said = refusal.value;
  return said?.control === control.id ? said : null;
}

function Problems({ control, id }: { control: Control; id: string }) {
  const said = refusalOf(control);
  if (!said) return null;
  return (
    <p class="problem" id={id} role="alert">
      {said.problems.slice(0, 3).map((problem) => (
        <span>Not taken. {problemText(problem)}</span>
      ))}
    </p>
  );
}

interface FieldProps {
  control: Control;
  /** In a table: the heading says what it is. */
  isBare?: boolean;
}

function ValueText({ control, id, shown }: { control: Control; id: string; shown: string }) {
  const refused = refusalOf(control);
  const value = refused ? refused.value : shown;
  return (
    <input
      type="text"
      class="value"
      id={id}
      data-control={control.kind === "slider" ? `${control.id}:text` : control.id}
      aria-label={control.kind === "slider" ? `${control.label}, exact` : undefined}
      aria-invalid={refused ? "true" : undefined}
      aria-describedby={refused ? `${id}-problem` : undefined}
      inputMode={control.id === "seed" ? "numeric" : undefined}
      autocomplete="off"
      spellcheck={false}
      placeholder={control.isMixed ? "differ" : "none"}
      value={value}
      onChange={(event) => {
        const given = event.currentTarget.value.trim();
        if (given !== "" && given !== shown) set(control, given);
        else event.currentTarget.value = shown;
      }}
    />
  );
}

function Slider({ control, isBare }: FieldProps) {
  const id = useId();
  const draft = useSignal<string | null>(null);
  /* Where the thumb was put: values are round, so it is not quite where its value would be. */
  const put = useSignal(-1);
  const scale = control.scale;
  /* What was dragged to is shown until its own result is there. */
  useEffect(() => {
    if (isFresh.value) draft.value = null;
  }, [isFresh.value, control.value]);
  if (!scale) return null;
  /* The engine's 90/m is 1.5/s to a reader. */
  const usual = scale.text(scale.parse(control.value));
  const shown = draft.value ?? (isSameValue(usual, control.value) ? usual : control.value);
  const place = put.value >= 0 && textAt(scale, put.value) === shown ? put.value : positionOf(scale, shown);
  const move = (to: number): void => {
    put.value = to;
    const text = textAt(scale, to);
    if (text === shown) return;
    draft.value = text;
    set(control, text, true);
  };
  /* A key goes to the next value, however many places that is. */
  const press = (event: KeyboardEvent): void => {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    let to = place + by;
    while (to > 0 && to < stepsOf(scale) && textAt(scale, to) === shown) to += by;
    if (to >= 0 && to <= stepsOf(scale)) move(to);
  };
  if (isBare)
    return (
      <>
        <ValueText control={control} id={id} shown={shown} />
        <Problems control={control} id={`${id}-problem`} />
      </>
    );
  return (
    <div class="field slider">
      <label for={id}>{control.label}</label>
      <Help control={control} />
      <span class="exact">
        <ValueText control={control} id={`${id}-text`} shown={shown} />
        <span class="unit">{control.unit}</span>
      </span>
      <input
        type="range"
        id={id}
        data-control={control.id}
        min={0}
        max={stepsOf(scale)}
        step={1}
        value={place}
        aria-valuetext={`${control.isMixed ? "differ" : shown} ${control.unit}`.trim()}
        onInput={(event) => move(Number(event.currentTarget.value))}
        onKeyDown={press}
        onKeyUp={endSlide}
        onChange={endSlide}
      />
      <Problems control={control} id={`${id}-text-problem`} />
    </div>
  );
}

/** Few short words stand side by side; others in a list. */
const isShort = (control: Control): boolean => control.choices.length <= 4 && control.choices.reduce((sum, choice) => sum + choice.label.length + 3, 0) <= 34;

function Choices({ control, isBare }: FieldProps) {
  const id = useId();
  if (isBare || !isShort(control))
    return (
      <div class={isBare ? "bare" : "field"}>
        {!isBare && <label for={id}>{control.label}</label>}
        {!isBare && <Help control={control} />}
        <select id={id} data-control={control.id} aria-label={isBare ? control.label : undefined} value={control.value} onChange={(event) => set(control, event.currentTarget.value)}>
          {control.isMixed && (
            <option value="" disabled>
              differ
            </option>
          )}
          {control.choices.map((choice) => (
            <option value={choice.value} key={choice.value} selected={choice.value === control.value}>
              {choice.label}
            </option>
          ))}
        </select>
        {!isBare && <Problems control={control} id={`${id}-problem`} />}
      </div>
    );
  return (
    <fieldset class="field" aria-labelledby={id} data-control={control.id}>
      <span id={id} class="label">
        {control.label}
      </span>
      <Help control={control} />
      <div class="segments">
        {control.choices.map((choice) => (
          <label key={choice.value}>
            <input type="radio" name={id} value={choice.value} checked={!control.isMixed && choice.value === control.value} onChange={() => set(control, choice.value)} />
            <span>{choice.label}</span>
          </label>
        ))}
      </div>
      {control.isMixed && <p class="note">They differ; see the tenants one by one.</p>}
      <Problems control={control} id={`${id}-problem`} />
    </fieldset>
  );
}

function Toggle({ control, isBare }: FieldProps) {
  const id = useId();
  const box = (
    <input
      type="checkbox"
      role="switch"
      id={id}
      data-control={control.id}
      aria-label={isBare ? control.label : undefined}
      checked={control.value === "true"}
      onChange={(event) => set(control, String(event.currentTarget.checked))}
    />
  );
  if (isBare) return box;
  return (
    <div class="field toggle">
      <label for={id}>{control.label}</label>
      <Help control={control} />
      {box}
      <Problems control={control} id={`${id}-problem`} />
    </div>
  );
}

function Words({ control }: FieldProps) {
  const id = useId();
  return (
    <div class="field slider">
      <label for={id}>{control.label}</label>
      <Help control={control} />
      <span class="exact">
        <ValueText control={control} id={id} shown={control.value} />
        {control.id === "seed" && (
          <button type="button" data-control="next-seed" onClick={() => void newSeed()}>
            Next
          </button>
        )}
      </span>
      <Problems control={control} id={`${id}-problem`} />
    </div>
  );
}

export function ControlField(props: FieldProps) {
  switch (props.control.kind) {
    case "slider":
      return <Slider {...props} />;
    case "choice":
      return <Choices {...props} />;
    case "toggle":
      return <Toggle {...props} />;
    case "text":
      return <Words {...props} />;
  }
}

interface GroupsProps {
  /** Ids of those that stand elsewhere. */
  without: readonly string[];
}

const isIn = (group: Group, { without }: GroupsProps, control: Control): boolean => control.group === group && !without.includes(control.id);

function Fields({ group, ...props }: GroupsProps & { group: Group }) {
  return (
    <>
      {controls.value
        .filter((control) => isIn(group, props, control))
        .map((control) => (
          <ControlField control={control} key={control.id} />
        ))}
    </>
  );
}

function Groups(props: GroupsProps) {
  return (
    <>
      {groups
        .filter((group) => controls.value.some((control) => isIn(group.id, props, control)))
        .map((group) => (
          <Fold title={group.title} isOpen={group.isOpen && props.without.length === 0} key={group.id}>
            <Fields group={group.id} {...props} />
          </Fold>
        ))}
    </>
  );
}

/** Of a mission that is played, what it opens stands first. */
export function Controls() {
  if (!run.value) return <p class="note">The controls are here once the first result is.</p>;
  const opened = missionName.value === "" ? [] : controlsOfMission(missionName.value);
  if (opened.length === 0) return <Groups without={[]} />;
  return (
    <>
      <div class="group">
        {opened.map((id) => {
          const control = findControl(id);
          return control ? <ControlField control={control} key={id} /> : null;
        })}
      </div>
      <Fold title="All other controls">
        <Groups without={opened} />
      </Fold>
    </>
  );
}
