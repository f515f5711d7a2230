// `weir ledger reconcile`: the books against a provider's export, at rest and through a running
// gateway, and after a gateway was killed in the middle of an answer.
import assert from 'node:assert/strict';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { chatAnswer, claim, open, jsonHeaders, chatBody, EventReader, postChat, until, weir } from './support.mjs';

const samples = fileURLToPath(new URL('../data/wire/usage/', import.meta.url));
const HOUR = 3600;

// ---- commands ----

const ledger = (it, ...args) => weir(it.state, ['ledger', ...args, '-c', it.file]);
// The samples are older than any ledger made here: --from says that they are meant.
const reconcile = (it, ...args) => ledger(it, 'reconcile', '--from', '2025-11-30', ...args);

async function reconcileJson(it, status, ...args) {
  const done = await reconcile(it, ...args, '--json');
  assert.equal(done.status, status, done.out + done.err);
  return JSON.parse(done.out);
}

async function scopeOf(it, name) {
  const done = await ledger(it, 'show', name, '--json');
  assert.equal(done.status, 0, done.err);
  return JSON.parse(done.out).scopes[0];
}

async function holdsOf(it, ...args) {
  const done = await ledger(it, 'holds', '--json', ...args);
  assert.equal(done.status, 0, done.err);
  return done.out.split('\n').filter(Boolean).map((line) => JSON.parse(line));
}

// ---- books ----

// A ledger file made by `weir ledger init`, of which no gateway knows.
async function atRest(rig, { scopes, upstreams = [{ name: 'up', url: 'http://127.0.0.1:9/v1', api: 'openai' }] }) {
  const state = rig.folder();
  const it = { state, file: path.join(state, 'weir.yaml') };
  writeFileSync(it.file, JSON.stringify({ listen: '127.0.0.1:0', admin: '127.0.0.1:0', upstreams, scopes }));
  const made = await ledger(it, 'init');
  assert.equal(made.status, 0, made.err);
  return it;
}

// A gateway with one tenant on scope `team`, and a configuration for the commands that knows its port.
async function live(rig, upstream, was) {
  const state = was?.state ?? rig.folder();
  const key = was?.key ?? rig.newKey({ state }, 'alpha');
  const config = {
    upstreams: [{ name: 'up', url: `${upstream.url}/v1`, api: 'openai' }],
    tenants: [{ name: 'alpha', scope: 'team' }],
    scopes: [{ name: 'class', granted: 1_000_000 }, { name: 'team', parent: 'class', granted: 500_000, provider_ids: ['key_alpha'] },
      { name: 'daily', granted: 500_000, period: 'day', provider_ids: ['key_daily'] }],
  };
  const gateway = await rig.configured(config, {}, state);
  const file = path.join(state, 'commands.yaml');
  writeFileSync(file, JSON.stringify({ ...config, listen: '127.0.0.1:0', admin: `127.0.0.1:${gateway.adminPort}` }));
  return { gateway, state, key, file };
}

// What the provider says of this hour and the next, so that the end of an hour does not matter.
const bucketStart = Math.floor(Date.now() / 1000 / HOUR) * HOUR;
function usagePage(it, name, results, start = bucketStart) {
  const file = path.join(it.state, name);
  const bucket = { object: 'bucket', start_time: start, end_time: start + 2 * HOUR };
  bucket.results = results.map((one) => ({
    object: 'organization.usage.completions.result', input_cached_tokens: 0, project_id: null, api_key_id: 'key_alpha', batch: null, ...one,
  }));
  writeFileSync(file, JSON.stringify({ object: 'page', data: [bucket], has_more: false, next_page: null }));
  return file;
}

// ---- at rest ----

