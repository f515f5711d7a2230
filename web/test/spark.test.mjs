// Small lines: nothing that rises above the others is lost when many values share a point.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const { path, thin } = await load('lab/view/spark.tsx');

test('each part of the time has its highest value, and where nothing is known there is none', () => {
  const values = Float64Array.from({ length: 301 }, (_, i) => (i === 200 ? 99 : i % 7));
  const points = thin(values, 0.5, 150.5, 60);
  assert.equal(points.length, 60);
  assert.equal(Math.max(...points), 99);
  assert.ok(points.every((value) => value === 99 || value >= 4));
  assert.deepEqual(thin(Float64Array.of(NaN, 3, NaN), 1, 3, 60), [NaN, 3, NaN]);
});

test('a run that is shorter than the other ends before it', () => {
  const points = thin(Float64Array.of(1, 2), 1, 4, 60);
  assert.deepEqual(points, [1, 2, NaN, NaN]);
  assert.equal(path(points, 2, 40, 13), 'M5.0 7.0L15.0 2.0');
});

test('no value at all makes an empty line', () => {
  assert.equal(path(thin(new Float64Array(0), 1, 0, 60), 1, 10, 10), '');
});
