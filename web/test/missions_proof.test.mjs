// Every mission can be won, and only by what it teaches: the stored solution earns three stars with every seed; the
// start earns none; half a solution, everything switched off, no limits, one permit and permits without end do not
// earn three; and no open control does by itself, unless the mission says that it is about that one.
// Short form: 5 seeds; WEIR_TEST_LONG=1: 50, and sliders at many more places.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readMissions } from '../missions/read.mjs';
import { load } from './load.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const isLong = process.env.WEIR_TEST_LONG === '1';
const SEEDS = isLong ? 50 : 5;
const TRAP_SEEDS = isLong ? 50 : 2;

const rules = await load('lab/missions/missions.ts');
const { allControls, pathsOf } = await load('lab/state/controls.ts');
const { LocalEngine } = await load('lab/engine/engine.ts');
const wasm = process.env.WEIR_LAB_WASM ?? path.join(root, 'build/web/lab.wasm');
const engine = new LocalEngine(await WebAssembly.compile(readFileSync(wasm)));

// What a run earns, and each condition in words, for the message of a failed assertion.
function play(mission, sets, seed, paths = []) {
  const reply = engine.run({ setup: mission.setup, sets: sets.map(rules.parseSet), seed, paths, wantsRequests: false });
  assert.ok(reply.ok, `${sets.join(' ')}: ${JSON.stringify(reply.problems)}`);
  const stars = rules.judge(mission, reply.result);
  const words = stars.flatMap((star, index) =>
    star.conditions.map(({ label, now, atLeast, atMost, isMet }) => `${index + 1}: ${label} ${now} (${atLeast ?? ''}..${atMost ?? ''}) ${isMet ? 'met' : 'not met'}`),
  );
  return { ...reply, earned: rules.starsEarned(stars, reply.result), said: `seed ${seed}, ${sets.join(' ')}\n${words.join('\n')}` };
}

const seeds = (count) => Array.from({ length: count }, (_, index) => index + 1);

// Setups that switch things off, whatever the mission is about.
function everythingOff(mission) {
  const { setup } = play(mission, [], 1);
  const tenants = setup.tenants.map((tenant) => tenant.name);
  const upstreams = setup.upstreams.map((upstream) => upstream.name);
  return [
    ...tenants.map((name) => ({ text: `${name} switched off`, sets: [`tenants.${name}.paused=true`], most: 0 })),
    { text: 'everybody switched off', sets: tenants.map((name) => `tenants.${name}.paused=true`), most: 0 },
    { text: 'no limits', sets: tenants.flatMap((name) => [`tenants.${name}.limits.requests=none`, `tenants.${name}.limits.tokens=none`]), most: 2 },
    { text: 'one permit', sets: upstreams.map((name) => `upstreams.${name}.max_in_flight=1`), most: 2 },
    { text: 'permits without end', sets: upstreams.map((name) => `upstreams.${name}.max_in_flight=60000`), most: 2 },
    { text: 'no wait', sets: ['limits.max_wait=10ms'], most: 2 },
    { text: 'tiny limits', sets: tenants.flatMap((name) => [`tenants.${name}.limits.requests=1/m`, `tenants.${name}.limits.over=refuse`]), most: 0 },
  ];
}

// Places of a slider that are tried.
const PLACES = isLong ? 40 : 7;

// The mission's controls at its start, as the page makes them.
function controlsAtStart(mission) {
  const { setup } = play(mission, [], 1);
  const { values } = play(mission, [], 1, pathsOf(setup)).setup;
  const read = (at) => values[at] ?? '';
  return allControls({ setup, read, readFile: read, has: (at) => (values[at] ?? null) !== null, seed: 1 });
}

// What a hand can give a control.
function valuesOf({ kind, choices, scale }) {
  if (kind === 'toggle') return ['true', 'false'];
  if (kind !== 'slider') return choices.map((choice) => choice.value);
  const place = (part) => (scale.isLog ? scale.low * (scale.high / scale.low) ** part : scale.low + (scale.high - scale.low) * part);
  return Array.from({ length: PLACES }, (_, index) => scale.text(place(index / (PLACES - 1))));
}

for (const mission of readMissions()) {
  test(`${mission.id}: its controls are there, and none wins by itself what it does not teach`, () => {
    const known = new Map(controlsAtStart(mission).map((control) => [control.id, control]));
    for (const id of mission.controls) {
      /* The cool-down is there once the breaker is on. */
      const control = known.get(id);
      if (!control) {
        assert.match(id, /^cooldown:/, `${id} is one of ${[...known.keys()].join(' ')}`);
        continue;
      }
      const most = mission.alone?.includes(id) ? 3 : 2;
      for (const value of valuesOf(control)) {
        const sets = control.sets(value).filter((set) => set.value !== '').map((set) => `${set.path}=${set.value}`);
        const { earned, said } = play(mission, sets, 1);
        assert.ok(earned <= most, `${id} at ${value}: ${earned} stars, ${said}`);
      }
    }
  });

  test(`${mission.id}: not won at the start, won by its solution, with ${SEEDS} seeds`, () => {
    for (const seed of seeds(SEEDS)) {
      const start = play(mission, [], seed);
      assert.equal(start.earned, 0, `the start: ${start.said}`);
      const solved = play(mission, mission.solution, seed);
      assert.equal(solved.earned, 3, `the solution: ${solved.said}`);
      assert.equal(solved.result.trafficHash, start.result.trafficHash, 'both are sent the same requests');
    }
  });

  test(`${mission.id}: no trap wins it`, () => {
    for (const seed of seeds(TRAP_SEEDS))
      for (const trap of mission.traps) {
        const { earned, said } = play(mission, trap.sets, seed);
        assert.ok(earned < 3, `${trap.text}: three stars, ${said}`);
      }
  });

  test(`${mission.id}: switching things off does not win it, with the solution or without`, () => {
    for (const { text, sets, most } of everythingOff(mission)) {
      const { earned, said } = play(mission, sets, 1);
      assert.ok(earned <= most, `${text}: ${earned} stars, ${said}`);
      if (most === 0) assert.equal(play(mission, [...mission.solution, ...sets], 1).earned, 0, `${text}, with the solution: ${said}`);
    }
  });
}
