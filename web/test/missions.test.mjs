// The missions. Each file is whole, its controls and documents exist, and the setup it leads to can be taken home:
// it passes `weir check` and runs to the same hash. That it can be solved, and only by what it teaches, is proven
// by missions_proof.test.mjs.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { missionFiles, readMission, readMissions } from '../missions/read.mjs';
import { load } from './load.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const weir = process.env.WEIR_RELEASE ?? path.join(root, 'build/src/cli/weir');
const rules = await load('lab/missions/missions.ts');
const folder = mkdtempSync(path.join(tmpdir(), 'weir-missions-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const run = (...args) => execFileSync(weir, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

// The anchor that a heading of a document has, as forges make it.
const anchor = (heading) => heading.toLowerCase().replaceAll('`', '').replace(/[^\w\s-]/g, '').trim().replaceAll(' ', '-');

test('there are ten missions, each with a name of its own', () => {
  const missions = readMissions();
  assert.ok(missions.length >= 10, `${missions.length} missions`);
  assert.equal(new Set(missions.map((mission) => mission.id)).size, missions.length);
  missionFiles().forEach((file, index) => {
    assert.equal(file.slice(0, 2), String(index + 1).padStart(2, '0'), `${file}: the numbers go up without a gap`);
    assert.equal(file.slice(3), `${readMission(file).id}.yaml`, `${file} is named after its id`);
  });
});

for (const mission of readMissions()) {
  test(`${mission.id}: the file is whole`, () => {
    const text = (value, what, longest) => {
      assert.equal(typeof value, 'string', what);
      assert.ok(value.length > 0 && value.length <= longest, `${what}: ${value.length} characters, at most ${longest}`);
    };
    text(mission.title, 'title', 50);
    assert.equal(mission.story.length, 3, 'a story has three lines');
    for (const line of mission.story) text(line, 'a line of the story', 140);
    text(mission.reach, 'reach', 140);
    text(mission.hint, 'hint', 240);
    text(mission.debrief, 'debrief', 650);
    assert.equal(mission.stars.length, 3);
    for (const star of mission.stars) {
      text(star.text, 'a star', 70);
      assert.ok(star.all.length > 0, `${star.text} asks for something`);
      for (const condition of star.all) {
        assert.ok(rules.figureNames.includes(condition.figure), `${condition.figure} is a figure`);
        assert.ok(condition.at_least !== undefined || condition.at_most !== undefined, `${condition.figure} has a bound`);
        const keys = ['figure', 'tenants', 'scope', 'upstream', 'at_least', 'at_most'];
        assert.deepEqual(Object.keys(condition).filter((key) => !keys.includes(key)), [], `${condition.figure}: unknown keys`);
      }
    }
    assert.ok(mission.controls.length >= 2, 'there is a choice');
    assert.ok(mission.traps.length >= 3, 'there are traps');
    for (const alone of mission.alone ?? []) assert.ok(mission.controls.includes(alone), `${alone} is open`);
    const keys = ['id', 'title', 'story', 'reach', 'stars', 'hint', 'debrief', 'docs', 'controls', 'alone', 'solution', 'traps', 'setup'];
    assert.deepEqual(Object.keys(mission).filter((key) => !keys.includes(key)), [], 'unknown keys');
    for (const set of [...mission.solution, ...mission.traps.flatMap((trap) => trap.sets)]) {
      assert.match(set, /^[a-z][\w.-]*=./, `${set} is path=value`);
      assert.equal(rules.worldChange([rules.parseSet(set)]), undefined, `${set} changes the gateway, and nothing else`);
    }
  });

  test(`${mission.id}: the documents have what the debrief points to`, () => {
    const [file, hash] = mission.docs.split('#');
    const document = readFileSync(path.join(root, file), 'utf8');
    if (hash === undefined) return;
    const headings = [...document.matchAll(/^#+ (.*)$/gm)].map((match) => anchor(match[1]));
    assert.ok(headings.includes(hash), `${file} has ${hash}: ${headings.join(', ')}`);
  });

  test(`${mission.id}: what it is and what it leads to are configurations, and run to the same hash`, () => {
    const file = path.join(folder, `${mission.id}.yaml`);
    writeFileSync(file, mission.setup.text);
    run('check', '--no-credentials', file);
    const sets = mission.solution.flatMap((set) => ['--set', set]);
    const copy = path.join(folder, `${mission.id}-solved.yaml`);
    writeFileSync(copy, run('lab', file, ...sets, '--yaml'));
    run('check', '--no-credentials', copy);
    const hash = (...args) => JSON.parse(run('lab', ...args, '--json')).hash;
    assert.equal(hash(copy), hash(file, ...sets));
    assert.notEqual(hash(copy), hash(file), 'the solution changes something');
  });
}

const finished = (name, of, sent = 100) => ({ name, sent, finished: of, refused: sent - of, goodShare: of / sent, waitP95: 1, firstP95: 2, tokensPerSecond: 10 });
const figures = (tenants, more = {}) => ({ tenants, all: finished('all', 1), scopes: [], upstreams: [], bin: 1, ...more });
const asking = (...stars) => ({ stars: stars.map((all) => ({ text: '', all })) });

test('a star is met when every condition is, of every tenant named', () => {
  const mission = asking([{ figure: 'goodShare', tenants: ['a', 'b'], at_least: 90 }], [{ figure: 'firstP95', tenants: ['a'], at_most: 2 }]);
  const good = figures([finished('a', 95), finished('b', 90)]);
  assert.deepEqual(rules.judge(mission, good).map((star) => star.isMet), [true, true]);
  assert.equal(rules.starsEarned(rules.judge(mission, good), good), 2);
  const bad = figures([finished('a', 95), finished('b', 89)]);
  const [first] = rules.judge(mission, bad);
  assert.equal(first.isMet, false);
  assert.deepEqual([first.conditions[0].label, first.conditions[0].now, first.conditions[0].atLeast], ['within the goal, b', 0.89, 0.9]);
});

test('a star counts only with those before it', () => {
  const met = [{ figure: 'firstP95', tenants: ['a'], at_most: 3 }];
  const open = [{ figure: 'finished', tenants: ['a'], at_least: 99 }];
  const run = figures([finished('a', 95)]);
  const earned = (...stars) => rules.starsEarned(rules.judge(asking(...stars), run), run);
  assert.deepEqual([earned(open, met, met), earned(met, open, met), earned(met, met, open), earned(met, met, met)], [0, 1, 2, 3]);
});

test('a figure that is not there meets nothing', () => {
  const run = figures([{ ...finished('a', 95), firstP95: NaN }]);
  for (const condition of [
    { figure: 'firstP95', tenants: ['a'], at_most: 3 },
    { figure: 'firstP95', tenants: ['nobody'], at_most: 3 },
    { figure: 'committed', scope: 'nothing', at_most: 3 },
    { figure: 'no such figure', at_most: 3 },
  ])
    assert.equal(rules.judge(asking([condition]), run)[0].isMet, false, JSON.stringify(condition));
});

test('no star while somebody is shut out', () => {
  const mission = asking([{ figure: 'firstP95', tenants: ['a'], at_most: 3 }]);
  const run = figures([finished('a', 100), finished('b', 4)]);
  assert.equal(rules.shutOut(run), 'b');
  assert.equal(rules.starsEarned(rules.judge(mission, run), run), 0);
  assert.equal(rules.shutOut(figures([finished('a', 100), finished('b', 5), finished('c', 0, 0)])), undefined);
});

test('a standstill is the longest stretch in which something waits and nothing ends', () => {
  const series = { waiting: [0, 1, 1, 1, 1, 0, 2, 2], finished: [0, 0, 0, 1, 0, 0, 0, 0] };
  const run = figures([{ ...finished('a', 50), series }], { bin: 2 });
  const [star] = rules.judge(asking([{ figure: 'standstill', tenants: ['a'], at_most: 3 }]), run);
  assert.equal(star.conditions[0].now, 4);
});

test('traffic and backend are what a mission gives, all else may be changed', () => {
  const first = (...paths) => rules.worldChange(paths.map((at) => ({ path: at, value: '1' })))?.path;
  assert.equal(first('scheduler', 'tenants.traffic.weight', 'upstreams.backend.max_in_flight', 'limits.max_wait'), undefined);
  assert.equal(first('scheduler', 'traffic.batch.sends'), 'traffic.batch.sends');
  assert.equal(first('backend'), 'backend');
  assert.equal(first('backend.replicas'), 'backend.replicas');
});
