// One chart over time on a canvas: lines of the tenants, levels, a grid across. The lines of the moment and of the
// pointer lie above it and move without drawing anything.
import type { Colours } from "./colours";
import { TENANT_COLOURS } from "./colours";
import { short } from "./format";

const FONT_PX = 11;
const MARGIN = { left: 44, right: 8, top: 10, bottom: 20 };
/** How near the pointer must come to a line, pixels. */
const REACH = 18;

export interface Line {
  /** Tenant by index; -1: no tenant's. */
  tenant: number;
  /** A value for each bin; NaN: none, and the line goes straight on to the next. */
  values: ArrayLike<number>;
  isDashed?: boolean;
}

export interface PlotData {
  /** Seconds of a bin, and how many there are. */
  bin: number;
  bins: number;
  lines: Line[];
  /** Levels to stay below: drawn as dashed lines with their words. */
  goals: { at: number; text: string }[];
  /** Whether the values are numbers of something: the axis has no halves then. */
  isCount: boolean;
  /** From here on nobody sends anything new, seconds. */
  quietFrom: number;
}

export interface PlotLook {
  colours: Colours;
  font: string;
  pointed: number;
}

export interface PlotEvents {
  /** The reader points at a moment; the tenant whose line is nearest, or -1. NaN: not any more. */
  point(tenant: number, time: number): void;
  /** Drags or clicks. */
  choose(time: number): void;
}

/** The smallest of 1, 2, 5, 10, 20 .. that makes at most `most` steps. */
export function niceStep(span: number, most: number, isCount: boolean): number {
  const least = Math.max(span / Math.max(1, most), isCount ? 1 : 1e-9);
  const power = 10 ** Math.floor(Math.log10(least));
  const factor = [1, 2, 5, 10].find((one) => one * power >= least * (1 - 1e-9)) ?? 10;
  return factor * power;
}

/** A chart in a box of the page. */
export class Plot {
  readonly #canvas = document.createElement("canvas");
  readonly #context = this.#canvas.getContext("2d") as CanvasRenderingContext2D;
  readonly #over = document.createElement("div");
  readonly #marker = document.createElement("div");
  readonly #cursor = document.createElement("div");
  #data: PlotData | null = null;
  #width = 0;
  #top = 1;

  readonly #height: number;
  readonly #events: PlotEvents;

