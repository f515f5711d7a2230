// The recording: what happened to each request, readable by src/trace, and nothing of what was said.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import {
  bearer, call, chatAnswer, claim, postChat, until, weir, weirBinary,
} from './support.mjs';

// Built beside the gateway with -Dtests=true.
const show = path.resolve(path.dirname(weirBinary), '../../tests/trace/trace_show');

// The entries of a recording, by arrival, as src/trace has them.
function read(file) {
  assert.ok(existsSync(show), `${show} is missing: build with -Dtests=true`);
  const shown = spawnSync(show, [file], { encoding: 'utf8' });
  assert.equal(shown.status, 0, shown.stderr);
  return shown.stdout.trim().split('\n').map((line) => JSON.parse(line));
}

async function metric(gateway, name) {
  const { text } = await gateway.admin('/metrics');
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)[1]);
}

// Waits until so many rows are in the file.
function rows(gateway, count) {
  return until(`${count} rows recorded`, async () => (await metric(gateway, 'weir_record_lines_total')) >= count);
}

const secret = 'sk-live-THE-SECRET-PROMPT';

claim('record: each metered request is a row when it is over, with its tokens, waits and outcome', async (rig) => {
  const upstream = await rig.hand((request, response) => {
    if (request.method === 'GET') return response.writeHead(404).end();
    const asked = JSON.parse(request.body);
    if (asked.user === 'silent') return; // until its client leaves
    if (asked.user === 'broken') {
      response.writeHead(500, { 'content-type': 'application/json' }).end('{"error":{"message":"no"}}');
    } else if (asked.stream) {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"ab"}}]}\n\n');
      setTimeout(() => response.destroy(), 50); // cut before its end
    } else {
      chatAnswer(response, { input: 30, output: 12 });
    }
  });
  const { gateway, keys } = await rig.keyed({
    upstreams: [{ name: 'main', url: `${upstream.url}/v1` }],
    record: { file: 'traffic.csv' },
    tenants: [{ name: 'ada' }, { name: 'bob', limits: { requests: '1/h', burst: 1, over: 'refuse' } }],
    lanes: [{ name: 'first' }, { name: 'second' }],
  });
  const file = path.join(gateway.state, 'traffic.csv');
  const ask = (key, extra, headers) =>
    postChat(gateway, { key, headers, messages: [{ role: 'user', content: secret }], ...extra });

  assert.equal((await ask(keys.ada, { max_tokens: 64 })).status, 200);
  await rows(gateway, 1);
  assert.equal((await ask(keys.ada, { user: 'broken' }, { 'weir-lane': 'second' })).status, 500);
  await rows(gateway, 2);
  assert.equal((await ask(keys.ada, { stream: true })).complete, false);
  await rows(gateway, 3);
  assert.equal((await ask(keys.bob)).status, 200);
  await rows(gateway, 4);
  assert.equal((await ask(keys.bob)).status, 429);
  await rows(gateway, 5);
  const leaving = new AbortController();
  const gone = ask(keys.ada, { user: 'silent', signal: leaving.signal }).catch(() => {});
  await upstream.arrived(5);
  leaving.abort();
  await gone;
  await rows(gateway, 6);
  // No rows: a stranger's, what is not metered, and what is not even HTTP.
  assert.equal((await ask('wk_stranger')).status, 401);
  await call(`${gateway.url}/v1/models`, { headers: bearer(keys.ada) });
  await call(`${gateway.url}/v1/chat/completions`, { method: 'GET', headers: bearer(keys.ada) });
  await gateway.stop();

  const entries = read(file);
  assert.deepEqual(
    entries.map((e) => [e.form, e.tenant, e.lane, e.outcome, e.reason, e.status, e.stream]),
    [
      ['recording', 'ada', 'first', 'finished', '', 200, false],
      ['recording', 'ada', 'second', 'failed', '', 500, false],
      ['recording', 'ada', 'first', 'cut', entries[2].reason, 200, true],
      ['recording', 'bob', 'first', 'finished', '', 200, false],
      ['recording', 'bob', 'first', 'refused', 'rate_limit_exceeded', 429, false],
      ['recording', 'ada', 'first', 'gone', '', 0, false],
    ],
  );
  const [finished, , cut, , refused, left] = entries;
  assert.deepEqual([finished.prompt, finished.output, finished.limit], [30, 12, 64]);
  assert.ok(finished.estimate > 64, 'what was held: its input and its limit');
  assert.ok(finished.latency_ns >= finished.first_byte_ns && finished.first_byte_ns > 0);
  assert.ok(cut.reason !== '' && cut.latency_ns >= 50e6 && cut.output > 0, JSON.stringify(cut));
  assert.deepEqual([refused.prompt, refused.output, refused.first_byte_ns], [0, 0, 0]);
  assert.ok(left.prompt > 0 && left.output === 0, 'it was sent: its input is booked');
  const text = readFileSync(file, 'utf8');
  for (const word of ['SECRET', 'sk-live', 'wk_', keys.ada, 'silent', 'broken', 'Hello'])
    assert.ok(!text.includes(word), `no content: ${word}`);
  assert.equal(statSync(file).mode & 0o777, 0o600);

  // And the lab sends it again, on the same configuration: the refused one with a size.
  const lab = await weir(gateway.state, ['lab', path.join(gateway.state, 'weir.yaml'), '--trace', file, '--json']);
  assert.equal(lab.status, 0, lab.err);
  assert.match(lab.err, /1 requests were refused or left before they used a token: they have the mean size/);
  assert.match(lab.out, /"sent": *6\b/);
});

