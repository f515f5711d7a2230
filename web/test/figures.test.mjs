// The tiles: which way is better, what counts as no change, and what a figure is measured on.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const { compare, figures, inWords, modelValue, permitSeries, recordedValue } = await load('lab/view/figures.ts');
const plain = (text) => text.replaceAll('\u00a0', ' ');
const byId = (id) => figures.find((of) => of.id === id);

const BINS = 4;
const flat = (value) => new Float64Array(BINS).fill(value);

function tenantResult(name, values) {
  return {
    name, sent: 100, finished: 100, refused: 0, failed: 0, retries: 0, waitP50: 0, waitP95: 1, waitP99: 1,
    firstP50: 1, firstP95: 2, tokensPerSecond: 1000, goodShare: 1, goodPerSecond: 1, refusals: {},
    series: { offered: flat(1), finished: flat(1), refused: flat(0), failed: flat(0), waiting: flat(0), inFlight: flat(10), waitMax: flat(NaN), tokens: flat(1) },
    ...values,
  };
}

// Two tenants with a goal and one without; what a test is about is set over it.
function makeRun({ tenants = [{}, {}, {}], goals = [2, 10, NaN], result = {}, time = 40 } = {}) {
  const all = tenants.map((values, t) => tenantResult(['app', 'chat', 'batch'][t], values));
  const total = (pick) => all.reduce((sum, one) => sum + pick(one), 0);
  return {
    setup: {
      tenants: all.map(({ name }, t) => ({ name, lane: 'standard', weight: 1, scope: '', goal: goals[t], arrivals: 'even' })),
      lanes: [{ name: 'standard', floorPercent: 0 }], upstreams: [{ name: 'gpu', replicas: 1, sequences: 48 }],
      scopes: [], time, tenantNames: [], values: {},
    },
    result: {
      bin: 10, bins: BINS, end: 40, tenants: all, scopes: [], gap: null, busyShare: 0.5, lostTokens: 0,
      all: tenantResult('all', { sent: total((t) => t.sent), finished: total((t) => t.finished), refused: total((t) => t.refused), tokensPerSecond: total((t) => t.tokensPerSecond) }),
      upstreams: [{ name: 'gpu', inFlightMax: 30, inFlight: flat(30), permits: flat(40), open: flat(0), trips: 0 }],
      ...result,
    },
  };
}
const of = (id, run) => modelValue(byId(id), run);

test('each figure knows which way is better', () => {
  const expected = {
    wait: 'less', 'in-goal': 'more', finished: 'more', refused: 'less', tokens: 'more', first: 'less',
    gap: 'less', permits: 'neither', overrun: 'less', stranded: 'less', retries: 'less', lost: 'less',
  };
  assert.deepEqual(Object.fromEntries(figures.map((one) => [one.id, one.better])), expected);
  for (const one of figures) assert.ok(one.help.length > 20 && one.help.endsWith('.'), one.id);
});

test('less of what is better small is better, more of it worse, and the arrow follows the number', () => {
  assert.deepEqual(compare({ unit: 'count', better: 'less' }, 3, 10), { verdict: 'better', amount: '−7', direction: 'down' });
  assert.deepEqual(compare({ unit: 'count', better: 'less' }, 10, 3), { verdict: 'worse', amount: '+7', direction: 'up' });
  assert.deepEqual(compare({ unit: 'count', better: 'more' }, 10, 3), { verdict: 'better', amount: '+7', direction: 'up' });
  assert.deepEqual(compare({ unit: 'count', better: 'more' }, 3, 10), { verdict: 'worse', amount: '−7', direction: 'down' });
  assert.equal(compare({ unit: 'count', better: 'neither' }, 10, 3).verdict, 'more');
  assert.equal(compare({ unit: 'count', better: 'neither' }, 3, 10).verdict, 'less');
});

test('what would not be seen in the digits is no change, what is hardly any is called so', () => {
  const rate = { unit: 'rate', better: 'more' };
  assert.equal(inWords(rate, 43651, 43651), 'no change');
  assert.equal(inWords(rate, 43651, 43695), '−44, hardly any');
  assert.equal(inWords(rate, 43000, 43695), '−695, worse');
  const wait = { unit: 'seconds', better: 'less' };
  assert.equal(inWords(wait, 1.00004, 1), 'no change');
  assert.equal(plain(inWords(wait, 1.38, 4.83)), '−3.45 s, better');
  assert.equal(inWords({ unit: 'count', better: 'less' }, 1001, 1000), '+1, worse', 'one refusal is a refusal');
});

