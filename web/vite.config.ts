// The page in two forms. Served: a folder of a few files with fixed names, so that the gateway can embed
// them; freshness is the ETag's business, and `base: './'` lets it work under any prefix. WEIR_PAGE_FORM=file:
// one file that opens from a folder.
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { missions } from "./missions/plugin";
import { labWasm, oneFile, plainImports, type PageForm } from "./page_plugin";

const form: PageForm = process.env["WEIR_PAGE_FORM"] === "file" ? "file" : "served";
const here = fileURLToPath(new URL(".", import.meta.url));

export default defineConfig({
  root: "lab",
  base: "./",
  plugins: [labWasm(form, false), missions(), plainImports(), ...(form === "file" ? [oneFile()] : [])],
  worker: {
    // A worker of a page from a folder cannot be a module: Chromium does not load one from its own bytes.
    format: form === "file" ? "iife" : "es",
    plugins: () => [labWasm(form, true)],
    rollupOptions: { output: { entryFileNames: "worker.js", chunkFileNames: "[name].js" } },
  },
  // Scenarios and missions stand outside the page's root.
  server: { fs: { allow: [resolve(here, "..")] } },
  build: {
    outDir: resolve(process.env["WEIR_PAGE_OUT"] ?? "dist"),
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    // Slower than esbuild by seconds, and the page is lighter by a tenth: it drops what a library does not use.
    // Never pure_getters: to read a signal's value is to follow it.
    minify: "terser",
    terserOptions: { module: true, compress: { passes: 2 } },
    reportCompressedSize: false,
    rollupOptions: {
      output: {
        entryFileNames: "lab.js",
        chunkFileNames: "[name].js",
        assetFileNames: "[name][extname]",
        inlineDynamicImports: form === "file",
      },
    },
  },
});
