// The scenarios of `weir lab` but the default one: loaded when one is chosen.
import adaptive from "../../../src/cli/scenarios/adaptive.yaml?raw";
import budget from "../../../src/cli/scenarios/budget.yaml?raw";
import failing from "../../../src/cli/scenarios/failing.yaml?raw";
import lanes from "../../../src/cli/scenarios/lanes.yaml?raw";
import noisy from "../../../src/cli/scenarios/noisy.yaml?raw";
import overload from "../../../src/cli/scenarios/overload.yaml?raw";
import requestLimits from "../../../src/cli/scenarios/request-limits.yaml?raw";
import retryStorm from "../../../src/cli/scenarios/retry-storm.yaml?raw";
import tokenLimits from "../../../src/cli/scenarios/token-limits.yaml?raw";

/** Texts by name. */
export const scenarios: Readonly<Record<string, string>> = {
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
