// Progress in the missions: whatever the browser's storage holds or refuses, nothing earned is lost.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const { parseProgress, readProgress, keepProgress, mergeProgress, isOpen } = await load('lab/missions/progress.ts');
const KEY = 'weir-lab-missions';
const none = { stars: {}, seen: [], isAllOpen: false };

function shelf(held = {}) {
  return { held, getItem: (key) => held[key] ?? null, setItem: (key, value) => void (held[key] = value) };
}

test('what is kept is read again', () => {
  const place = shelf();
  const progress = { stars: { 'a-mission': 2 }, seen: ['another'], isAllOpen: true };
  keepProgress(place, progress);
  assert.deepEqual(readProgress(place), progress);
});

test('one bad value costs none of the good ones', () => {
  const text = JSON.stringify({ stars: { a: 3, b: 'three', c: -1, d: 99, e: null, f: 1.9 }, seen: ['x', 7, null], isAllOpen: 'yes' });
  assert.deepEqual(parseProgress(text), { stars: { a: 3, d: 3, f: 1 }, seen: ['x'], isAllOpen: false });
  for (const odd of ['{"stars":[1,2]}', '{"stars":null,"seen":{}}', '{}']) assert.deepEqual(parseProgress(odd), none, odd);
  for (const bad of ['', 'nonsense', '[]', '17', 'null', '{"stars":']) assert.equal(parseProgress(bad), null, bad);
});

test('a text that is none of ours is put aside, not written over', () => {
  const place = shelf({ [KEY]: '{"stars": {"a": 3' });
  assert.deepEqual(readProgress(place), none);
  keepProgress(place, { ...none, stars: { b: 1 } });
  assert.equal(place.held[`${KEY}.unread`], '{"stars": {"a": 3');
  assert.deepEqual(readProgress(place).stars, { b: 1 });
});

test('of two tabs each star stays', () => {
  const place = shelf();
  keepProgress(place, { ...none, stars: { a: 3, b: 1 } });
  keepProgress(place, { ...none, stars: { b: 2 }, seen: ['c'] });
  assert.deepEqual(readProgress(place), { stars: { a: 3, b: 2 }, seen: ['c'], isAllOpen: false });
  assert.deepEqual(mergeProgress({ ...none, stars: { a: 2 } }, { ...none, stars: { a: 1 } }).stars, { a: 2 }, 'fewer stars change nothing');
});

test('without storage, or with one that throws, it goes on', () => {
  const refusing = {
    getItem() {
      throw new Error('SecurityError');
    },
    setItem() {
      throw new Error('QuotaExceededError');
    },
  };
  for (const place of [null, refusing]) {
    assert.deepEqual(readProgress(place), none);
    keepProgress(place, { ...none, stars: { a: 1 } });
  }
});

test('a mission is open after a star in the one before, or a look at its solution', () => {
  const ids = ['a', 'b', 'c', 'd'];
  const open = (progress) => ids.map((_, index) => isOpen({ ...none, ...progress }, ids, index));
  assert.deepEqual(open({}), [true, false, false, false]);
  assert.deepEqual(open({ stars: { a: 1 } }), [true, true, false, false]);
  assert.deepEqual(open({ seen: ['a'] }), [true, true, false, false]);
  assert.deepEqual(open({ stars: { c: 1 } }), [true, false, true, true], 'what was won once stays open');
  assert.deepEqual(open({ isAllOpen: true }), [true, true, true, true]);
});