  constructor(
    box: HTMLElement,
    height: number,
    events: PlotEvents,
  ) {
    this.#height = height;
    this.#events = events;
    this.#over.className = "v-over";
    this.#marker.className = "v-marker";
    this.#cursor.className = "v-cursor";
    this.#cursor.hidden = true;
    this.#over.append(this.#cursor, this.#marker);
    box.append(this.#canvas, this.#over);
    this.#listen();
  }

  /** Draws a run's lines, that wide. */
  show(data: PlotData, look: PlotLook, width: number): void {
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const pixels = [Math.round(width * ratio), Math.round(this.#height * ratio)] as const;
    if (this.#canvas.width !== pixels[0] || this.#canvas.height !== pixels[1])
      [this.#canvas.width, this.#canvas.height] = pixels;
    this.#data = data;
    this.#width = width;
    this.#top = this.#highest(data);
    this.#context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.#context.clearRect(0, 0, width, this.#height);
    this.#context.font = `${FONT_PX}px ${look.font}`;
    this.#drawQuiet(look);
    this.#drawAxes(look);
    for (const line of data.lines) this.#drawLine(line, look);
    this.#drawGoals(look);
  }

  /** Moves the line of the moment. */
  mark(time: number): void {
    this.#move(this.#marker, time);
  }

  /** Moves the line of the pointer; NaN: there is none. */
  hover(time: number): void {
    this.#cursor.hidden = Number.isNaN(time);
    if (!this.#cursor.hidden) this.#move(this.#cursor, time);
  }

  #move(line: HTMLElement, time: number): void {
    line.style.transform = `translateX(${(this.#x(time) - MARGIN.left).toFixed(1)}px)`;
  }

  get #end(): number {
    return this.#data ? Math.max(this.#data.bins * this.#data.bin, this.#data.bin) : 1;
  }

  get #plotWidth(): number {
    return Math.max(1, this.#width - MARGIN.left - MARGIN.right);
  }

  get #plotHeight(): number {
    return this.#height - MARGIN.top - MARGIN.bottom;
  }

  #x(time: number): number {
    return MARGIN.left + (Math.min(time, this.#end) / this.#end) * this.#plotWidth;
  }

  #y(value: number): number {
    return MARGIN.top + (1 - value / this.#top) * this.#plotHeight;
  }

  #highest(data: PlotData): number {
    let most = 0;
    for (const { values } of data.lines)
      for (let i = 0; i < values.length; i++) if ((values[i] as number) > most) most = values[i] as number;
    for (const goal of data.goals) most = Math.max(most, goal.at * 1.05);
    return most > 0 ? most * 1.06 : 1;
  }

  #drawQuiet(look: PlotLook): void {
    const from = this.#data?.quietFrom ?? Infinity;
    if (from >= this.#end) return;
    const context = this.#context;
    context.globalAlpha = 0.35;
    context.fillStyle = look.colours.line;
    context.fillRect(this.#x(from), MARGIN.top, this.#width - MARGIN.right - this.#x(from), this.#plotHeight);
    context.globalAlpha = 1;
  }

  #drawAxes(look: PlotLook): void {
    const context = this.#context;
    const bottom = MARGIN.top + this.#plotHeight;
    const stepY = niceStep(this.#top, this.#plotHeight / 26, (this.#data?.isCount ?? false) && this.#top > 3);
    context.fillStyle = look.colours.line;
    for (let at = 0; at <= this.#top; at += stepY)
      context.fillRect(MARGIN.left, Math.round(this.#y(at)), this.#plotWidth, 1);
    context.fillStyle = look.colours["ink-2"];
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (let at = 0; at <= this.#top; at += stepY) context.fillText(short(at), MARGIN.left - 6, this.#y(at));
    context.textAlign = "center";
    context.textBaseline = "top";
    const stepX = niceStep(this.#end, this.#plotWidth / 56, false);
    for (let at = 0; at <= this.#end; at += stepX) {
      const half = context.measureText(short(at)).width / 2;
      context.fillText(short(at), Math.min(this.#x(at), this.#width - half), bottom + 6);
    }
  }

  #drawLine({ tenant, values, isDashed }: Line, look: PlotLook): void {
    const context = this.#context;
    const isTenants = tenant >= 0;
    const isOut = isTenants && tenant === look.pointed;
    context.strokeStyle = isTenants
      ? (look.colours.tenants[tenant % TENANT_COLOURS] ?? look.colours.ink)
      : look.colours["ink-2"];
    context.lineWidth = isOut ? 2.6 : isTenants ? 1.6 : 1.1;
    context.globalAlpha = isTenants && look.pointed >= 0 && !isOut ? 0.22 : 1;
    context.setLineDash(isDashed ? [3, 3] : tenant >= TENANT_COLOURS ? [7, 3] : []);
    context.lineJoin = "round";
    context.beginPath();
    this.#trace(values);
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  /** The line through the middles of the bins; where several share a pixel, from the lowest to the highest. */
  #trace(values: ArrayLike<number>): void {
    const bin = this.#data?.bin ?? 1;
    const each = Math.max(1, Math.floor(values.length / this.#plotWidth));
    for (let from = 0; from < values.length; from += each) {
      const until = Math.min(from + each, values.length);
      let low = Infinity;
      let high = -Infinity;
      for (let i = from; i < until; i++) {
        const value = values[i] as number;
        if (value < low) low = value;
        if (value > high) high = value;
      }
      if (high < low) continue;
      const x = this.#x(((from + until) / 2) * bin);
      if (low < high) this.#context.lineTo(x, this.#y(low));
      this.#context.lineTo(x, this.#y(high));
    }
  }

  #drawGoals(look: PlotLook): void {
    const context = this.#context;
    context.strokeStyle = context.fillStyle = look.colours.bad;
    context.lineWidth = 1.2;
    context.textAlign = "right";
    context.textBaseline = "bottom";
    context.setLineDash([6, 4]);
    for (const { at, text } of this.#data?.goals ?? []) {
      const y = this.#y(at);
      context.beginPath();
      context.moveTo(MARGIN.left, y);
      context.lineTo(this.#width - MARGIN.right, y);
      context.stroke();
      context.fillText(text, this.#width - MARGIN.right - 4, y - 2);
    }
    context.setLineDash([]);
  }

  /** The tenant whose line is nearest to a point of the chart, -1: none is near. */
  #nearest(time: number, y: number): number {
    let nearest = -1;
    let distance = REACH;
    const i = Math.floor(time / (this.#data?.bin ?? 1));
    for (const { tenant, values } of this.#data?.lines ?? []) {
      const away = Math.abs(this.#y(values[i] ?? NaN) - y);
      if (tenant >= 0 && away < distance) [nearest, distance] = [tenant, away];
    }
    return nearest;
  }

  #listen(): void {
    const over = this.#over;
    const timeAt = (event: PointerEvent) => {
      const part = (event.clientX - over.getBoundingClientRect().left) / this.#plotWidth;
      return Math.min(1, Math.max(0, part)) * this.#end;
    };
    over.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      over.setPointerCapture(event.pointerId);
      this.#events.choose(timeAt(event));
    });
    over.addEventListener("pointermove", (event) => {
      const time = timeAt(event);
      if (over.hasPointerCapture(event.pointerId)) this.#events.choose(time);
      const y = event.clientY - over.getBoundingClientRect().top + MARGIN.top;
      this.#events.point(this.#nearest(time, y), time);
    });
    over.addEventListener("pointerleave", () => this.#events.point(-1, NaN));
  }
}
