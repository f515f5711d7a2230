// One way to write each unit, and the digits of `weir lab`'s tables.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const { change, count, figure, index, instant, many, rate, reason, seconds, share, short } =
  await load('lab/view/format.ts');
const plain = (text) => text.replaceAll('\u00a0', ' ');

test('seconds are milliseconds below one, and have no digits behind the point from a hundred on', () => {
  const cases = [
    [0, '0 ms'],
    [0.0004, '0 ms'],
    [0.872415231, '872 ms'],
    [0.9994, '999 ms'],
    [1.308622847, '1.31 s'],
    [12.08, '12.08 s'],
    [146.3, '146 s'],
    [5400, '5,400 s'],
    [-3.97, '-3.97 s'],
  ];
  for (const [value, text] of cases) assert.equal(plain(seconds(value)), text);
  assert.equal(plain(instant(52.54)), '52.5 s');
  assert.equal(plain(instant(0)), '0.0 s');
});

test('counts, rates, shares and indexes are written as the tables of weir lab write them', () => {
  assert.equal(count(1640), '1,640');
  assert.equal(count(12.5), '12.5');
  assert.equal(count(1234567.8), '1,234,568');
  assert.equal(count(-0.0001), '0');
  assert.equal(rate(11130.4), '11,130');
  assert.equal(rate(0.4), '0.40');
  assert.equal(plain(share(0.989189)), '98.9 %');
  assert.equal(index(0.9938), '0.994');
  assert.equal(plain(many(1, 'request')), '1 request');
  assert.equal(plain(many(1640, 'request')), '1,640 requests');
});

test('a figure of which there is none is a dash in every unit', () => {
  for (const unit of ['seconds', 'count', 'tokens', 'rate', 'share', 'work', 'index']) {
    assert.equal(figure(unit, NaN), '–', unit);
    assert.equal(change(unit, NaN), '–', unit);
  }
  assert.equal(instant(NaN), '–');
});

test('a change has its sign and unit, and is ±0 where none of its digits would show', () => {
  assert.equal(plain(change('seconds', 1.308)), '+1.31 s');
  assert.equal(plain(change('seconds', -0.25)), '−250 ms');
  assert.equal(plain(change('share', -0.0304)), '−3.0 points');
  assert.equal(change('count', -12), '−12');
  assert.equal(change('seconds', 0.0001), '±0');
  assert.equal(change('share', -0.0004), '±0');
  assert.equal(change('rate', 0), '±0');
});

test('the numbers of an axis are short and keep their order', () => {
  const steps = [0, 0.25, 5, 250, 2500, 10000, 25500, 1.5e6];
  assert.deepEqual(steps.map(short), ['0', '0.25', '5', '250', '2,500', '10k', '25.5k', '1.5M']);
});

test('a reason is in words, and a code without words is readable all the same', () => {
  assert.equal(reason('rate_limit_exceeded'), 'rate limit');
  assert.equal(reason('something_new'), 'something new');
});
