// How it went over time, tenant by tenant, and the table that is the charts' legend.
import { computed, effect, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { moment, pointed, run, type LabRun } from "../state/store";
import { colours, watchColours } from "./colours";
import { permitSeries } from "./figures";
import { count, figure, instant, seconds } from "./format";
import { drawNever, drawSoon } from "./frames";
import { kinds, valuesOf, type ChartKind } from "./kinds";
import { Legend } from "./legend";
import { goTo } from "./player";
import { Plot, type Line, type PlotData } from "./plot";
import { settledRun } from "./settled";
import { shown } from "./shown";
import "./views.css";

const HEIGHT = 168;

const goals = computed(() => {
  const { setup } = run.value ?? {};
  const own = shown.value.flatMap((t) => setup?.tenants[t]?.goal ?? []).filter(Number.isFinite);
  return [...new Set(own)].map((at) => ({ at, text: `goal ${seconds(at)}` }));
});

function dataOf(kind: ChartKind, of: LabRun): PlotData {
  const lines: Line[] = shown.value.flatMap((t) => {
    const tenant = of.result.tenants[t];
    if (!tenant) return [];
    return [{ tenant: t, values: valuesOf(kind, tenant.series, of.result.bin) }];
  });
  if (kind.id === "in-flight") {
    const { used, permits } = permitSeries(of);
    lines.push({ tenant: -1, values: used });
    lines.push({ tenant: -1, values: permits, isDashed: true });
  }
  return {
    bin: of.result.bin,
    bins: of.result.bins,
    lines,
    goals: kind.id === "wait" ? goals.value : [],
    isCount: kind.unit === "count",
    quietFrom: of.setup.time,
  };
}

/** What the pointer is at, in a chart's corner. */
interface Reading {
  kind: string;
  time: number;
}
const reading = signal<Reading | null>(null);

function highest(series: Float64Array | undefined): number {
  let most = 0;
  for (const value of series ?? []) if (value > most) most = value;
  return most;
}

/** Whether there is nothing to draw: nobody waited, or nobody was refused. */
function isEmpty(kind: ChartKind, of: LabRun | null): boolean {
  return of !== null && shown.value.every((t) => highest(of.result.tenants[t]?.series[kind.series]) === 0);
}

function readingText(kind: ChartKind): string {
  const result = settledRun.value?.result;
  if (!result) return "";
  const at = reading.value;
  if (!at || at.kind !== kind.id) return "";
  const bin = Math.min(result.bins - 1, Math.max(0, Math.floor(at.time / result.bin)));
  const tenant = result.tenants[pointed.value];
  if (!tenant) return instant(at.time);
  return `${instant(at.time)}: ${tenant.name} ${figure(kind.unit, valuesOf(kind, tenant.series, result.bin)[bin] ?? NaN)}`;
}

/** The chart in a sentence. */
function label(kind: ChartKind, of: LabRun | null): string {
  if (!of) return `${kind.title}: nothing has run yet.`;
  const most = shown.value.map((t) => {
    const tenant = of.result.tenants[t];
    const values = tenant && valuesOf(kind, tenant.series, of.result.bin);
    return `${tenant?.name ?? ""} ${figure(kind.unit, highest(values))}`;
  });
  return `${kind.title} over time, ${kind.unitName}. Highest: ${most.join(", ")}.`;
}

function Chart({ kind }: { kind: ChartKind }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const width = signal(0);
    const sizes = new ResizeObserver(([entry]) => {
      width.value = Math.floor(entry?.contentRect.width ?? 0);
    });
    sizes.observe(element);
    const plot = new Plot(element, HEIGHT, {
      point(tenant, time) {
        pointed.value = tenant;
        reading.value = Number.isFinite(time) ? { kind: kind.id, time } : null;
      },
      choose: goTo,
    });
    const font = getComputedStyle(element).fontFamily;
    const draw = () => {
      const of = run.peek();
      const palette = colours.peek();
      if (!of || !palette || width.peek() < 60) return;
      plot.show(dataOf(kind, of), { colours: palette, font, pointed: pointed.peek() }, width.peek());
      plot.mark(moment.peek());
    };
    const ends = [
      effect(() => {
        void [run.value, shown.value, colours.value, pointed.value, width.value];
        drawSoon(element, draw);
      }),
      effect(() => plot.mark(moment.value)),
      effect(() => plot.hover(reading.value?.time ?? NaN)),
    ];
    return () => {
      ends.forEach((end) => end());
      sizes.disconnect();
      drawNever(element);
      element.replaceChildren();
    };
  }, []);
  const isNone = isEmpty(kind, settledRun.value);
  return (
    <figure class={isNone ? "v-chart v-none" : "v-chart"} data-chart={kind.id}>
      <figcaption>
        <h3 title={kind.help}>
          {kind.title}
          <span class="v-unit">{kind.unitName}</span>
        </h3>
        <span class="v-reading">{readingText(kind)}</span>
      </figcaption>
      {isNone && <p class="v-nothing">{kind.none}</p>}
      <div ref={box} class="v-plot" hidden={isNone} role="img" aria-label={label(kind, settledRun.value)} style={{ height: `${HEIGHT}px` }} />
      {!isNone && <p class="v-help">{kind.help}</p>}
    </figure>
  );
}

export function Charts() {
  useEffect(watchColours, []);
  const of = settledRun.value;
  const hidden = (of?.result.tenants.length ?? 0) - shown.value.length;
  return (
    <section class="v-card v-charts" aria-labelledby="v-charts">
      <h2 id="v-charts">Over time, by tenant</h2>
      <p class="v-lead">
        Seconds of the run from left to right{of && `, in bins of ${seconds(of.result.bin)}`}; grey: nothing new is sent. Drag to
        move the moment of the queue above. {hidden > 0 && `${count(hidden)} of the tenants are hidden: the table shows them.`}
      </p>
      <div class="v-grid">
        {kinds.map((kind) => (
          <Chart key={kind.id} kind={kind} />
        ))}
      </div>
      <Legend />
    </section>
  );
}
