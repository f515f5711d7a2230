// The mission that is played: it follows from the setup that is edited, so a link or undo leads back into it.
import { computed, effect, signal } from "@preact/signals";
import missions from "virtual:missions";
import { change, loadMission, provideMissions } from "../state/setup";
import { current, run } from "../state/store";
import { judge, parseSet, shutOut, starsEarned, worldChange, type Mission, type StarState } from "./missions";
import { earn, markSeen, progress } from "./progress";

export { missions };
export const ids: readonly string[] = missions.map((mission) => mission.id);

const findMission = (id: string): Mission | undefined => missions.find((mission) => mission.id === id);

provideMissions({
  text: async (id) => findMission(id)?.setup.text,
  controls: (id) => findMission(id)?.controls ?? [],
});

export const played = computed<Mission | null>(() => {
  const setup = current.value;
  if (!setup || setup.trace || !setup.origin.startsWith("mission:")) return null;
  const found = findMission(setup.origin.slice("mission:".length));
  return found && found.setup.text === setup.text.text ? found : null;
});

/** Missions whose solution was set by the page since they were begun: their stars are not counted. */
const helped = signal<ReadonlySet<string>>(new Set());
export const isHelped = computed(() => helped.value.has(played.value?.id ?? ""));

export interface Standing {
  stars: readonly StarState[];
  earned: number;
  /** A set that changes what the mission gives; "": none. */
  outside: string;
  /** A tenant that gets next to nothing; "": none. */
  shutOut: string;
}

/** Of the newest run of the mission played; null while there is none. */
export const standing = computed<Standing | null>(() => {
  const mission = played.value;
  const shown = run.value;
  if (!mission || !shown || shown.of.text.text !== mission.setup.text || shown.of.trace) return null;
  const stars = judge(mission, shown.result);
  const outside = worldChange(shown.of.sets)?.path ?? "";
  return { stars, earned: outside === "" ? starsEarned(stars, shown.result) : 0, outside, shutOut: shutOut(shown.result) ?? "" };
});

/** What was last won, for those who do not see it. */
export const news = signal("");

effect(() => {
  const mission = played.value;
  const earned = standing.value?.earned ?? 0;
  if (!mission || earned === 0 || isHelped.value) return;
  const before = progress.peek().stars[mission.id] ?? 0;
  if (earned <= before) return;
  earn(mission.id, earned);
  const next = missions[ids.indexOf(mission.id) + 1];
  news.value = `${before === 0 ? "Mission won" : "One better"}: ${mission.title}, ${earned} of 3 stars.${before === 0 && next ? ` The next one is open: ${next.title}.` : ""}`;
});

export function begin(id: string): Promise<void> {
  helped.value = new Set([...helped.value].filter((each) => each !== id));
  news.value = "";
  return loadMission(id);
}

/** Shows what earns three stars; the next mission is open from then on. */
export const giveUp = (mission: Mission): void => markSeen(mission.id);

export function applySolution(mission: Mission): Promise<void> {
  helped.value = new Set([...helped.value, mission.id]);
  return change(mission.solution.map(parseSet), `solution of ${mission.title}`);
}
