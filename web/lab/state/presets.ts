// The scenarios of `weir lab`, from their own files.
import adaptive from "../../../src/cli/scenarios/adaptive.yaml?raw";
import budget from "../../../src/cli/scenarios/budget.yaml?raw";
import usual from "../../../src/cli/scenarios/default.yaml?raw";
import failing from "../../../src/cli/scenarios/failing.yaml?raw";
import lanes from "../../../src/cli/scenarios/lanes.yaml?raw";
import noisy from "../../../src/cli/scenarios/noisy.yaml?raw";
import overload from "../../../src/cli/scenarios/overload.yaml?raw";
import requestLimits from "../../../src/cli/scenarios/request-limits.yaml?raw";
import retryStorm from "../../../src/cli/scenarios/retry-storm.yaml?raw";
import tokenLimits from "../../../src/cli/scenarios/token-limits.yaml?raw";

export interface Preset {
  name: string;
  text: string;
  /** The comment that the file begins with. */
  about: string;
}

/** What a configuration says of itself: its first comment line. */
export function aboutOf(text: string): string {
  return /^#\s*(.*)/.exec(text)?.[1] ?? "";
}

const texts: Record<string, string> = {
  default: usual,
  adaptive,
  budget,
  failing,
  lanes,
  noisy,
  overload,
  "request-limits": requestLimits,
  "retry-storm": retryStorm,
  "token-limits": tokenLimits,
};

/** The default first, else by name. */
export const presets: readonly Preset[] = Object.entries(texts).map(([name, text]) => ({ name, text, about: aboutOf(text) }));

export const findPreset = (name: string): Preset | undefined => presets.find((preset) => preset.name === name);
