#!/usr/bin/env node
// pack_pages.mjs OUT ROOT: the page's files (OUT/page, OUT/page-file) as one table in C; tools/build_page.sh
// calls it.
//
//   lab_pages.bin    the bytes of all, each as it is, by gzip and by brotli where that is smaller
//   lab_pages.S      that file in the program's read-only data
//   lab_pages.c      `cli_pages` of src/cli/pages.h, which points into it
//   lab_pages.json   what each weighs
//   lab_pages.d      what all of it was made of, for ninja
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const types = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.wasm': 'application/wasm',
};

const [out, root] = process.argv.slice(2);
if (!out || !root) {
  console.error('usage: pack_pages.mjs OUT ROOT');
  process.exit(1);
}

function die(text) {
  console.error(`weir: the lab page: ${text}`);
  process.exit(1);
}

// The files of a folder, not below it: a page has a handful.
const filesOf = (folder) => readdirSync(folder).sort().map((name) => ({ name, bytes: readFileSync(path.join(folder, name)) }));

const single = filesOf(path.join(out, 'page-file'));
if (single.length !== 1) die(`one file was to be built, not ${single.map(({ name }) => name).join(', ')}`);
const served = filesOf(path.join(out, 'page'));
if (!served.some(({ name }) => name === 'index.html')) die('the build made no index.html');

const pieces = [];
let used = 0;
function keep(bytes) {
  const piece = `{weir_lab_pages_bytes + ${used}, ${bytes.length}}`;
  pieces.push(bytes);
  used += bytes.length;
  return piece;
}

const rows = [];
const sizes = {};
for (const { name, bytes } of [...served, ...single]) {
  const type = types[path.extname(name)];
  if (!type) die(`no content-type is known for ${name}: name it in tools/pack_pages.mjs`);
  if (!/^[a-z0-9_.-]+$/.test(name)) die(`${name}: a served file is named in lower case letters, digits, . _ -`);
  const gzip = gzipSync(bytes, { level: 9 });
  const brotli = brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } });
  const tag = createHash('sha256').update(bytes).digest('hex');
  const smaller = (form) => (form.length < bytes.length ? keep(form) : '{NULL, 0}');
  const isDownload = single.some((one) => one.name === name);
  rows.push(
    `    {"${name === 'index.html' ? '' : name}", "${type}",\n     "${tag}",\n     ${keep(bytes)}, ${smaller(gzip)}, ${smaller(brotli)}, ${isDownload}},`,
  );
  sizes[name] = { plain: bytes.length, gzip: gzip.length, brotli: brotli.length };
}

const all = Buffer.concat(pieces);
const place = path.join(out, 'lab_pages.bin');
writeFileSync(place, all);
// The digest makes the text differ when the bytes do: compilers' caches look at the text only.
writeFileSync(
  path.join(out, 'lab_pages.S'),
  `/* Written by tools/pack_pages.mjs; SHA-256 ${createHash('sha256').update(all).digest('hex')} */
    .section .rodata
    .global weir_lab_pages_bytes
    .type weir_lab_pages_bytes, %object
    .size weir_lab_pages_bytes, ${all.length}
    .balign 16
weir_lab_pages_bytes:
    .incbin "${place.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"
    .section .note.GNU-stack,"",%progbits
`,
);
writeFileSync(
  path.join(out, 'lab_pages.c'),
  `/* Written by tools/pack_pages.mjs. */
#include "cli/pages.h"

extern const char weir_lab_pages_bytes[];

static const struct weir_page list[] = {
${rows.join('\n')}
};
const struct weir_pages cli_pages = {list, sizeof list / sizeof *list};
`,
);

// The page's own weight: all of it that is served, and what opening it loads at once. Later comes only what nothing
// but import("./NAME.js") names.
const texts = new Map(served.map(({ name, bytes }) => [name, bytes.toString('utf8')]));
const firstAsk = /\b(?:from|import)\s*["']\.\/([^"']+)["']/g;
const laterAsk = /\bimport\(\s*["'`]\.\/([^"'`]+)["'`]/g;
const namedIn = (name, pattern) => [...(texts.get(name) ?? '').matchAll(pattern)].map((match) => match[1]);
const isScript = (name) => name.endsWith('.js');
const late = new Set([...texts.keys()].filter(isScript).flatMap((name) => namedIn(name, laterAsk)));
const first = new Set([...texts.keys()].filter((name) => !late.has(name)));
for (const name of first) for (const asked of isScript(name) ? namedIn(name, firstAsk) : []) first.add(asked);
const isModule = (name) => name.endsWith('.wasm');
const isFile = (name) => single.some((one) => one.name === name);
const sum = (which) => Object.entries(sizes).filter(([name]) => which(name)).reduce((total, [, size]) => total + size.gzip, 0);
const totals = {
  page: sum((name) => !isModule(name) && !isFile(name)),
  opening: sum((name) => !isModule(name) && !isFile(name) && first.has(name)),
  wasm: sum(isModule),
};
for (const [name, size] of Object.entries(sizes)) size.when = isFile(name) ? 'download' : first.has(name) ? 'opening' : 'asked for';
writeFileSync(path.join(out, 'lab_pages.json'), `${JSON.stringify({ gzip_bytes: totals, files: sizes }, null, 1)}\n`);
const kb = (bytes) => `${(bytes / 1000).toFixed(1)} KB`;
console.log(
  `lab page by gzip: ${kb(totals.page)} in all, ${kb(totals.opening)} to open it, its module ${kb(totals.wasm)}; weir-lab.html ${kb(single[0].bytes.length)} as it is`,
);

// Folders stand in the list too: a file that comes into one makes it new.
function* below(folder) {
  yield folder;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const one = path.join(folder, entry.name);
    if (entry.isDirectory()) yield* below(one);
    else if (entry.isFile()) yield one;
  }
}
const made = ['web/lab', 'web/missions', 'src/cli/scenarios'].flatMap((folder) => {
  try {
    return [...below(path.join(root, folder))];
  } catch (error) {
    if (error.code === 'ENOENT') return [];
    throw error;
  }
});
for (const name of ['package-lock.json', 'package.json', 'page_plugin.ts', 'tsconfig.json', 'tsconfig.build.json', 'vite.config.ts'])
  made.push(path.join(root, 'web', name));
const escaped = made.map((name) => name.replaceAll('\\', '\\\\').replaceAll(' ', '\\ ').replaceAll('#', '\\#').replaceAll('$', '$$$$'));
writeFileSync(path.join(out, 'lab_pages.d'), `web/lab_pages.c: ${escaped.join(' \\\n  ')}\n`);
