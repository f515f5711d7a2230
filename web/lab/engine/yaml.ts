// A YAML text as the tree that the module's configuration loader walks (src/gateway/config_tree.h), made
// of what js-yaml says while it reads. Natively libyaml makes the same tree; web/test/yaml.test.mjs
// compares the two.
//
// js-yaml gives values without places. Its listener is told where each node opens and closes, also nodes
// that it only tries; what they were is known from the value a node closes with and from the text.
import { FAILSAFE_SCHEMA, YAMLException, loadAll, type State } from "js-yaml";

export interface Word {
  kind: "word";
  isPlain: boolean;
  text: string;
}
export type TreeNode = (Word | { kind: "list"; entries: TreeNode[] } | { kind: "mapping"; pairs: [TreeNode, TreeNode][] }) & {
  line: number;
  column: number;
};

export interface Place {
  line: number;
  column: number;
}

export interface Tree {
  /** null: nothing stands in the text, or it is no YAML. */
  root: TreeNode | null;
  /** Where a second document begins. */
  second: Place | null;
  problem: (Place & { text: string }) | null;
}

/** Deeper than any configuration; js-yaml goes down by calls. */
const depthMax = 400;

/** A node between its opening and its closing. */
interface Frame {
  open: number;
  /** Where its properties, or it, begins. */
  start: number;
  anchors: string[];
  node: TreeNode;
  children: Child[];
}

interface Child {
  node: TreeNode;
  result: unknown;
  isEmpty: boolean;
  /** Whether a colon comes behind it: it is a key. */
  isKey: boolean;
  end: number;
}

class TooDeep extends Error {}

const emptyNode = (): TreeNode => ({ kind: "word", isPlain: true, text: "", line: 0, column: 0 });

class Reader {
  private text = "";
  private lines: number[] = [0];
  /** The place that was asked for last: the next one is near it, also where all stands in one line. */
  private near = { line: 0, position: 0, column: 1 };
  private readonly frames: Frame[] = [];
  private anchors = new Map<string, TreeNode>();
  readonly documents: (TreeNode | null)[] = [];

  /** The text as js-yaml has it: without a byte order mark, with an end. */
  private look(input: string): void {
    if (input === this.text) return;
    this.text = input;
    this.lines = [0];
    this.near = { line: 0, position: 0, column: 1 };
    for (let i = 0; i < input.length; i++) {
      const letter = input.charCodeAt(i);
      if (letter === 10 || (letter === 13 && input.charCodeAt(i + 1) !== 10)) this.lines.push(i + 1);
    }
  }

