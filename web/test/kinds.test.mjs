// What the charts show of a run's series.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const { kinds, valuesOf } = await load('lab/view/kinds.ts');
const byId = (id) => kinds.find((kind) => kind.id === id);
const values = Float64Array.from({ length: 40 }, (_, i) => (i * 37) % 11);

test('events are a mean over five seconds around each bin, fewer at the ends', () => {
  for (const [bin, reach] of [[1, 2], [0.5, 5], [2, 1], [10, 0]]) {
    const shown = valuesOf(byId('tokens'), { tokens: values }, bin);
    for (let i = 0; i < values.length; i++) {
      const near = values.slice(Math.max(0, i - reach), i + reach + 1);
      const mean = near.reduce((sum, one) => sum + one, 0) / near.length;
      assert.ok(Math.abs(shown[i] - mean) < 1e-9, `bin ${i} of ${bin} s: ${shown[i]} for ${mean}`);
    }
  }
});

test('refusals are a second, whatever the bin; waits and numbers stay as they are', () => {
  const two = new Float64Array(40).fill(3);
  assert.deepEqual(valuesOf(byId('refused'), { refused: two }, 2), new Float64Array(40).fill(1.5));
  for (const [id, series] of [['wait', 'waitMax'], ['waiting', 'waiting'], ['in-flight', 'inFlight']])
    assert.equal(valuesOf(byId(id), { [series]: values }, 1), values);
});
