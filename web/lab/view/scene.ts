// The picture of the queue on a canvas: a lane for each tenant, the oldest request at the gate, a slot for each
// permit behind it. What is drawn depends on what is seen of the moment, not on how long the run is.
import type { RunResult, Setup } from "../engine/types";
import type { Colours } from "./colours";
import { TENANT_COLOURS } from "./colours";
import { count } from "./format";
import { countUpTo, countsAt, eachWaiting, type Counts, type Timeline } from "./timeline";

const BLOCK_MAX = 25;
const BLOCK_MIN = 4;
const SLOT_MAX = 15;
const SLOT_MIN = 4;
/** Blocks on their way, of a tenant: more would only cover each other. */
const MOVING_MAX = 24;

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** Where everything stands, in CSS pixels. */
export interface Geometry {
  width: number;
  height: number;
  isWide: boolean;
  /** Middle of each shown tenant's lane. */
  rows: { tenant: number; top: number; middle: number }[];
  headings: { text: string; y: number }[];
  /** Of those that are not shown; -1: all are. */
  othersY: number;
  chuteX: number;
  queueX: number;
  gateX: number;
  slots: Box;
  leaveX: number;
  /** Right ends of the three columns of numbers; none where it is narrow. */
  columns: number[];
  top: number;
  bottom: number;
}

/** A moment of a run, and how to show it. */
export interface Moment {
  setup: Setup;
  result: RunResult;
  timeline: Timeline;
  at: number;
  /** How long a block takes to leave or to fall, in seconds of the run. */
  flight: number;
  shown: readonly number[];
  pointed: number;
  colours: Colours;
  font: string;
  /** Permits there are, by bin, and at most. */
  permits: Float64Array;
  permitsMax: number;
  /** Where blocks stood in the frame before; null: they stand where they belong. */
  standing: Map<number, number> | null;
}

export function laneHeading(setup: Setup, lane: number): string {
  const { name, floorPercent } = setup.lanes[lane] ?? { name: "", floorPercent: 0 };
  const order = lane === 0 ? ", first" : "";
  return `lane ${name}${order}${floorPercent > 0 ? `, at least ${floorPercent} %` : ""}`;
}

/** Tenants that are shown, by the lane they are in; lanes in order of precedence. */
export function byLane(setup: Setup, shown: readonly number[]): { lane: number; tenants: number[] }[] {
  const groups = setup.lanes.map((lane, l) => ({
    lane: l,
    tenants: shown.filter((t) => setup.tenants[t]?.lane === lane.name),
  }));
  const placed = new Set(groups.flatMap((group) => group.tenants));
  const rest = shown.filter((t) => !placed.has(t));
  return [...groups, { lane: -1, tenants: rest }].filter((group) => group.tenants.length > 0);
}

export function arrange(setup: Setup, shown: readonly number[], width: number, permits: number): Geometry {
  const isWide = width >= 620;
  const rowHeight = isWide ? 32 : 46;
  const top = isWide ? 26 : 20;
  const groups = byLane(setup, shown);
  const rows: Geometry["rows"] = [];
  const headings: Geometry["headings"] = [];
  let y = top;
  for (const { lane, tenants } of groups) {
    if (groups.length > 1 && lane >= 0) {
      headings.push({ text: laneHeading(setup, lane), y: y + 13 });
      y += 20;
    }
    for (const tenant of tenants) {
      rows.push({ tenant, top: y, middle: y + (isWide ? rowHeight / 2 : 30) });
      y += rowHeight;
    }
  }
  const others = setup.tenants.length > shown.length;
  const othersY = others ? y + 15 : -1;
  if (others) y += 24;
  const bottom = Math.max(y, top + 96);
  if (!isWide) {
    const rowsOfSlots = Math.ceil(permits / Math.floor(width / SLOT_MAX));
    const slots = { x: 0, y: y + 34, width, height: Math.min(96, rowsOfSlots * SLOT_MAX) };
    return {
      width, height: slots.y + slots.height, isWide, rows, headings, othersY, chuteX: 8, queueX: 20,
      gateX: width - 34, slots, leaveX: -1, columns: [], top, bottom,
    };
  }
  const columns = [width - 148, width - 70, width - 2];
  const leaveX = width - 262;
  const slotsWidth = Math.round(Math.min(300, width * 0.25));
  const slots = { x: leaveX - slotsWidth, y: top + 2, width: slotsWidth, height: bottom - top - 4 };
  const longest = shown.reduce((most, t) => Math.max(most, setup.tenants[t]?.name.length ?? 0), 0);
  const chuteX = Math.min(Math.max(80, 50 + 7 * longest), Math.round(width * 0.2));
  return {
    width, height: bottom + 4, isWide, rows, headings, othersY, chuteX, queueX: chuteX + 16,
    gateX: slots.x - 34, slots, leaveX, columns, top, bottom,
  };
}

