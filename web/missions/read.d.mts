import type { MissionFile } from "../lab/missions/missions";

export function missionFiles(): string[];
export function readMission(file: string): MissionFile;
export function readMissions(): MissionFile[];
