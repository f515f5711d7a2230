// Parts of the page that are made elsewhere; one that is not there yet shows nothing.
import type { ComponentType } from "preact";

const files = import.meta.glob<Record<string, ComponentType>>(["./tiles.tsx", "./queue.tsx", "./charts.tsx", "./compare.tsx", "../missions/panel.tsx"], { eager: true });
const none: ComponentType = () => null;
const part = (path: string, name: string): ComponentType => files[path]?.[name] ?? none;

export const Tiles = part("./tiles.tsx", "Tiles");
export const Queue = part("./queue.tsx", "Queue");
export const Charts = part("./charts.tsx", "Charts");
export const Compare = part("./compare.tsx", "Compare");
export const MissionPanel = part("../missions/panel.tsx", "MissionPanel");
export const MissionList = part("../missions/panel.tsx", "MissionList");
