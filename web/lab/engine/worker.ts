// The engine in its worker: it answers one message after the other, in order. What cannot be compiled or
// is a defect of the page's is thrown, and client.ts hears of it.
import { compileLab } from "virtual:lab-wasm";
import { LocalEngine, type YamlReply } from "./engine";
import type { Reply, RunRequest, SetValue, SetupText, TraceText } from "./types";

/** trace: "same": the one that was sent last; it may be long. */
export type Question = { id: number } & (
  | { kind: "run"; request: RunRequest; trace: TraceText | "same" | undefined }
  | { kind: "yaml"; setup: SetupText; sets: readonly SetValue[] }
);
export type Answer = { id: number; reply: Reply | YamlReply } | { id: number; fault: string };

const engine: Promise<LocalEngine> = compileLab().then((compiled) => new LocalEngine(compiled));

let lastTrace: TraceText | undefined;

function answerRun(ready: LocalEngine, request: RunRequest, trace: TraceText | "same" | undefined): Reply {
  if (trace !== "same") lastTrace = trace;
  return ready.run({ ...request, trace: lastTrace });
}

/** Buffers that need not be copied on their way, each once. */
function buffers(reply: Reply | YamlReply): ArrayBuffer[] {
  const found = new Set<ArrayBuffer>();
  const look = (value: unknown): void => {
    if (ArrayBuffer.isView(value)) found.add(value.buffer as ArrayBuffer);
    else if (Array.isArray(value)) value.forEach(look);
    else if (value !== null && typeof value === "object") Object.values(value).forEach(look);
  };
  if ("result" in reply) look(reply.result);
  return [...found];
}

self.addEventListener("message", async (event: MessageEvent<Question>) => {
  const question = event.data;
  try {
    const ready = await engine;
    const reply = question.kind === "run" ? answerRun(ready, question.request, question.trace) : ready.yaml(question.setup, question.sets);
    self.postMessage({ id: question.id, reply } satisfies Answer, { transfer: buffers(reply) });
  } catch (fault) {
    self.postMessage({ id: question.id, fault: fault instanceof Error ? fault.message : String(fault) } satisfies Answer);
  }
});
