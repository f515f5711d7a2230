// Two setups side by side: A, which is edited, and B, which was put beside it.
import { signal } from "@preact/signals";
import type { LabRun } from "../state/store";
import { tenantColour } from "./colours";
import { differences } from "./differences";
import { compare, figures, inWords, modelValue, type Figure } from "./figures";
import { figure, seconds, short } from "./format";
import { kinds, valuesOf, type ChartKind } from "./kinds";
import { settledPair } from "./settled";
import { shown } from "./shown";
import { path, peak, thin } from "./spark";
import "./views.css";

const kindId = signal("wait");

const WIDTH = 240;
const HEIGHT = 64;
const POINTS = 120;

function Small({ tenant, a, b, kind, top, until }: { tenant: number; a: LabRun; b: LabRun; kind: ChartKind; top: number; until: number }) {
  const name = a.result.tenants[tenant]?.name ?? "";
  const other = b.result.tenants.findIndex((one) => one.name === name);
  const points = (of: LabRun, t: number) => {
    const series = of.result.tenants[t]?.series;
    return series ? thin(valuesOf(kind, series, of.result.bin), of.result.bin, until, POINTS) : [];
  };
  const ofA = points(a, tenant);
  const ofB = points(b, other);
  const goal = a.setup.tenants[tenant]?.goal ?? NaN;
  const goalY = kind.id === "wait" && goal <= top ? HEIGHT - 1 - (goal / top) * (HEIGHT - 3) : NaN;
  const text = (list: readonly number[]) => (list.length > 0 ? figure(kind.unit, peak(list)) : "not there");
  return (
    <figure class="v-small">
      <figcaption>
        <i class="v-swatch" style={{ background: tenantColour(tenant) }} />
        <b>{name}</b>
        <span>
          highest: A {text(ofA)}, B {text(ofB)}
        </span>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${name}, ${kind.title}, ${kind.unitName}: A at most ${text(ofA)}, B at most ${text(ofB)}`} style={{ color: tenantColour(tenant) }}>
        {Number.isFinite(goalY) && <line class="v-goal" x1="0" x2={WIDTH} y1={goalY} y2={goalY} />}
        <path class="v-b" d={path(ofB, top, WIDTH, HEIGHT)} />
        <path d={path(ofA, top, WIDTH, HEIGHT)} />
      </svg>
    </figure>
  );
}

function Smalls({ a, b }: { a: LabRun; b: LabRun }) {
  const kind = kinds.find((one) => one.id === kindId.value) ?? (kinds[0] as ChartKind);
  const until = Math.max(a.result.bins * a.result.bin, b.result.bins * b.result.bin);
  const names = new Set(shown.value.map((t) => a.result.tenants[t]?.name));
  let top = 0;
  for (const of of [a, b])
    for (const { name, series } of of.result.tenants)
      if (names.has(name)) for (const value of valuesOf(kind, series, of.result.bin)) if (value > top) top = value;
  top = top > 0 ? top * 1.05 : 1;
  return (
    <div class="v-smalls">
      <p class="v-smalls-head">
        <label>
          Over time:{" "}
          <select value={kind.id} onChange={(event) => (kindId.value = event.currentTarget.value)}>
            {kinds.map(({ id, title, unitName }) => (
              <option key={id} value={id}>
                {title}, {unitName}
              </option>
            ))}
          </select>
        </label>
        <span>
          <svg class="v-key" viewBox="0 0 24 8" aria-hidden="true">
            <path d="M0 4H24" />
          </svg>{" "}
          A
        </span>
        <span>
          <svg class="v-key" viewBox="0 0 24 8" aria-hidden="true">
            <path class="v-b" d="M0 4H24" />
          </svg>{" "}
          B
        </span>
        <span>
          every chart: 0 to {short(Number(top.toPrecision(3)))}, {seconds(until)}
          {kind.id === "wait" && "; the line across is the goal"}
        </span>
      </p>
      <div class="v-small-grid">
        {shown.value.map((t) => (
          <Small key={t} tenant={t} a={a} b={b} kind={kind} top={top} until={until} />
        ))}
      </div>
    </div>
  );
}

function Row({ label, unitName, of, a, b }: { label: string; unitName: string; of: Pick<Figure, "unit" | "better">; a: number; b: number }) {
  const { verdict } = compare(of, a, b);
  return (
    <tr>
      <th scope="row">
        {label} {unitName && <span class="v-unit">{unitName}</span>}
      </th>
      <td>{figure(of.unit, a)}</td>
      <td>{figure(of.unit, b)}</td>
      <td class={`v-change v-${verdict}`}>{inWords(of, a, b).replace("before: ", "B: ").replace("none before", "–")}</td>
    </tr>
  );
}

const wait = { unit: "seconds", better: "less" } as const;
const good = { unit: "share", better: "more" } as const;

function Table({ a, b }: { a: LabRun; b: LabRun }) {
  const seen = figures.filter((of) => !of.applies || of.applies(a) || of.applies(b));
  return (
    <div class="v-scroll v-compare-table" tabIndex={0} role="region" aria-label="Figures of A and B">
      <table>
        <caption>Figures of both; the last column says how A stands to B</caption>
        <thead>
          <tr>
            <th scope="col">figure</th>
            <th scope="col">A</th>
            <th scope="col">B</th>
            <th scope="col">A to B</th>
          </tr>
        </thead>
        <tbody>
          {seen.map((of) => (
            <Row key={of.id} label={of.label} unitName={of.unitName} of={of} a={modelValue(of, a)} b={modelValue(of, b)} />
          ))}
        </tbody>
        {shown.value.map((t) => {
          const ofA = a.result.tenants[t];
          const ofB = b.result.tenants.find((one) => one.name === ofA?.name);
          if (!ofA) return null;
          return (
            <tbody key={ofA.name}>
              <tr class="v-group">
                <th scope="rowgroup" colSpan={4}>
                  <i class="v-swatch" style={{ background: tenantColour(t) }} />
                  {ofA.name}
                </th>
              </tr>
              <Row label="wait, p95" unitName="" of={wait} a={ofA.waitP95} b={ofB?.waitP95 ?? NaN} />
              <Row label="in goal" unitName="" of={good} a={ofA.goodShare} b={ofB?.goodShare ?? NaN} />
            </tbody>
          );
        })}
      </table>
    </div>
  );
}

function Differences({ a, b }: { a: LabRun; b: LabRun }) {
  const found = differences(a, b);
  if (found.length === 0) return <p class="v-lead">A and B are the same setup: change something, and A moves away from B.</p>;
  return (
    <div class="v-scroll v-differences" tabIndex={0} role="region" aria-label="In what A and B differ">
      <table>
        <caption>In what they differ</caption>
        <thead>
          <tr>
            <th scope="col">value</th>
            <th scope="col">A</th>
            <th scope="col">B</th>
          </tr>
        </thead>
        <tbody>
          {found.map(({ what, a: ofA, b: ofB }) => (
            <tr key={what}>
              <th scope="row">
                <code>{what}</code>
              </th>
              <td>{ofA}</td>
              <td>{ofB}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Nothing, while no setup stands beside. */
export function Compare() {
  const { a, b } = settledPair.value;
  if (!a || !b) return null;
  return (
    <div class="v-compare">
      <p class="v-lead">
        A is this setup, B the one that was put beside it.{" "}
        {a.result.trafficHash === b.result.trafficHash
          ? "Both are sent the very same requests, so every difference is the gateway's."
          : "They are not sent the same requests: seed, trace or traffic differ, and so not all of the difference is the gateway's."}
      </p>
      <Differences a={a} b={b} />
      <div class="v-sides">
        <Smalls a={a} b={b} />
        <Table a={a} b={b} />
      </div>
    </div>
  );
}
