// Controls of whose turn it is.
import type { SetValue } from "../engine/types";
import { choice, even, slider, toggle, words, type Control, type Held } from "./control";

/** A tenant's lane, whether or not it is one of the configuration's. */
export function laneOf(held: Held, tenant: string): string {
  return held.setup.tenants.find((each) => each.name === tenant)?.lane || held.read(`tenants.${tenant}.lane`) || (held.setup.lanes[0]?.name ?? "");
}

function floorSets(held: Held, lane: string, value: string): SetValue[] {
  if (held.has(`lanes.${lane}.floor`)) return [{ path: `lanes.${lane}.floor`, value }];
  const all = held.setup.lanes.map((each) => `{name: ${each.name}, floor: ${each.name === lane ? value : each.floorPercent}}`);
  return [{ path: "lanes", value: `[${all.join(", ")}]` }];
}

/** Who gives way when lanes are switched on: jobs by their name, or all that have no goal. */
function givingWay(held: Held): string[] {
  const jobs = held.setup.tenants.filter((tenant) => /batch|job|night|report|crawl/i.test(tenant.name));
  return (jobs.length > 0 ? jobs : held.setup.tenants.filter((tenant) => Number.isNaN(tenant.goal))).map((tenant) => tenant.name);
}

function laneControls(held: Held): Control[] {
  const { lanes, tenants } = held.setup;
  const used = new Set(tenants.map((tenant) => tenant.lane));
  const jobs = givingWay(held);
  const last = lanes[lanes.length - 1]?.name ?? "";
  const first = tenants.find((tenant) => !jobs.includes(tenant.name))?.lane ?? lanes[0]?.name ?? "";
  const found: Control[] = [];
  if (lanes.length > 1 && ((jobs.length > 0 && jobs.length < tenants.length) || used.size > 1))
    found.push(
      toggle({
        id: "lanes",
        group: "order",
        label: "Lanes",
        help: `A lane is served before those below it. On: ${jobs.join(", ")} in ${last}, below the others.`,
        value: String(used.size > 1),
        sets: (value) =>
          value === "true" ? jobs.map((tenant) => ({ path: `tenants.${tenant}.lane`, value: last })) : tenants.filter((tenant) => tenant.lane !== first).map((tenant) => ({ path: `tenants.${tenant.name}.lane`, value: first })),
      }),
    );
  for (const lane of lanes.slice(1)) {
    if (!used.has(lane.name) || used.size < 2) continue;
    found.push(
      slider(
        {
          id: `floor:${lane.name}`,
          group: "order",
          of: lane.name,
          label: `Floor of lane ${lane.name}`,
          unit: "%",
          help: "What it gets of the work dispatched while it has waiters, whatever those above ask for. 0: it can starve.",
          value: held.read(`lanes.${lane.name}.floor`) || String(lane.floorPercent),
          sets: (value) => floorSets(held, lane.name, value),
        },
        even(0, 60),
      ),
    );
  }
  return found;
}

export function orderControls(held: Held): Control[] {
  return [
    choice(
      {
        id: "scheduler",
        group: "order",
        label: "Queue order",
        help: "fifo: as they came. drr: tenants in turn, a request each. drr-cost: in turn, by tokens. vtc: whoever was served least so far.",
        value: held.read("scheduler"),
        sets: (value) => [{ path: "scheduler", value }],
      },
      words("fifo", "drr", "drr-cost", "vtc"),
    ),
    ...laneControls(held),
  ];
}
