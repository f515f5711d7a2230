// Files of one's own: dropped anywhere, chosen, or asked of the gateway that serves the page. Loaded with the first.
import { signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Problem, SetupText, TraceText } from "../engine/types";
import { fetchServed, hasTraffic, offerTraffic, readDropped, type Offer } from "../state/drop";
import { load } from "../state/setup";
import { current, problems, run } from "../state/store";
import { hasFiles } from "./drop";

const offer = signal<Offer | null>(null);

const isServed = (): boolean => location.protocol !== "file:";

async function takeConfig(text: SetupText, origin: string): Promise<void> {
  hasFiles.value = true;
  const trace = current.value?.trace ?? null;
  const setup = { origin, text, sets: [], seed: current.value?.seed ?? 1, trace };
  offer.value = null;
  if (trace || hasTraffic(text.text)) return load(setup);
  const found = await offerTraffic(setup);
  if ("setup" in found) offer.value = found;
  else problems.value = found;
}

/** A trace is sent through what is set: that of a configuration that waits for traffic, or the current one. */
async function takeTrace(trace: TraceText): Promise<void> {
  const base = offer.value ? { ...offer.value.setup, text: { ...offer.value.setup.text, text: withoutAdded(offer.value) }, sets: [] } : current.value;
  if (!base) return;
  offer.value = null;
  await load({ ...base, trace }, trace.name);
}

const withoutAdded = (made: Offer): string => made.setup.text.text.replace(made.added, "");

export async function takeFiles(files: Iterable<File>): Promise<void> {
  const said: Problem[] = [];
  const read = await Promise.all([...files].slice(0, 4).map(readDropped));
  /* Of a configuration and a trace dropped together the trace is of the configuration. */
  read.sort((a, b) => a.kind.localeCompare(b.kind));
  for (const each of read) {
    if (each.kind === "config") await takeConfig(each.text, `file:${each.text.name}`);
    else if (each.kind === "trace") await takeTrace(each.trace);
    else said.push(each.problem);
  }
  if (said.length > 0) problems.value = said;
}

/** Goes on without the trace. */
function dropTrace(): void {
  const setup = current.value;
  if (setup) void load({ ...setup, trace: null }, "without the trace");
}

function OfferPanel() {
  const made = offer.value;
  const section = useRef<HTMLElement>(null);
  /* Who hears the page, or has it by keys, is led to what is asked. */
  useEffect(() => section.current?.focus(), [made]);
  if (!made) return null;
  const { name } = made.setup.text;
  return (
    <section ref={section} tabIndex={-1} class="card offer" aria-label="Traffic for the configuration">
      <h2>{name} does not say who sends what</h2>
      <p>
        A gateway's configuration has no traffic. To try it, this can be added for {made.tenants.join(", ")}: one request a second each, at random, of 300 to 1,500 prompt tokens and 100 to 400 of
        output. Or drop a recording or another trace, and that is sent.
      </p>
      <pre tabIndex={0}>{made.added}</pre>
      <div class="row">
        <button
          type="button"
          class="main"
          onClick={() => {
            offer.value = null;
            void load(made.setup);
          }}
        >
          Add this traffic
        </button>
        <FileButton label="Choose a trace…" />
        <button type="button" onClick={() => (offer.value = null)}>
          Leave it
        </button>
      </div>
    </section>
  );
}

function FileButton({ label }: { label: string }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" onClick={() => input.current?.click()}>
        {label}
      </button>
      <input
        ref={input}
        type="file"
        hidden
        multiple
        data-control="file"
        accept=".yaml,.yml,.csv,.gz,.json,text/*"
        onChange={(event) => {
          const files = [...(event.currentTarget.files ?? [])];
          event.currentTarget.value = "";
          void takeFiles(files);
        }}
      />
    </>
  );
}

function ServedForm() {
  const token = useRef<HTMLInputElement>(null);
  const why = useSignal("");
  if (!isServed()) return null;
  return (
    <form
      class="served"
      onSubmit={async (event) => {
        event.preventDefault();
        const answer = await fetchServed(token.current?.value ?? "");
        why.value = answer.ok ? "" : answer.why;
        if (answer.ok) await takeConfig(answer.text, "served");
      }}
    >
      <label>
        Admin token
        <input ref={token} type="password" autocomplete="off" required data-control="token" />
      </label>
      <button type="submit">Use this gateway's configuration</button>
      <p class="problem" role="alert">
        {why}
      </p>
      <p class="note">The token is sent to this gateway only and is not kept. It is in the file admin.token of the state directory.</p>
    </form>
  );
}

/** What the model leaves out, beside what really happened. */
function TraceNote() {
  const shown = run.value;
  if (!shown?.of.trace) return null;
  const of = shown.result.tenants.filter((tenant) => tenant.recorded).length;
  return (
    <div class="card note-card">
      <p>
        <strong>{shown.of.trace.name}</strong> is what is sent: its arrivals, tenants and lengths.{" "}
        {of > 0
          ? "Figures marked as recorded are what really happened; the others are calculated for the setup on this page. They differ by the model too: its replicas and step times are not yours until you set them, it has no network, and it does not know who came back after a refusal."
          : "Tenants keep the settings of those of the same name here; the others have the defaults."}
      </p>
      <button type="button" onClick={dropTrace}>
        Back to drawn traffic
      </button>
    </div>
  );
}

/** In the column of controls. */
export function Own() {
  return (
    <>
      <p class="note">Drop a file anywhere on the page: a gateway's configuration (weir.yaml), or a recording or another trace (CSV, also as .gz). It stays in this browser.</p>
      <FileButton label="Open a file…" />
      <ServedForm />
    </>
  );
}

/** Above the results. */
export function OwnPanels() {
  return (
    <>
      <OfferPanel />
      <TraceNote />
    </>
  );
}