claim('reconcile: a dashboard export is compared, booked once, and agrees from then on', async (rig) => {
  const it = await atRest(rig, {
    scopes: [{ name: 'org', granted: 9_000_000 }, { name: 'app', parent: 'org', granted: 5_000_000, provider_ids: ['key_app1'] },
      { name: 'batch', parent: 'org', granted: 5_000_000, provider_ids: ['key_batch'] }],
  });
  const file = path.join(samples, 'openai_completions_usage.csv');
  const before = await reconcileJson(it, 1, file);
  assert.equal(before.beyond, true);
  assert.equal(before.authoritative, 'booked_tok');
  assert.deepEqual(before.groups.map((one) => [one.scope, one.booked_tok, one.provider.input_tok, one.provider.output_tok, one.drift.total_ppm]),
    [['app', 0, 249_661, 70_337, -1_000_000], ['batch', 0, 902_114, 71_020, -1_000_000]]);
  assert.equal((await scopeOf(it, 'org')).used_tok, 0, 'comparing changes nothing');

  const booked = await reconcileJson(it, 0, file, '--apply');
  assert.equal(booked.booked.adjustments, 4);
  assert.equal(booked.booked.raised_tok, 1_293_132);
  assert.deepEqual(booked.after.map((one) => [one.scope, one.booked_tok, one.drift.total_ppm]), [['app', 319_998, 0], ['batch', 973_134, 0]]);
  assert.equal((await scopeOf(it, 'org')).used_tok, 1_293_132, 'parents count it too');
  assert.equal((await scopeOf(it, 'app')).raised_tok, 319_998, 'by its own name, not hidden in what was used');

  const twice = await reconcileJson(it, 0, file, '--apply');
  assert.equal(twice.booked.adjustments, 0);
  assert.equal((await scopeOf(it, 'org')).used_tok, 1_293_132, 'the same file twice books once');
  assert.equal(twice.groups[0].corrected_tok, 319_998);

  // The same time from the API, by pages: the same books.
  const pages = ['openai_usage_completions.json', 'openai_usage_completions_page2.json'].map((name) => path.join(samples, name));
  const more = await reconcileJson(it, 0, ...pages, '--apply');
  assert.deepEqual(more.corrections.map((one) => [one.scope, one.input_tok, one.output_tok]), [['batch', 1000, 500]], 'only what the CSV did not have');

  const { out } = await ledger(it, 'export');
  const reasons = out.split('\n').filter(Boolean).map((line) => JSON.parse(line)).filter((change) => change.kind === 'adjust');
  assert.equal(reasons.length, 5);
  assert.match(reasons[0].reason, /^reconcile openai_completions_usage\.csv: scope app, gpt-4\.1-mini-2025-04-14, 2025-11-30T00:00:00Z to 2025-11-30T01:00:00Z$/);
  assert.equal((await ledger(it, 'verify')).status, 0);
});

