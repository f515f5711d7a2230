// In what two setups differ, as the comparison tells it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const { differences } = await load('lab/view/differences.ts');

const make = (values = {}, inForce = {}) => ({
  of: { origin: 'preset:default', text: { name: 'default', text: 'a: 1' }, sets: [], seed: 1, trace: null, ...values },
  setup: { values: inForce },
});
const set = (path, value) => ({ path, value });

test('setups that are the same differ in nothing', () => {
  const sets = [set('scheduler', 'vtc')];
  assert.deepEqual(differences(make({ sets }), make({ sets })), []);
});

test('a value that one sets is told beside what is in force in the other', () => {
  const a = make({ sets: [set('scheduler', 'fifo')] });
  const b = make({}, { scheduler: 'vtc' });
  assert.deepEqual(differences(a, b), [{ what: 'scheduler', a: 'fifo', b: 'vtc' }]);
  assert.deepEqual(differences(b, a), [{ what: 'scheduler', a: 'vtc', b: 'fifo' }]);
});

test('of two values for one path the last holds, and one that is set to what is in force is no difference', () => {
  const a = make({ sets: [set('scheduler', 'fifo'), set('scheduler', 'vtc')] });
  assert.deepEqual(differences(a, make({}, { scheduler: 'vtc' })), []);
});

test('another file, its text, seed and trace are told before the values', () => {
  const a = make({ seed: 2, text: { name: 'noisy', text: 'a: 1' }, sets: [set('b', '1'), set('a', '2')] });
  const b = make({ trace: { name: 'r.csv', text: '' } });
  assert.deepEqual(differences(a, b).map((one) => one.what), ['setup', 'trace', 'seed', 'a', 'b']);
  assert.deepEqual(differences(a, b).at(-1), { what: 'b', a: '1', b: 'as in the file' });
  const other = make({ text: { name: 'default', text: 'a: 2' } });
  assert.deepEqual(differences(make(), other).map((one) => one.a), ['its text differs']);
});
