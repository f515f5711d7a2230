// A queue you can watch: the picture of a moment, and the controls that move it.
import { effect, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { isPlaying, moment, pointed, run, type LabRun } from "../state/store";
import { colours, tenantColour, watchColours } from "./colours";
import { permitSeries } from "./figures";
import { count, instant, many, reason } from "./format";
import { drawNever, drawSoon, inSlices } from "./frames";
import { goTo, lastMoment, play, speed, tell, told, wantsStillness } from "./player";
import { arrange, paint, type Geometry } from "./scene";
import { shown } from "./shown";
import { buildTimeline, countsAt, fallenByReason, type Timeline } from "./timeline";
import "./views.css";

const SPEEDS = [1, 4, 16] as const;
/** How long a block takes to leave or to fall, in seconds of the clock on the wall. */
const FLIGHT = 0.6;
/** A run whose requests are in order: what the picture shows. It follows `run` by some milliseconds. */
interface Scene {
  of: LabRun;
  timeline: Timeline;
  /** Tokens of the largest request of all but a few. */
  tokensMax: number;
  /** Altogether, by bin. */
  waiting: Float64Array;
  permits: Float64Array;
  permitsMax: number;
}
const scene = signal<Scene | null>(null);

function inAll({ result }: LabRun, series: "waiting" | "refused" | "inFlight"): Float64Array {
  const total = new Float64Array(result.bins);
  for (const tenant of result.tenants)
    for (let i = 0; i < total.length; i++)
      total[i] = (total[i] as number) + (tenant.series[series][i] ?? 0);
  return total;
}

/** The moment that shows most: where most wait; else where most are refused, or in flight. */
function telling(of: LabRun): number {
  for (const series of ["waiting", "refused", "inFlight"] as const) {
    const values = inAll(of, series);
    const most = values.reduce((sum, value) => Math.max(sum, value), 0);
    if (most > 0) return (values.indexOf(most) + 0.5) * of.result.bin;
  }
  return 0;
}

function mostTokens(timeline: Timeline): number {
  const { prompt, output, count: all } = timeline.requests;
  let most = 1;
  for (let r = 0; r < all; r++) most = Math.max(most, (prompt[r] as number) + (output[r] as number));
  return most;
}

/** Keeps `scene` after `run`. A setup is opened at the most telling moment of its first run. */
function followRuns(): () => void {
  let newest: LabRun | null = null;
  let origin = "";
  return effect(() => {
    const of = run.value;
    newest = of;
    if (!of?.result.requests) return;
    const from = of.of.origin + (of.of.trace?.name ?? "");
    if (origin !== from && !isPlaying.peek()) moment.value = telling(of);
    origin = from;
    const steps = buildTimeline(of.result.requests, of.result.tenants.length);
    void inSlices(steps, () => newest !== of).then((timeline) => {
      if (!timeline || newest !== of) return;
      const { permits } = permitSeries(of);
      scene.value = {
        of, timeline, permits,
        tokensMax: mostTokens(timeline),
        waiting: inAll(of, "waiting"),
        permitsMax: permits.reduce((most, value) => Math.max(most, value), 0),
      };
    });
  });
}

function inWords({ of, timeline }: Scene, at: number): string {
  const counts = timeline.tenants.map((tenant) => countsAt(tenant, at));
  const names = of.setup.tenants.map((tenant) => tenant.name);
  const list = (pick: (t: number) => number) => {
    const some = names.map((name, t) => [name, pick(t)] as const).filter(([, number]) => number > 0);
    some.sort((a, b) => b[1] - a[1]);
    const all = some.reduce((sum, [, number]) => sum + number, 0);
    const most = some.slice(0, 4).map(([name, number]) => `${name} ${count(number)}`);
    return all > 0 ? `${count(all)} (${most.join(", ")}${some.length > 4 ? " and others" : ""})` : "none";
  };
  const fallen = fallenByReason(timeline, of.result.reasons, at);
  const refused = fallen.map(([code, number]) => `${count(number)} ${reason(code)}`).join(", ");
  return (
    `The queue at ${instant(at)}. Waiting: ${list((t) => counts[t]?.waiting ?? 0)}. ` +
    `In flight: ${list((t) => counts[t]?.inFlight ?? 0)}. Refused so far: ${refused || "none"}.`
  );
}

/** The picture: drawn whenever anything in it changes, in one of the next frames. */
function Picture() {
  const canvas = useRef<HTMLCanvasElement>(null);
  const geometry = useRef<Geometry | null>(null);
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context) return;
    const width = signal(0);
    const sizes = new ResizeObserver(([entry]) => {
      width.value = Math.floor(entry?.contentRect.width ?? 0);
    });
    const box = element.parentElement as HTMLElement;
    sizes.observe(box);
    const font = getComputedStyle(element).fontFamily;
    let standing: Map<number, number> | null = null;
    let of: Scene | null = null;
    const draw = () => {
      const now = scene.peek();
      const palette = colours.peek();
      if (!now || !palette || width.peek() < 60) return;
      const g = arrange(now.of.setup, shown.peek().filter((t) => t < now.timeline.tenants.length), width.peek(), now.permitsMax);
      const ratio = Math.min(devicePixelRatio || 1, 2);
      const pixels = [Math.round(g.width * ratio), Math.round(g.height * ratio)] as const;
      if (element.width !== pixels[0] || element.height !== pixels[1]) {
        [element.width, element.height] = pixels;
        element.style.height = `${g.height}px`;
      }
      geometry.current = g;
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      const isMoving = isPlaying.peek() && !wantsStillness();
      standing = paint(
        context,
        g,
        {
          setup: now.of.setup,
          result: now.of.result,
          timeline: now.timeline,
          at: Math.min(moment.peek(), lastMoment.peek()),
          flight: FLIGHT * (isPlaying.peek() ? speed.peek() : 1),
          shown: g.rows.map((row) => row.tenant),
          pointed: pointed.peek(),
          colours: palette,
          font,
          permits: now.permits,
          permitsMax: now.permitsMax,
          standing: isMoving && of === now ? standing : null,
        },
        now.tokensMax,
      );
      of = now;
    };
    const stop = effect(() => {
      void [scene.value, moment.value, shown.value, pointed.value, colours.value, width.value, isPlaying.value];
      drawSoon(element, draw);
    });
    return () => {
      stop();
      sizes.disconnect();
      drawNever(element);
    };
  }, []);
  const point = (event: PointerEvent) => {
    const y = event.offsetY;
    const row = geometry.current?.rows.findLast(({ top }) => y >= top);
    pointed.value = row && y < (geometry.current?.bottom ?? 0) ? row.tenant : -1;
  };
  const label = scene.value ? inWords(scene.value, told.value) : "The queue: nothing has run yet.";
  return (
    <div class="v-picture">
      <canvas ref={canvas} role="img" aria-label={label} onPointerMove={point} onPointerLeave={() => (pointed.value = -1)} />
    </div>
  );
}

