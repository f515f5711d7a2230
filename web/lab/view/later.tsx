// Parts that are loaded when they are first shown, so that the page opens with what everybody sees.
import { useSignal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";

function later(load: () => Promise<ComponentType>): ComponentType {
  return () => {
    const part = useSignal<{ Part: ComponentType } | null>(null);
    const isLost = useSignal(false);
    useEffect(() => {
      load().then(
        (Part) => (part.value = { Part }),
        () => (isLost.value = true),
      );
    }, []);
    if (isLost.value) return <p class="problem">This part could not be loaded. Is the gateway that serves this page still running?</p>;
    return part.value ? <part.value.Part /> : null;
  };
}

/* The missions land on their own; until then there are none. */
const missions = import.meta.glob<Record<string, ComponentType>>("../missions/panel.tsx")["../missions/panel.tsx"];
const none: ComponentType = () => <p>There are no missions in this build.</p>;
const mission = async (name: string): Promise<ComponentType> => (await missions?.())?.[name] ?? none;

/** Before a mission's text is asked for. */
export async function loadMissions(): Promise<void> {
  await missions?.();
}

export const MissionPanel = later(() => mission("MissionPanel"));
export const MissionList = later(() => mission("MissionList"));
export const Compare = later(async () => (await import("./compare")).Compare);
export const Take = later(async () => (await import("./export")).Take);
export const Own = later(async () => (await import("./own")).Own);
export const OwnPanels = later(async () => (await import("./own")).OwnPanels);
