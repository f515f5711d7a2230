// Which tenants the pictures show. Ten at most unless somebody asks for more: those that send most.
import { computed, signal } from "@preact/signals";
import { run } from "../state/store";

const SHOWN_MAX = 10;

/** What was asked for by a click, by the tenant's name: it outlives the run. */
const asked = signal<ReadonlyMap<string, boolean>>(new Map());

const usual = computed(() => {
  const tenants = run.value?.result.tenants ?? [];
  const bySent = tenants.map((_, t) => t);
  bySent.sort((a, b) => (tenants[b]?.sent ?? 0) - (tenants[a]?.sent ?? 0) || a - b);
  return new Set(bySent.slice(0, SHOWN_MAX));
});

/** Indexes of the tenants that are shown, in the setup's order. */
export const shown = computed<readonly number[]>(() =>
  (run.value?.result.tenants ?? [])
    .map((tenant, t) => (asked.value.get(tenant.name) ?? usual.value.has(t) ? t : -1))
    .filter((t) => t >= 0),
);

/** Shows a tenant that is hidden, and hides one that is shown. */
export function toggle(name: string, isShown: boolean): void {
  asked.value = new Map(asked.value).set(name, !isShown);
}
