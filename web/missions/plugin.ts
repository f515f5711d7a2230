// The missions as a module of the page, parsed when it is built: the main thread needs no YAML parser.
import { fileURLToPath } from "node:url";
import type { Plugin } from "vite";
import { missionFiles, readMissions } from "./read.mjs";

export function missions(): Plugin {
  return {
    name: "weir-missions",
    resolveId: (id) => (id === "virtual:missions" ? "\0virtual:missions" : null),
    load(id) {
      if (id !== "\0virtual:missions") return null;
      for (const file of missionFiles()) this.addWatchFile(fileURLToPath(new URL(file, import.meta.url)));
      // What must not win is for the tests.
      return `export default ${JSON.stringify(readMissions().map(({ traps: _, alone: __, ...mission }) => mission))};`;
    },
  };
}
