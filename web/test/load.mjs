// TypeScript of the page for tests in Node: load('lab/view/format.ts') is the module, bundled in memory
// with everything it imports.
import { build } from 'esbuild';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const web = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');

// `import text from "./file.yaml?raw"`, as Vite has it.
const raw = {
  name: 'raw',
  setup(build) {
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
  const code = Buffer.from(outputFiles[0].contents).toString('base64');
  return import(`data:text/javascript;base64,${code}`);
}
