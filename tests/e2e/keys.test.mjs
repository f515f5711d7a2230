// Who may come in, what is forwarded of what they carry, and what never is.
import assert from 'node:assert/strict';
import { statSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { RawConnection, rawRequest } from './raw.mjs';
import { bearer, call, chatAnswer, chatBody, claim, messagesBody, postChat, until } from './support.mjs';

const OPERATOR_KEY = 'sk-of-the-operator';
const environment = { E2E_OPERATOR_KEY: OPERATOR_KEY };

// A mock that accepts only the operator's key, and a gateway before it whose tenant is `alpha`.
async function keyed(rig, extra = {}) {
  const mock = await rig.mock('--key', OPERATOR_KEY, '--step', '1ms');
  const { gateway, keys } = await rig.keyed(
    { upstreams: [{ name: 'up', url: `${mock.url}/v1`, key_env: 'E2E_OPERATOR_KEY' }], tenants: [{ name: 'alpha' }], ...extra },
    environment);
  return { mock, gateway, key: keys.alpha };
}

const status = async (gateway, headers) => (await call(`${gateway.url}/v1/chat/completions`, { headers, body: chatBody() })).status;

claim('a weir key opens in either header, and the upstream gets its own credential in the header of its API', async (rig) => {
  const { mock, gateway, key } = await keyed(rig);
  assert.match(key, /^wk_[0-9A-Za-z]{49}$/);
  assert.equal(await status(gateway, bearer(key)), 200);
  assert.equal(await status(gateway, { 'x-api-key': key }), 200);
  assert.equal(await status(gateway, { 'x-api-key': key, authorization: `Bearer ${key}` }), 200, 'the same one twice is one');
  assert.equal(await status(gateway, { authorization: `bearer ${key}` }), 200, 'schemes have no letter case');
  const message = await call(`${gateway.url}/v1/messages`, { headers: { 'x-api-key': key }, body: messagesBody() });
  assert.equal(message.status, 200);
  const requests = await mock.requests();
  for (const request of requests.slice(0, 4)) assert.equal(request.headers.authorization, `Bearer ${OPERATOR_KEY}`);
  assert.equal(requests[4].headers['x-api-key'], OPERATOR_KEY);
  assert.equal(requests[4].headers.authorization, undefined);
  for (const request of requests) assert.ok(!request.head.includes(key));
});

claim('whatever carries a weir key, it is not forwarded', async (rig) => {
  const { mock, gateway, key } = await keyed(rig);
  const carriers = [
    ['authorization', `Bearer ${key}`], ['Authorization', `Bearer ${key}`], ['x-api-key', key], ['X-Api-Key', key],
    ['api-key', key], ['x-goog-api-key', key], ['cookie', `session=1; key=${key}`], ['proxy-authorization', `Bearer ${key}`],
    ['x-forwarded-authorization', `Bearer ${key}`], ['x-auth-token', key], ['authentication', key],
    ['www-authenticate', key], ['x-custom', `prefix ${key} suffix`], ['x-custom', `a_${key}`], ['x-custom', `wk_${key}`],
    ['x-custom', `${key}tail`], ['referer', `http://here/?key=${key}`], ['user-agent', `me/1 (${key})`],
    ['anthropic-beta', key], ['openai-organization', key], ['traceparent', key], ['weir-lane', key], ['te', key],
    ['forwarded', `for=${key}`], ['x-original-url', `/v1?api_key=${key}`], ['baggage', `k=${key}`],
    ['sec-websocket-protocol', `openai-insecure-api-key.${key}`], [`x-${key}`, 'as a name'], [key, 'as a name'],
  ];
  for (const carrier of carriers) {
    const client = await RawConnection.open(gateway.port);
    const own = /^(authorization|x-api-key)$/i.test(carrier[0]) ? [] : [['authorization', `Bearer ${key}`]];
    client.write(rawRequest('POST', '/v1/chat/completions', [...own, carrier], chatBody()));
    const answer = await client.response();
    assert.ok([200, 400].includes(answer.status), `${carrier}: ${answer.text}`);
    client.close();
  }
  const trailing = await RawConnection.open(gateway.port);
  trailing.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ntransfer-encoding: chunked\r\n\r\n` +
    `${chatBody().length.toString(16)}\r\n${chatBody()}\r\n0\r\nx-trailing: ${key}\r\n\r\n`);
  assert.equal((await trailing.response()).status, 200);
  trailing.close();
  const requests = await mock.requests();
  assert.ok(requests.length >= carriers.length - 1, `${requests.length} of ${carriers.length + 1} were forwarded`);
  for (const request of requests) {
    const all = (request.head + request.body).toLowerCase();
    assert.ok(!all.includes(key.toLowerCase()), request.head);
  }
});

claim('a weir key in the URL is refused and said to be lost; nothing is forwarded', async (rig) => {
  const { mock, gateway, key } = await keyed(rig);
  for (const target of [`/v1/chat/completions?api_key=${key}`, `/v1/models?key=${key}&x=1`, `/${key}/v1/models`]) {
    const answer = await call(`${gateway.url}${target}`, { headers: bearer(key), body: chatBody() });
    assert.equal(answer.status, 400);
    assert.match(answer.json.error.message, /URL holds a gateway key/);
    assert.ok(!answer.text.includes(key));
  }
  assert.equal((await mock.stats()).requests, 0);
});

claim('two differing credentials are 400, in both modes, whatever their order', async (rig) => {
  const { mock, gateway, key } = await keyed(rig);
  const open = await rig.gateway(mock);
  for (const one of [gateway, open])
    for (const lines of [
      [['authorization', `Bearer ${key}`], ['x-api-key', 'sk-other']],
      [['x-api-key', 'sk-other'], ['authorization', `Bearer ${key}`]],
      [['authorization', `Bearer ${key}`], ['authorization', 'Bearer sk-other']],
      [['x-api-key', key], ['x-api-key', `${key}x`]],
    ]) {
      const client = await RawConnection.open(one.port);
      client.write(rawRequest('POST', '/v1/chat/completions', lines, chatBody()));
      const answer = await client.response();
      assert.equal(answer.status, 400, answer.text);
      assert.equal(JSON.parse(answer.text).error.code, 'keys_differ');
      client.close();
    }
  assert.equal((await mock.stats()).requests, 0);
});

claim('keys are made and revoked while it runs: the first ends pass-through, a revoked one is 401 within seconds', async (rig) => {
  const mock = await rig.mock('--plain');
  const gateway = await rig.gateway(mock);
  assert.equal(await status(gateway, bearer('sk-mine')), 200, 'pass-through at first');
  const key = rig.newKey(gateway, 'alpha');
  await until('the key is known', async () => (await status(gateway, bearer(key))) === 200 && (await gateway.status()).tenancy === 'keys');
  assert.equal(await status(gateway, bearer('sk-mine')), 401);
  const other = rig.newKey(gateway, 'beta', '--weight', '4');
  await until('the second key is known', async () => (await status(gateway, bearer(other))) === 200);

  const listed = rig.run(['key', 'list'], gateway.state);
  assert.equal(listed.status, 0);
  assert.match(listed.stdout, /alpha/);
  assert.match(listed.stdout, /beta +4/);
  assert.ok(!listed.stdout.includes(key.slice(3, 20)), 'a key is shown once');

  assert.equal(rig.run(['key', 'revoke', 'alpha'], gateway.state).status, 0);
  await until('the key is refused', async () => (await status(gateway, bearer(key))) === 401, 5000);
  assert.equal(await status(gateway, bearer(other)), 200);
  assert.equal(rig.run(['key', 'revoke', 'alpha'], gateway.state).status, 1, 'nothing left to revoke');
});

claim('a key whose scope is not there is refused, and one made anew is charged to its scope at once', async (rig) => {
  const mock = await rig.mock('--plain');
  const gateway = await rig.configured({ upstreams: [{ name: 'up', url: `${mock.url}/v1` }], scopes: [{ name: 'class', granted: 1000000 }] });
  const lost = rig.newKey(gateway, 'alpha', '--scope', 'clas');
  const fine = rig.newKey(gateway, 'beta', '--scope', 'class');
  await until('the keys are known', async () => (await gateway.status()).tenancy === 'keys' && (await status(gateway, bearer(fine))) === 200);
  assert.equal(await status(gateway, bearer(lost)), 403, 'unknown is no, not unlimited');
  assert.match(gateway.err, /its scope 'clas' is not in the configuration, so tenant alpha has no budget/);
  const unlike = rig.run(['key', 'new', 'alpha', '--scope', 'class'], gateway.state);
  assert.equal(unlike.status, 2);
  assert.match(unlike.stderr, /lane - and scope clas, .*weir key revoke alpha/);

  const used = async () => JSON.parse(rig.run(['ledger', 'show', 'class', '--json', '-c', `${gateway.state}/weir.yaml`, '--admin', `127.0.0.1:${gateway.adminPort}`], gateway.state).stdout).scopes[0].used_tok;
  const before = await used();
  assert.equal(rig.run(['key', 'revoke', 'alpha'], gateway.state).status, 0);
  const anew = rig.newKey(gateway, 'alpha', '--scope', 'class');
  await until('the key is known', async () => (await status(gateway, bearer(anew))) === 200);
  assert.ok((await used()) > before, 'charged to the class');
});

claim('a key that is revoked does not cut the answer under way', async (rig) => {
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const upstream = await rig.hand(async (request, response, count) => {
    if (count === 1) await finished;
    chatAnswer(response);
  });
  const { gateway, keys } = await rig.keyed({ upstreams: [{ name: 'up', url: `${upstream.url}/v1` }], tenants: [{ name: 'alpha' }] });
  const answer = postChat(gateway, { key: keys.alpha });
  await upstream.arrived(1);
  assert.equal(rig.run(['key', 'revoke', 'alpha'], gateway.state).status, 0);
  await until('the key is refused', async () => (await status(gateway, bearer(keys.alpha))) === 401, 5000);
  finish();
  assert.equal((await answer).status, 200);
});

claim('keys made at run time survive a restart; with all revoked nobody comes in', async (rig) => {
  const mock = await rig.mock('--plain');
  const first = await rig.gateway(mock);
  const key = rig.newKey(first, 'alpha');
  assert.deepEqual(await first.stop(), { code: 0, signal: null });
  const second = await rig.serve(['--upstream', `${mock.url}/v1`], { state: first.state });
  assert.equal(await status(second, bearer(key)), 200);
  assert.equal(rig.run(['key', 'revoke', 'alpha'], first.state).status, 0);
  await until('the key is refused', async () => (await status(second, bearer(key))) === 401, 5000);
  assert.equal(await status(second, bearer('sk-mine')), 401, 'revoking the last key does not open the door');
});

claim('keys and tokens lie in files that only the owner reads, and no key in any of them', async (rig) => {
  const { gateway, key } = await keyed(rig);
  assert.equal(await status(gateway, bearer(key)), 200);
  const files = readdirSync(gateway.state).filter((name) => name !== 'weir.yaml');
  assert.ok(files.length >= 2, `${files}`);
  for (const name of files) {
    const file = path.join(gateway.state, name);
    assert.equal(statSync(file).mode & 0o077, 0, `${name} is nobody else's`);
    assert.ok(!readFileSync(file).includes(key.slice(3, 30)), name);
  }
});