claim('reconcile: what cannot be booked is said and left, and what cannot be read books nothing', async (rig) => {
  const it = await atRest(rig, { scopes: [{ name: 'app', granted: 5_000_000, period: 'day', provider_ids: ['key_app1'] }] });
  const file = path.join(samples, 'openai_completions_usage.csv');
  // The daily window of that use is long over once a gateway has begun today's; nobody knows key_batch.
  const done = await reconcile(it, file);
  assert.equal(done.status, 1);
  assert.match(done.out, /all that is not mapped \(OpenAI\): BEYOND the allowed drift/);
  assert.match(done.out, /not to be booked: 973,134 tokens that no scope is known for; map their key or project by provider_ids/);
  assert.match(done.out, /authoritative: 0 tokens, which is what weir's budgets count/);

  for (const [name, message] of [
    ['openai_costs.json', /this is the cost export; give the completions usage export/],
    ['anthropic_cost_report.json', /this is the cost export/],
  ]) {
    const refused = await reconcile(it, path.join(samples, name), '--apply');
    assert.equal(refused.status, 2, refused.out);
    assert.match(refused.err, message);
    assert.match(refused.err, /nothing was compared/);
  }
  const broken = path.join(it.state, 'broken.csv');
  writeFileSync(broken, 'start_time,end_time,model,input_tokens,output_tokens\n1764460800,1764464400,m,-5,1\n');
  const bad = await reconcile(it, broken, '--apply');
  assert.equal(bad.status, 2);
  assert.match(bad.err, /broken\.csv:2: input_tokens is -5: less than nothing cannot have been used/);
  for (const [args, message] of [
    [[], /give at least one export file/],
    [[file, '--max-drift', 'much'], /--max-drift much: not a percentage/],
    [[file, '--to', '2025-11-01'], /is not before --to/],
    [[path.join(it.state, 'none')], /none: No such file/],
  ]) {
    const refused = await reconcile(it, ...args);
    assert.equal(refused.status, 2);
    assert.match(refused.err, message);
  }
  assert.equal((await scopeOf(it, 'app')).used_tok, 0);
});

claim('reconcile: use from before the books began is left out, and booked only when asked for', async (rig) => {
  const it = await atRest(rig, { scopes: [{ name: 'app', granted: 5_000_000, provider_ids: ['key_app1', 'key_batch'] }] });
  const file = path.join(samples, 'openai_completions_usage.csv');
  const done = await ledger(it, 'reconcile', file, '--apply');
  assert.equal(done.status, 0, done.err);
  assert.match(done.out, /left out: 3 buckets that begin before these books do/);
  assert.equal((await scopeOf(it, 'app')).used_tok, 0);
  // What is older than keep_usage can never be compared: its rows are gone, those of corrections too.
  writeFileSync(it.file, JSON.stringify({ ...JSON.parse(readFileSync(it.file, 'utf8')), ledger: { keep_usage: '30d' } }));
  const old = await reconcileJson(it, 0, file, '--apply');
  assert.deepEqual([old.early_buckets, old.booked.adjustments], [3, 0]);
});

claim('reconcile: several upstreams and nothing mapped is compared as one, and not booked', async (rig) => {
  const it = await atRest(rig, {
    scopes: [{ name: 'app', granted: 5_000_000 }],
    upstreams: ['one', 'two'].map((name) => ({ name, url: 'http://127.0.0.1:9/v1', api: 'openai' })),
  });
  const file = path.join(samples, 'openai_completions_usage.csv');
  assert.equal((await reconcileJson(it, 1, file)).is_guessed, true);
  const refused = await reconcile(it, file, '--apply');
  assert.equal(refused.status, 2);
  assert.match(refused.err, /nothing is booked: several upstreams speak this API and no provider_ids/);
});

claim('reconcile: the two forms of Anthropic say the same', async (rig) => {
  const it = await atRest(rig, {
    scopes: [{ name: 'app', granted: 5_000_000, provider_ids: ['apikey_01app', 'app'] },
      { name: 'rest', granted: 5_000_000, provider_ids: ['apikey_01batch', 'batch', 'Default'] }],
    upstreams: [{ name: 'claude', url: 'http://127.0.0.1:9/v1', api: 'anthropic' }],
  });
  await reconcileJson(it, 0, path.join(samples, 'anthropic_console_usage.csv'), '--apply');
  assert.equal((await scopeOf(it, 'app')).used_tok, 1_246_000);
  const report = path.join(samples, 'anthropic_usage_report.json');
  const json = await reconcileJson(it, 1, report);
  const app = json.groups.find((one) => one.scope === 'app');
  assert.equal(app.drift.total_ppm, 0);
  // The report has no name for the console's key, so its 810 tokens are of nobody there.
  assert.equal(json.groups.find((one) => one.scope === null).provider.input_tok, 777);
});

// ---- a running gateway ----

claim('reconcile: a running gateway agrees with its provider; a difference is booked through the admin API at once', async (rig) => {
  const upstream = await rig.hand((request, response) => chatAnswer(response, { input: 300, output: 120 }));
  const it = await live(rig, upstream);
  for (let i = 0; i < 3; i++) assert.equal((await postChat(it.gateway, { key: it.key, model: 'm' })).status, 200);
  await until('all is settled', async () => (await scopeOf(it, 'team')).committed_tok === 1260);
  const rows = (input) => [{ model: 'm-2025-04-14', input_tokens: input, output_tokens: 360, num_model_requests: 3 }];

  const same = await reconcileJson(it, 0, usagePage(it, 'same.json', rows(900)), '--open');
  assert.deepEqual(same.groups.map((one) => [one.scope, one.booked_tok, one.drift.total_ppm]), [['team', 1260, 0]]);
  assert.deepEqual(same.groups[0].models.map((one) => [one.model, one.weir_model, one.match, one.weir.requests]), [['m-2025-04-14', 'm', 'dated', 3]]);

  const closed = await reconcile(it, path.join(it.state, 'same.json'));
  assert.match(closed.out, /left out: 1 buckets that have not ended yet/);

  const more = usagePage(it, 'more.json', rows(1000));
  const found = await reconcile(it, more, '--open');
  assert.equal(found.status, 1);
  assert.match(found.out, /drift +-10\.00 % +0\.00 % +-7\.36 % +\+0/);
  assert.match(found.out, /weir counts LESS than the provider here/);
  assert.equal((await reconcile(it, more, '--open', '--max-drift', '10%')).status, 0, 'at the limit is within');
  const booked = await reconcile(it, more, '--open', '--apply');
  assert.equal(booked.status, 0, booked.out + booked.err);
  assert.match(booked.out, /booked: 1 adjustment, \+100 and -0 tokens/);
  assert.match(booked.out, /scope team now: drift 0\.00 %, authoritative: 1,360 tokens/);
  assert.equal((await scopeOf(it, 'class')).used_tok, 1360);
  assert.equal((await reconcileJson(it, 0, more, '--open', '--apply')).booked.adjustments, 0);

  const shown = await ledger(it, 'show');
  assert.match(shown.out, /^m +3 +\d+\.\d\d % +<= /m, 'how good the estimates were stands there too');

  // And down again when the provider takes back: the same file name, other content.
  const less = await reconcileJson(it, 0, usagePage(it, 'more.json', rows(800)), '--open', '--apply');
  assert.equal(less.booked.lowered_tok, 200);
  assert.equal((await scopeOf(it, 'team')).used_tok, 1160);
  assert.equal((await ledger(it, 'verify')).status, 0);
});

claim('reconcile: use of a window that is over is told and bears on no grant', async (rig) => {
  const it = await live(rig, await rig.hand((request, response) => chatAnswer(response)));
  const old = usagePage(it, 'old.json', [{ model: 'm', input_tokens: 700, output_tokens: 0, num_model_requests: 1, api_key_id: 'key_daily' }],
    bucketStart - 72 * HOUR);
  const done = await reconcile(it, old, '--apply');
  assert.equal(done.status, 1, done.out + done.err);
  assert.match(done.out, /not to be booked: 700 tokens of windows that are over/);
  assert.match(done.out, /booked: 0 adjustments/);
  assert.equal((await scopeOf(it, 'daily')).used_tok, 0);
});

claim('reconcile: after a kill in the middle of an answer the hold is charged, and the export corrects it', async (rig) => {
  const upstream = await rig.hand((request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n');
  });
  let it = await live(rig, upstream);
  const answer = await open(`${it.gateway.url}/v1/chat/completions`, {
    headers: { ...jsonHeaders, authorization: `Bearer ${it.key}` }, body: chatBody({ model: 'm', stream: true, max_tokens: 1000 }),
  });
  assert.match(await new EventReader(answer).next(), /half/);
  it.gateway.signal('SIGKILL');
  await it.gateway.exit;
  answer.on('error', () => {}).destroy();

  it = await live(rig, upstream, it);
  const [hold] = await holdsOf(it, '--state', 'lapsed');
  assert.ok(hold.booked_tok > 1000, 'charged with its whole estimate');
  const { lapsed_tok: lapsed, used_tok: used } = await scopeOf(it, 'team');
  assert.deepEqual([lapsed, used], [hold.booked_tok, hold.booked_tok]);

  const page = usagePage(it, 'page.json', [{ model: 'm', input_tokens: 290, output_tokens: 10, num_model_requests: 1 }]);
  const found = await reconcileJson(it, 1, page, '--open');
  assert.deepEqual([found.groups[0].lapsed_tok, found.groups[0].booked_tok, found.lapsed_holds], [lapsed, lapsed, 1]);
  assert.ok(found.groups[0].drift.total_ppm > 0, 'the charge is more than was used');
  const booked = await reconcile(it, page, '--open', '--apply');
  assert.equal(booked.status, 0, booked.out + booked.err);
  assert.match(booked.out, /written off: 1 lapsed hold/);
  const team = await scopeOf(it, 'team');
  assert.deepEqual([team.used_tok, team.lapsed_tok, team.committed_tok], [300, 0, 300], 'what was really used, and no more');
  assert.equal((await holdsOf(it, '--state', 'late'))[0].hold, hold.hold, 'the hold is still there, with what became of it');
  const again = await reconcileJson(it, 0, page, '--open', '--apply');
  assert.deepEqual([again.booked.adjustments, again.booked.lapsed_holds, again.groups[0].booked_tok], [0, 0, 300]);
  await it.gateway.stop();
  assert.equal((await ledger(it, 'verify')).status, 0);
  assert.equal((await scopeOf(it, 'team')).used_tok, 300, 'at rest too');
});

claim('reconcile: at rest after a kill, what is still held is written off too', async (rig) => {
  const upstream = await rig.hand(() => {}); // never answered
  const it = await live(rig, upstream);
  postChat(it.gateway, { key: it.key, model: 'm' }).catch(() => {});
  await upstream.arrived(1);
  it.gateway.signal('SIGKILL');
  await it.gateway.exit;
  assert.equal((await holdsOf(it, '--state', 'held')).length, 1);
  const page = usagePage(it, 'page.json', [{ model: 'm', input_tokens: 5, output_tokens: 0, num_model_requests: 1 }]);
  copyFileSync(page, path.join(it.state, 'copy.json'));
  const booked = await reconcileJson(it, 0, path.join(it.state, 'copy.json'), '--open', '--apply');
  assert.equal(booked.booked.lapsed_holds, 1);
  const team = await scopeOf(it, 'team');
  assert.deepEqual([team.used_tok, team.held, team.lapsed], [5, 0, 0]);
});
