// The setup to take away: as a configuration, as a command, as a link, and the page itself.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { commandOf, fileOf } from "../state/link";
import { yamlOf } from "../state/setup";
import { beside, current } from "../state/store";
import { problemText } from "./controls";
import { lost, writeLink } from "./link";

interface CopyProps {
  id: string;
  title: string;
  button: string;
  text: string;
  note?: string;
  lines?: number;
}

/** Text with a button that copies it. Where copying is refused the text is selected, to be copied by hand. */
function Copy({ id, title, button, text, note, lines = 2 }: CopyProps) {
  const area = useRef<HTMLTextAreaElement>(null);
  const said = useSignal("");
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      said.value = "Copied.";
    } catch {
      area.current?.focus();
      area.current?.select();
      said.value = "The browser does not let the page copy. The text is selected: press Ctrl-C.";
    }
  };
  useEffect(() => {
    said.value = "";
  }, [text]);
  return (
    <section class="take">
      <h3 id={`${id}-title`}>{title}</h3>
      <button type="button" data-control={id} disabled={text === ""} onClick={() => void copy()}>
        {button}
      </button>
      <textarea ref={area} readOnly rows={lines} aria-labelledby={`${id}-title`} data-text={id} value={text} spellcheck={false} />
      <p class="note" role="status">
        {said.value || note}
      </p>
    </section>
  );
}

export function Take() {
  const yaml = useSignal("");
  const link = useSignal("");
  const why = useSignal("");
  const setup = current.value;
  useEffect(() => {
    if (!setup) return;
    void writeLink(setup, beside.value?.of).then((text) => (link.value = text));
    void yamlOf(setup).then((answer) => {
      yaml.value = answer.ok ? answer.text : "";
      why.value = answer.ok ? "" : answer.problems.map(problemText).join("; ");
    });
  }, [setup, beside.value]);
  if (!setup) return null;
  const file = fileOf(setup);
  return (
    <>
        <Copy
          id="copy-yaml"
          title="A configuration for weir serve"
          button="Copy as weir.yaml"
          text={yaml.value}
          lines={9}
          note={why.value || "Only what is not a default. The parts traffic and backend are the lab's: weir serve does not use them. Put your upstream's address in."}
        />
        <Copy
          id="copy-command"
          title="The same run in a terminal"
          button="Copy as command"
          text={commandOf(setup)}
          note={file === "" ? "Prints the same figures, to the last digit." : `With the original file as ${file}, prints the same figures, to the last digit.`}
        />
        {file !== "" && <Copy id="copy-file" title={`The original file, ${file}`} button="Copy the file" text={setup.text.text} lines={4} />}
        <Copy
          id="copy-link"
          title="This page with this setup"
          button="Copy link"
          text={link.value}
          note={lost.value.length > 0 ? `${lost.value.join(" and ")} is too large for a link: whoever opens it is asked for the file.` : "The setup is in the link itself; nothing is kept anywhere else."}
        />
        {location.protocol !== "file:" && (
          <p>
            <a href="weir-lab.html" download data-control="download">
              Download the page
            </a>{" "}
            as one file that works without a network.
          </p>
        )}
    </>
  );
}
