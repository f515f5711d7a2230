// Where a file can be dropped: anywhere. What is done with it is loaded then.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { problems, run } from "../state/store";
import { Fold } from "./fold";
import { Own, OwnPanels } from "./later";

const isOver = signal(false);
/** A file was dropped or chosen: it may have something to ask. */
export const hasFiles = signal(false);

function take(files: File[]): void {
  import("./more").then(
    (more) => more.takeFiles(files),
    () => (problems.value = [{ where: files[0]?.name ?? "file", line: 0, column: 0, text: "could not be read: a part of this page could not be loaded; is its gateway still running?", isWarning: false }]),
  );
}

export function OwnFiles() {
  return (
    <Fold title="Your own setup or traffic">
      <Own />
    </Fold>
  );
}

/** Takes what is dropped anywhere on the page. */
export function DropZone() {
  useEffect(() => {
    let depth = 0;
    const isOfFiles = (event: DragEvent): boolean => event.dataTransfer?.types.includes("Files") ?? false;
    const enter = (event: DragEvent): void => {
      if (!isOfFiles(event)) return;
      event.preventDefault();
      depth++;
      isOver.value = true;
    };
    const over = (event: DragEvent): void => {
      if (isOfFiles(event)) event.preventDefault();
    };
    const leave = (): void => {
      depth = Math.max(0, depth - 1);
      if (depth === 0) isOver.value = false;
    };
    const drop = (event: DragEvent): void => {
      if (!isOfFiles(event)) return;
      event.preventDefault();
      depth = 0;
      isOver.value = false;
      take([...(event.dataTransfer?.files ?? [])]);
    };
    addEventListener("dragenter", enter);
    addEventListener("dragover", over);
    addEventListener("dragleave", leave);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragenter", enter);
      removeEventListener("dragover", over);
      removeEventListener("dragleave", leave);
      removeEventListener("drop", drop);
    };
  }, []);
  return (
    <>
      {isOver.value && <div class="drop-here">Drop a configuration or a trace</div>}
      {(hasFiles.value || run.value?.of.trace) && <OwnPanels />}
    </>
  );
}
