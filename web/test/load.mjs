// TypeScript of the page for tests in Node: load('lab/view/format.ts') is the module, bundled
// with everything it imports.
import './browser.mjs';
import { build } from 'esbuild';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const web = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');

// `import text from "./file.yaml?raw"` as Vite has it, and "./file?worker", for which a test has its own: globalThis.TestWorker.
const raw = {
  name: 'raw',
  setup(build) {
    build.onResolve({ filter: /\?worker$/ }, (found) => ({ path: found.path, namespace: 'worker' }));
    build.onLoad({ filter: /.*/, namespace: 'worker' }, () => ({ contents: 'export default globalThis.TestWorker;' }));
    build.onResolve({ filter: /\?raw$/ }, (found) => ({ path: path.resolve(found.resolveDir, found.path.slice(0, -4)), namespace: 'raw' }));
    build.onLoad({ filter: /.*/, namespace: 'raw' }, async (found) => ({ contents: await readFile(found.path, 'utf8'), loader: 'text' }));
  },
};

export async function load(file) {
  const { outputFiles } = await build({
    entryPoints: [path.join(web, file)],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'neutral',
    mainFields: ['module', 'main'],
    jsx: 'automatic',
    jsxImportSource: 'preact',
    loader: { '.css': 'empty' },
    plugins: [raw],
    logLevel: 'error',
  });
  // From a file, not from an address that is the text itself: every line of a stack would have all of it.
  const folder = await mkdtemp(path.join(tmpdir(), 'weir-load-'));
  try {
    const place = path.join(folder, path.basename(file).replace(/\.tsx?$/, '.mjs'));
    await writeFile(place, outputFiles[0].contents);
    return await import(pathToFileURL(place));
  } finally {
    await rm(folder, { recursive: true });
  }
}
