// One chart over time as uPlot draws it: the same plot is kept for run after run, only its data change.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Colours } from "./colours";
import { TENANT_COLOURS } from "./colours";
import { short } from "./format";

const FONT_PX = 11;
const WHOLE_STEPS = [1, 10, 100, 1000, 1e4, 1e5, 1e6].flatMap((step) => [step, 2 * step, 5 * step]);

export interface Line {
  /** Tenant by index; -1: no tenant's. */
  tenant: number;
  isDashed?: boolean;
  name: string;
  values: ArrayLike<number>;
}

export interface PlotData {
  /** Middle of each bin, seconds. */
  times: Float64Array;
  lines: Line[];
  /** Levels to stay below: drawn as dashed lines with their words. */
  goals: { at: number; text: string }[];
  /** Whether the values are numbers of something: the axis has no halves then. */
  isCount: boolean;
  /** From here on nobody sends anything new. */
  quietFrom: number;
}

export interface PlotLook {
  colours: Colours;
  font: string;
  pointed: number;
}

export interface PlotEvents {
  /** The reader points at a moment; the tenant whose line is nearest, or -1. */
  point(tenant: number, time: number): void;
  /** Drags or clicks. */
  choose(time: number): void;
}

/** Which lines there are: as long as it stays, the plot can be kept. */
const shape = (data: PlotData): string => data.lines.map((line) => `${line.tenant}${line.name}`).join("\n");

/** A chart in a box of the page. */
export class Plot {
  private plot: uPlot | null = null;
  private shape = "";
  private data: PlotData | null = null;
  private look: PlotLook | null = null;
  private readonly marker = document.createElement("div");
  private moment = 0;

  constructor(
    private readonly box: HTMLElement,
    private readonly height: number,
    private readonly syncKey: string,
    private readonly events: PlotEvents,
  ) {
    this.marker.className = "v-marker";
  }

  /** Draws a run's lines, in a plot of that width. */
  show(data: PlotData, look: PlotLook, width: number): void {
    const isOther = shape(data) !== this.shape || this.look?.colours !== look.colours;
    const isPointed = this.look?.pointed !== look.pointed;
    this.data = data;
    this.look = look;
    if (!this.plot || isOther) {
      this.plot?.destroy();
      this.plot = new uPlot(this.options(data, look, width), this.columns(data), this.box);
      this.plot.over.append(this.marker);
      this.listen(this.plot);
      this.shape = shape(data);
      return;
    }
    if (this.plot.width !== width) this.plot.setSize({ width, height: this.height });
    if (isPointed) this.bringOut(this.plot, data, look);
    this.plot.setData(this.columns(data));
  }

  /** Moves the line of the moment; draws nothing else. */
  mark(time: number): void {
    this.moment = time;
    if (!this.plot?.data[0].length) return;
    const x = this.plot.valToPos(Math.min(time, this.end()), "x");
    this.marker.style.transform = `translateX(${x.toFixed(1)}px)`;
  }

  destroy(): void {
    this.plot?.destroy();
    this.plot = null;
  }

  private columns(data: PlotData): uPlot.AlignedData {
    const columns = data.lines.map((line) =>
      Array.from(line.values, (value) => (Number.isNaN(value) ? null : value)),
    );
    return [data.times, ...columns] as unknown as uPlot.AlignedData;
  }

  private options(data: PlotData, look: PlotLook, width: number): uPlot.Options {
    const { colours } = look;
    const faint = colours["ink-2"];
    const font = `${FONT_PX}px ${look.font}`;
    const ticks = { show: false };
    return {
      width,
      height: this.height,
      padding: [8, 6, 0, 0],
      legend: { show: false },
      cursor: {
        sync: { key: this.syncKey, setSeries: false },
        drag: { x: false, y: false },
        points: { show: false },
        y: false,
      },
      scales: {
        x: { time: false, range: () => [0, this.end()] },
        y: { range: () => [0, this.top()] },
      },
      axes: [
        { stroke: faint, font, ticks, grid: { show: false }, size: 20, gap: 4, space: 60, values: (_, at) => at.map(short) },
        {
          stroke: faint, font, ticks, size: 42, gap: 6, space: 28,
          grid: { stroke: colours.line, width: 1 },
          ...(data.isCount ? { incrs: WHOLE_STEPS } : {}),
          values: (_, at) => at.map(short),
        },
      ],
      series: [{}, ...data.lines.map((line) => this.series(line, look))],
      hooks: {
        drawClear: [(plot) => this.drawQuiet(plot)],
        draw: [(plot) => this.drawGoals(plot), () => this.mark(this.moment)],
        setCursor: [(plot) => this.point(plot)],
      },
    };
  }

