// `weir ledger` with the real binary: on a file at rest and through a running gateway.
//
// A gateway's ledger lies in its state folder. Its admin port is free and known only once it runs, so
// the commands get a configuration of their own beside the gateway's, with that port in it.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { chatAnswer, claim, postChat, until, weir } from './support.mjs';

// ---- the command ----

const ledger = (state, ...args) => weir(state, ['ledger', ...args]);

async function ledgerJson(state, ...args) {
  const done = await ledger(state, ...args, '--json');
  assert.equal(done.status, 0, done.err);
  return JSON.parse(done.out);
}

// Holds and changes come as one object a line.
async function lines(state, ...args) {
  const done = await ledger(state, ...args);
  assert.equal(done.status, 0, done.err);
  return done.out.split('\n').filter(Boolean).map((line) => JSON.parse(line));
}

async function scopeOf(state, name, ...args) {
  const { scopes } = await ledgerJson(state, 'show', name, ...args);
  return scopes[0];
}

// ---- gateways ----

const SCOPES = [
  { name: 'class', granted: 1_000_000, period: 'day', zone: 'Europe/Berlin' },
  { name: 'team', parent: 'class', granted: 500_000 },
];

// A gateway with a ledger in its state folder, one tenant `alpha` on the scope team, and `weir -c` for
// the commands in file.
async function withLedger(rig, upstream, { scopes = SCOPES, state = rig.folder(), key } = {}) {
  key ??= rig.newKey({ state }, 'alpha');
  const config = {
    upstreams: [{ name: 'up', url: `${upstream.url}/v1`, models: ['mock'] }],
    tenants: [{ name: 'alpha', scope: 'team' }],
    scopes,
  };
  const gateway = await rig.configured(config, {}, state);
  const file = path.join(state, 'commands.yaml');
  writeFileSync(file, JSON.stringify({ ...config, listen: '127.0.0.1:0', admin: `127.0.0.1:${gateway.adminPort}` }));
  return { gateway, state, key, config, use: ['-c', file], db: path.join(state, 'ledger.db') };
}

// As another start of the same gateway.
const again = (rig, upstream, was, scopes) => withLedger(rig, upstream, { state: was.state, key: was.key, scopes });

const AMOUNTS = ['scope', 'parent', 'granted_tok', 'configured_tok', 'used_tok', 'free_tok', 'reserved_tok', 'committed_tok', 'lapsed_tok',
  'overrun_tok', 'raised_tok', 'lowered_tok', 'unmatched_tok', 'refunded_tok', 'held', 'lapsed', 'period', 'zone', 'window', 'resets'];
const amounts = ({ scopes }) => scopes.map((scope) => Object.fromEntries(AMOUNTS.map((name) => [name, scope[name]])));

// SQL against a file that nobody has open.
function sql(db, text) {
  const script = 'import sqlite3,sys\nc=sqlite3.connect(sys.argv[1])\nc.executescript(sys.argv[2])\nc.commit()\nc.close()';
  const done = spawnSync('python3', ['-c', script, db, text], { encoding: 'utf8' });
  assert.equal(done.status, 0, done.stderr);
}

// ---- the same answers, live and at rest ----