class Painter {
  readonly counts: Counts[];
  readonly bin: number;
  constructor(
    readonly context: CanvasRenderingContext2D,
    readonly g: Geometry,
    readonly m: Moment,
    readonly tokensMax: number,
  ) {
    this.counts = m.timeline.tenants.map((tenant) => countsAt(tenant, m.at));
    this.bin = Math.min(m.result.bins - 1, Math.max(0, Math.floor(m.at / m.result.bin)));
  }

  colour(tenant: number): string {
    return this.m.colours.tenants[tenant % TENANT_COLOURS] ?? this.m.colours.ink;
  }

  /** Others step back while one is pointed at. */
  strength(tenant: number): number {
    return this.m.pointed < 0 || this.m.pointed === tenant ? 1 : 0.25;
  }

  text(text: string, x: number, y: number, colour: string, align: CanvasTextAlign = "left", room?: number): void {
    const { context } = this;
    context.fillStyle = colour;
    context.textAlign = align;
    let shown = text;
    // Names that are too long often differ at their ends.
    for (let kept = text.length - 1; kept > 1 && room !== undefined && context.measureText(shown).width > room; kept--)
      shown = `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(text.length - Math.floor(kept / 2))}`;
    context.fillText(shown, x, y);
  }

  /** Side of a block whose area is its tokens. */
  side(request: number): number {
    const { prompt, output } = this.m.timeline.requests;
    const tokens = (prompt[request] as number) + (output[request] as number);
    return Math.max(BLOCK_MIN, Math.sqrt(tokens / this.tokensMax) * BLOCK_MAX);
  }

  block(x: number, y: number, side: number): void {
    this.context.roundRect(x, y - side / 2, side, side, Math.min(2.5, side / 4));
  }

  labels(): void {
    const { context, g, m } = this;
    const { ink, line } = m.colours;
    const faint = m.colours["ink-2"];
    context.font = `600 11.5px ${m.font}`;
    for (const { text, y } of g.headings) this.text(text, 0, y, faint, "left", g.gateX - 8);
    context.font = `12.5px ${m.font}`;
    for (const { tenant, top, middle } of g.rows) {
      const y = g.isWide ? middle + 4.5 : top + 14;
      context.globalAlpha = this.strength(tenant);
      context.fillStyle = this.colour(tenant);
      context.beginPath();
      context.roundRect(0, y - 9.5, 10, 10, 2.5);
      context.fill();
      const counts = this.counts[tenant] as Counts;
      const name = m.setup.tenants[tenant]?.name ?? "";
      if (g.isWide) {
        this.text(name, 16, y, ink, "left", g.chuteX - 30);
        this.numbers([counts.waiting, counts.inFlight, counts.fallen], y);
      } else {
        const numbers = `${count(counts.waiting)} waiting · ${count(counts.inFlight)} in flight · ${count(counts.fallen)} refused`;
        this.text(numbers, g.width, y, faint, "right");
        this.text(name, 16, y, ink, "left", g.width - 24 - context.measureText(numbers).width);
      }
      context.globalAlpha = 1;
      context.fillStyle = line;
      const under = g.isWide ? top + 31 : top + 45;
      context.fillRect(0, under, g.gateX, 1);
      context.fillStyle = ink;
      context.fillRect(g.gateX, g.isWide ? top : top + 18, 2, g.isWide ? 32 : 26);
    }
    if (g.othersY >= 0) this.others();
  }

  numbers(values: readonly number[], y: number): void {
    values.forEach((value, i) =>
      this.text(
        count(value),
        this.g.columns[i] as number,
        y,
        value > 0 ? this.m.colours.ink : this.m.colours["ink-2"],
        "right",
      ),
    );
  }

  others(): void {
    const { g, m } = this;
    const hidden = this.counts.filter((_, t) => !m.shown.includes(t));
    const of = (pick: (counts: Counts) => number) => hidden.reduce((sum, counts) => sum + pick(counts), 0);
    const numbers = [of((c) => c.waiting), of((c) => c.inFlight), of((c) => c.fallen)];
    this.text(`${hidden.length} more, grey`, 16, g.othersY, m.colours["ink-2"]);
    if (g.isWide) this.numbers(numbers, g.othersY);
    else this.text(`${count(numbers[0] as number)} waiting`, g.width, g.othersY, m.colours["ink-2"], "right");
  }

