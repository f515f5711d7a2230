// What the end-to-end tests share: real processes on loopback, and clients that see every byte.
//
// A test is a claim: `claim('name', async (rig) => {...})`. The rig starts gateways, mock model
// servers and hand-written upstreams, each on a free port with a state folder of its own, and
// waits for the line by which a process says that it is ready. When the test is over, every
// gateway must be idle by its own count (no request, waiter, permit or hold left; what budgets were
// charged is what was recorded), must drain with status 0 on SIGTERM, and must not have made a
// sanitizer talk. Nothing leaves loopback.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const TEST_MS = 60_000;
const READY_MS = 20_000;
const QUIET_MS = 5_000;
const STOP_MS = 20_000;

export const longRun = process.env.WEIR_TEST_LONG === '1';

// The gateway under test: WEIR_BIN, else what ./test or ./run have built.
function findBinary() {
  const places = [
    process.env.WEIR_BIN,
    path.join(root, 'build-test/src/cli/weir'),
    path.join(root, 'build/src/cli/weir'),
  ];
  const found = places.find((place) => place && existsSync(place));
  if (!found) throw new Error('no weir to test: build it, or set WEIR_BIN');
  return found;
}

export const weirBinary = findBinary();

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Asks until the answer is truthy; fails with what was asked for when time is up.
export async function until(what, ask, ms = 10_000) {
  const end = performance.now() + ms;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    if (performance.now() > end) throw new Error(`in ${ms} ms it did not happen: ${what}`);
    await sleep(5);
  }
}