claim('ledger: a running gateway and the file it leaves give the same answers, to show, holds and export', async (rig) => {
  const upstream = await rig.hand((request, response) => chatAnswer(response, { input: 30, output: 12 }));
  const it = await withLedger(rig, upstream);
  for (let i = 0; i < 3; i++) assert.equal((await postChat(it.gateway, { key: it.key })).status, 200);
  await until('all is settled', async () => (await scopeOf(it.state, 'team', ...it.use)).committed_tok === 126);
  const ask = async () => ({
    show: amounts(await ledgerJson(it.state, 'show', ...it.use)),
    counts: (await ledgerJson(it.state, 'show', ...it.use)).holds,
    holds: await lines(it.state, 'holds', '--json', ...it.use),
    changes: await lines(it.state, 'export', ...it.use),
  });
  const live = await ask();
  assert.equal((await ledgerJson(it.state, 'show', ...it.use)).live, true);
  assert.deepEqual(await it.gateway.stop(), { code: 0, signal: null });
  const rest = await ask();
  assert.equal((await ledgerJson(it.state, 'show', ...it.use)).live, false);
  assert.deepEqual(rest, live);
  const team = live.show.find((scope) => scope.scope === 'team');
  assert.deepEqual([team.parent, team.granted_tok, team.used_tok, team.free_tok], ['class', 500_000, 126, 499_874]);
  assert.equal(live.show.find((scope) => scope.scope === 'class').used_tok, 126, 'the parent counts it too');
  assert.equal(live.holds.length, 3);
  for (const hold of live.holds) {
    assert.deepEqual([hold.scope, hold.state, hold.booked_tok], ['team', 'settled', 42]);
    assert.match(hold.hold, /^\d+$/);
    assert.ok(hold.asked_tok >= 42);
  }
  const settles = live.changes.filter((change) => change.kind === 'settle');
  assert.deepEqual(settles.map((change) => [change.after_tok, change.estimated]), Array(3).fill([42, false]));
});

claim('ledger show: a table with separators, the next reset in the zone and in UTC, and what is odd below it', async (rig) => {
  const upstream = await rig.hand((request, response) => chatAnswer(response));
  const it = await withLedger(rig, upstream);
  await postChat(it.gateway, { key: it.key });
  assert.equal((await ledger(it.state, 'adjust', 'team', '600k', '--reason', 'a call past the gateway', ...it.use)).status, 0);
  const { status, out } = await ledger(it.state, 'show', ...it.use);
  assert.equal(status, 0);
  assert.match(out, /a gateway is running on it/);
  assert.match(out, /disk: one sync \d+\.\d\d ms/);
  assert.match(out, /class +1,000,000 +600,\d{3} /);
  assert.match(out, /\n {2}team +500,000 /, 'below its parent');
  assert.match(out, /\d{4}-\d\d-\d\dT00:00\+0[12]:00 = \d{4}-\d\d-\d\dT2[23]:00Z, in /);
  assert.match(out, /team: overdrawn by 100,\d{3}: nothing is admitted/);
  const refused = await postChat(it.gateway, { key: it.key });
  assert.equal(refused.status, 402);
  for (const name of ['team', 'class']) {
    const { burn_tok_per_h: burn, burn_span_s: span } = await scopeOf(it.state, name, ...it.use);
    assert.ok(span >= 3600 && span <= 7200);
    assert.equal(burn, Math.floor((5 * 3600) / span), 'what the one request used, of its scope and its parent');
  }
  assert.equal((await scopeOf(it.state, 'team', ...it.use)).refused, 1);
});

// ---- grant ----

claim('ledger grant: takes effect at once, outlives a restart, and gives way when the configuration changes', async (rig) => {
  const upstream = await rig.hand((request, response) => chatAnswer(response));
  const small = [{ name: 'class', granted: 1_000_000 }, { name: 'team', parent: 'class', granted: 10 }];
  let it = await withLedger(rig, upstream, { scopes: small });
  assert.notEqual((await postChat(it.gateway, { key: it.key })).status, 200);
  const done = await ledger(it.state, 'grant', 'team', '200k', ...it.use);
  assert.deepEqual([done.status, done.err], [0, '']);
  assert.match(done.out, /^team: granted 200,000 \(before: 10\); used 0/);
  assert.equal((await postChat(it.gateway, { key: it.key })).status, 200);
  await it.gateway.stop();
  it = await again(rig, upstream, it, small);
  assert.equal((await scopeOf(it.state, 'team', ...it.use)).granted_tok, 200_000, 'a restart keeps it');
  await it.gateway.stop();
  assert.match((await ledger(it.state, 'grant', 'team', '300k', ...it.use)).out, /granted 300,000 \(before: 200,000\)/, 'at rest too');
  it = await again(rig, upstream, it, small);
  assert.equal((await scopeOf(it.state, 'team', ...it.use)).granted_tok, 300_000);
  await it.gateway.stop();
  it = await again(rig, upstream, it, [small[0], { ...small[1], granted: 20 }]);
  assert.equal((await scopeOf(it.state, 'team', ...it.use)).granted_tok, 20, 'the configuration has changed its mind');
  assert.match((await ledger(it.state, 'grant', 'team', 'unlimited', ...it.use)).out, /granted unlimited \(before: 20\)/);
  assert.equal((await postChat(it.gateway, { key: it.key })).status, 200);
});