  head(inUse: number, permits: number): void {
    const { context, g, m } = this;
    const faint = m.colours["ink-2"];
    context.font = `11.5px ${m.font}`;
    const use = `${count(inUse)} in flight, of ${count(Math.round(permits))} permits`;
    const open = m.result.upstreams.filter((upstream) => (upstream.open[this.bin] ?? 0) >= 0.5);
    const breaker = open.length > 0 ? `breaker open${m.result.upstreams.length > 1 ? `: ${open.map((u) => u.name).join(", ")}` : ""}` : "";
    if (g.isWide) {
      this.text("waiting, the oldest at the gate", g.gateX - 6, 14, faint, "right", g.gateX - g.queueX);
      this.text(breaker || use, g.slots.x, 14, breaker ? m.colours.bad : faint);
      ["waiting", "in flight", "refused"].forEach((title, i) =>
        this.text(title, g.columns[i] as number, 14, faint, "right"),
      );
    } else {
      this.text("waiting, the oldest at the gate", g.width - 2, 12, faint, "right");
      this.text(use, 0, g.slots.y - 8, faint);
      if (breaker) this.text(breaker, g.width, g.slots.y - 8, m.colours.bad, "right");
    }
  }

  queue({ tenant, middle }: Geometry["rows"][number], stood: Map<number, number>): void {
    const { context, g, m } = this;
    const { arrival } = m.timeline.requests;
    const goal = m.setup.tenants[tenant]?.goal ?? NaN;
    let lateFrom = NaN;
    let x = g.gateX - 5;
    let drawn = 0;
    const room = g.queueX + 34;
    context.globalAlpha = this.strength(tenant);
    context.beginPath();
    eachWaiting(m.timeline.tenants[tenant] as Timeline["tenants"][number], m.at, (request) => {
      const side = this.side(request);
      if (x - side < room) return false;
      x -= side;
      const before = m.standing?.get(request) ?? (m.standing ? x - 14 : x);
      const at = before + (x - before) * (m.standing ? 0.3 : 1);
      stood.set(request, at);
      this.block(at, middle, side);
      if (m.at - (arrival[request] as number) > goal) lateFrom = at;
      x -= side > 8 ? 3 : 2;
      drawn++;
      return true;
    });
    context.fillStyle = this.colour(tenant);
    context.fill();
    if (!Number.isNaN(lateFrom)) {
      context.fillStyle = m.colours.bad;
      context.fillRect(lateFrom, middle + 13, g.gateX - 3 - lateFrom, 2);
    }
    const more = (this.counts[tenant] as Counts).waiting - drawn;
    context.font = `600 11.5px ${m.font}`;
    if (more > 0) this.text(`+${count(more)}`, room - 6, middle + 4, m.colours.ink, "right");
    context.globalAlpha = 1;
  }

  slots(permits: number, permitsMax: number): void {
    const { context, g, m } = this;
    const { x, y, width, height } = g.slots;
    const total = this.counts.reduce((sum, counts) => sum + counts.inFlight, 0);
    const places = Math.max(1, Math.ceil(Math.max(permitsMax, total)));
    const room = (side: number) => Math.floor(width / side) * Math.floor(height / side);
    let side = SLOT_MAX;
    while (side > SLOT_MIN && room(side) < places) side--;
    const each = Math.max(1, Math.ceil(places / room(side)));
    const perRow = Math.floor(width / side);
    const gap = side > 8 ? 2 : 1;
    const spot = (place: number): [number, number] => [
      x + (place % perRow) * side,
      y + Math.floor(place / perRow) * side,
    ];
    // Every tenant's blocks end where the sum so far ends: so many together are rounded only once.
    let before = 0;
    let place = 0;
    const put = (number: number, tenant: number, isHollow: boolean) => {
      before += number;
      context.beginPath();
      for (const until = Math.round(before / each); place < until; place++) {
        const [left, up] = spot(place);
        const inset = isHollow ? 0.75 : 0;
        context.rect(left + inset, up + inset, side - gap - 2 * inset, side - gap - 2 * inset);
      }
      const isShown = m.shown.includes(tenant);
      context.globalAlpha = isShown ? this.strength(tenant) : 0.6;
      const colour = isShown ? this.colour(tenant) : m.colours["ink-2"];
      context.lineWidth = 1.5;
      context.fillStyle = context.strokeStyle = colour;
      if (isHollow) context.stroke();
      else context.fill();
    };
    this.counts.forEach(({ inFlight, silent }, tenant) => {
      put(inFlight - silent, tenant, false);
      put(silent, tenant, true);
    });
    context.globalAlpha = 1;
    context.fillStyle = m.colours.line;
    const allowed = Math.round(permits / each);
    for (; place < Math.ceil(places / each); place++) {
      const [left, up] = spot(place);
      if (place < allowed) context.fillRect(left, up, side - gap, side - gap);
      else context.fillRect(left + side / 2 - 1.5, up + side / 2 - 1.5, 2, 2);
    }
    if (each > 1) {
      context.font = `11px ${m.font}`;
      this.text(`a block is ${each} permits`, x + width, g.isWide ? g.bottom + 2 : y - 8, m.colours["ink-2"], "right");
    }
  }

