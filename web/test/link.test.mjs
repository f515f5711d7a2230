// A setup through a link and back, and as a command that a shell reads as it was meant.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { load } from './load.mjs';

const { commandOf, fileOf, heldMax, linkOf, presetNames, presetText, quote, readLink, textOf } = await load('test/state.ts');

const texts = Object.fromEntries(await Promise.all(presetNames.map(async (name) => [name, await presetText(name)])));
const preset = (name, more = {}) => ({ origin: `preset:${name}`, text: { name, text: texts[name] }, sets: [], seed: 1, trace: null, ...more });
const ownFile = (text, more = {}) => ({ origin: 'file:ä b&c=d.yaml', text: { name: 'ä b&c=d.yaml', text }, sets: [], seed: 1, trace: null, ...more });
const odd = [
  { path: 'tenants.a=b.weight', value: '2' },
  { path: 'backend.troubles', value: '[{kind: fail, replica: 1, from: 40s, until: 70s}]' },
  { path: 'tenants.x.models', value: `[gpt-*, "a'b", ü🙂, 100%25, a&b=c#d?e+f]` },
  { path: 'seed', value: '' },
  { path: 'traffic.batch.rate', value: '1.5/s' },
];

async function roundTrip(setup, beside = null) {
  const { hash, lost } = await linkOf(setup, beside);
  assert.deepEqual(lost, []);
  assert.match(hash, /^#[!-~]*$/, 'only characters that no mail program changes');
  /* As the browser gives it back. */
  const seen = new URL(hash, 'http://h/lab/').hash;
  assert.deepEqual(await readLink(seen, textOf), { setup, beside });
  return hash;
}

test('every preset, with a seed and values of odd characters, comes back from its link', async () => {
  for (const name of presetNames) await roundTrip(preset(name, { seed: 12345 }));
  await roundTrip(preset('noisy', { sets: odd.filter((set) => set.path !== 'seed') }));
});

test('a link is readable where it can be', async () => {
  const hash = await roundTrip(preset('noisy', { seed: 2, sets: [{ path: 'scheduler', value: 'vtc' }, { path: 'tenants.batch.limits.tokens', value: '9k/s' }] }));
  assert.equal(hash, '#noisy&seed=2&scheduler=vtc&tenants.batch.limits.tokens=9k/s');
  assert.equal((await linkOf(preset('default'), null)).hash, '#default');
});

test('a dropped file, a trace and the setup beside are in the link', async () => {
  const file = ownFile('upstreams: [{name: ä, url: "http://h:1"}]\n'.repeat(20), { sets: odd.slice(0, 3), seed: 7 });
  const withTrace = preset('noisy', { trace: { name: 'a day.csv', text: 'arrival_s,tenant,prompt_tokens,output_tokens\n0,a,1,2\n' } });
  await roundTrip(file);
  await roundTrip(withTrace);
  await roundTrip(file, withTrace);
  await roundTrip(preset('default'), file);
});

test('what is too large for a link is named in it, and who opens it is asked for the file', async () => {
  let seed = 1;
  const noise = Array.from({ length: 3 * heldMax }, () => String.fromCharCode(33 + ((seed = (seed * 48271) % 2147483647) % 90))).join('');
  const { hash, lost } = await linkOf(ownFile(`# ${noise}`), null);
  assert.deepEqual(lost, ['ä b&c=d.yaml']);
  assert.ok(hash.length < 200, hash);
  await assert.rejects(readLink(hash, textOf), /made of ä b&c=d.yaml, which is too large for a link\. Drop that file here/);
  const huge = await linkOf(preset('noisy', { trace: { name: 't.csv', text: 'x'.repeat(80 * heldMax) } }), null);
  assert.deepEqual(huge.lost, ['t.csv'], 'and is not packed to find that out');
});

test('a damaged link says what is wrong', async () => {
  const { hash } = await linkOf(ownFile('upstreams: [{name: a, url: "http://h:1"}]\n'), null);
  const cases = [
    ['#nosuch', /names "nosuch", which this page does not have/],
    ['#mission:none', /names "mission:none"/],
    ['#default&scheduler', /"scheduler", which sets nothing/],
    ['#default&=x', /"=x", which sets nothing/],
    ['#default&seed=-1', /seed is "-1"; it must be a whole number/],
    ['#default&seed=1e3', /seed is "1e3"/],
    ['#default&scheduler=%E4', /damaged at "%E4"/],
    ['#%', /damaged at "%"/],
    [hash.slice(0, -6), /its file cannot be unpacked/],
    ['#file:a.yaml&text=***', /its file cannot be unpacked/],
    ['#file:a.yaml&text=AAAA', /its file cannot be unpacked/],
    [`#default&${Array.from({ length: 1001 }, (_, i) => `a${i}=1`).join('&')}`, /more than 1000 values/],
    ['#default&beside=nosuch', /names "nosuch"/],
  ];
  for (const [link, why] of cases) await assert.rejects(readLink(link, textOf), why, link);
  assert.equal((await readLink('', textOf)).setup.origin, 'preset:default');
  assert.equal((await readLink('#', textOf)).setup.text.name, 'default');
});

test('a text of its own is no preset and no mission, whatever the link calls it', async () => {
  const { hash } = await linkOf(ownFile('upstreams: [{name: a, url: "http://h:1"}]\n'), null);
  for (const name of ['noisy', 'preset:noisy', 'mission:noisy']) {
    const { setup } = await readLink(hash.replace(/^#[^&]*/, `#${name}`), textOf);
    assert.equal(setup.origin, 'file:noisy');
    assert.equal(commandOf(setup), 'weir lab noisy.yaml');
  }
});

test('a small link does not unpack to more than the page holds', async () => {
  const bytes = new Blob([new Uint8Array(64 << 20)]).stream().pipeThrough(new CompressionStream('deflate-raw'));
  const packed = Buffer.from(await new Response(bytes).arrayBuffer()).toString('base64url');
  await assert.rejects(readLink(`#file:bomb.yaml&text=${packed}`, textOf), /cannot be unpacked/);
});

test('a command gives a shell the very same words', () => {
  const setup = preset('noisy', { seed: 3, sets: odd.filter((set) => set.path !== 'seed') });
  const command = commandOf(setup);
  const words = execFileSync('sh', ['-c', `weir() { for word in "$@"; do printf '%s\\0' "$word"; done; }; ${command}`])
    .toString()
    .split('\0')
    .slice(0, -1);
  assert.deepEqual(words, ['lab', 'noisy', ...setup.sets.flatMap((set) => ['--set', `${set.path}=${set.value}`]), '--seed', '3']);
  assert.equal(commandOf(preset('default')), 'weir lab');
  assert.equal(quote('a b'), `'a b'`);
  assert.equal(quote(''), `''`);
  assert.equal(quote('-x'), `'-x'`);
});

test('a command names the file that has to be beside it', () => {
  assert.equal(fileOf(preset('noisy')), '');
  assert.equal(fileOf({ ...preset('noisy'), origin: 'mission:retry-storm', text: { name: 'retry-storm', text: '' } }), 'retry-storm.yaml');
  assert.equal(commandOf({ ...ownFile(''), text: { name: '-a.yml', text: '' } }), 'weir lab ./-a.yaml');
});
