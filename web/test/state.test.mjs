// What the page holds: sets laid over each other, undo and redo, refusals, the setup beside. The engine is a small
// stand-in that answers when it is told to; with the real one: controls.test.mjs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const page = await load('test/state.ts');
const { addStep, mergeSets, moveBy, noHistory } = page;

test('a set takes the place of the same path, and of those below it', () => {
  const old = [
    { path: 'backend.troubles.1.from', value: '1s' },
    { path: 'scheduler', value: 'fifo' },
    { path: 'backend.troubles2', value: 'x' },
  ];
  assert.deepEqual(mergeSets(old, [{ path: 'backend.troubles', value: '[]' }, { path: 'scheduler', value: 'vtc' }]), [
    { path: 'backend.troubles2', value: 'x' },
    { path: 'backend.troubles', value: '[]' },
    { path: 'scheduler', value: 'vtc' },
  ]);
  assert.deepEqual(mergeSets(old, [{ path: 'scheduler', value: '' }]), [old[0], old[2]], 'an empty one only takes away');
});

test('history: a new step ends what could be redone, a slide is one step, and old histories stay as they were', () => {
  const step = (label, slide = '') => ({ setup: { label }, label, control: '', value: '', slide });
  const two = addStep(addStep(noHistory, step('a')), step('b'));
  const back = moveBy(two, -1);
  assert.equal(back.steps[back.at].label, 'a');
  assert.equal(moveBy(back, -1), back, 'nothing before the first');
  const other = addStep(back, step('c'));
  assert.deepEqual(other.steps.map((each) => each.label), ['a', 'c']);
  assert.deepEqual(two.steps.map((each) => each.label), ['a', 'b']);
  let slid = addStep(two, step('c 1', 'c'));
  slid = addStep(slid, step('c 2', 'c'));
  assert.deepEqual(slid.steps.map((each) => each.label), ['a', 'b', 'c 2']);
  slid = addStep(page.closeSlide(slid), step('d 1', 'd'));
  assert.deepEqual(slid.steps.map((each) => each.label), ['a', 'b', 'c 2', 'd 1']);
  let many = noHistory;
  for (let i = 0; i < 250; i++) many = addStep(many, step(String(i)));
  assert.equal(many.steps.length, 100);
  assert.equal(many.steps[many.at].label, '249');
});

// An engine that answers in the order of the requests, when `next()` is called; of waiting ones only the newest.
class Stand {
  constructor() {
    this.waiting = null;
    this.ran = [];
  }

  run(request) {
    return new Promise((resolve) => {
      this.waiting?.resolve(null);
      this.waiting = { request, resolve };
    });
  }

  async next() {
    const { request, resolve } = this.waiting ?? {};
    if (!request) return false;
    this.waiting = null;
    this.ran.push(request);
    resolve(answer(request));
    for (let i = 0; i < 20; i++) await null;
    return true;
  }

  async all() {
    for (let i = 0; i < 20 && (await this.next()); i++);
    assert.equal(this.waiting, null);
  }
}

function answer(request) {
  const inForce = { scheduler: 'vtc', 'tenants.a.weight': '1' };
  for (const set of request.sets) {
    if (set.value === 'bad') return { ok: false, problems: [{ where: `--set ${set.path}`, line: 0, column: 0, text: 'is bad', isWarning: false }] };
    inForce[set.path] = set.value;
  }
  const values = Object.fromEntries(request.paths.map((path) => [path, inForce[path] ?? null]));
  const tenants = [{ name: 'a', lane: 'standard', weight: 1, scope: '', goal: 2, arrivals: 'poisson' }];
  const setup = { tenants, lanes: [{ name: 'standard', floorPercent: 0 }], upstreams: [], scopes: [], time: 60, tenantNames: ['a'], values };
  return { ok: true, setup, warnings: [], result: { hash: JSON.stringify([request.setup.text, request.sets, request.seed]), trafficHash: String(request.setup.text.includes('other-traffic')), end: 60 } };
}

const setup = (name, sets = []) => ({ origin: `preset:${name}`, text: { name, text: `# ${name}` }, sets, seed: 1, trace: null });
const hashNow = () => JSON.parse(page.run.value.result.hash);
const fifo = [{ path: 'scheduler', value: 'fifo' }];

async function begin() {
  const engine = new Stand();
  page.connect(engine);
  void page.load(setup(`begin-${Math.random()}`));
  await engine.all();
  engine.ran.length = 0;
  return engine;
}

test('a setup is run again for the values of its controls, once', async () => {
  const engine = new Stand();
  page.connect(engine);
  void page.load(setup('values', fifo));
  await engine.all();
  assert.equal(page.values.value.scheduler, 'fifo');
  assert.equal(page.base.value.scheduler, 'vtc', 'and without its sets for what the file says');
  assert.deepEqual(engine.ran.map((request) => [request.sets.length, request.paths.length > 0]), [[1, false], [1, true], [0, true]]);
  void page.setSeed(2);
  await engine.all();
  assert.equal(engine.ran.length, 4, 'a change of the same file is one run');
});

