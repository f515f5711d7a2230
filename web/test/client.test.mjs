// The page's side of the worker: a question that is never answered holds nothing up.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

// Workers that answer when the test says so, and timers that run out when it does.
const workers = [];
globalThis.TestWorker = class {
  constructor() {
    Object.assign(this, { asked: [], heard: {}, isEnded: false });
    workers.push(this);
  }
  addEventListener(kind, hear) {
    this.heard[kind] = hear;
  }
  postMessage(question) {
    this.asked.push(question);
  }
  answer(reply) {
    this.heard.message({ data: { id: this.asked.at(-1).id, reply } });
  }
  terminate() {
    this.isEnded = true;
  }
};
const { startEngine } = await load('lab/engine/client.ts');

async function withTimers(work) {
  const { setTimeout: set, clearTimeout: clear } = globalThis;
  const timers = new Map();
  globalThis.setTimeout = (run) => timers.set(timers.size + 1, run).size;
  globalThis.clearTimeout = (id) => timers.delete(id);
  try {
    await work(() => [...timers.values()].forEach((run) => run()));
  } finally {
    Object.assign(globalThis, { setTimeout: set, clearTimeout: clear });
  }
}

const request = (name) => ({ setup: { name, text: '' }, sets: [], seed: 1, trace: undefined, paths: [], wantsRequests: false });

test('a text that takes long is given up when something newer waits, and says so', () =>
  withTimers(async (runOut) => {
    const engine = startEngine();
    const slow = engine.yaml({ name: 'slow', text: '' }, []);
    runOut();
    assert.equal(workers.at(-1).isEnded, false, 'nobody waits');
    const run = engine.run(request('next'));
    const first = workers.at(-1);
    runOut();
    assert.equal(first.isEnded, true);
    assert.match((await slow).problems[0].text, /took too long/);
    assert.equal(workers.at(-1).asked.at(-1).request.setup.name, 'next');
    workers.at(-1).answer({ ok: true });
    assert.deepEqual(await run, { ok: true });
  }));

test('a text behind a text that takes long has its turn, and a run is not ended for a text', () =>
  withTimers(async (runOut) => {
    const engine = startEngine();
    const slow = engine.yaml({ name: 'slow', text: '' }, []);
    const next = engine.yaml({ name: 'next', text: '' }, []);
    runOut();
    assert.equal((await slow).ok, false);
    workers.at(-1).answer({ ok: true, text: 'a' });
    assert.equal((await next).text, 'a');
    const run = engine.run(request('long'));
    const text = engine.yaml({ name: 'after', text: '' }, []);
    runOut();
    assert.equal(workers.at(-1).isEnded, false);
    workers.at(-1).answer({ ok: true });
    await run;
    workers.at(-1).answer({ ok: true, text: 'b' });
    assert.equal((await text).text, 'b');
  }));