  place(position: number): Place {
    let low = 0;
    let high = this.lines.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if ((this.lines[middle] ?? 0) <= position) low = middle;
      else high = middle;
    }
    /* The second half of a pair is no letter. */
    const letters = (at: number): number => (this.text.charCodeAt(at) >> 10 === 0xdc00 >> 10 ? 0 : 1);
    if (this.near.line !== low) this.near = { line: low, position: this.lines[low] ?? 0, column: 1 };
    const { near } = this;
    while (near.position < position) near.column += letters(near.position++);
    while (near.position > position) near.column -= letters(--near.position);
    const { column } = near;
    return { line: low + 1, column };
  }

  /** Past blanks, line ends and comments. */
  private seek(position: number): number {
    for (;;) {
      const letter = this.text[position];
      if (letter === " " || letter === "\t" || letter === "\n" || letter === "\r") {
        position++;
      } else if (letter === "#" && (position === 0 || /\s/.test(this.text[position - 1] ?? ""))) {
        while (position < this.text.length && this.text[position] !== "\n" && this.text[position] !== "\r") position++;
      } else {
        return position;
      }
    }
  }

  /** Past tags and anchors; the anchors' names. */
  private properties(position: number, anchors: string[]): number {
    for (;;) {
      const property = /^[!&][^\s,[\]{}]*/.exec(this.text.slice(position, position + 200))?.[0];
      if (property === undefined) return position;
      if (property.startsWith("&")) anchors.push(property.slice(1));
      position = this.seek(position + property.length);
    }
  }

  open(state: State): void {
    this.look(state.input);
    if (this.frames.length >= depthMax) throw new TooDeep();
    const frame: Frame = { open: state.position, start: this.seek(state.position), anchors: [], node: emptyNode(), children: [] };
    this.properties(frame.start, frame.anchors);
    for (const name of frame.anchors) this.anchors.set(name, frame.node);
    this.frames.push(frame);
  }

  close(state: State): void {
    const frame = this.frames.pop();
    if (!frame) throw new Error("a node closes that was not opened");
    const result: unknown = state.result;
    const node = this.build(frame, result);
    const end = state.position;
    const parent = this.frames[this.frames.length - 1];
    if (parent) {
      const next = this.seek(end);
      parent.children.push({ node, result, isEmpty: result === null, isKey: this.text[next] === ":", end });
      return;
    }
    this.documents.push(result === null ? null : node);
    this.anchors = new Map();
  }

  private build(frame: Frame, result: unknown): TreeNode {
    const only = frame.children.filter((child) => !child.isEmpty);
    const first = only[0];
    // What was tried and kept; not an alias of this very node, for a tree may go round in a circle.
    const isKept = frame.children.length === 1 && first?.result === result && first?.node !== frame.node;
    if (first && isKept) {
      if (frame.anchors.length === 0) return first.node;
      return Object.assign(frame.node, first.node);
    }
    const start = this.properties(frame.start, []);
    const letter = this.text[start] ?? "";
    const own: Place = this.place(result === null ? frame.open : frame.start);
    if (letter === "*" && only.length === 0 && result !== null) {
      const name = /^\*([^\s,[\]{}]+)/.exec(this.text.slice(start, start + 200))?.[1] ?? "";
      const meant = this.anchors.get(name);
      if (meant) return meant;
    }
    if (Array.isArray(result)) {
      const entries = letter === "[" ? this.flowEntries(frame.children) : this.blockEntries(frame, result);
      return Object.assign(frame.node, { kind: "list", entries, ...own });
    }
    if (result !== null && typeof result === "object")
      return Object.assign(frame.node, { kind: "mapping", pairs: this.pairs(frame.children, letter === "{"), ...own });
    const isPlain = !(`"'|>`.includes(letter) && letter !== "");
    return Object.assign(frame.node, { kind: "word", isPlain, text: typeof result === "string" ? result : "", ...own });
  }

  private nothingAt(position: number): TreeNode {
    return { ...emptyNode(), ...this.place(position) };
  }

  private flowEntries(children: Child[]): TreeNode[] {
    const entries: TreeNode[] = [];
    for (let i = 0; i < children.length; i++) {
      const child = children[i];
      const next = children[i + 1];
      if (!child) break;
      if (child.isKey && next) {
        entries.push({ kind: "mapping", pairs: [[child.node, next.node]], line: child.node.line, column: child.node.column });
        i++;
      } else {
        entries.push(child.node);
      }
    }
    return entries;
  }

  /** An entry that is only a dash may not have been told: its place is behind that. */
  private blockEntries(frame: Frame, result: unknown[]): TreeNode[] {
    let at = 0;
    let end = frame.start;
    return result.map((entry) => {
      const child = frame.children[at];
      if (!child || (entry === null && !child.isEmpty)) {
        end = this.seek(end) + 1;
        return this.nothingAt(end);
      }
      at++;
      end = child.end;
      return child.node;
    });
  }

  /** Of a block, nodes that were only tried are passed over: they are empty, and no colon comes behind. */
  private pairs(children: Child[], isFlow: boolean): [TreeNode, TreeNode][] {
    const pairs: [TreeNode, TreeNode][] = [];
    for (let i = 0; i < children.length; i++) {
      const key = children[i];
      if (!key || (!isFlow && key.isEmpty && !key.isKey)) continue;
      const value = key.isKey ? children[++i] : undefined;
      pairs.push([key.node, value?.node ?? this.nothingAt(key.end)]);
    }
    return pairs;
  }
}