test('undo and redo go back and forth, with labels, and compare with what was shown', async () => {
  const engine = await begin();
  void page.change(fifo, 'queue order: fifo');
  await engine.all();
  assert.equal(page.undoLabel.value, 'queue order: fifo');
  assert.deepEqual(hashNow()[1], fifo);
  assert.deepEqual(JSON.parse(page.previous.value.result.hash)[1], []);
  void page.undo();
  await engine.all();
  assert.deepEqual(hashNow()[1], []);
  assert.deepEqual(JSON.parse(page.previous.value.result.hash)[1], fifo);
  assert.equal(page.redoLabel.value, 'queue order: fifo');
  void page.redo();
  await engine.all();
  assert.deepEqual(hashNow()[1], fifo);
  assert.equal(page.redoLabel.value, '');
});

test('a slide is one step, and all of it is compared with what was before', async () => {
  const engine = await begin();
  for (const value of ['2', '3', '4']) {
    void page.change([{ path: 'tenants.a.weight', value }], `weight: ${value}`, { control: 'weight:a', value, isSliding: true });
    if (value !== '3') await engine.next();
  }
  page.endSlide();
  await engine.all();
  assert.equal(hashNow()[1][0].value, '4');
  assert.deepEqual(JSON.parse(page.previous.value.result.hash)[1], []);
  void page.change([{ path: 'tenants.a.weight', value: '5' }], 'weight: 5', { control: 'weight:a', value: '5', isSliding: true });
  await engine.all();
  assert.equal(JSON.parse(page.previous.value.result.hash)[1][0].value, '4', 'the next one is a step of its own');
  void page.undo();
  void page.undo();
  await engine.all();
  assert.deepEqual(hashNow()[1], []);
});

test('a value that the engine refuses is told at its control; the setup, the run and redo stay', async () => {
  const engine = await begin();
  void page.change(fifo, 'order');
  await engine.all();
  void page.undo();
  await engine.all();
  const shown = page.run.value;
  void page.change([{ path: 'tenants.a.weight', value: 'bad' }], 'weight: bad', { control: 'weight:a', value: 'bad' });
  await engine.all();
  assert.deepEqual(page.refusal.value.problems.map((problem) => problem.text), ['is bad']);
  assert.equal(page.refusal.value.control, 'weight:a');
  assert.equal(page.run.value, shown);
  assert.equal(page.current.value, shown.of);
  assert.equal(page.isRunning.value, false);
  assert.equal(page.redoLabel.value, 'order');
  void page.redo();
  await engine.all();
  assert.equal(page.refusal.value, null);
  assert.deepEqual(hashNow()[1], fifo);
});

test('a refused value and a right one right behind it: both are taken back, for the second stands on the first', async () => {
  const engine = await begin();
  const before = page.current.value;
  void page.change([{ path: 'tenants.a.weight', value: 'bad' }], 'bad');
  void page.change(fifo, 'order');
  await engine.all();
  assert.equal(page.current.value, before);
  assert.equal(page.problems.value.length, 1);
});

test('a file that cannot be run is not taken', async () => {
  const engine = await begin();
  const before = page.current.value;
  void page.load(setup('broken', [{ path: 'x', value: 'bad' }]));
  await engine.all();
  assert.equal(page.current.value, before);
  assert.equal(page.problems.value[0].text, 'is bad');
});

test('a value that the file has anyway is no set', async () => {
  const engine = await begin();
  void page.change(fifo, 'order');
  await engine.all();
  void page.change([{ path: 'scheduler', value: 'vtc' }], 'order');
  await engine.all();
  assert.deepEqual(page.current.value.sets, []);
});

test('the setup beside stays when the other changes, has the same seed, and swaps places', async () => {
  const engine = await begin();
  page.pinBeside();
  const pinned = page.beside.value.of;
  void page.change(fifo, 'order');
  await engine.all();
  assert.equal(page.beside.value.of, pinned);
  void page.newSeed();
  await engine.all();
  assert.equal(page.current.value.seed, 2);
  assert.equal(page.beside.value.of.seed, 2, 'both are sent the same requests');
  assert.deepEqual(page.beside.value.of.sets, []);
  void page.swapBeside();
  await engine.all();
  assert.deepEqual(page.current.value.sets, []);
  assert.deepEqual(page.beside.value.of.sets, fifo);
  page.dropBeside();
  assert.equal(page.beside.value, null);
});

test('what stands beside stays for another file that is sent the same, and goes where something else is sent', async () => {
  const engine = await begin();
  page.pinBeside();
  void page.load(setup('same-traffic'));
  await engine.all();
  assert.ok(page.beside.value);
  void page.load(setup('other-traffic'));
  await engine.all();
  assert.equal(page.beside.value, null);
});

test('another file is not compared with the one before', async () => {
  const engine = await begin();
  void page.load(setup('other'));
  await engine.all();
  assert.equal(page.previous.value, null);
  void page.undo();
  await engine.all();
  assert.match(hashNow()[0], /begin/);
});

test('a mission begins with seed 1, and without its text nothing happens', async () => {
  const engine = await begin();
  void page.setSeed(9);
  await engine.all();
  page.provideMissions({ text: async (name) => (name === 'storm' ? '# storm' : undefined), controls: () => ['over'] });
  await page.loadMission('none');
  assert.equal(engine.waiting, null);
  void page.loadMission('storm');
  for (let i = 0; i < 20; i++) await null;
  await engine.all();
  assert.deepEqual([page.current.value.origin, page.current.value.seed], ['mission:storm', 1]);
  assert.equal(await page.textOf('mission:storm'), '# storm');
});
