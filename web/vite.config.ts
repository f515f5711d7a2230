// The page as a folder of a few files with fixed names, so that the build can list them and the gateway
// can embed them: freshness is the ETag's business. `base: './'` lets it work under any prefix.
import { resolve } from "node:path";
import { defineConfig } from "vite";

export default defineConfig({
  root: "lab",
  base: "./",
  worker: {
    format: "es",
    rollupOptions: { output: { entryFileNames: "worker.js", chunkFileNames: "[name].js" } },
  },
  // Scenarios and missions stand outside the page's root.
  server: { fs: { allow: [resolve(import.meta.dirname ?? ".", "..")] } },
  build: {
    outDir: resolve(process.env["WEIR_PAGE_OUT"] ?? "dist"),
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    rollupOptions: {
      output: {
        entryFileNames: "lab.js",
        chunkFileNames: "[name].js",
        assetFileNames: "[name][extname]",
      },
    },
  },
});
