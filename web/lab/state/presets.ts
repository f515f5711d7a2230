// The scenarios of `weir lab`, from their own files.
import usual from "../../../src/cli/scenarios/default.yaml?raw";

/** The default first, else by name. */
export const presetNames: readonly string[] = [
  "default",
  "adaptive",
  "budget",
  "failing",
  "lanes",
  "noisy",
  "overload",
  "request-limits",
  "retry-storm",
  "token-limits",
];

/** What a configuration says of itself: its first comment line. */
export function aboutOf(text: string): string {
  return /^#\s*(.*)/.exec(text)?.[1] ?? "";
}

/** undefined: there is none of that name. */
export async function presetText(name: string): Promise<string | undefined> {
  if (name === "default") return usual;
  return presetNames.includes(name) ? (await import("./scenarios")).scenarios[name] : undefined;
}
