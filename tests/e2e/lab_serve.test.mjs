// The lab page's files as the admin listener gives them out, and the configuration that the page loads.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { release, weights } from './lab_page_support.mjs';
import { RawConnection } from './raw.mjs';
import { call, claim, weir } from './support.mjs';

const serveRelease = (rig) => rig.serve([], { binary: release });
const at = (gateway, file) => `http://127.0.0.1:${gateway.adminPort}/lab/${file}`;
const files = Object.keys(weights().files);
const named = (file) => (file === 'index.html' ? '' : file);

claim('every file of the page comes in three forms that are one text, with the right type, and is told unchanged by 304', async (rig) => {
  const gateway = await serveRelease(rig);
  const types = { '.html': 'text/html; charset=utf-8', '.css': 'text/css; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.wasm': 'application/wasm' };
  for (const file of files) {
    const tags = new Set();
    const plain = await call(at(gateway, named(file)));
    for (const [accept, coding, decode] of [
      ['identity', undefined, (bytes) => bytes],
      ['gzip', 'gzip', gunzipSync],
      ['gzip, deflate, br, zstd', 'br', brotliDecompressSync],
    ]) {
      const headers = { 'accept-encoding': accept };
      const answer = await call(at(gateway, named(file)), { headers });
      assert.equal(answer.status, 200);
      assert.equal(answer.headers['content-type'], types[path.extname(file)]);
      assert.equal(answer.headers['content-encoding'], coding, `${file} by ${accept}`);
      assert.equal(Number(answer.headers['content-length']), answer.bytes.length);
      assert.equal(answer.headers['cache-control'], 'no-cache');
      assert.equal(answer.headers.vary, 'accept-encoding');
      assert.ok(decode(answer.bytes).equals(plain.bytes), `${file} by ${accept} is the same text`);
      tags.add(answer.headers.etag);

      const again = await call(at(gateway, named(file)), { headers: { ...headers, 'if-none-match': answer.headers.etag } });
      assert.equal(again.status, 304);
      assert.equal(again.bytes.length, 0);
      assert.equal(again.headers.etag, answer.headers.etag);
      const head = await call(at(gateway, named(file)), { method: 'HEAD', headers });
      assert.equal(head.status, 200);
      assert.equal(head.bytes.length, 0);
      assert.equal(head.headers['content-length'], answer.headers['content-length']);
      assert.equal(head.headers.etag, answer.headers.etag);
    }
    assert.equal(tags.size, 3, 'each form has its own tag');
    assert.ok([...tags].some((tag) => tag === `"${createHash('sha256').update(plain.bytes).digest('hex')}"`));
  }
});

claim('the page needs no token and asks for nothing elsewhere; everything else of the listener keeps its door', async (rig) => {
  const gateway = await serveRelease(rig);
  for (const [place, status] of [['/', 302], ['/lab', 302], ['/lab/', 200], ['/lab/nothing', 404], ['/v1/config', 401], ['/v1/status', 401], ['/labs', 401]]) {
    const answer = await gateway.admin(place, {});
    assert.equal(answer.status, status, place);
    if (status === 302) assert.equal(new URL(answer.headers.location, `http://h${place}`).pathname, '/lab/');
    if (status === 404) assert.match(answer.text, /the lab page is at \/lab\//);
  }
  const page = await gateway.admin('/lab/', {});
  assert.match(page.headers['content-security-policy'], /^default-src 'self'; script-src 'self' 'wasm-unsafe-eval';/);
  assert.equal(page.headers['x-content-type-options'], 'nosniff');
  assert.equal(page.headers['referrer-policy'], 'no-referrer');
  assert.doesNotMatch(page.text, /(src|href)="(https?:)?\/\//, 'nothing is loaded from elsewhere');
  const post = await call(at(gateway, ''), { body: 'x' });
  assert.equal(post.status, 405);
  assert.equal(post.headers.allow, 'GET, HEAD');
  const other = await gateway.admin('/nothing');
  assert.equal(other.status, 404);
  assert.match(other.text, /\/lab\/, .*\/v1\/config/);
  assert.match(gateway.out, new RegExp(`lab: +http://127.0.0.1:${gateway.adminPort}/lab/\n`), 'it says where the page is');
});

claim('whoever takes the page slowly gets all of it, and holds nobody up meanwhile', async (rig) => {
  const gateway = await serveRelease(rig);
  const [file, { plain }] = Object.entries(weights().files).sort(([, a], [, b]) => b.plain - a.plain)[0];
  const whole = (await call(at(gateway, named(file)))).bytes;
  assert.equal(whole.length, plain);
  // More than the sockets between hold: what is left waits in the gateway, a bounded part of it as bytes.
  const times = Math.ceil(16_000_000 / plain);
  const slow = await RawConnection.open(gateway.adminPort);
  slow.socket.pause();
  slow.write(`GET /lab/${named(file)} HTTP/1.1\r\nhost: x\r\n\r\n`.repeat(times));
  assert.equal((await call(at(gateway, ''))).status, 200);
  slow.socket.resume();
  for (let i = 0; i < times; i++) assert.ok((await slow.response()).body.equals(whole), `answer ${i} of ${times}`);
  slow.socket.destroy();
});

claim('a gateway built without the page says how to build one that has it', async (rig) => {
  const gateway = await rig.serve([]);
  const answer = await gateway.admin('/lab/', {});
  assert.equal(answer.status, 404);
  assert.match(answer.text, /-Dpages=true/);
  assert.doesNotMatch(gateway.out, /\/lab\//);
});

claim('GET /v1/config is the configuration in force, that loads again, and no secret is in it', async (rig) => {
  const secret = 'sk-a-credential-of-the-upstream';
  const { gateway, keys } = await rig.keyed(
    {
      upstreams: [{ name: 'up', url: 'http://127.0.0.1:9/v1', key_env: 'LAB_CONFIG_KEY', max_in_flight: 7 }],
      tenants: [{ name: 'alpha', weight: 3 }],
      scheduler: 'drr-cost',
    },
    { LAB_CONFIG_KEY: secret },
  );
  const answer = await gateway.admin('/v1/config');
  assert.equal(answer.status, 200);
  assert.match(answer.headers['content-type'], /^application\/yaml/);
  assert.equal(answer.headers['cache-control'], 'no-store');
  assert.match(answer.text, /key_env: LAB_CONFIG_KEY/);
  assert.match(answer.text, /scheduler: drr-cost/);
  const digest = createHash('sha256').update(keys.alpha).digest('hex');
  for (const hidden of [secret, keys.alpha, digest, gateway.token]) assert.ok(!answer.text.includes(hidden));
  const file = path.join(rig.folder(), 'again.yaml');
  writeFileSync(file, answer.text);
  const checked = await weir(rig.folder(), ['check', '-c', file, '--no-credentials']);
  assert.equal(checked.status, 0, checked.err);
  assert.equal((await call(`http://127.0.0.1:${gateway.adminPort}/v1/config`)).status, 401);
});