// ---- adjust ----

claim('ledger adjust: a hold that a kill left behind is charged, then booked with what it really used, once', async (rig) => {
  const upstream = await rig.hand(() => {}); // never answers
  let it = await withLedger(rig, upstream);
  const lost = postChat(it.gateway, { key: it.key }).catch(() => {});
  await upstream.arrived(1);
  const [held] = await lines(it.state, 'holds', '--json', '--state', 'held', ...it.use);
  const early = await ledger(it.state, 'adjust', '--hold', held.hold, '7', '--reason', 'x', ...it.use);
  assert.equal(early.status, 2);
  assert.match(early.err, /belongs to this run of the ledger, which settles it itself/);
  it.gateway.signal('SIGKILL');
  await it.gateway.exit;
  await lost;
  assert.match((await ledger(it.state, 'show', ...it.use)).out, /team: 1 hold of a gateway that ended without a word; lapses at the next start/);
  it = await again(rig, upstream, it);
  const [lapsed] = await lines(it.state, 'holds', '--json', '--state', 'lapsed', ...it.use);
  assert.deepEqual([lapsed.hold, lapsed.booked_tok], [held.hold, held.booked_tok]);
  assert.equal((await scopeOf(it.state, 'class', ...it.use)).lapsed_tok, held.asked_tok, 'charged with its estimate');
  assert.match((await ledger(it.state, 'show', ...it.use)).out, /team: 1 lapsed hold, charged with [\d,]+; see weir ledger holds --state lapsed/);
  const adjust = (amount) => ledger(it.state, 'adjust', '--hold', held.hold, amount, '--reason', 'by the export', ...it.use);
  assert.match((await adjust('7')).out, /^hold \d+: 7 tokens booked/);
  assert.match((await adjust('7')).out, /^hold \d+: unchanged, 7 tokens booked/);
  const other = await adjust('8');
  assert.equal(other.status, 2);
  assert.match(other.err, /settled before with another amount, which stays/);
  const after = await scopeOf(it.state, 'class', ...it.use);
  assert.deepEqual([after.lapsed_tok, after.committed_tok], [0, 7]);
  const [late] = await lines(it.state, 'holds', '--json', '--state', 'late', ...it.use);
  assert.deepEqual([late.hold, late.booked_tok], [held.hold, 7]);
  const unknown = await ledger(it.state, 'adjust', '--hold', '5', '7', '--reason', 'x', ...it.use);
  assert.deepEqual([unknown.status, /there is no hold 5/.test(unknown.err)], [2, true]);
  assert.match(it.gateway.err, /ledger: hold \d+ was settled with 7 by hand: by the export/);
});