claim('pass-through: the credential is forwarded as it came, and names the tenant without showing it', async (rig) => {
  const mock = await rig.mock('--step', '1ms');
  const gateway = await rig.gateway(mock);
  const ways = [
    ['authorization', 'Bearer sk-secret-of-mine'], ['authorization', 'bEaReR   sk-secret-of-mine'], ['x-api-key', 'sk-secret-of-mine'],
    ['authorization', 'Basic c2stc2VjcmV0'], ['cookie', 'session=sk-secret-of-mine'], ['api-key', 'sk-secret-of-mine'],
  ];
  for (const way of ways) {
    const client = await RawConnection.open(gateway.port);
    client.write(rawRequest('POST', '/v1/chat/completions', [way], chatBody()));
    assert.equal((await client.response()).status, 200);
    client.close();
  }
  const requests = await mock.requests();
  requests.forEach((request, i) => assert.equal(request.headers[ways[i][0]], ways[i][1]));
  const tenants = (await gateway.accessLines(ways.length)).map((line) => line.tenant);
  assert.match(tenants[0], /^[0-9a-f]{10}$/);
  assert.equal(tenants[1], tenants[0]);
  assert.equal(tenants[2], tenants[0]);
  assert.notEqual(tenants[3], tenants[0]);
  assert.equal(tenants[4], 'anonymous');
  const admin = JSON.stringify([await gateway.adminJson('/v1/tenants'), await gateway.status()]);
  for (const text of [gateway.err, gateway.out, admin, (await gateway.admin('/metrics')).text])
    assert.ok(!text.includes('secret-of-mine'));
});

