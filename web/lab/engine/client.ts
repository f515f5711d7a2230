// The engine as the page has it: a worker that runs one request at a time. Of requests to run that come
// meanwhile only the newest is run. What takes long while something newer waits is ended with its
// worker, and so is a worker that went wrong: the next one starts from nothing, which takes milliseconds.
import type { YamlReply } from "./engine";
import type { Engine, Problem, Reply, RunRequest, SetValue, SetupText, TraceText } from "./types";
import type { Answer, Question } from "./worker";
import LabWorker from "./worker?worker";

/** A question may take so long while a newer one waits. In ms. */
const patience = 1000;

interface Waiting<T> {
  resolve(reply: T): void;
}
type RunWaiting = Waiting<Reply | null> & { request: RunRequest };
type YamlWaiting = Waiting<YamlReply> & { setup: SetupText; sets: readonly SetValue[] };
type Asked = { id: number; began: number } & (({ kind: "run" } & RunWaiting) | ({ kind: "yaml" } & YamlWaiting));

const failed = (text: string): { ok: false; problems: Problem[] } => ({
  ok: false,
  problems: [{ where: "engine", line: 0, column: 0, text, isWarning: false }],
});

class WorkerEngine implements Engine {
  private worker: Worker | null = null;
  private asked: Asked | null = null;
  private newest: RunWaiting | null = null;
  private readonly texts: YamlWaiting[] = [];
  /** The trace that the worker has. */
  private sent: TraceText | undefined;
  private ids = 0;
  private timer = 0;

  run(request: RunRequest): Promise<Reply | null> {
    return new Promise((resolve) => {
      this.newest?.resolve(null);
      this.newest = { request, resolve };
      this.next();
    });
  }

  yaml(setup: SetupText, sets: readonly SetValue[]): Promise<YamlReply> {
    return new Promise((resolve) => {
      this.texts.push({ setup, sets, resolve });
      this.next();
    });
  }

  private drop(): void {
    this.worker?.terminate();
    this.worker = null;
    this.sent = undefined;
  }

  private start(): Worker {
    const worker = new LabWorker();
    worker.addEventListener("message", (event: MessageEvent<Answer>) => this.answer(event.data));
    worker.addEventListener("error", (event) => this.stop(event.message || "the model's worker could not be started"));
    worker.addEventListener("messageerror", () => this.stop("what the model said could not be read"));
    return worker;
  }

  /** Asks the next question, or sees to it that the one being answered is not waited for too long. */
  private next(): void {
    if (this.asked) {
      this.watch();
      return;
    }
    const id = ++this.ids;
    const text = this.texts.shift();
    let question: Question;
    if (text) {
      question = { id, kind: "yaml", setup: text.setup, sets: text.sets };
      this.asked = { id, began: performance.now(), kind: "yaml", ...text };
    } else if (this.newest) {
      const { trace, ...request } = this.newest.request;
      const isSame = trace !== undefined && trace.name === this.sent?.name && trace.text === this.sent.text;
      question = { id, kind: "run", request, trace: isSame ? "same" : trace };
      this.sent = trace;
      this.asked = { id, began: performance.now(), kind: "run", ...this.newest };
      this.newest = null;
    } else {
      return;
    }
    this.worker ??= this.start();
    this.worker.postMessage(question);
    this.watch();
  }

  private answer(answer: Answer): void {
    const asked = this.asked;
    if (!asked || asked.id !== answer.id) return;
    if ("fault" in answer) {
      this.stop(answer.fault);
      return;
    }
    this.asked = null;
    // Of what was asked for by which kind, the reply is of that kind.
    if (asked.kind === "run") asked.resolve(answer.reply as Reply);
    else asked.resolve(answer.reply as YamlReply);
    this.next();
  }

  /** The worker is of no more use: who waits for it is told why, and the next question starts another. */
  private stop(why: string): void {
    this.drop();
    const asked = this.asked;
    this.asked = null;
    asked?.resolve(failed(`the model stopped: ${why}; it was started anew`));
    this.next();
  }

  /** Ends what takes long while something newer waits. A run is not ended for a text: it may well be long, and
   *  its result is wanted. */
  private watch(): void {
    clearTimeout(this.timer);
    const asked = this.asked;
    const isAwaited = (): boolean => this.newest !== null || (asked?.kind === "yaml" && this.texts.length > 0);
    if (!asked || !isAwaited()) return;
    const left = patience - (performance.now() - asked.began);
    this.timer = setTimeout(() => {
      if (this.asked !== asked || !isAwaited()) return;
      if (asked.kind === "yaml") {
        this.stop("reading the setup took too long");
        return;
      }
      this.drop();
      this.asked = null;
      asked.resolve(null);
      this.next();
    }, Math.max(0, left)) as unknown as number;
  }
}

export function startEngine(): Engine {
  return new WorkerEngine();
}
