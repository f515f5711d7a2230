// Controls of who sends what, and of what clients do with a no.
import type { SetValue } from "../engine/types";
import { choice, made, rates, shared, slider, tenantsOf, times, toggle, trafficOf, type Choice, type Group, type Control, type Held } from "./control";

export function trafficControls(held: Held): Control[] {
  const { setup } = held;
  const found: Control[] = [];
  const drawn = tenantsOf(setup).filter((name) => held.has(`${trafficOf(name)}.sends`) && !setup.tenants.some((tenant) => tenant.arrivals === "trace"));
  const job = ["batch", "job", "night"].find((name) => drawn.includes(name) && held.read(`${trafficOf(name)}.rate`) !== "");
  if (job !== undefined && held.read(`${trafficOf(job)}.sends`) !== "false")
    found.push(rateControl(held, job, "batch-rate", "traffic", job === "batch" ? "Batch rate" : `Rate of ${job}`));
  const bursty = drawn.map((name) => ({ name, at: `${trafficOf(name)}.burst` })).filter(({ at }) => !["", "0"].includes(held.read(`${at}.until`)));
  if (bursty.length > 0)
    found.push(
      toggle({
        id: "burst",
        group: "traffic",
        label: "Burst",
        help: `For a while ${bursty.map(({ name }) => name).join(", ")} send more: ${bursty.map(({ at }) => `${held.readFile(`${at}.times`) || held.read(`${at}.times`)} times as much from ${held.read(`${at}.from`)} to ${held.read(`${at}.until`)}`)[0] ?? ""}.`,
        value: String(bursty.some(({ at }) => held.read(`${at}.times`) !== "1")),
        sets: (value) => bursty.map(({ at }) => ({ path: `${at}.times`, value: value === "false" ? "1" : held.readFile(`${at}.times`) || "2.5" })),
      }),
    );
  if (drawn.includes("agent"))
    found.push(
      toggle({
        id: "agent",
        group: "traffic",
        label: "Agent",
        help: "Its context grows with each turn: a request is as much work as many of an app's.",
        value: held.read(`${trafficOf("agent")}.sends`) || "true",
        sets: (value) => [{ path: `${trafficOf("agent")}.sends`, value }],
      }),
    );
  found.push({
    ...made({ id: "seed", group: "traffic", label: "Seed", help: "The chance of the run. The same seed is the same requests, whatever else is set.", value: String(held.seed), sets: () => [] }, "text", [], null),
  });
  return found;
}

export const rateControl = (held: Held, tenant: string, id: string, group: Group, label: string): Control =>
  slider(
    {
      id,
      group,
      label,
      unit: "requests",
      help: `How many requests ${tenant} sends.`,
      value: held.read(`${trafficOf(tenant)}.rate`),
      sets: (value) => [{ path: `${trafficOf(tenant)}.rate`, value }],
    },
    rates(0.1, 40),
  );

const clients: Choice[] = [
  { value: "none", label: "try once" },
  { value: "sdk", label: "retry as SDKs do" },
  { value: "hammer", label: "hammer, without hints" },
];

export function clientOf(held: Held, tenant: string): string {
  const at = `${trafficOf(tenant)}.client`;
  const retries = held.read(`${at}.retries`);
  const obeys = held.read(`${at}.obeys_hint`) !== "false";
  if (retries === "" || retries === "0") return "none";
  return obeys && retries === "2" ? "sdk" : !obeys && retries === "5" ? "hammer" : "other";
}

export const clientSet = (tenant: string, value: string): SetValue => ({
  path: `${trafficOf(tenant)}.client`,
  value: value === "hammer" ? "{retries: 5, obeys_hint: false}" : value,
});

export const clientChoices = (values: readonly string[]): Choice[] => (values.includes("other") ? [...clients, { value: "other", label: "as the file says" }] : clients);

export function clientControls(held: Held): Control[] {
  const senders = tenantsOf(held.setup).filter((tenant) => held.has(`${trafficOf(tenant)}.sends`));
  if (senders.length === 0) return [];
  const now = senders.map((tenant) => clientOf(held, tenant));
  const goals = senders.filter((tenant) => !["", "0"].includes(held.read(`${trafficOf(tenant)}.goal`)));
  const found = [
    choice(
      {
        id: "client",
        group: "clients",
        label: "Clients",
        help: "What a client does with a no. SDKs try twice more and obey the hint; one that hammers tries five times more, on its own clock.",
        ...shared(now),
        sets: (value) => senders.map((tenant) => clientSet(tenant, value)),
      },
      clientChoices(now),
    ),
  ];
  if (goals.length > 0)
    found.push(
      slider(
        {
          id: "goal",
          group: "clients",
          label: "Goal",
          help: `Those of ${goals.join(", ")} that waited longer in the queue do not count as good.`,
          ...shared(goals.map((tenant) => held.read(`${trafficOf(tenant)}.goal`))),
          sets: (value) => goals.map((tenant) => ({ path: `${trafficOf(tenant)}.goal`, value })),
        },
        times(0.1, 60),
      ),
    );
  return found;
}