/** Takes a text apart. It does not throw. */
export function readYaml(text: string): Tree {
  const reader = new Reader();
  const tree: Tree = { root: null, second: null, problem: null };
  try {
    loadAll(text, null, {
      schema: FAILSAFE_SCHEMA,
      json: true, // a key that is given twice is told by the loader, with both places
      listener(event, state) {
        if (event === "open") reader.open(state);
        else reader.close(state);
      },
    });
  } catch (fault) {
    if (fault instanceof YAMLException)
      tree.problem = { line: (fault.mark?.line ?? 0) + 1, column: (fault.mark?.column ?? 0) + 1, text: fault.reason };
    else if (fault instanceof TooDeep || fault instanceof RangeError) tree.problem = { line: 0, column: 0, text: "is nested too deep" };
    else throw fault;
    return tree;
  }
  tree.root = reader.documents[0] ?? null;
  const second = reader.documents.slice(1).find((node) => node !== null);
  if (second) tree.second = { line: second.line, column: second.column };
  return tree;
}

/** Where the words of a tree's head and nodes stand: told by the module. */
export interface TreeLayout {
  head: Record<string, number>;
  node: Record<string, number>;
  kind: Record<string, number>;
}

function of(table: Record<string, number>, name: string): number {
  const value = table[name];
  if (value === undefined) throw new Error(`the lab's module does not know '${name}': page and module are of different builds`);
  return value;
}

/** The tree as bytes: a head, the nodes, the links, the text. */
export function packTree(tree: Tree, layout: TreeLayout): Uint8Array<ArrayBuffer> {
  const numbers = new Map<TreeNode, number>();
  const nodes: TreeNode[] = [];
  const links: number[] = [];
  const words: Uint8Array[] = [];
  const encoder = new TextEncoder();
  let textBytes = 0;
  const keep = (text: string): [number, number] => {
    const bytes = encoder.encode(text);
    const at = textBytes;
    words.push(bytes);
    textBytes += bytes.length + 1;
    return [at, bytes.length];
  };
  const number = (node: TreeNode): number => {
    let known = numbers.get(node);
    if (known === undefined) {
      known = nodes.length;
      numbers.set(node, known);
      nodes.push(node);
    }
    return known;
  };
  if (tree.root) number(tree.root);
  const rows: Record<string, number>[] = [];
  for (let i = 0; i < nodes.length; i++) {
    const node = nodes[i];
    if (!node) break;
    const row: Record<string, number> = { kind: of(layout.kind, node.kind), line: node.line, column: node.column, first: links.length };
    if (node.kind === "word") {
      [row["text"], row["text_bytes"]] = keep(node.text) as [number, number];
      row["is_plain"] = node.isPlain ? 1 : 0;
    } else if (node.kind === "list") {
      row["count"] = node.entries.length;
      for (const entry of node.entries) links.push(number(entry));
    } else {
      row["count"] = node.pairs.length;
      for (const [key, value] of node.pairs) links.push(number(key), number(value));
    }
    rows.push(row);
  }
  const [problem] = keep(tree.problem?.text ?? "");
  const headWords = Object.keys(layout.head).length;
  const nodeWords = Object.keys(layout.node).length;
  const whole = new Uint8Array(4 * (headWords + rows.length * nodeWords + links.length) + textBytes);
  const view = new Uint32Array(whole.buffer, 0, headWords + rows.length * nodeWords + links.length);
  const head: Record<string, number> = {
    nodes_count: rows.length,
    links_count: links.length,
    text_bytes: textBytes,
    second_line: tree.second?.line ?? 0,
    second_column: tree.second?.column ?? 0,
    problem_line: tree.problem?.line ?? 0,
    problem_column: tree.problem?.column ?? 0,
    problem,
  };
  for (const [name, value] of Object.entries(head)) view[of(layout.head, name)] = value;
  rows.forEach((row, i) => {
    for (const [name, value] of Object.entries(row)) view[headWords + i * nodeWords + of(layout.node, name)] = value;
  });
  view.set(links, headWords + rows.length * nodeWords);
  let at = 4 * view.length;
  for (const bytes of words) {
    whole.set(bytes, at);
    at += bytes.length + 1;
  }
  return whole;
}