// A promise that fails when it takes longer than a test should wait for anything.
export function within(ms, what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`took longer than ${ms} ms: ${what}`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// ---- commands ----

// Runs `weir ARGS` while this process goes on serving: { status, out, err }. binary: another build than the
// one under test.
export async function weir(state, args, binary = weirBinary) {
  const child = spawn(binary, args, { env: { ...process.env, WEIR_STATE: state }, stdio: ['ignore', 'pipe', 'pipe'] });
  let out = '';
  let err = '';
  child.stdout.setEncoding('utf8').on('data', (text) => (out += text));
  child.stderr.setEncoding('utf8').on('data', (text) => (err += text));
  const ended = new Promise((resolve) => child.on('close', (status) => resolve(status)));
  const status = await within(READY_MS, `weir ${args.join(' ')}`, ended);
  assert.doesNotMatch(err, /Sanitizer|runtime error:|should be impossible/);
  return { status, out, err };
}

// ---- processes ----

class Process {
  constructor(args, env, readyPattern, binary = weirBinary) {
    this.out = '';
    this.err = '';
    this.watchers = new Set();
    this.child = spawn(binary, args, {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.pid = this.child.pid;
    this.exit = new Promise((resolve) => {
      this.child.on('close', (code, signal) => {
        this.ended = { code, signal };
        this.tell();
        resolve(this.ended);
      });
    });
    this.child.stdout.setEncoding('utf8').on('data', (text) => {
      this.out += text;
      this.tell();
    });
    this.child.stderr.setEncoding('utf8').on('data', (text) => {
      this.err += text;
      this.tell();
    });
    this.readyPattern = readyPattern;
  }

  tell() {
    for (const watcher of this.watchers) watcher();
  }

  // Resolves with look() as soon as output makes it truthy.
  watch(what, look, ms = 10_000) {
    const seen = new Promise((resolve, reject) => {
      const check = () => {
        const value = look();
        if (!value && !this.ended) return;
        this.watchers.delete(check);
        if (value) resolve(value);
        else reject(new Error(`the process ended before: ${what}\n${this.out}${this.err}`));
      };
      this.watchers.add(check);
      check();
    });
    return within(ms, what, seen);
  }

  ready() {
    return this.watch('ready', () => this.readyPattern.exec(this.out), READY_MS);
  }

  signal(name) {
    if (!this.ended) process.kill(this.pid, name);
  }

  async stop() {
    this.signal('SIGTERM');
    try {
      return await within(STOP_MS, 'stopping', this.exit);
    } catch (error) {
      this.signal('SIGKILL');
      await this.exit;
      throw error;
    }
  }

  assertHealthy() {
    const report = /(?:ERROR|WARNING): \w*Sanitizer|runtime error:|this should be impossible/;
    assert.ok(!report.test(this.err), `a sanitizer or an invariant spoke:\n${this.err.slice(-8000)}`);
  }
}

class Gateway extends Process {
  constructor(args, env, state, binary) {
    super(args, env, /serves (https?):\/\/([^ :]+):(\d+)[^]*admin: +http:\/\/[^ :]+:(\d+)[^]*stop:/, binary);
    this.state = state;
  }

  async start() {
    const match = await this.ready();
    this.port = Number(match[3]);
    this.adminPort = Number(match[4]);
    this.url = `${match[1]}://127.0.0.1:${this.port}`;
    this.token = readFileSync(path.join(this.state, 'admin.token'), 'utf8').trim();
    return this;
  }

  admin(page, headers = { authorization: `Bearer ${this.token}` }) {
    return call(`http://127.0.0.1:${this.adminPort}${page}`, { headers });
  }

  async adminJson(page) {
    const answer = await this.admin(page);
    assert.equal(answer.status, 200, answer.text);
    return answer.json;
  }

  status() {
    return this.adminJson('/v1/status');
  }

  async upstream(name) {
    const { upstreams } = await this.adminJson('/v1/upstreams');
    return name ? upstreams.find((one) => one.name === name) : upstreams[0];
  }

  async tenant(name) {
    const { tenants } = await this.adminJson('/v1/tenants');
    return tenants.find((one) => one.name === name);
  }

  // The access log so far: the lines of standard error that are JSON.
  accessLog() {
    return this.err
      .split('\n')
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line));
  }

  // Waits until so many lines were written (each comes after the answer, a moment later).
  async accessLines(count, which = () => true) {
    await this.watch(`${count} lines of access log`, () => this.accessLog().filter(which).length >= count);
    return this.accessLog().filter(which);
  }

  // Waits until so many requests are in the queue.
  waiting(count) {
    return until(`${count} waiting`, async () => (await this.status()).waiting === count);
  }

  async assertIdle() {
    const want = { requests: 0, waiting: 0, in_flight: 0, holds: 0, waiting_bytes: 0 };
    let seen;
    const idle = async () => {
      const status = await this.status();
      seen = Object.fromEntries(Object.keys(want).map((key) => [key, status[key]]));
      seen.held = status.ledger.held;
      seen.unrecorded = status.ledger.enforced_tokens - status.ledger.recorded_tokens;
      return Object.values(seen).every((value) => value === 0);
    };
    await until('the gateway is idle', idle, QUIET_MS).catch(() => {});
    assert.deepEqual(seen, { ...want, held: 0, unrecorded: 0 }, 'the gateway is idle when the test is over');
  }
}

class Mock extends Process {
  constructor(args) {
    super(['mock', '--listen', '127.0.0.1:0', ...args], {}, /listens on port (\d+)/);
  }

  async start() {
    this.port = Number((await this.ready())[1]);
    this.url = `http://127.0.0.1:${this.port}`;
    return this;
  }

  async stats() {
    return (await call(`${this.url}/mock/stats`)).json;
  }

  // What it received, heads parsed: { number, method, target, headers, head, body }.
  async requests() {
    const { requests } = (await call(`${this.url}/mock/requests`)).json;
    return requests.map((one) => ({ ...one, ...parseHead(one.head) }));
  }
}

// An upstream written by the test: `answer(request, response)` is called when the body is whole.
// It keeps what it received with the time, in order.
class HandUpstream {
  constructor(answer) {
    this.received = [];
    this.server = http.createServer((request, response) => {
      const chunks = [];
      request.on('data', (chunk) => chunks.push(chunk));
      request.on('end', () => {
        const body = Buffer.concat(chunks).toString('utf8');
        const kept = { method: request.method, url: request.url, headers: request.headers, body, at_ms: performance.now(), response };
        this.received.push(kept);
        answer(kept, response, this.received.length);
      });
      request.on('error', () => {});
      response.on('error', () => {});
    });
    this.server.keepAliveTimeout = 0;
  }

  async start() {
    await new Promise((resolve, reject) => {
      this.server.on('error', reject);
      this.server.listen(0, '127.0.0.1', resolve);
    });
    this.port = this.server.address().port;
    this.url = `http://127.0.0.1:${this.port}`;
    return this;
  }

  arrived(count, ms) {
    return until(`${count} requests at the upstream`, () => this.received.length >= count, ms);
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

// ---- the rig ----

class Rig {
  constructor() {
    this.processes = [];
    this.others = [];
    this.folders = [];
  }

  folder() {
    const made = mkdtempSync(path.join(tmpdir(), 'weir-e2e.'));
    this.folders.push(made);
    return made;
  }

  async mock(...args) {
    const mock = new Mock(args);
    this.processes.push(mock);
    return mock.start();
  }

  async hand(answer) {
    const hand = new HandUpstream(answer);
    this.others.push(hand);
    return hand.start();
  }

  // A gateway by flags: gateway(upstream, '--rate', '2/s', ...).
  gateway(upstream, ...flags) {
    return this.serve(['--upstream', `${upstream.url}/v1`, ...flags]);
  }

  // A gateway by configuration: an object in the form of weir.yaml (JSON is YAML).
  configured(config, env = {}, state = this.folder(), binary = undefined) {
    const file = path.join(state, 'weir.yaml');
    writeFileSync(file, JSON.stringify({ listen: '127.0.0.1:0', admin: '127.0.0.1:0', ...config }));
    return this.serve(['-c', file], { env, state, isFile: true, binary });
  }

  // A gateway whose tenants have weir keys: { gateway, keys: { NAME: key } }.
  async keyed(config, env = {}) {
    const state = this.folder();
    const keys = {};
    for (const { name } of config.tenants) keys[name] = this.newKey({ state }, name);
    return { gateway: await this.configured(config, env, state), keys };
  }

  // binary: another build than the one under test.
  serve(flags, { env = {}, state = this.folder(), isFile = false, binary } = {}) {
    const places = isFile ? [] : ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0'];
    const gateway = new Gateway(['serve', ...places, ...flags], { ...env, WEIR_STATE: state }, state, binary);
    this.processes.push(gateway);
    return gateway.start();
  }

  // A command that ends by itself, with the state folder of a gateway (or of its own).
  run(args, state = this.folder()) {
    return spawnSync(weirBinary, args, {
      env: { ...process.env, WEIR_STATE: state },
      encoding: 'utf8',
      timeout: STOP_MS,
    });
  }

  newKey(gateway, tenant, ...flags) {
    const made = this.run(['key', 'new', tenant, ...flags], gateway.state);
    assert.equal(made.status, 0, made.stderr);
    return made.stdout.trim();
  }

  async finish() {
    const gateways = this.processes.filter((one) => one instanceof Gateway);
    const problems = [];
    const attempt = async (work) => {
      try {
        await work();
      } catch (error) {
        problems.push(error);
      }
    };
    for (const gateway of gateways) if (!gateway.ended && gateway.port) await attempt(() => gateway.assertIdle());
    for (const one of [...gateways, ...this.processes.filter((p) => !(p instanceof Gateway))]) {
      const stoppedByTest = Boolean(one.ended);
      await attempt(async () => {
        const ended = await one.stop();
        if (!stoppedByTest) assert.deepEqual(ended, { code: 0, signal: null }, 'a clean end on SIGTERM');
      });
      await attempt(() => one.assertHealthy());
    }
    for (const one of this.others) await attempt(() => one.stop());
    for (const folder of this.folders) rmSync(folder, { recursive: true, force: true });
    return problems;
  }

  // What helps to understand a failure: the end of what each process said.
  story() {
    return this.processes
      .map((one) => `--- ${one.constructor.name} (pid ${one.pid})\n${one.err.slice(-3000)}`)
      .join('\n');
  }
}

export function claim(name, body, { timeout = TEST_MS, ...options } = {}) {
  test(name, { timeout: timeout + 2 * STOP_MS, ...options }, async (t) => {
    const rig = new Rig();
    let failure;
    try {
      await within(timeout, 'the test', body(rig, t));
    } catch (error) {
      failure = error;
    }
    const problems = await rig.finish();
    if (!failure && problems.length === 0) return;
    const first = failure ?? problems[0];
    if (first instanceof Error) first.message += `\n${rig.story()}`;
    throw first;
  });
}

// ---- HTTP ----

// Head text -> { start, method, target, status, headers (lower case, last wins), pairs }.
export function parseHead(text) {
  const lines = text.replace(/\r\n\r\n[^]*$/, '').split('\r\n');
  const words = lines[0].split(' ');
  const pairs = lines.slice(1).map((line) => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
  });
  return {
    start: lines[0],
    method: words[0],
    target: words[1],
    status: Number(words[1]),
    pairs,
    headers: Object.fromEntries(pairs),
  };
}

// Opens a request and resolves with its answer's head; the body is read by the caller.
// A connection of its own, unless an agent is given.
export function open(url, { method, headers = {}, body, agent = false, signal } = {}) {
  return new Promise((resolve, reject) => {
    const request = http.request(url, {
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers,
      agent,
      signal,
    });
    request.on('error', reject);
    request.on('response', (response) => {
      request.removeListener('error', reject);
      request.on('error', () => {});
      resolve(response);
    });
    request.end(body);
  });
}

// The rest of a body: { bytes, complete }; complete is false when the connection broke.
export function readAll(response) {
  return new Promise((resolve) => {
    const chunks = [];
    let over = false;
    const end = (complete) => {
      if (over) return;
      over = true;
      resolve({ bytes: Buffer.concat(chunks), complete });
    };
    response.on('data', (chunk) => chunks.push(chunk));
    response.on('end', () => end(response.complete));
    response.on('error', () => end(false));
    response.on('close', () => end(false));
  });
}

// One request from begin to end.
export async function call(url, options = {}) {
  const begun = performance.now();
  const response = await open(url, options);
  const { bytes, complete } = await readAll(response);
  const text = bytes.toString('utf8');
  let json;
  try {
    json = JSON.parse(text);
  } catch {
    json = undefined;
  }
  return {
    status: response.statusCode,
    headers: response.headers,
    bytes,
    text,
    json,
    complete,
    took_ms: performance.now() - begun,
  };
}

export const jsonHeaders = { 'content-type': 'application/json' };

export function bearer(key) {
  return { ...jsonHeaders, authorization: `Bearer ${key}` };
}

export function chatBody(extra = {}) {
  return JSON.stringify({ model: 'mock', messages: [{ role: 'user', content: 'Hello' }], ...extra });
}

export function messagesBody(extra = {}) {
  return JSON.stringify({ model: 'mock', max_tokens: 8, messages: [{ role: 'user', content: 'Hello' }], ...extra });
}

export function postChat(gateway, { key = 'k', headers = {}, signal, ...extra } = {}) {
  return call(`${gateway.url}/v1/chat/completions`, {
    headers: { ...bearer(key), ...headers },
    body: chatBody(extra),
    signal,
  });
}

export const anthropicHeaders = { ...jsonHeaders, 'x-api-key': 'k', 'anthropic-version': '2023-06-01' };

export function postMessages(gateway, { headers = {}, ...extra } = {}) {
  return call(`${gateway.url}/v1/messages`, {
    headers: { ...anthropicHeaders, ...headers },
    body: messagesBody(extra),
  });
}

// A whole answer of a chat upstream written by hand.
export function chatAnswer(response, { input = 3, output = 2 } = {}) {
  const body = JSON.stringify({
    id: 'chatcmpl-hand',
    object: 'chat.completion',
    created: 1,
    model: 'mock',
    choices: [{ index: 0, message: { role: 'assistant', content: 'so be it' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: input, completion_tokens: output, total_tokens: input + output },
  });
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
  response.end(body);
}

// ---- events ----

// Splits a stream's text into events as they stand, each with its blank line; the rest stays.
export class EventSplitter {
  constructor() {
    this.rest = '';
  }

  feed(text) {
    this.rest += text;
    const events = [];
    for (;;) {
      const at = this.rest.indexOf('\n\n');
      if (at < 0) return events;
      events.push(this.rest.slice(0, at + 2));
      this.rest = this.rest.slice(at + 2);
    }
  }
}

// An answer read event by event: next() resolves with one event's text, or null at a proper end;
// it throws when the connection broke.
export class EventReader {
  constructor(response) {
    this.events = [];
    this.waiters = [];
    const splitter = new EventSplitter();
    response.setEncoding('utf8');
    response.on('data', (text) => {
      this.events.push(...splitter.feed(text));
      this.serve();
    });
    const end = (error) => {
      this.over ??= { error, rest: splitter.rest };
      this.serve();
    };
    response.on('end', () => end(response.complete ? null : new Error('cut')));
    response.on('error', () => end(new Error('cut')));
    response.on('close', () => end(new Error('cut')));
  }

  serve() {
    while (this.waiters.length > 0 && (this.events.length > 0 || this.over)) {
      const { resolve, reject } = this.waiters.shift();
      if (this.events.length > 0) resolve(this.events.shift());
      else if (this.over.error) reject(this.over.error);
      else resolve(null);
    }
  }

  next() {
    return within(
      10_000,
      'the next event',
      new Promise((resolve, reject) => {
        this.waiters.push({ resolve, reject });
        this.serve();
      }),
    );
  }

  async all() {
    const list = [];
    for (let event = await this.next(); event !== null; event = await this.next()) list.push(event);
    return list;
  }
}
