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
        <strong>Calculated by a deterministic synthetic model, not measured.</strong> The gateway's own core runs here, compiled to WebAssembly, against modelled tenants and a modelled backend. The same
        setup with the same seed gives the same figures on every machine
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
            <li>What is sent depends on the seed only: every change replays the same requests, in the same moments, of the same sizes.</li>
            <li>
              A replica works on 48 requests at once. A step takes 6 ms and 0.25 ms more for each, and makes a token of each: 2,667 a second when full. A prompt token is a tenth of a step's work. A setup
              may say otherwise.{fleet && ` Here: ${fleet} (replicas × requests at once).`}
            </li>
            <li>A request goes to the replica with the fewest and joins at its next step.</li>
            <li>The gateway takes no time itself. It estimates prompts from their text, 4.4 bytes a token, and learns the output when it is over.</li>
            <li>A token limit holds prompt and output limit, and gives back what was not used. Fairness counts an input token as 1, an output token as 2.</li>
            <li>Percentiles are exact to 3.2 %, always on the upper side.</li>
          </ul>
        </div>
        <div>
          <h3>What it cannot tell</h3>
          <ul>
            <li>The network and the machine: no bandwidth, no TLS, no pauses, no slow client.</li>
            <li>Engines that stop decoding for a long prompt, or evict when memory runs out: here prefill is shared evenly, and memory is taken at once.</li>
            <li>Prefixes are not cached, but for those that a trace tells of.</li>
            <li>All replicas are alike, and one queue stands before them.</li>
            <li>Sizes are drawn independently of each other and of the hour. A trace is better than any distribution.</li>
            <li>What people do next: who was refused may come back tomorrow or never.</li>
          </ul>
          <p>In full, with every constant's source: docs/lab.md. What is fair: docs/fairness.md.</p>
        </div>
      </div>
    </section>
  );
}
