// `weir serve --report FILE`: what became of all requests of a run, for whoever looks at it afterwards.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { bearer, call, chatAnswer, chatBody, claim, EventReader, open, postChat, until } from './support.mjs';

// A gateway with a report: { gateway, json(), text(), folder }.
async function reported(rig, upstream, ...flags) {
  const folder = rig.folder();
  const file = path.join(folder, 'run.json');
  const gateway = await rig.gateway(upstream, '--report', file, ...flags);
  return {
    gateway, folder,
    json: () => JSON.parse(readFileSync(file, 'utf8')),
    text: () => readFileSync(path.join(folder, 'run.txt'), 'utf8'),
  };
}

claim('a report says what was admitted, waited, answered and spent, by tenant, and holds no content and no credential', async (rig) => {
  const mock = await rig.mock('--plain');
  const { gateway, folder, json, text } = await reported(rig, mock, '--rate', '20/s', '--burst', '5');
  const keys = ['sk-secret-one', 'sk-secret-two'];
  const answers = await Promise.all(Array.from({ length: 14 }, (_, i) => postChat(gateway, {
    key: keys[i % 2], messages: [{ role: 'user', content: 'a-word-of-content' }], headers: i < 3 ? { 'x-stainless-retry-count': `${i}` } : {},
  })));
  assert.ok(answers.every((answer) => answer.status === 200));
  const spent = answers.reduce((sum, { json: { usage } }) => [sum[0] + usage.prompt_tokens, sum[1] + usage.completion_tokens], [0, 0]);
  assert.deepEqual(await gateway.stop(), { code: 0, signal: null });
  const report = json();
  assert.equal(report.state, 'drained');
  assert.deepEqual(report.requests, {
    tries: 14, admitted: 14, answered: { 200: 14 }, refused: {}, unanswered: 0, cut: 0, clients_gone: 0, under_way: 0, repeats_by_clients: 2, replayed: 0,
  });
  assert.equal(report.waiting.dispatched, 14);
  assert.equal(report.waiting.longest_queue, 9, 'five went at once');
  assert.ok(report.waiting.max_s >= 0.4 && report.waiting.p95_s <= report.waiting.max_s && report.waiting.p50_s <= report.waiting.p95_s);
  assert.ok(report.waiting.noticeably >= 6, '9 wait for 50 ms, 100 ms, ... 450 ms');
  assert.deepEqual([report.tokens.input, report.tokens.output, report.tokens.charged], [...spent, spent[0] + spent[1]]);
  assert.equal(report.tenants.length, 2);
  for (const [member, whole] of [['admitted', 14], ['finished', 14], ['input', spent[0]], ['output', spent[1]]])
    assert.equal(report.tenants.reduce((sum, tenant) => sum + tenant[member], 0), whole, member);
  assert.ok(Math.max(...report.tenants.map((tenant) => tenant.wait_max_s)) === report.waiting.max_s);
  assert.deepEqual(report.upstreams.map(({ calls, failed, breaker_opened }) => [calls, failed, breaker_opened]), [[14, 0, 0]]);
  assert.match(text(), /^weir [^\n]*: drained\nasked +14 tries: 14 answered, 0 refused\nanswered +14 x 200\nrefused +nothing\n +tries that a client called a repeat: 2\n/);
  assert.doesNotMatch(text(), /nobody asked/);
  assert.match(text(), /waited +\d+ of 14 noticeably;.*at most 9 at once\n/);
  for (const secret of [...keys, 'a-word-of-content', gateway.token]) assert.ok(!(JSON.stringify(report) + text()).includes(secret));
  assert.deepEqual(readdirSync(folder).sort(), ['run.json', 'run.txt'], 'nothing else is left');
});

