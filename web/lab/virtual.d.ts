// What the build supplies: ../page_plugin.ts.
declare module "virtual:lab-wasm" {
  /** The lab's module, compiled; once, in the worker. */
  export const compileLab: () => Promise<WebAssembly.Module>;
}
