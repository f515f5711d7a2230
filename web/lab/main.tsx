// Begins the page: draws it, starts the engine, and opens what the address says.
import { effect } from "@preact/signals";
import { render } from "preact";
import { startEngine } from "./engine/client";
import { commandOf } from "./state/link";
import { connect } from "./state/setup";
import { isRunning, run } from "./state/store";
import "./style.css";
import { followLink } from "./view/link";
import { Shell } from "./view/shell";

const page = document.getElementById("page");
if (page) {
  /* What tests wait for and compare: the run that is shown, and the command that makes the same. */
  effect(() => {
    page.dataset["running"] = String(isRunning.value);
    page.dataset["hash"] = run.value?.result.hash ?? "";
    page.dataset["command"] = run.value ? commandOf(run.value.of) : "";
    page.dataset["took"] = String(run.value?.result.took ?? "");
  });
  render(<Shell />, page);
  try {
    connect(startEngine());
    void followLink();
  } catch (reason) {
    page.dataset["error"] = reason instanceof Error ? reason.message : String(reason);
  }
}
