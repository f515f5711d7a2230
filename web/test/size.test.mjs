// What the page weighs, as it goes over the wire by gzip: what tools/pack_pages.mjs measured of the build.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const LIMIT_BYTES = 80_000;
const place = process.env.WEIR_PAGES_JSON ?? fileURLToPath(new URL('../../build/web/lab_pages.json', import.meta.url));
const { gzip_bytes: weighs, files } = JSON.parse(readFileSync(place, 'utf8'));
const heaviest = Object.entries(files).map(([name, { gzip, when }]) => `${name} ${gzip} (${when})`).join(', ');

test(`the page (all html, scripts, styles, its worker) takes less than ${LIMIT_BYTES} bytes beside its module`, () => {
  assert.ok(weighs.page > 0 && weighs.page < LIMIT_BYTES, `${weighs.page} bytes: ${heaviest}`);
});

test(`its module takes less than ${LIMIT_BYTES} bytes`, () => {
  assert.ok(weighs.wasm > 0 && weighs.wasm < LIMIT_BYTES, `${weighs.wasm} bytes`);
});