test('a figure that was or is not there is no change for better or worse', () => {
  const gap = { unit: 'work', better: 'less' };
  assert.equal(compare(gap, NaN, 5).verdict, 'none');
  assert.equal(inWords(gap, NaN, 5000), 'before: 5,000');
  assert.equal(inWords(gap, 5000, NaN), 'none before');
  assert.equal(inWords(gap, NaN, NaN), 'no change');
});

test('the wait is of the tenant that is worst for its goal, and kept only if its goal is', () => {
  const run = makeRun({ tenants: [{ waitP95: 1.9 }, { waitP95: 5 }, { waitP95: 60 }] });
  assert.equal(of('wait', run), 1.9, 'nine tenths of its goal, before five of ten; batch has none');
  assert.equal(byId('wait').isMet(run), true);
  assert.match(plain(byId('wait').note(run)), /app: 2\.00 s/);
  const late = makeRun({ tenants: [{ waitP95: 1.9 }, { waitP95: 11 }, {}] });
  assert.equal(of('wait', late), 11);
  assert.equal(byId('wait').isMet(late), false);
  const free = makeRun({ tenants: [{ waitP95: 1 }, { waitP95: 3 }, { waitP95: 2 }], goals: [NaN, NaN, NaN] });
  assert.equal(of('wait', free), 3, 'without goals, of whoever waits longest');
  assert.equal(byId('wait').isMet(free), null);
});

test('in goal is weighed by what was sent, of tenants with a goal alone', () => {
  const run = makeRun({ tenants: [{ sent: 300, goodShare: 0.5 }, { sent: 100, goodShare: 1 }, { goodShare: 0 }] });
  assert.equal(of('in-goal', run), 0.625);
  const silent = makeRun({ tenants: [{ sent: 0, goodShare: NaN }, { sent: 100, goodShare: 1 }, {}] });
  assert.equal(of('in-goal', silent), 1, 'a tenant that sends nothing is not counted');
});

test('permits are counted while requests come, not while the last answers end', () => {
  const result = { upstreams: [{ name: 'gpu', inFlightMax: 40, inFlight: Float64Array.of(40, 20, 0, 0), permits: flat(40), open: flat(0), trips: 0 }] };
  assert.equal(of('permits', makeRun({ result, time: 20 })), 0.75);
});

test('no more permits are busy than there are, though some were taken away from under requests', () => {
  const result = { upstreams: [{ name: 'gpu', inFlightMax: 60, inFlight: Float64Array.of(60, 20, 20, 20), permits: flat(40), open: flat(0), trips: 0 }] };
  assert.equal(of('permits', makeRun({ result })), 0.625);
});

test('permits do not dwindle because the run ends within a bin', () => {
  const upstreams = [1, 2].map((n) => ({ name: `gpu-${n}`, inFlightMax: 9, inFlight: flat(5), permits: Float64Array.of(40, 40, 40, 10), open: flat(0), trips: 0 }));
  const run = makeRun({ result: { upstreams, end: 32.5 } });
  assert.deepEqual([...permitSeries(run).permits], [80, 80, 80, 80]);
  assert.deepEqual([...permitSeries(run).used], [10, 10, 10, 10]);
});

test('what a budget overran is counted once, though its parts and the whole both have it booked', () => {
  const scope = (name, values) => ({ name, granted: 1000, committed: 900, reserved: 0, overrun: 0, refused: 0, ...values });
  const result = {
    scopes: [
      scope('class', { granted: 3000, committed: 2500, overrun: 70 }),
      scope('class/a', { overrun: 70, committed: 1040 }),
      scope('class/b', { refused: 5, committed: 800 }),
      scope('classes', { overrun: 1 }),
    ],
  };
  const run = makeRun({ result });
  assert.equal(of('overrun', run), 71);
  assert.match(byId('overrun').note(run), /: 40$/);
  assert.equal(of('stranded', run), 200, 'only of scopes that refused somebody');
  assert.equal(byId('overrun').applies(makeRun()), false);
});

test('a recording is measured as the model is, where it has the figure', () => {
  const run = makeRun();
  assert.equal(recordedValue(byId('wait'), run), null);
  run.result.tenants[0].recorded = tenantResult('app', { waitP95: 7 });
  run.result.tenants[1].recorded = tenantResult('chat', { waitP95: 8 });
  run.result.allRecorded = tenantResult('all', { finished: 250 });
  assert.equal(recordedValue(byId('wait'), run), 7);
  assert.equal(recordedValue(byId('finished'), run), 250);
  assert.equal(recordedValue(byId('gap'), run), null);
});
