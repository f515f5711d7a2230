// The controls. Each is a list of values to be set, and reads what is in force from the engine: what it means is
// decided there. One that has nothing to set in a setup is not in its list.
import type { Setup } from "../engine/types";
import { choice, counts, slider, tenantsOf, toggle, trafficOf, words, type Group, type Control, type Held } from "./control";
import { backendControls, budgetControls, gatewayControls } from "./gateway_controls";
import { limitControls, tenantLimits } from "./limit_controls";
import { laneOf, orderControls } from "./order_controls";
import { clientChoices, clientControls, clientOf, clientSet, rateControl, trafficControls } from "./traffic_controls";

/** Cells of the tenant's row in the table of tenants. */
export function tenantControls(held: Held, tenant: string): Control[] {
  const given = { group: "limits" as const, of: tenant };
  const traffic = trafficOf(tenant);
  const found: Control[] = [
    slider(
      {
        ...given,
        id: `weight:${tenant}`,
        label: `Weight of ${tenant}`,
        help: "Its share among the tenants of its lane that wait.",
        value: held.read(`tenants.${tenant}.weight`) || String(held.setup.tenants.find((each) => each.name === tenant)?.weight ?? 1),
        sets: (value) => [{ path: `tenants.${tenant}.weight`, value }],
      },
      counts(1, 100),
    ),
    choice(
      {
        ...given,
        id: `lane:${tenant}`,
        label: `Lane of ${tenant}`,
        help: "A lane is served before those below it.",
        value: laneOf(held, tenant),
        sets: (value) => [{ path: `tenants.${tenant}.lane`, value }],
      },
      words(...held.setup.lanes.map((lane) => lane.name)),
    ),
    ...tenantLimits(held, tenant),
  ];
  if (!held.has(`${traffic}.sends`)) return found;
  if (tenantsOf(held.setup).length > 1)
    found.push(
      toggle({
        ...given,
        id: `sends:${tenant}`,
        label: `${tenant} sends`,
        help: "Off: it sends nothing.",
        value: held.read(`${traffic}.sends`) || "true",
        sets: (value) => [{ path: `${traffic}.sends`, value }],
      }),
    );
  found.push(
    choice(
      { ...given, id: `client:${tenant}`, label: `Client of ${tenant}`, help: "What it does with a no.", value: clientOf(held, tenant), sets: (value) => [clientSet(tenant, value)] },
      clientChoices([clientOf(held, tenant)]),
    ),
  );
  if (held.read(`${traffic}.rate`) !== "") found.push({ ...rateControl(held, tenant, `rate:${tenant}`, "traffic", `Requests of ${tenant}`), of: tenant });
  return found;
}

/** All of a setup, but for those of single tenants. */
export function controlsOf(held: Held): Control[] {
  return [...limitControls(held), ...orderControls(held), ...trafficControls(held), ...gatewayControls(held), ...backendControls(held), ...budgetControls(held), ...clientControls(held)];
}

export function allControls(held: Held): Control[] {
  return [...controlsOf(held), ...tenantsOf(held.setup).flatMap((tenant) => tenantControls(held, tenant))];
}

export const groups: readonly { id: Group; title: string; isOpen: boolean }[] = [
  { id: "limits", title: "Limits", isOpen: true },
  { id: "order", title: "Queue order", isOpen: true },
  { id: "traffic", title: "Traffic", isOpen: true },
  { id: "gateway", title: "Queue and permits", isOpen: false },
  { id: "backend", title: "Backend and breaker", isOpen: false },
  { id: "budgets", title: "Budgets", isOpen: false },
  { id: "clients", title: "Clients and goal", isOpen: false },
];

let pathsKey = "";
let paths: readonly string[] = [];

/** Every path that the controls of a setup may read. */
export function pathsOf(setup: Setup): readonly string[] {
  const names = [setup.lanes, setup.upstreams, setup.scopes].map((list) => list.map((each) => each.name));
  const key = JSON.stringify([setup.tenantNames, names, setup.tenants.map((tenant) => [tenant.name, tenant.lane, tenant.arrivals])]);
  if (key !== pathsKey) {
    paths = findPaths(setup);
    pathsKey = key;
  }
  return paths;
}

/* The controls are made with made-up values. What may be asked behind any of them is asked at once. */
function findPaths(setup: Setup): string[] {
  const found = new Set<string>();
  for (const answer of ["", "0", "1", "1/s"]) {
    const note = (path: string): string => {
      found.add(path);
      return answer;
    };
    for (const known of [() => true, () => false, (path: string) => path === "backend.replicas"])
      allControls({
        setup,
        read: note,
        readFile: note,
        has: (path) => {
          found.add(path);
          return known(path);
        },
        seed: 1,
      });
  }
  return [...found];
}
