// Begins the page: draws it, starts the engine, and opens what the address says.
import { effect } from "@preact/signals";
import { render } from "preact";
import type { Engine } from "./engine/types";
import { connect } from "./state/setup";
import { isRunning, run } from "./state/store";
import "./style.css";
import { followLink } from "./view/link";
import { Shell } from "./view/shell";

/* The engine lands on its own; until then the page says that it is not there. */
const clients = import.meta.glob<{ startEngine: () => Engine }>("./engine/client.ts", { eager: true });

const page = document.getElementById("page");
if (page) {
  /* What tests wait for. */
  effect(() => {
    page.dataset["running"] = String(isRunning.value);
    page.dataset["hash"] = run.value?.result.hash ?? "";
  });
  render(<Shell />, page);
  try {
    const client = clients["./engine/client.ts"];
    if (!client) throw new Error("the engine is not built in");
    connect(client.startEngine());
    void followLink();
  } catch (reason) {
    page.dataset["error"] = reason instanceof Error ? reason.message : String(reason);
  }
}