claim('record: waiting in the queue is told, and a client that leaves it is gone', async (rig) => {
  const held = [];
  const upstream = await rig.hand((request, response) => held.push(response));
  const { gateway, keys } = await rig.keyed({
    upstreams: [{ name: 'main', url: `${upstream.url}/v1`, max_in_flight: 1 }],
    record: { file: 'traffic.csv' },
    tenants: [{ name: 'ada' }],
  });
  const first = postChat(gateway, { key: keys.ada });
  await upstream.arrived(1);
  const leaving = new AbortController();
  const second = postChat(gateway, { key: keys.ada });
  const third = postChat(gateway, { key: keys.ada, signal: leaving.signal }).catch(() => {});
  await gateway.waiting(2);
  leaving.abort();
  await third;
  await gateway.waiting(1);
  chatAnswer(held[0]);
  await upstream.arrived(2);
  chatAnswer(held[1]);
  assert.deepEqual([(await first).status, (await second).status], [200, 200]);
  await rows(gateway, 3);
  await gateway.stop();
  const entries = read(path.join(gateway.state, 'traffic.csv'));
  const gone = entries.filter((e) => e.outcome === 'gone');
  const finished = entries.filter((e) => e.outcome === 'finished');
  assert.deepEqual([gone.length, finished.length], [1, 2]);
  assert.deepEqual([gone[0].prompt, gone[0].output, gone[0].first_byte_ns], [0, 0, 0]);
  assert.ok(gone[0].queue_ns > 0 && gone[0].latency_ns >= gone[0].queue_ns);
  const [one, two] = finished;
  assert.ok(two.arrival_ns + two.queue_ns >= one.arrival_ns + one.latency_ns, 'it went when the first was over');
  assert.ok(finished[1].first_byte_ns > finished[1].queue_ns);
});

claim('record: a gateway that is killed leaves a recording that the next one continues', async (rig) => {
  const upstream = await rig.mock('--plain');
  const state = rig.folder();
  const config = { upstreams: [{ name: 'main', url: `${upstream.url}/v1` }], record: { file: 'traffic.csv' } };
  const file = path.join(state, 'traffic.csv');
  for (let run = 1; run <= 3; run++) {
    const gateway = await rig.configured(config, {}, state);
    for (let i = 0; i < 3; i++) assert.equal((await postChat(gateway)).status, 200);
    await rows(gateway, 3);
    gateway.signal('SIGKILL');
    await gateway.exit;
    gateway.ended = true;
    appendFileSync(file, '3.25,"half a r');
    const entries = read(file);
    assert.equal(entries.length, 3 * run);
    for (let i = 1; i < entries.length; i++) assert.ok(entries[i].arrival_ns > entries[i - 1].arrival_ns);
  }
});

claim('record: a file that is not a recording, or is another file of weir, stops the start with a reason', async (rig) => {
  const state = rig.folder();
  const file = path.join(state, 'weir.yaml');
  const start = async (record) => {
    writeFileSync(file, JSON.stringify({
      listen: '127.0.0.1:0', admin: '127.0.0.1:0', record: { file: record },
      upstreams: [{ name: 'main', url: 'http://127.0.0.1:9/v1' }],
    }));
    const ended = await weir(state, ['serve', '-c', file]);
    assert.notEqual(ended.status, 0);
    return ended.err;
  };
  writeFileSync(path.join(state, 'notes.txt'), 'buy milk\n');
  assert.match(await start('notes.txt'), /cannot record to .*notes\.txt: it is there, and is not a recording of weir; name another file/);
  assert.equal(readFileSync(path.join(state, 'notes.txt'), 'utf8'), 'buy milk\n');
  assert.match(await start('none/r.csv'), /cannot record to .*none\/r\.csv: No such file or directory/);
  assert.match(await start('ledger.db'), /ledger\.db' is a file of the ledger: a recording needs a file of its own/);
  assert.match(await start('weir.yaml'), /weir\.yaml' is the configuration/);
  assert.match(await start('/dev/full'), /cannot record to \/dev\/full: it is not a plain file/);
});
