// The page's state as one module, so that its parts share their signals in a test.
export * from "../lab/state/control";
export * from "../lab/state/controls";
export * from "../lab/state/limit_controls";
export * from "../lab/state/drop";
export * from "../lab/state/held";
export * from "../lab/state/history";
export * from "../lab/state/link";
export * from "../lab/state/presets";
export * from "../lab/state/setup";
export * from "../lab/state/store";
export * from "../lab/state/units";