claim('a report counts refusals by code, 429s with their hints, failures and what the breaker did', async (rig) => {
  const steps = [
    [429, { 'retry-after': '2' }], [429, { 'retry-after-ms': '1500' }], [429, {}], [503, {}], [503, {}],
  ];
  const upstream = await rig.hand((request, response, count) => {
    if (count > steps.length) return chatAnswer(response);
    const [status, headers] = steps[count - 1];
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    return response.end('{"error":{"message":"x","type":"x","param":null,"code":null}}');
  });
  const { gateway, json, text } = await reported(rig, upstream, '--fail-threshold', '2', '--max-wait', '10s');
  for (const [status] of steps) assert.equal((await postChat(gateway)).status, status);
  assert.equal((await postChat(gateway)).json.error.code, 'upstream_open');
  assert.equal((await call(`${gateway.url}/v1/chat/completions`, { headers: bearer('k'), body: '{' })).status, 400);
  await gateway.stop();
  const report = json();
  assert.deepEqual(report.requests.answered, { 429: 3, 503: 2 });
  assert.deepEqual(report.requests.refused, { malformed: 1, upstream_open: 1 });
  assert.deepEqual(report.upstreams[0].answered_429, { count: 3, with_hint: 2, hint_min_s: 1.5, hint_max_s: 2 });
  assert.equal(report.upstreams[0].breaker_opened, 1);
  assert.equal(report.upstreams[0].failed, 2);
  assert.match(text(), /3 x 429 \(2 with a hint, 1\.50 s to 2\.00 s\), breaker 1 x opened/);
  assert.match(text(), /refused +.*1 x upstream_open/);
});

// What adds up: every try is answered, refused, left unanswered or under way.
const fates = ({ answered, refused, unanswered, under_way: underWay, replayed = 0 }) => [answered, refused]
  .map((one) => (typeof one === 'number' ? one : Object.values(one).reduce((sum, count) => sum + count, 0)))
  .reduce((sum, count) => sum + count, unanswered + underWay + replayed);

