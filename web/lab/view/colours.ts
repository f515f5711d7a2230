// Colours for what is drawn on a canvas, where light-dark() and var() mean nothing: a probe element is given the
// custom property, and the colour that the browser computes is read.
import { signal } from "@preact/signals";

const names = ["ink", "ink-2", "paper", "card", "line", "accent", "good", "bad", "warn"] as const;
export const TENANT_COLOURS = 10;

export interface Colours extends Record<(typeof names)[number], string> {
  tenants: string[];
}

function readColours(): Colours {
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);
  const read = (name: string) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const all = Object.fromEntries(names.map((name) => [name, read(name)])) as Record<
    (typeof names)[number],
    string
  >;
  const tenants = Array.from({ length: TENANT_COLOURS }, (_, i) => read(`t${i}`));
  probe.remove();
  return { ...all, tenants };
}

/** The palette in force. Changes with the scheme; null until the page stands. */
export const colours = signal<Colours | null>(null);

/** Reads the palette, and again whenever light turns to dark. Once, when the page stands. */
export function watchColours(): void {
  if (colours.value) return;
  colours.value = readColours();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    colours.value = readColours();
  });
}

/** The tenant's colour as a value of CSS; tenants from the eleventh on share the ten. */
export function tenantColour(tenant: number): string {
  return `var(--t${tenant % TENANT_COLOURS})`;
}