claim('pass-through: the tenant names of two installs differ, so none can be told from a credential', async (rig) => {
  const mock = await rig.mock('--plain');
  const gateways = [await rig.gateway(mock), await rig.gateway(mock)];
  for (const gateway of gateways) assert.equal(await status(gateway, bearer('sk-same')), 200);
  const [one, two] = await Promise.all(gateways.map(async (gateway) => (await gateway.accessLines(1))[0].tenant));
  assert.notEqual(one, two);
});

claim('requests of web pages (Origin) are refused without tenant keys, and accepted with them', async (rig) => {
  const { mock, gateway, key } = await keyed(rig);
  const open = await rig.gateway(mock);
  const refused = await call(`${open.url}/v1/chat/completions`, { headers: { ...bearer('sk'), origin: 'https://evil.test' }, body: chatBody() });
  assert.equal(refused.status, 403);
  assert.equal(refused.json.error.code, 'origin_not_allowed');
  assert.equal((await mock.stats()).requests, 0);
  assert.equal(await status(gateway, { ...bearer(key), origin: 'https://page.test' }), 200);
});

claim('it refuses to start before the world with an upstream credential and no tenants', async (rig) => {
  const mock = await rig.mock('--plain');
  const state = rig.folder();
  const config = { listen: '0.0.0.0:0', admin: '127.0.0.1:0', upstreams: [{ name: 'up', url: `${mock.url}/v1`, key_env: 'E2E_OPERATOR_KEY' }] };
  await assert.rejects(rig.configured(config, environment, state), /ended before: ready/);
  const process = rig.processes.pop();
  assert.equal(process.ended.code, 2);
  assert.match(process.err, /tenant/);
  assert.ok(!process.err.includes(OPERATOR_KEY));
});

claim('the admin API wants its token; only health is told to anybody', async (rig) => {
  const mock = await rig.mock('--plain');
  const gateway = await rig.gateway(mock);
  for (const page of ['/v1/status', '/v1/tenants', '/v1/upstreams', '/v1/holds', '/metrics', '/nothing']) {
    for (const headers of [{}, { authorization: 'Bearer wrong' }, { authorization: `Bearer ${gateway.token}x` }, { authorization: gateway.token }])
      assert.equal((await gateway.admin(page, headers)).status, 401, page);
    assert.equal((await gateway.admin(page)).status, page === '/nothing' ? 404 : 200);
  }
  for (const page of ['/healthz', '/readyz']) assert.equal((await gateway.admin(page, {})).status, 200);
  assert.equal((await call(`http://127.0.0.1:${gateway.adminPort}/v1/status`, { method: 'POST', headers: bearer(gateway.token), body: '{}' })).status, 405);
});