claim('ledger adjust: a scope is corrected up and down with a reason in the journal, live and at rest', async (rig) => {
  const upstream = await rig.hand((request, response) => chatAnswer(response));
  const it = await withLedger(rig, upstream);
  assert.match((await ledger(it.state, 'adjust', 'team', '1200', '--reason', 'up', ...it.use)).out, /^team: adjusted by \+1,200; used 1,200/);
  await it.gateway.stop();
  assert.match((await ledger(it.state, 'adjust', 'team', '-200', '--reason', 'down', ...it.use)).out, /^team: adjusted by -200; used 1,000/);
  const team = await scopeOf(it.state, 'team', ...it.use);
  assert.deepEqual([team.raised_tok, team.lowered_tok, team.committed_tok], [1200, 200, 1000]);
  assert.equal((await scopeOf(it.state, 'class', ...it.use)).committed_tok, 1000);
  const changes = (await lines(it.state, 'export', ...it.use)).filter((change) => change.kind === 'adjust');
  assert.deepEqual(changes.map((change) => [change.scope, change.amount_tok, change.reason]), [['team', 1200, 'up'], ['team', -200, 'down']]);
  assert.equal((await ledger(it.state, 'verify', ...it.use)).status, 0);
});

// ---- long lists ----

claim('ledger holds, export: thousands come whole and in order, in pages, live and at rest', async (rig) => {
  const upstream = await rig.hand((request, response) => chatAnswer(response));
  let it = await withLedger(rig, upstream);
  assert.equal((await postChat(it.gateway, { key: it.key })).status, 200);
  await it.gateway.stop();
  // The one hold there is, 4,321 times more; the balances do not know them, and lists do not care.
  sql(it.db, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4321)
    INSERT INTO hold SELECT id + 1000 + i, NULL, chain, asked, i, CASE i % 3 WHEN 0 THEN 3 ELSE 2 END, created, done FROM hold, n;`);
  const check = async () => {
    const all = await lines(it.state, 'holds', '--json', '--limit', 'all', ...it.use);
    assert.equal(all.length, 4322);
    const ids = all.map((hold) => BigInt(hold.hold));
    assert.ok(ids.every((id, i) => i === 0 || id > ids[i - 1]), 'in order, none twice');
    const some = await lines(it.state, 'holds', '--json', '--state', 'void', '--scope', 'class', '--limit', 'all', ...it.use);
    assert.equal(some.length, 1440);
    const few = await ledger(it.state, 'holds', '--json', '--state', 'void', '--limit', '700', ...it.use);
    assert.equal(few.out.split('\n').filter(Boolean).length, 700);
    const rest = await lines(it.state, 'holds', '--json', '--state', 'void', '--limit', 'all', '--after', /--after (\S+) goes on/.exec(few.err)[1], ...it.use);
    assert.deepEqual(rest, some.slice(700));
    const first = await ledger(it.state, 'holds', '--limit', '2', ...it.use);
    assert.equal(first.out.split('\n').length, 4, 'titles, two rows');
    const next = /--after (\S+) goes on/.exec(first.err)[1];
    const [third] = await lines(it.state, 'holds', '--json', '--limit', '1', '--after', next, ...it.use);
    assert.equal(third.hold, all[2].hold);
  };
  await check();
  it = await again(rig, upstream, it);
  await check();
});

// ---- verify ----

claim('ledger verify: right beside a running gateway; of a tampered copy it says no, and where', async (rig) => {
  const upstream = await rig.hand((request, response) => chatAnswer(response, { input: 30, output: 12 }));
  const it = await withLedger(rig, upstream);
  for (let i = 0; i < 3; i++) await postChat(it.gateway, { key: it.key });
  const right = await ledger(it.state, 'verify', ...it.use);
  assert.deepEqual([right.status, right.err], [0, '']);
  assert.match(right.out, /balances agree with \d+ holds and \d+ changes/);
  await it.gateway.stop();
  const tampered = async (text) => {
    const copy = path.join(rig.folder(), 'copy.db');
    copyFileSync(it.db, copy);
    sql(copy, text);
    return ledger(it.state, 'verify', copy, ...it.use);
  };
  for (const [text, where] of [
    ["UPDATE balance SET committed = committed - 40 WHERE scope = (SELECT id FROM scope WHERE name = 'team')", /team/],
    ['UPDATE hold SET booked = booked - 1 WHERE id = (SELECT max(id) FROM hold)', /hold \d+/],
    ['DELETE FROM journal WHERE seq = (SELECT max(seq) - 1 FROM journal)', /journal/],
  ]) {
    const no = await tampered(text);
    assert.equal(no.status, 1, `${text}\n${no.out}${no.err}`);
    assert.match(no.out, /^WRONG: /);
    assert.match(no.out, where);
    assert.match(no.out, /NOT right; nothing was changed/);
  }
  const asJson = await ledgerJson(it.state, 'verify', ...it.use);
  assert.deepEqual([asJson.right, asJson.wrong, asJson.holds.settled], [true, 0, 3]);
});

claim('ledger verify --adopt: an older copy put in place is refused by the gateway and named, then taken when told so', async (rig) => {
  const upstream = await rig.hand((request, response) => chatAnswer(response));
  let it = await withLedger(rig, upstream);
  await postChat(it.gateway, { key: it.key });
  await it.gateway.stop();
  const copy = path.join(rig.folder(), 'backup.db');
  copyFileSync(it.db, copy);
  it = await again(rig, upstream, it);
  await postChat(it.gateway, { key: it.key });
  await it.gateway.stop();
  for (const end of ['-wal', '-shm']) rmSync(it.db + end, { force: true });
  copyFileSync(copy, it.db);
  const refused = await weir(it.state, ['serve', '-c', path.join(it.state, 'weir.yaml')]);
  assert.equal(refused.status, 2);
  assert.match(refused.err, /weir ledger verify --adopt/);
  const older = await ledger(it.state, 'verify', ...it.use);
  assert.equal(older.status, 1);
  assert.match(older.out, /OLDER: the file is older than .*ledger\.db\.lock remembers/);
  const grant = await ledger(it.state, 'grant', 'team', '5', ...it.use);
  assert.equal(grant.status, 3, 'a change does not adopt by the way');
  const adopted = await ledger(it.state, 'verify', '--adopt', ...it.use);
  assert.deepEqual([adopted.status, adopted.err], [0, '']);
  it = await again(rig, upstream, it);
  assert.equal((await postChat(it.gateway, { key: it.key })).status, 200);
});

// ---- init ----

claim('ledger init: makes the file with the scopes of the configuration once, and times the disk', async (rig) => {
  const state = rig.folder();
  const file = path.join(state, 'weir.yaml');
  writeFileSync(file, JSON.stringify({ upstreams: [{ name: 'up', url: 'http://127.0.0.1:1', key_env: 'NOT_SET' }], scopes: SCOPES }));
  const made = await ledger(state, 'init', '-c', file);
  assert.deepEqual([made.status, made.err], [0, '']);
  assert.match(made.out, /^made .*ledger\.db with 2 scopes\none sync of its disk takes \d+\.\d\d ms/);
  assert.equal(statSync(path.join(state, 'ledger.db')).mode & 0o777, 0o600);
  const twice = await ledger(state, 'init', '-c', file);
  assert.equal(twice.status, 2);
  assert.match(twice.err, /is there already, and stays as it is/);
  assert.equal((await ledger(state, 'grant', 'team', '7', '-c', file)).status, 0, 'ready before the first start');
  assert.deepEqual(readdirSync(state).filter((name) => /sync|tmp/.test(name)), []);
});

// ---- what goes wrong ----

// A server that is no gateway: answer(request, response, body).
async function fakeAdmin(rig, answer) {
  const server = http.createServer((request, response) => {
    let body = '';
    request.on('data', (text) => (body += text));
    request.on('end', () => answer(request, response, body));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  rig.others.push({
    stop: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  });
  return `127.0.0.1:${server.address().port}`;
}

claim('ledger: wrong token, nobody there, gone in the middle, no weir at all: each is said, with the right status', async (rig) => {
  const upstream = await rig.hand((request, response) => chatAnswer(response));
  const it = await withLedger(rig, upstream);
  const admin = `127.0.0.1:${it.gateway.adminPort}`;
  const wrong = path.join(rig.folder(), 'token');
  const cases = [];
  const expect = (status, pattern, ...args) => cases.push([status, pattern, args]);
  writeFileSync(wrong, 'wa_wrong\n');
  expect(2, new RegExp(`the gateway at http://${admin} does not accept the token of ${wrong}`), 'show', '--admin', admin, '--token-file', wrong);
  expect(2, /the admin token cannot be read from \/nowhere\/token: No such file/, 'show', '--admin', admin, '--token-file', '/nowhere/token');
  expect(2, /is no address of an admin API: it must be host:port/, 'show', '--admin', 'here');
  expect(2, /--admin names a gateway and --ledger a file: give one/, 'show', '--admin', admin, '--ledger', '/x.db');
  expect(3, /no answer from the gateway at http:\/\/127\.0\.0\.1:1: .*Connection refused/, 'show', '--admin', '127.0.0.1:1');
  const page = await fakeAdmin(rig, (request, response) => response.end('<html>'));
  expect(3, /what answers at .* is no weir admin API/, 'show', '--admin', page);
  const gone = await fakeAdmin(rig, (request, response) => response.socket.destroy());
  expect(3, /no answer from the gateway at .*; whether the change took effect is not known: look before you repeat it/, 'grant', 'team', '5', '--admin', gone);
  expect(3, /no answer from the gateway at [^;]*$/, 'show', '--admin', gone);
  const half = await fakeAdmin(rig, (request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '500' });
    response.write('{"holds":');
    setImmediate(() => response.socket.destroy());
  });
  expect(3, /no answer from the gateway at/, 'holds', '--admin', half);
  expect(2, /there is no scope 'taem': did you mean 'team'\?/, 'grant', 'taem', '5', '--admin', admin);
  expect(2, /there is no scope 'none'/, 'show', 'none', '--admin', admin);
  expect(2, /there is no state 'lapse': did you mean 'lapsed'\?/, 'holds', '--state', 'lapse', '--admin', admin);
  expect(2, /after must be what 'next' of a page said/, 'holds', '--after', 'x', '--admin', admin);
  for (const [status, pattern, args] of cases) {
    const done = await ledger(it.state, ...args);
    assert.equal(done.status, status, `${args.join(' ')}: ${done.out}${done.err}`);
    assert.match(done.err, pattern);
    assert.equal(done.out, '', 'nothing half done on standard output');
  }
});