/** How many wait in all, over the time that the slider spans. */
function Relief({ of }: { of: Scene }) {
  const { waiting } = of;
  const most = waiting.reduce((sum, value) => Math.max(sum, value), 1);
  const until = lastMoment.value / of.of.result.bin;
  const points = Array.from(waiting, (value, i) => `L${(((i + 0.5) / until) * 100).toFixed(2)} ${(20 - (value / most) * 19).toFixed(1)}`);
  return (
    <svg class="v-relief" viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true">
      <path d={`M0 20${points.join("")}L100 20Z`} />
    </svg>
  );
}

function Controls() {
  const end = lastMoment.value;
  const step = run.value?.result.bin ?? 0.5;
  const keys = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -step, ArrowDown: -step, ArrowRight: step, ArrowUp: step, PageDown: -end / 12, PageUp: end / 12 }[event.key];
    if (by !== undefined) goTo(moment.value + by);
    else if (event.key === " ") isPlaying.value = !isPlaying.value;
    else return;
    event.preventDefault();
  };
  return (
    <div class="v-player">
      <button type="button" class="v-play" aria-pressed={isPlaying.value} onClick={() => (isPlaying.value = !isPlaying.value)}>
        <svg viewBox="0 0 12 12" aria-hidden="true">
          <path d={isPlaying.value ? "M2 1h3v10H2zM7 1h3v10H7z" : "M2.5 .8v10.4L11 6z"} />
        </svg>
        {isPlaying.value ? "Pause" : "Play"}
      </button>
      <div class="v-scrub">
        {scene.value && <Relief of={scene.value} />}
        <input
          type="range"
          aria-label="Moment of the run, seconds"
          aria-valuetext={`${instant(moment.value)} of ${instant(end)}`}
          min={0}
          max={end}
          step="any"
          value={moment.value}
          onInput={(event) => goTo(event.currentTarget.valueAsNumber)}
          onKeyDown={keys}
        />
      </div>
      <output class="v-moment">
        {instant(moment.value)} <span>of {instant(end)}</span>
      </output>
      <fieldset class="v-speed">
        <legend class="hidden-text">Speed</legend>
        {SPEEDS.map((times) => (
          <label key={times}>
            <input type="radio" name="v-speed" checked={speed.value === times} onChange={() => (speed.value = times)} />
            <span>{times}×</span>
          </label>
        ))}
      </fieldset>
    </div>
  );
}