claim('a report counts what went wrong on the way: cut, gone, guessed, not reached; and what was replayed', async (rig) => {
  const upstream = await rig.hand((request, response) => {
    const { user } = JSON.parse(request.body);
    if (user === 'counted') return chatAnswer(response);
    if (user === 'guessed') {
      response.writeHead(200, { 'content-type': 'application/json' });
      return response.end('{"choices":[{"message":{"content":"no usage here"}}]}');
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: {}\n\n');
    return user === 'cut' ? setTimeout(() => response.destroy(), 50) : undefined;
  });
  const dead = await rig.hand(() => {});
  await dead.stop();
  const file = path.join(rig.folder(), 'run.json');
  const state = rig.folder();
  writeFileSync(path.join(state, 'weir.yaml'), JSON.stringify({
    listen: '127.0.0.1:0', admin: '127.0.0.1:0',
    upstreams: [{ name: 'up', url: `${upstream.url}/v1` }, { name: 'dead', url: `${dead.url}/v1`, models: ['lost'] }],
  }));
  const gateway = await rig.serve(['-c', path.join(state, 'weir.yaml'), '--report', file], { state, isFile: true });
  for (let i = 0; i < 2; i++) assert.equal((await postChat(gateway, { user: 'counted', headers: { 'idempotency-key': '"once"' } })).status, 200);
  assert.equal((await postChat(gateway, { user: 'guessed' })).status, 200);
  assert.equal((await postChat(gateway, { model: 'lost' })).status, 502);
  const cut = new EventReader(await open(`${gateway.url}/v1/chat/completions`, { headers: bearer('k'), body: chatBody({ user: 'cut', stream: true }) }));
  await assert.rejects(cut.all(), /cut/);
  const leave = new AbortController();
  const left = await open(`${gateway.url}/v1/chat/completions`, { headers: bearer('k'), body: chatBody({ user: 'left', stream: true }), signal: leave.signal });
  left.on('error', () => {});
  assert.ok(await new EventReader(left).next());
  leave.abort();
  await until('the client is gone', async () => (await gateway.status()).requests === 0);
  assert.deepEqual(await gateway.stop(), { code: 0, signal: null });
  const report = JSON.parse(readFileSync(file, 'utf8'));
  const { cut: cuts, clients_gone: gone, replayed, refused } = report.requests;
  assert.deepEqual({ cuts, gone, replayed, refused }, { cuts: 1, gone: 1, replayed: 1, refused: { upstream_unavailable: 1 } });
  assert.deepEqual([report.requests.tries, fates(report.requests)], [6, 6], 'what a key answered is a try, too');
  assert.ok(report.tokens.estimated_requests >= 1);
  assert.deepEqual(report.upstreams.map((one) => [one.name, one.not_answered]), [['up', { cut: 1 }], ['dead', { connect: 1 }]]);
  const text = readFileSync(file.replace('.json', '.txt'), 'utf8');
  for (const said of [/cut after they began: 1/, /clients gone before the end: 1/, /, 1 answered from an idempotency key/, /dead: 1 x called, 1 x failed \(1 x connect\)/])
    assert.match(text, said);
});

claim('a report of clients that ask again adds up: each try counts, once', async (rig) => {
  const mock = await rig.mock('--plain', '--latency', '150ms');
  const { gateway, json, text } = await reported(rig, mock, '--max-in-flight', '2', '--max-wait', '200ms');
  let asked = 0;
  await Promise.all(Array.from({ length: 12 }, async (_, i) => {
    for (let tries = 0; tries < 3; tries++) {
      asked++;
      if ((await postChat(gateway, { key: `k${i % 2}` })).status === 200) return;
    }
  }));
  assert.equal((await call(`${gateway.url}/v1/chat/completions`, { headers: bearer('k0'), body: '{' })).status, 400);
  const leave = new AbortController();
  const left = postChat(gateway, { key: 'k0', signal: leave.signal });
  await until('it waits for its answer', async () => (await gateway.status()).requests === 1);
  leave.abort();
  await assert.rejects(left);
  await until('it is gone', async () => (await gateway.status()).requests === 0);
  await gateway.stop();
  const { requests, tenants } = json();
  assert.ok(requests.refused.queue_timeout > 0, 'or it shows nothing');
  assert.equal(requests.tries, asked + 2);
  assert.equal(requests.unanswered, 1);
  assert.equal(fates(requests), requests.tries);
  for (const tenant of tenants) assert.equal(fates(tenant), tenant.tries, tenant.name);
  assert.equal(tenants.reduce((sum, one) => sum + one.tries, 0), asked + 1, 'what is malformed is no tenant\'s');
  assert.equal(tenants.reduce((sum, one) => sum + one.answered, 0), requests.answered[200]);
  assert.match(text(), new RegExp(`\\nasked +${asked + 2} tries: ${requests.answered[200]} answered, \\d+ refused, 1 left before an answer; a client that was refused`));
  assert.match(text(), /\ntenant +\w+: \d+ tries: \d+ answered, \d+ refused/);
});

claim('a report, and the file that says it is ready, are none that weir has another use for', async (rig) => {
  const state = rig.folder();
  const file = (name) => path.join(state, name);
  writeFileSync(file('weir.yaml'), JSON.stringify({
    listen: '127.0.0.1:0', admin: '127.0.0.1:0', upstreams: [{ name: 'up', url: 'http://127.0.0.1:1/v1', key_file: file('key') }],
    ledger: { path: file('book.json') }, record: { file: file('record.json') },
  }));
  writeFileSync(file('key'), 'sk-1\n');
  writeFileSync(file('notes'), 'precious');
  const rows = [
    ['--report', 'weir.yaml', /holds something else/], ['--report', 'book.json', /is a file of the ledger/],
    ['--report', 'access.json', /is the access log/], ['--report', 'record.json', /is the recording/],
    ['--ready-file', 'key', /holds something else/], ['--ready-file', 'book.json.lock', /is a file of the ledger/],
    ['--ready-file', 'keys.json', /is a file of the state directory/], ['--ready-file', 'notes', /holds something else/],
  ];
  for (const [flag, name, said] of rows) {
    const run = rig.run(['serve', '-c', file('weir.yaml'), '--access-log', file('access.json'), flag, file(name)], state);
    assert.equal(run.status, 2, name + run.stderr);
    assert.match(run.stderr, said);
    assert.ok(run.stderr.includes(flag), run.stderr);
  }
  const twice = rig.run(['serve', '--report', file('run.json'), '--ready-file', file('run.txt'), '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0'], state);
  assert.match(twice.stderr, /--report and --ready-file both want/);
  assert.equal(readFileSync(file('notes'), 'utf8'), 'precious');
  assert.ok(!existsSync(file('book.json')));
});

claim('a report of more tenants than it lists says how many it leaves out', async (rig) => {
  const mock = await rig.mock('--plain');
  const { gateway, json, text } = await reported(rig, mock, '--ledger', 'memory', '--access-log', 'off');
  for (let i = 0; i < 1020; i += 60)
    await Promise.all(Array.from({ length: Math.min(60, 1020 - i) }, (_, k) => postChat(gateway, { key: `key-${i + k}` })));
  await gateway.stop();
  assert.equal(json().tenants.length, 1000);
  assert.equal(json().tenants_left_out, 20);
  assert.deepEqual(json().requests.answered, { 200: 1020 });
  assert.equal(text().match(/^tenant /gm).length, 10);
  assert.match(text(), /more tenants: 1,010\n/);
});

claim('a second signal leaves a report of what was under way, and so does a kill while it drains', async (rig) => {
  const upstream = await rig.hand((request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: {}\n\n');
  });
  for (const last of ['SIGINT', 'SIGKILL']) {
    const { gateway, json, text } = await reported(rig, upstream);
    assert.equal(json().state, 'serving', 'a report is there from the start, so that an older one is not taken for it');
    const response = await open(`${gateway.url}/v1/chat/completions`, { headers: bearer('k'), body: chatBody({ stream: true }) });
    assert.ok(await new EventReader(response).next());
    response.on('error', () => {});
    gateway.signal('SIGTERM');
    await gateway.watch('draining', () => /draining/.test(gateway.err));
    await until('the report of the drain', () => json().state === 'draining');
    gateway.signal(last);
    const stopped = last === 'SIGINT';
    assert.deepEqual(await gateway.exit, stopped ? { code: 130, signal: null } : { code: null, signal: 'SIGKILL' });
    assert.equal(json().state, stopped ? 'stopped' : 'draining');
    assert.equal(json().requests.under_way, 1);
    assert.equal(json().requests.admitted, 1);
    assert.match(text(), stopped ? /stopped at once/ : /killed before the end/);
  }
});

claim('a report that cannot be written refuses the start, and says which file and why', async (rig) => {
  const folder = rig.folder();
  mkdirSync(path.join(folder, 'made'));
  writeFileSync(path.join(folder, 'old.json'), 'old');
  symlinkSync('old.json', path.join(folder, 'link.json'));
  mkdirSync(path.join(folder, 'taken.txt'));
  const rows = [
    ['none/run.json', /none\/run\.txt: No such file/], ['made', /made: it is a folder/], ['link.json', /symbolic link/],
    ['taken.json', /taken\.txt: it is a folder/], ['old.json/run', /Not a directory/],
  ];
  for (const [name, said] of rows) {
    const run = rig.run(['serve', '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0', '--report', path.join(folder, name)]);
    assert.equal(run.status, 2, name + run.stderr);
    assert.match(run.stderr, said);
  }
  assert.match(rig.run(['serve', '--report', '/dev/null']).stderr, /not a plain file/);
  assert.deepEqual(readdirSync(folder).sort(), ['link.json', 'made', 'old.json', 'taken.txt']);
  assert.equal(readFileSync(path.join(folder, 'old.json'), 'utf8'), 'old');
});

claim('a report that finds its disk full at the end is on standard error, and the status says so', async (rig) => {
  const mock = await rig.mock('--plain');
  const { gateway, folder, json } = await reported(rig, mock, '--ledger', 'memory');
  assert.equal((await postChat(gateway)).status, 200);
  // A limit on the size of files stands for the full disk: the write ends half way.
  const limited = spawnSync('prlimit', ['--pid', `${gateway.pid}`, '--fsize=100:100'], { encoding: 'utf8' });
  assert.equal(limited.status, 0, limited.stderr);
  assert.deepEqual(await gateway.stop(), { code: 3, signal: null });
  assert.match(gateway.err, /the report cannot be written to .*run\.txt: File too large; it follows here\n/);
  const begin = gateway.err.lastIndexOf('\n{\n') + 1;
  assert.deepEqual(JSON.parse(gateway.err.slice(begin, gateway.err.indexOf('\n}\n', begin) + 2)).requests.answered, { 200: 1 });
  assert.equal(json().state, 'serving', 'what was there is whole');
  assert.deepEqual(readdirSync(folder).sort(), ['run.json', 'run.txt']);
});

claim('a report tells what this run used of a budget, and what was used before', async (rig) => {
  const state = rig.folder();
  const mock = await rig.mock('--plain', '--output', '10');
  const config = {
    upstreams: [{ name: 'up', url: `${mock.url}/v1` }],
    tenants: [{ name: 'nightly', scope: 'ci' }], scopes: [{ name: 'ci', granted: 10000 }],
  };
  writeFileSync(path.join(state, 'weir.yaml'), JSON.stringify({ listen: '127.0.0.1:0', admin: '127.0.0.1:0', ...config }));
  const key = rig.newKey({ state }, 'nightly');
  const file = path.join(state, 'report'); // no ending: the text has .txt behind it
  const used = [];
  for (const count of [1, 3]) {
    const gateway = await rig.serve(['-c', path.join(state, 'weir.yaml'), '--report', file], { state, isFile: true });
    for (let i = 0; i < count; i++) assert.equal((await postChat(gateway, { key })).status, 200);
    assert.deepEqual(await gateway.stop(), { code: 0, signal: null });
    const report = JSON.parse(readFileSync(file, 'utf8'));
    used.push(report.tokens.charged);
    const [scope] = report.scopes;
    assert.equal(scope.used_by_run, report.tokens.charged, 'the last settle is in it');
    assert.deepEqual(
      [scope.name, scope.granted, scope.used, scope.window_changed, scope.refused],
      ['ci', 10000, used.reduce((sum, one) => sum + one), false, 0]);
    assert.ok(existsSync(`${file}.txt`));
    rmSync(file);
  }
  assert.ok(used[0] > 0 && used[1] === 3 * used[0]);
});

claim('--ready-file holds addresses for a shell, once it listens, for the APIs that are spoken', async (rig) => {
  const folder = rig.folder();
  const file = path.join(folder, 'ready');
  const mock = await rig.mock('--plain');
  writeFileSync(file, 'WEIR_URL=of-an-earlier-run\n');
  assert.equal(rig.run(['serve', '--upstream', mock.url, '--listen', '127.0.0.1:1', '--ready-file', file, '--ledger', '/nowhere/x']).status, 2);
  assert.ok(!existsSync(file), 'one that did not start leaves none');
  const gateway = await rig.configured({ upstreams: [{ name: 'up', url: `${mock.url}/v1`, api: 'openai' }] });
  await gateway.stop();
  for (const api of ['openai', 'anthropic']) {
    const state = rig.folder();
    writeFileSync(path.join(state, 'weir.yaml'), JSON.stringify({
      listen: '127.0.0.1:0', admin: '127.0.0.1:0', upstreams: [{ name: 'up', url: `${mock.url}/v1`, api }],
    }));
    const served = await rig.serve(['-c', path.join(state, 'weir.yaml'), '--ready-file', file], { state, isFile: true });
    const said = Object.fromEntries(readFileSync(file, 'utf8').trim().split('\n').map((line) => line.split('=')));
    const base = api === 'openai' ? { OPENAI_BASE_URL: `${served.url}/v1` } : { ANTHROPIC_BASE_URL: served.url };
    assert.deepEqual(said, { WEIR_URL: served.url, ...base, WEIR_ADMIN_URL: `http://127.0.0.1:${served.adminPort}`, WEIR_PID: `${served.pid}` });
  }
  const run = rig.run(['serve', '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0', '--ready-file', path.join(folder, 'none/ready')]);
  assert.equal(run.status, 2);
  assert.match(run.stderr, /--ready-file cannot be written to .*none\/ready: No such file/);
});
