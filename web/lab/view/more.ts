// What is used now and then, loaded together.
export { Compare } from "./compare";
export { Take } from "./export";
export { Own, OwnPanels, takeFiles } from "./own";
