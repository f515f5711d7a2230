// The steps of a chart's axis.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const { niceStep } = await load('lab/view/plot.ts');

test('an axis has steps of 1, 2 or 5 times a power of ten, as many as there is room for', () => {
  for (const [span, most, expected] of [
    [16, 5, 5], [10, 5, 2], [100, 5, 20], [101, 5, 50], [0.9, 4, 0.5], [1, 5, 0.2], [85_000, 5, 20_000], [150, 3, 50], [3, 3, 1],
  ])
    assert.ok(Math.abs(niceStep(span, most, false) - expected) < 1e-9 * expected, `${span} in ${most}: ${niceStep(span, most, false)}`);
});

test('what is counted has no halves, and a chart without room or values still ends', () => {
  assert.equal(niceStep(1, 5, true), 1);
  assert.equal(niceStep(7, 5, true), 2);
  for (const [span, most] of [[1, 0], [0, 5], [1e-12, 3], [1e12, 0.5]]) {
    const step = niceStep(span, most, false);
    assert.ok(step > 0 && Number.isFinite(step), `${span} in ${most}: ${step}`);
  }
});
