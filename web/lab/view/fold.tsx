// A part that is shown when its heading is pressed, and costs nothing until then.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";

interface FoldProps {
  title: string;
  kind?: string;
  isOpen?: boolean;
  children: ComponentChildren;
}

export function Fold({ title, kind = "group", isOpen = false, children }: FoldProps) {
  const open = useSignal(isOpen);
  return (
    <details class={kind} open={open.value} onToggle={(event) => (open.value = event.currentTarget.open)}>
      <summary>
        <h3>{title}</h3>
      </summary>
      {open.value && children}
    </details>
  );
}
