// Reads the missions from their files: the first YAML document is the mission, the rest its setup, as it is.
import { load } from "js-yaml";
import { readdirSync, readFileSync } from "node:fs";

const folder = new URL(".", import.meta.url);

export const missionFiles = () => readdirSync(folder).filter((name) => /^\d\d-[a-z-]+\.yaml$/.test(name)).sort();

export function readMission(file) {
  const text = readFileSync(new URL(file, folder), "utf8");
  const at = text.indexOf("\n---\n");
  if (at < 0) throw new Error(`${file}: has no setup; it begins behind a line with three dashes`);
  const mission = load(text.slice(0, at), { filename: file });
  return { ...mission, setup: { name: mission.id, text: text.slice(at + 5) } };
}

/** In the order in which they unlock. */
export const readMissions = () => missionFiles().map(readMission);
