// What the build does with the page beyond what Vite does: the module's way into the worker, and the
// page as one file.
//
// `import { compileLab } from "virtual:lab-wasm"` gives the compiled module. Served, it is lab.wasm beside
// the page; in the file, the bytes lie in the script (gzip, base64), because a page opened from a folder
// may load nothing.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import type { Plugin } from "vite";

export type PageForm = "served" | "file";

const wasmModule = "virtual:lab-wasm";
const wasmName = "lab.wasm";

/** Whether something that is built wants it. */
let isAsked = false;

function wasmBytes(): Buffer {
  const path = process.env["WEIR_LAB_WASM"] || fileURLToPath(new URL("../build/web/lab.wasm", import.meta.url));
  try {
    return readFileSync(path);
  } catch (error) {
    throw new Error(`${path}: the lab's module is not there (${String(error)}); ninja makes it, as web/lab.wasm of its folder: set WEIR_LAB_WASM to that`);
  }
}

const servedText = `
export const compileLab = () => WebAssembly.compileStreaming(fetch(new URL("${wasmName}", self.location.href)));
`;

function fileText(): string {
  return `
const packed = "${gzipSync(wasmBytes(), { level: 9 }).toString("base64")}";
export async function compileLab() {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compile(await new Response(plain).arrayBuffer());
}
`;
}

/** Supplies "virtual:lab-wasm"; for the page's build and for its worker's, which comes first. */
export function labWasm(form: PageForm, forWorker: boolean): Plugin {
  return {
    name: "weir-lab-wasm",
    resolveId: (id) => (id === wasmModule ? `\0${wasmModule}` : undefined),
    load(id) {
      if (id !== `\0${wasmModule}`) return undefined;
      isAsked = true;
      return form === "file" ? fileText() : servedText;
    },
    // In `vite` (the server for development) it lies beside the worker, wherever that is.
    configureServer(server) {
      server.middlewares.use((request, response, next) => {
        if (!request.url?.split("?")[0]?.endsWith(`/${wasmName}`)) return next();
        response.setHeader("content-type", "application/wasm");
        response.end(wasmBytes());
      });
    },
    generateBundle() {
      if (form === "served" && isAsked && !forWorker) this.emitFile({ type: "asset", fileName: wasmName, source: wasmBytes() });
    },
  };
}

// Text that may stand between <script> or <style> and its end.
const within = (text: string, tag: string) => text.replaceAll(`</${tag}`, `<\\/${tag}`);

/** Makes the page one file: scripts, styles and the worker stand in it. */
export function oneFile(): Plugin {
  return {
    name: "weir-one-file",
    enforce: "pre",
    resolveId(id, importer) {
      if (!id.endsWith("?worker")) return undefined;
      return this.resolve(`${id}&inline`, importer, { skipSelf: true });
    },
    generateBundle: {
      order: "post",
      handler(_options, bundle) {
        const text = (name: string): string => {
          const file = bundle[name];
          if (!file) throw new Error(`the page names ${name}, which was not built`);
          delete bundle[name];
          return file.type === "chunk" ? file.code : file.source.toString();
        };
        const page = bundle["index.html"];
        if (page?.type !== "asset") throw new Error("the build made no index.html");
        let scripts = "";
        const hashes: string[] = [];
        let html = page.source
          .toString()
          .replace(/<link rel="stylesheet"[^>]* href="\.\/([^"]+)"[^>]*>/g, (_, name: string) => `<style>${within(text(name), "style")}</style>`)
          .replace(/<script type="module"[^>]* src="\.\/([^"]+)"[^>]*><\/script>/g, (_, name: string) => {
            const code = within(text(name), "script");
            hashes.push(`'sha256-${createHash("sha256").update(code).digest("base64")}'`);
            scripts += `<script type="module">${code}</script>\n`;
            return "";
          });
        if (hashes.length === 0) throw new Error("no script was found in index.html");
        const policy =
          `default-src 'none'; script-src ${hashes.join(" ")} 'wasm-unsafe-eval'; style-src 'unsafe-inline'; img-src data:; ` +
          "worker-src blob:; base-uri 'none'; form-action 'none'";
        // By functions: a dollar sign in the text means nothing.
        html = html
          .replace(/<meta charset="[^"]*" ?\/?>/, (found) => `${found}\n    <meta http-equiv="Content-Security-Policy" content="${policy}" />`)
          .replace("</body>", () => `${scripts}</body>`);
        if (!html.includes(policy) || !html.includes(scripts)) throw new Error("index.html has no <meta charset> or no </body>");
        delete bundle["index.html"];
        const rest = Object.keys(bundle);
        if (rest.length > 0) throw new Error(`these would not be in the one file: ${rest.join(", ")}`);
        this.emitFile({ type: "asset", fileName: "weir-lab.html", source: html });
      },
    },
  };
}

/** What Vite puts around import() loads styles and modules ahead; here there is one sheet, and nothing is ahead. */
export function plainImports(): Plugin {
  return {
    name: "weir-plain-imports",
    enforce: "pre",
    load: (id) => (id === "\0vite/preload-helper.js" ? "export const __vitePreload = (load) => load();" : undefined),
  };
}
