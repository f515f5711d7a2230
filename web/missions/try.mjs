// node web/missions/try.mjs NAME [path=value ...] [--seeds N]
//
// For authors: what a mission's start, solution and traps (or one try of path=value changes) come to over N seeds
// (5): stars with each seed, and every condition's range. It needs the module that
// the build makes (build/web/lab.wasm), or another named in WEIR_LAB_WASM.
import { readFileSync } from "node:fs";
import { load } from "../test/load.mjs";
import { missionFiles, readMission } from "./read.mjs";

const args = process.argv.slice(2);
const seedsAt = args.indexOf("--seeds");
const seeds = seedsAt < 0 ? 5 : Number(args.splice(seedsAt, 2)[1]);
const [name = "", ...sets] = args;
const file = missionFiles().find((each) => [each, each.slice(0, -5), each.slice(3, -5)].includes(name));
if (!file || !(seeds >= 1)) {
  console.error(`try.mjs: ${file ? "--seeds wants a count" : `no mission '${name}'`}; there are ${missionFiles().map((each) => each.slice(3, -5)).join(", ")}`);
  process.exit(2);
}

const rules = await load("lab/missions/missions.ts");
const { LocalEngine } = await load("lab/engine/engine.ts");
const wasm = process.env.WEIR_LAB_WASM ?? new URL("../../build/web/lab.wasm", import.meta.url);
const mission = readMission(file);

function readModule() {
  try {
    return readFileSync(wasm);
  } catch (error) {
    console.error(`try.mjs: no engine: ${error.message}. It is made with the lab page (sh tools/build.sh build -Dpages=true), or named in WEIR_LAB_WASM`);
    process.exit(2);
  }
}
const engine = new LocalEngine(await WebAssembly.compile(readModule()));

function show(title, changes) {
  const stars = [];
  const ranges = new Map();
  for (let seed = 1; seed <= seeds; seed++) {
    const reply = engine.run({ setup: mission.setup, sets: changes.map(rules.parseSet), seed, paths: [], wantsRequests: false });
    if (!reply.ok) {
      console.log(`${title}: ${reply.problems.map(({ where, text }) => `${where}: ${text}`).join("; ")}`);
      return;
    }
    const states = rules.judge(mission, reply.result);
    stars.push(rules.starsEarned(states, reply.result));
    states.forEach((state, index) =>
      state.conditions.forEach(({ now, isMet }, at) => {
        const range = ranges.get(`${index}.${at}`) ?? { index, condition: mission.stars[index].all[at], values: [], met: 0 };
        ranges.set(`${index}.${at}`, range);
        range.values.push(now);
        range.met += isMet ? 1 : 0;
      }),
    );
  }
  console.log(`${title}: ${stars.join(" ")}`);
  const digits = (value) => (Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(3));
  for (const { index, condition, values, met } of ranges.values()) {
    const { figure, tenants, scope, upstream, at_least: least, at_most: most } = condition;
    const bounds = `${least === undefined ? "" : `>= ${least}`}${most === undefined ? "" : `<= ${most}`}`;
    console.log(`   star ${index + 1}  ${figure} of ${tenants ?? scope ?? upstream ?? "all"} ${bounds}: ${digits(Math.min(...values))} .. ${digits(Math.max(...values))}, met ${met} of ${seeds}`);
  }
}

if (sets.length > 0) show("this try", sets);
else {
  show("start", []);
  show("solution", mission.solution);
  for (const trap of mission.traps) show(`trap, ${trap.text}`, trap.sets);
}
