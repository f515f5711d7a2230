// What the figures are, what the model assumes, and what it cannot tell: docs/lab.md in short.
import { run } from "../state/store";
import { count } from "./format";

export function About() {
  const shown = run.value;
  const fleet = shown?.setup.upstreams.map((each) => `${each.name}: ${count(each.replicas)} × ${count(each.sequences)}`).join(", ");
  return (
    <section class="card about" aria-labelledby="about-title">
      <h2 id="about-title">What these figures are</h2>
      <p>
        <strong>Calculated by a deterministic synthetic model, not measured.</strong> The page runs the gateway's own core (buckets, queue, lanes, order of service, permits, breaker, budgets), compiled
        to WebAssembly, against modelled tenants and a modelled backend. The same setup with the same seed gives the same figures on every machine
        {shown && (
          <>
            ; this run's hash is <code>{shown.result.hash}</code>, as in <code>weir lab --json</code>
          </>
        )}
        . Use it to compare setups, not to promise milliseconds.
      </p>
      <div class="columns">
        <div>
          <h3>What the model assumes</h3>
          <ul>
            <li>Each tenant sends by itself, at random unless it says otherwise. What is sent depends on the seed only: every change replays the same requests, in the same moments, of the same sizes.</li>
            <li>
              A replica works on up to 48 requests at once. A step takes 6 ms and 0.25 ms more for each, and makes one token of each: 18 ms when full, 2,667 tokens a second. A prompt token is a tenth of a
              step's work. A setup may say otherwise.{fleet && ` Here: ${fleet} (replicas × requests at once).`}
            </li>
            <li>A request goes to the replica with the fewest and joins at its next step.</li>
            <li>The gateway takes no time itself. It estimates prompts from their text, 4.4 bytes a token, and learns the output when it is over.</li>
            <li>A token limit holds a request's prompt and output limit, and gives back what was not used. Fairness counts an input token as 1 and an output token as 2.</li>
            <li>Clients that retry as SDKs do try twice more after 408, 409, 429 and 5xx, when the hint says, or after 0.5 s doubled each time.</li>
            <li>Percentiles are exact to 3.2 %, always on the upper side.</li>
          </ul>
        </div>
        <div>
          <h3>What it cannot tell</h3>
          <ul>
            <li>The network and the machine: no bandwidth, no TLS, no pauses, no slow client.</li>
            <li>Engines that stop all decoding for a long prompt have higher waits between tokens; here prefill is shared evenly.</li>
            <li>Engines take memory for a request as they go and evict when it runs out; here it is taken at once, where a bound is set at all.</li>
            <li>Prefixes are not cached, but for those that a trace tells of.</li>
            <li>All replicas are alike, and one queue stands before them.</li>
            <li>Sizes of prompt and output are drawn independently of each other and of the hour. A trace is better than any distribution.</li>
            <li>What people do next: who was refused may come back tomorrow or never.</li>
          </ul>
          <p>In full, with the source of every constant: docs/lab.md. What is fair, and how the gap is bounded: docs/fairness.md.</p>
        </div>
      </div>
    </section>
  );
}
