// The lab's module: its exports with types, and memory as strings and arrays. What each does is said in
// web/wasm/module.c; names and orders are told by the module itself.
import type { TreeLayout } from "./yaml";

/** What the module tells of itself. */
export interface Layout extends TreeLayout {
  requests: string[];
  tenantSeries: string[];
  upstreamSeries: string[];
  figures: string[];
  wholes: string[];
  reasons: string[];
  outcomes: Record<string, number>;
}

interface Exports {
  memory: WebAssembly.Memory;
  module_alloc(bytes: number): number;
  module_panic(): number;
  module_layout(): number;
  module_begin(name: number, tree: number): void;
  module_push_set(path: number, value: number, tree: number): void;
  module_load(withTraffic: number, withTrace: number): number;
  module_problems(): number;
  module_describe(paths: number, count: number): number;
  module_yaml(): number;
  module_run(seed: bigint): number;
  module_result(): number;
  module_figures(): number;
  module_tenant_series(tenant: number, which: number): number;
  module_upstream_series(upstream: number, which: number): number;
  module_request_column(which: number): number;
  module_trace_begin(scheduler: number): void;
  module_trace_push(bytes: number, count: number): number;
  module_trace_end(): number;
  module_trace_about(): number;
  module_trace_figures(): number;
  module_trace_drop(): void;
  module_free(at: number): void;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export class LabModule {
  private readonly exports: Exports;
  readonly layout: Layout;

  constructor(compiled: WebAssembly.Module) {
    // Chromium allows this at once only in a worker; the module has no imports.
    this.exports = new WebAssembly.Instance(compiled, {}).exports as unknown as Exports;
    this.layout = this.json(this.exports.module_layout()) as Layout;
  }

  /** Memory in use, in bytes; it does not shrink. */
  get bytes(): number {
    return this.exports.memory.buffer.byteLength;
  }

  private give(bytes: Uint8Array): number {
    const at = this.exports.module_alloc(bytes.length);
    new Uint8Array(this.exports.memory.buffer).set(bytes, at);
    return at;
  }

  /** With a NUL behind it; one inside would end it there. */
  private giveText(text: string): number {
    return this.give(encoder.encode(`${text.replaceAll("\0", "\ufffd")}\0`));
  }

  private text(at: number): string {
    const bytes = new Uint8Array(this.exports.memory.buffer);
    return decoder.decode(bytes.subarray(at, bytes.indexOf(0, at)));
  }

  private json(at: number): unknown {
    return JSON.parse(this.text(at));
  }

  /** A copy: the module's own changes with the next call. */
  private numbers(at: number, count: number): Float64Array<ArrayBuffer> {
    return new Float64Array(this.exports.memory.buffer, at, count).slice();
  }

  private copy(at: number, to: Float64Array): void {
    to.set(new Float64Array(this.exports.memory.buffer, at, to.length));
  }

  /** The defect that stopped it; "": it was none that it noticed. */
  panic(): string {
    return this.text(this.exports.module_panic());
  }

  begin(name: string, tree: Uint8Array): void {
    const text = this.giveText(name);
    this.exports.module_begin(text, this.give(tree));
  }

  pushSet(path: string, value: string, tree: Uint8Array): void {
    const [pathText, valueText] = [this.giveText(path), this.giveText(value)];
    this.exports.module_push_set(pathText, valueText, this.give(tree));
  }

  load(withTraffic: boolean, withTrace: boolean): boolean {
    return this.exports.module_load(withTraffic ? 1 : 0, withTrace ? 1 : 0) !== 0;
  }

  problems(): unknown {
    return this.json(this.exports.module_problems());
  }

  describe(paths: readonly string[]): unknown {
    const at = this.give(encoder.encode(paths.map((path) => `${path.replaceAll("\0", "\ufffd")}\0`).join("")));
    const description = this.json(this.exports.module_describe(at, paths.length));
    this.exports.module_free(at);
    return description;
  }

  yaml(): string {
    return this.text(this.exports.module_yaml());
  }

  run(seed: bigint): boolean {
    return this.exports.module_run(seed) !== 0;
  }

  result(): unknown {
    return this.json(this.exports.module_result());
  }

  figures(tenants: number): Float64Array {
    return this.numbers(this.exports.module_figures(), (tenants + 1) * this.layout.figures.length + this.layout.wholes.length);
  }

  private column(names: readonly string[], name: string): number {
    const which = names.indexOf(name);
    if (which < 0) throw new Error(`the lab's module has no column '${name}': page and module are of different builds`);
    return which;
  }

  /** As many bins as `to` has room for. */
  tenantSeries(tenant: number, name: string, to: Float64Array): void {
    this.copy(this.exports.module_tenant_series(tenant, this.column(this.layout.tenantSeries, name)), to);
  }

  upstreamSeries(upstream: number, name: string, to: Float64Array): void {
    this.copy(this.exports.module_upstream_series(upstream, this.column(this.layout.upstreamSeries, name)), to);
  }

  requestColumn(name: string, to: Float64Array): void {
    this.copy(this.exports.module_request_column(this.column(this.layout.requests, name)), to);
  }

  /** Reads a trace; false: traceAbout() says why not. It stays for the setups loaded from then on. */
  readTrace(text: string, scheduler: string | null): boolean {
    this.exports.module_trace_begin(scheduler === null ? 0 : this.giveText(scheduler));
    const portion = 1 << 16;
    const room = this.exports.module_alloc(3 * portion);
    let isRead = true;
    for (let at = 0, end = 0; at < text.length && isRead; at = end) {
      end = at + portion;
      if (text.charCodeAt(end - 1) >> 10 === 0xd800 >> 10) end--; // not between the halves of a pair
      const bytes = encoder.encode(text.slice(at, end));
      new Uint8Array(this.exports.memory.buffer).set(bytes, room);
      isRead = this.exports.module_trace_push(room, bytes.length) !== 0;
    }
    this.exports.module_free(room);
    return isRead && this.exports.module_trace_end() !== 0;
  }

  traceAbout(): unknown {
    return this.json(this.exports.module_trace_about());
  }

  dropTrace(): void {
    this.exports.module_trace_drop();
  }

  traceFigures(tenants: number): Float64Array {
    return this.numbers(this.exports.module_trace_figures(), (tenants + 1) * this.layout.figures.length);
  }
}