/** What fell out so far, by reason. */
function Fallen({ of }: { of: Scene }) {
  const fallen = fallenByReason(of.timeline, of.of.result.reasons, told.value);
  return (
    <p class="v-fallen">
      {fallen.length === 0 ? (
        <span>Nothing refused so far.</span>
      ) : (
        <>
          <span>Refused so far:</span>
          {fallen.map(([code, number]) => (
            <span key={code} class="v-reason" title={code}>
              <b aria-hidden="true">×</b> {count(number)} {reason(code)}
            </span>
          ))}
        </>
      )}
    </p>
  );
}

/** The picture as numbers. */
function Numbers({ of }: { of: Scene }) {
  return (
    <details class="v-numbers">
      <summary>The moment as a table</summary>
      <div class="v-scroll" tabIndex={0} role="region" aria-label="The queue at the moment, as a table">
        <table>
          <caption>
            At {instant(told.value)}: how many requests of each tenant wait, are in flight, and have ended so far
          </caption>
          <thead>
            <tr>
              <th scope="col">tenant</th>
              <th scope="col">lane</th>
              <th scope="col">waiting</th>
              <th scope="col">in flight</th>
              <th scope="col">finished</th>
              <th scope="col">failed</th>
              <th scope="col">refused</th>
            </tr>
          </thead>
          <tbody>
            {of.of.setup.tenants.map((tenant, t) => {
              const line = of.timeline.tenants[t];
              if (!line) return null;
              const counts = countsAt(line, told.value);
              return (
                <tr key={tenant.name}>
                  <th scope="row">
                    <i class="v-swatch" style={{ background: tenantColour(t) }} />
                    {tenant.name}
                  </th>
                  <td>{tenant.lane}</td>
                  <td>{count(counts.waiting)}</td>
                  <td>{count(counts.inFlight)}</td>
                  <td>{count(counts.finished)}</td>
                  <td>{count(counts.broken)}</td>
                  <td>{count(counts.fallen)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </details>
  );
}

export function Queue() {
  useEffect(() => {
    watchColours();
    const ends = [followRuns(), play(), tell()];
    return () => ends.forEach((end) => end());
  }, []);
  const now = scene.value;
  const retries = run.value?.result.all.retries ?? 0;
  return (
    <section class="v-card v-queue" aria-labelledby="v-queue">
      <h2 id="v-queue">The queue, request by request</h2>
      <p class="v-lead">
        A block is a request, its area its tokens. Underlined: those that wait longer than their goal. In flight: a place for each
        permit, hollow before the first token. Crossed out: refused or broken off.
        {retries > 0 && ` Between two tries (${many(retries, "retry", "retries")}) a request stands in the queue here.`}
      </p>
      <Picture />
      <Controls />
      {now && <Fallen of={now} />}
      {now && <Numbers of={now} />}
    </section>
  );
}