claim('ledger: a file that another gateway has, that is missing, or that is no ledger: said, and left as it is', async (rig) => {
  const upstream = await rig.hand((request, response) => chatAnswer(response));
  const one = await withLedger(rig, upstream);
  const two = await withLedger(rig, upstream);
  // The commands' configuration of the first with the admin address of the second.
  const mixed = path.join(one.state, 'mixed.yaml');
  writeFileSync(mixed, JSON.stringify({ ...one.config, admin: `127.0.0.1:${two.gateway.adminPort}` }));
  writeFileSync(path.join(rig.folders.at(-1), 'x'), '');
  const token = path.join(two.state, 'admin.token');
  const other = await ledger(one.state, 'grant', 'team', '5', '-c', mixed, '--token-file', token);
  assert.equal(other.status, 2);
  assert.match(other.err, new RegExp(`in use by process ${one.gateway.pid}, but the gateway at .* has another one`));
  const free = path.join(one.state, 'free.yaml');
  writeFileSync(free, JSON.stringify({ ...one.config, admin: '127.0.0.1:0' }));
  assert.match((await ledger(one.state, 'show', '-c', free)).err, /leaves the gateway's admin port to chance: give it with --admin A:P/);
  const state = rig.folder();
  const missing = await ledger(state, 'show');
  assert.deepEqual([missing.status, /there is no ledger at .*ledger\.db: weir ledger init makes one/.test(missing.err)], [2, true]);
  assert.equal(existsSync(path.join(state, 'ledger.db')), false);
  const text = path.join(state, 'notes.db');
  writeFileSync(text, 'these are notes, and no database at all\n'.repeat(100));
  for (const args of [['show'], ['grant', 'team', '5'], ['verify']]) {
    const done = await ledger(state, ...args, '--ledger', text);
    assert.equal(done.status, 3, `${args}: ${done.err}`);
    assert.match(done.err, /notes\.db/);
  }
  assert.equal(readFileSync(text, 'utf8'), 'these are notes, and no database at all\n'.repeat(100));
});

claim('ledger: a page of the file that is damaged is a clear no, for reading, changing and verifying', async (rig) => {
  const upstream = await rig.hand((request, response) => chatAnswer(response));
  const it = await withLedger(rig, upstream);
  for (let i = 0; i < 3; i++) await postChat(it.gateway, { key: it.key });
  await it.gateway.stop();
  const bytes = readFileSync(it.db);
  bytes.fill(0xa5, 4096, bytes.length);
  writeFileSync(it.db, bytes);
  for (const args of [['show'], ['holds'], ['export'], ['grant', 'team', '5'], ['verify']]) {
    const done = await ledger(it.state, ...args, ...it.use);
    assert.ok(done.status === 3 || (args[0] === 'verify' && done.status === 1), `${args}: ${done.status} ${done.out}${done.err}`);
    assert.match(done.out + done.err, /ledger\.db/);
  }
});

claim('ledger: while the disk of a gateway is full a change is refused with the reason, and balances are shown; later it works', async (rig) => {
  const upstream = await rig.hand((request, response) => chatAnswer(response, { input: 30, output: 12 }));
  const it = await withLedger(rig, upstream);
  const limitFiles = (bytes) => {
    const run = spawnSync('prlimit', ['--pid', `${it.gateway.pid}`, `--fsize=${bytes}:`], { encoding: 'utf8' });
    assert.equal(run.status, 0, run.stderr);
  };
  await postChat(it.gateway, { key: it.key });
  await until('it is settled', async () => (await scopeOf(it.state, 'team', ...it.use)).committed_tok === 42);
  limitFiles(100); // not even a page at the start of the log
  for (const pattern of [/has not answered within 5 s: .*ledger\.db.*; it may still take effect/, /the ledger cannot write now: .*ledger\.db/]) {
    const full = await ledger(it.state, 'grant', 'team', '7', ...it.use);
    assert.equal(full.status, 3, full.out);
    assert.match(full.err, pattern);
  }
  const shown = await ledger(it.state, 'show', ...it.use);
  assert.equal(shown.status, 0, shown.err);
  assert.match(shown.out, /TROUBLE: .*ledger\.db/);
  assert.match(shown.out, /team +500,000 +42 /);
  limitFiles('unlimited');
  await until('a change works again', async () => (await ledger(it.state, 'grant', 'team', '7', ...it.use)).status === 0);
  assert.equal((await scopeOf(it.state, 'team', ...it.use)).granted_tok, 7);
  assert.equal((await ledger(it.state, 'verify', ...it.use)).status, 0);
});

claim('ledger: a memory ledger answers with its balances, and says what it does not keep', async (rig) => {
  const upstream = await rig.hand((request, response) => chatAnswer(response));
  const state = rig.folder();
  const gateway = await rig.configured(
    { ledger: 'memory', upstreams: [{ name: 'up', url: `${upstream.url}/v1`, models: ['mock'] }], tenants: [{ name: 'alpha', scope: 'team' }], scopes: SCOPES }, {}, state);
  const admin = ['--admin', `127.0.0.1:${gateway.adminPort}`];
  assert.match((await ledger(state, 'grant', 'team', '9k', ...admin)).out, /granted 9,000 \(before: 500,000\)/);
  assert.equal((await scopeOf(state, 'team', ...admin)).granted_tok, 9000);
  const holds = await ledger(state, 'holds', ...admin);
  assert.deepEqual([holds.status, /in memory and keeps balances only/.test(holds.err)], [2, true]);
});
