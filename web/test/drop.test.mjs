// What a dropped file is, by what is in it, and what is said of one that is nothing.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { load } from './load.mjs';

const { connect, fetchServed, fileMax, hasTraffic, kindOf, offerTraffic, presetNames, presetText, readDropped, tenantsIn } = await load('test/state.ts');

const data = (name) => readFileSync(new URL(`../../tests/data/${name}`, import.meta.url));
const file = (bytes, name) => new File([bytes], name);

test('traces and configurations are told apart by their content, not by their name', async () => {
  for (const name of ['azure_code.csv.gz', 'arena27.csv', 'arena27_measured.csv.gz', 'mooncake_synthetic.csv.gz', 'recording.csv']) {
    const found = await readDropped(file(data(`traces/${name}`), `weir.yaml`));
    assert.equal(found.kind, 'trace', name);
    assert.match(found.trace.text.slice(0, 200), /,/);
  }
  for (const name of presetNames) {
    const text = await presetText(name);
    assert.equal((await readDropped(file(text, 'x.csv'))).kind, 'config', name);
    assert.ok(hasTraffic(text));
  }
  assert.equal((await readDropped(file(gzipSync(await presetText('default')), 'a.yaml.gz'))).text.name, 'a.yaml');
});

test('kinds of texts', () => {
  const cases = [
    ['upstreams:\n', 'config'],
    ['---\nupstreams: []\n', 'config'],
    ['# a comment\n\n"upstreams": 1', 'config'],
    ['{"upstreams": []}', 'config'],
    ['#weir recording 1 began 5\narrival_s,tenant\n', 'trace'],
    ['\ufeffTIMESTAMP,ContextTokens,GeneratedTokens\n', 'trace'],
    ['# of mine\n"prompt_tokens","x"\n', 'trace'],
    ['a,b,c,d\n1,2,3,4\n', 'trace'],
    ['Dear all,\nhello', 'none'],
    ['', 'none'],
    ['<html>', 'none'],
  ];
  for (const [text, kind] of cases) assert.equal(kindOf(text.replace(/^\ufeff/, '')), kind, JSON.stringify(text));
});

test('what is no text, no UTF-8, damaged, empty or too large is refused, and why is said', async () => {
  const cases = [
    [new Uint8Array(0), 'is empty'],
    [new Uint8Array([0x7f, 0x45, 0x4c, 0x46, 0, 1]), 'is a binary file'],
    [new Uint8Array([0x61, 0x3a, 0xff]), 'is not UTF-8 text'],
    [new Uint8Array([0xff, 0xfe, 0x61, 0]), 'is UTF-16'],
    [gzipSync('upstreams: 1').subarray(0, 15), 'begins as gzip and cannot be unpacked'],
    [gzipSync(new Uint8Array(fileMax + 1)), 'is larger than 64 MiB once unpacked'],
    ['hello there', 'is neither a configuration'],
  ];
  for (const [bytes, why] of cases) {
    const found = await readDropped(file(bytes, 'mine'));
    assert.equal(found.kind, 'none', why);
    assert.ok(found.problem.text.startsWith(why), found.problem.text);
    assert.equal(found.problem.where, 'mine');
  }
  const large = { name: 'large', size: fileMax + 1 };
  assert.equal((await readDropped(large)).problem.text, 'is larger than 64 MiB');
});

test('whether a configuration has traffic', () => {
  assert.ok(!hasTraffic('upstreams:\n- {name: traffic}\n# traffic: none\n'));
  assert.ok(hasTraffic('a: 1\ntraffic:\n  time: 1s\n'));
  assert.ok(hasTraffic('{"a": 1, "traffic": {}}'));
});

test('a configuration without traffic is offered some, for each of its tenants', async () => {
  const printed = 'upstreams:\n- {name: a, url: "http://h"}\ntenants:\n- name: search\n  weight: 2\n- {name: "night.1", weight: 2}\n- {name: x}\nlanes:\n- {name: l}\n';
  assert.deepEqual(tenantsIn(printed), ['search', 'night.1', 'x']);
  assert.deepEqual(tenantsIn('upstreams:\n- {name: a}\n'), []);
  connect({ yaml: async () => ({ ok: true, text: printed }) });
  const setup = (text) => ({ origin: 'file:w.yaml', text: { name: 'w.yaml', text }, sets: [], seed: 1, trace: null });
  const block = await offerTraffic(setup('upstreams: []'));
  assert.ok(block.setup.text.text.startsWith('upstreams: []\n\n# Added by the lab page'));
  assert.match(block.added, /- \{name: search, rate: 1\/s/);
  const began = performance.now();
  await offerTraffic(setup(`upstreams: []\n${'\n'.repeat(200_000)}ledger: memory\n`));
  assert.ok(performance.now() - began < 2_000, 'the page does not stand still for a file of empty lines');
  const flow = await offerTraffic(setup('{"upstreams": []}'));
  assert.equal(flow.setup.text.text, '{"upstreams": []}', 'nothing can be appended to that: it is a set');
  assert.match(flow.setup.sets[0].value, /^\{time: 120s, tenants: \[\{name: search,.*\}\]\}$/);
  connect({ yaml: async () => ({ ok: false, problems: [{ text: 'wrong' }] }) });
  assert.equal((await offerTraffic(setup('upstreams: []')))[0].text, 'wrong');
});

test('a token that no header can hold is told so, and not taken for a gateway that is away', async () => {
  for (const token of ['', '   ', 'two words', 'schlüssel', 'a\nb']) {
    const answer = await fetchServed(token);
    assert.equal(answer.ok, false);
    assert.match(answer.why, /no token: it is one word, in the file admin\.token/, JSON.stringify(token));
  }
});
