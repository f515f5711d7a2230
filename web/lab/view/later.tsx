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

/** Before a mission's text is asked for. */
export async function loadMissions(): Promise<void> {
  await import("../missions/panel");
}

export const MissionPanel = later(async () => (await import("../missions/panel")).MissionPanel);
export const MissionList = later(async () => (await import("../missions/panel")).MissionList);
export const Compare = later(async () => (await import("./more")).Compare);
export const Take = later(async () => (await import("./more")).Take);
export const Own = later(async () => (await import("./more")).Own);
export const OwnPanels = later(async () => (await import("./more")).OwnPanels);
