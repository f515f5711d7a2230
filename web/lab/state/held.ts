// The controls of what is shown, with their values.
import { computed } from "@preact/signals";
import { tenantsOf, type Control, type Held } from "./control";
import { controlsOf, tenantControls } from "./controls";
import { base, values } from "./setup";
import { run } from "./store";

export const held = computed<Held | null>(() => {
  const shown = run.value;
  if (!shown) return null;
  const inForce = values.value;
  const ofFile = base.value;
  return {
    setup: shown.setup,
    read: (path) => inForce[path] ?? "",
    has: (path) => (inForce[path] ?? null) !== null,
    readFile: (path) => ofFile[path] ?? "",
    seed: shown.of.seed,
  };
});

export const controls = computed<readonly Control[]>(() => (held.value ? controlsOf(held.value) : []));

/** Rows of the table of tenants; each tenant's controls by the part of their ids before the colon. */
export const tenantRows = computed(() => {
  const now = held.value;
  return (now ? tenantsOf(now.setup) : []).map((name) => ({
    name,
    cells: new Map((now ? tenantControls(now, name) : []).map((control) => [control.id.slice(0, control.id.indexOf(":")), control])),
  }));
});

/** Any control by its id, those of single tenants too; undefined: this setup has none. */
export function findControl(id: string): Control | undefined {
  const found = controls.value.find((control) => control.id === id);
  if (found) return found;
  for (const row of tenantRows.value) for (const control of row.cells.values()) if (control.id === id) return control;
  return undefined;
}