  private series({ tenant, isDashed }: Line, look: PlotLook): uPlot.Series {
    const isNobodys = tenant < 0;
    const line: uPlot.Series = {
      stroke: isNobodys ? look.colours["ink-2"] : (look.colours.tenants[tenant % TENANT_COLOURS] ?? look.colours.ink),
      width: this.strokeWidth(tenant, look),
      alpha: this.alpha(tenant, look),
      points: { show: false },
      spanGaps: true,
    };
    if (isDashed || tenant >= TENANT_COLOURS) line.dash = isDashed ? [3, 3] : [7, 3];
    return line;
  }

  private strokeWidth(tenant: number, look: PlotLook): number {
    if (tenant < 0) return 1.2;
    return tenant === look.pointed ? 2.6 : 1.6;
  }

  private alpha(tenant: number, look: PlotLook): number {
    return tenant < 0 || look.pointed < 0 || tenant === look.pointed ? 1 : 0.22;
  }

  private bringOut(plot: uPlot, data: PlotData, look: PlotLook): void {
    data.lines.forEach((line, i) => {
      const series = plot.series[i + 1];
      if (!series) return;
      series.width = this.strokeWidth(line.tenant, look);
      series.alpha = this.alpha(line.tenant, look);
    });
  }

  private end(): number {
    const times = this.data?.times;
    const last = times?.[times.length - 1] ?? 1;
    return last + (times?.[0] ?? 0);
  }

  private top(): number {
    let most = 0;
    for (const { values } of this.data?.lines ?? [])
      for (let i = 0; i < values.length; i++) {
        const value = values[i] as number;
        if (value > most) most = value;
      }
    for (const goal of this.data?.goals ?? []) most = Math.max(most, goal.at * 1.05);
    return most > 0 ? most * 1.08 : 1;
  }

  private drawQuiet(plot: uPlot): void {
    const { data, look } = this;
    if (!data || !look || data.quietFrom >= this.end()) return;
    const { left, top, width, height } = plot.bbox;
    const from = plot.valToPos(data.quietFrom, "x", true);
    plot.ctx.save();
    plot.ctx.globalAlpha = 0.35;
    plot.ctx.fillStyle = look.colours.line;
    plot.ctx.fillRect(from, top, left + width - from, height);
    plot.ctx.restore();
  }

  private drawGoals(plot: uPlot): void {
    const { data, look } = this;
    if (!data || !look) return;
    const { left, width } = plot.bbox;
    const ratio = devicePixelRatio;
    const { ctx } = plot;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = look.colours.bad;
    ctx.lineWidth = 1.2 * ratio;
    ctx.font = `${FONT_PX * ratio}px ${look.font}`;
    ctx.textAlign = "right";
    ctx.textBaseline = "bottom";
    for (const goal of data.goals) {
      const y = plot.valToPos(goal.at, "y", true);
      ctx.setLineDash([6 * ratio, 4 * ratio]);
      ctx.beginPath();
      ctx.moveTo(left, y);
      ctx.lineTo(left + width, y);
      ctx.stroke();
      ctx.fillText(goal.text, left + width - 4 * ratio, y - 2 * ratio);
    }
    ctx.restore();
  }

  /** Only of the plot under the pointer: the others are moved along. */
  private point(plot: uPlot): void {
    const { data } = this;
    const { left, top, event } = plot.cursor;
    if (!data || left === undefined || top === undefined || left < 0 || !event) return;
    if (!plot.over.contains(event.target as Node)) return;
    const at = plot.posToIdx(left);
    let nearest = -1;
    let distance = 18;
    data.lines.forEach((line, i) => {
      const value = plot.data[i + 1]?.[at];
      if (line.tenant < 0 || value === null || value === undefined) return;
      const away = Math.abs(plot.valToPos(value, "y") - top);
      if (away < distance) [nearest, distance] = [line.tenant, away];
    });
    this.events.point(nearest, plot.posToVal(left, "x"));
  }

  private listen(plot: uPlot): void {
    const choose = (event: PointerEvent) => {
      const x = event.clientX - plot.over.getBoundingClientRect().left;
      this.events.choose(plot.posToVal(x, "x"));
    };
    plot.over.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      plot.over.setPointerCapture(event.pointerId);
      choose(event);
    });
    plot.over.addEventListener("pointermove", (event) => {
      if (plot.over.hasPointerCapture(event.pointerId)) choose(event);
    });
    plot.over.addEventListener("pointerleave", () => this.events.point(-1, NaN));
  }
}