  /** Blocks on their way: through the gate, out at the end, and those that fell. */
  moving({ tenant, middle }: Geometry["rows"][number]): void {
    const { g, m } = this;
    const line = m.timeline.tenants[tenant] as Timeline["tenants"][number];
    if (g.leaveX >= 0)
      this.each(line.ended, line.byEnd, (part, request) => {
        const isBroken = m.timeline.requests.outcome[request] !== 0;
        this.travel(tenant, request, g.leaveX + 4 + part * 40, middle, 1 - part, isBroken);
      });
    // Where names stand below the chute, they fall no further than their lane.
    const deep = (from: number) => (g.isWide ? g.bottom - 8 - from : 8);
    this.each(line.fell, line.fallen, (part, request) =>
      this.travel(tenant, request, g.chuteX + ((request * 7) % 9) - 8, middle + deep(middle) * part * part, 1 - part * 0.7, true),
    );
    const spread = g.isWide ? 26 : 28;
    const gone = countUpTo(line.dispatched, m.at) - countUpTo(line.dispatched, m.at - m.flight);
    const { context } = this;
    context.fillStyle = this.colour(tenant);
    for (let i = 0; i < Math.min(gone, MOVING_MAX); i++) {
      const at = line.dispatched[countUpTo(line.dispatched, m.at) - 1 - i] as number;
      const part = (m.at - at) / m.flight;
      context.globalAlpha = (1 - part) * this.strength(tenant);
      context.fillRect(g.gateX + 3 + part * spread, middle - 2.5, 5, 5);
    }
    context.globalAlpha = 1;
  }

  each(sorted: Float64Array, requests: Uint32Array, visit: (part: number, request: number) => void): void {
    const { at, flight } = this.m;
    const until = countUpTo(sorted, at);
    const from = Math.max(countUpTo(sorted, at - flight), until - MOVING_MAX);
    for (let i = from; i < until; i++)
      visit((at - (sorted[i] as number)) / flight, requests[i] as number);
  }

  /** One block on its way; crossed out where it brings no answer. */
  travel(tenant: number, request: number, x: number, y: number, alpha: number, isCrossed: boolean): void {
    const { context, m } = this;
    const side = Math.min(10, Math.max(6, this.side(request)));
    context.globalAlpha = Math.max(0, alpha) * this.strength(tenant);
    context.fillStyle = this.colour(tenant);
    context.beginPath();
    this.block(x, y, side);
    context.fill();
    if (isCrossed) {
      context.strokeStyle = m.colours.bad;
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(x, y - side / 2);
      context.lineTo(x + side, y + side / 2);
      context.moveTo(x + side, y - side / 2);
      context.lineTo(x, y + side / 2);
      context.stroke();
    }
    context.globalAlpha = 1;
  }
}

/** Draws a moment. Answers where the waiting blocks stand now, for the next frame. */
export function paint(
  context: CanvasRenderingContext2D,
  geometry: Geometry,
  moment: Moment,
  tokensMax: number,
): Map<number, number> {
  const painter = new Painter(context, geometry, moment, tokensMax);
  const stood = new Map<number, number>();
  context.clearRect(0, 0, geometry.width, geometry.height);
  context.textBaseline = "alphabetic";
  painter.labels();
  const permits = moment.permits[painter.bin] ?? 0;
  painter.head(painter.counts.reduce((sum, counts) => sum + counts.inFlight, 0), permits);
  painter.slots(permits, moment.permitsMax);
  for (const row of geometry.rows) painter.queue(row, stood);
  for (const row of geometry.rows) painter.moving(row);
  return stood;
}
