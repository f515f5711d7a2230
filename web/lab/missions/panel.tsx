// What is told of the mission played, and the list of all.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { JSX } from "preact";
import { figure } from "../view/format";
import { applySolution, begin, giveUp, ids, isHelped, missions, news, played, standing, type Standing } from "./play";
import { shutOutShare, type ConditionState, type Mission, type StarState } from "./missions";
import { isOpen, openAll, progress } from "./progress";
import "./missions.css";

const starsText = (count: number): string => `${count} of 3 stars`;

function Stars({ count }: { count: number }): JSX.Element {
  return (
    <span class="m-stars" role="img" aria-label={starsText(count)}>
      {"★".repeat(count)}
      {"☆".repeat(3 - count)}
    </span>
  );
}

function boundText({ unit, atLeast, atMost }: ConditionState): string {
  const parts = [atLeast === undefined ? "" : `at least ${figure(unit, atLeast)}`, atMost === undefined ? "" : `at most ${figure(unit, atMost)}`];
  return parts.filter((part) => part !== "").join(", ");
}

/** In a word; one that looks the same as its bound is told apart. */
function metText({ unit, now, atLeast, atMost, isMet }: ConditionState): string {
  if (isMet) return "met";
  const isClose = [atLeast, atMost].some((bound) => bound !== undefined && figure(unit, bound) === figure(unit, now));
  return isClose ? "just missed" : "not met";
}

function ConditionLine({ of }: { of: ConditionState }): JSX.Element {
  return (
    <li class={of.isMet ? "m-met" : "m-open"}>
      <span class="m-figure">
        {of.label} <b>{figure(of.unit, of.now)}</b>
      </span>{" "}
      <span class="note">{boundText(of)}</span>{" "}
      <span class="m-state">
        <span aria-hidden="true">{of.isMet ? "✓" : "○"}</span> {metText(of)}
      </span>
    </li>
  );
}

function StarBlock({ star, index, earned }: { star: StarState; index: number; earned: number }): JSX.Element {
  const counts = index < earned;
  const word = !star.isMet ? "not yet" : counts && !isHelped.value ? "earned" : counts || index === 0 ? "met, not counted" : "met, counts with those before";
  return (
    <li class={counts ? "m-star m-star-on" : "m-star"}>
      <p>
        <span class="m-stars" aria-hidden="true">
          {counts ? "★" : "☆"}
        </span>
        {" "}
        {star.text} <span class="note">({word})</span>
      </p>
      <ul>
        {star.conditions.map((each) => (
          <ConditionLine key={each.label} of={each} />
        ))}
      </ul>
    </li>
  );
}

function Rules({ now }: { now: Standing }): JSX.Element | null {
  const said =
    now.outside !== ""
      ? `No star counts while ${now.outside} is changed: traffic and backend are what the mission gives. Undo takes it back.`
      : now.shutOut !== ""
        ? `No star counts while ${now.shutOut} is shut out: less than ${figure("share", shutOutShare)} of its requests are answered.`
        : isHelped.value
          ? "The solution is set. Its stars are not counted: begin again to earn them."
          : "";
  return said === "" ? null : <p class="m-rule">{said}</p>;
}

function Debrief({ mission, next }: { mission: Mission; next: Mission | undefined }): JSX.Element {
  const [file, heading] = mission.docs.split("#");
  return (
    <div class="m-debrief">
      <h3>What happened</h3>
      <p>{mission.debrief}</p>
      <p class="note">
        More in <code>{file}</code>
        {heading && `, "${heading.replaceAll("-", " ")}"`}
      </p>
      {next ? (
        <button type="button" class="main" data-mission-next={next.id} onClick={() => void begin(next.id)}>
          Next mission: {next.title}
        </button>
      ) : (
        <p>That was the last one. Take a setup of your own, or a recording, and see what it says.</p>
      )}
    </div>
  );
}

function Solution({ mission }: { mission: Mission }): JSX.Element {
  return (
    <div>
      <p>These changes earn three stars; the next mission is open now.</p>
      <ul>
        {mission.solution.map((each) => (
          <li key={each}>
            <code>{each}</code>
          </li>
        ))}
      </ul>
      <button type="button" onClick={() => void applySolution(mission)}>
        Set them, without stars
      </button>
    </div>
  );
}

function Played({ mission }: { mission: Mission }): JSX.Element {
  const isGivenUp = useSignal(false);
  const now = standing.value;
  const index = ids.indexOf(mission.id);
  const best = progress.value.stars[mission.id] ?? 0;
  const isWon = (now?.earned ?? 0) > 0 || best > 0;
  return (
    <section class="card m-panel" aria-labelledby="mission-title" data-mission={mission.id} data-stars={now?.earned ?? 0}>
      <header>
        <p class="note">
          Mission {index + 1} of {missions.length}
        </p>
        <h2 id="mission-title">{mission.title}</h2>
        <Stars count={best} />
      </header>
      {mission.story.map((line) => (
        <p key={line}>
          {line}
        </p>
      ))}
      <p>
        <strong>To reach:</strong> {mission.reach}
      </p>
      {now && (
        <ol class="m-goals" aria-label="Stars">
          {now.stars.map((star, at) => (
            <StarBlock key={star.text} star={star} index={at} earned={now.earned} />
          ))}
        </ol>
      )}
      {now && <Rules now={now} />}
      <div class="row">
        <details>
          <summary>Hint</summary>
          <p>{mission.hint}</p>
        </details>
        <button type="button" onClick={() => void begin(mission.id)}>
          Begin again
        </button>
        {!isGivenUp.value && (
          <button
            type="button"
            onClick={() => {
              giveUp(mission);
              isGivenUp.value = true;
            }}
          >
            Show the solution
          </button>
        )}
      </div>
      {isGivenUp.value && <Solution mission={mission} />}
      {(isWon || isGivenUp.value) && <Debrief mission={mission} next={missions[index + 1]} />}
    </section>
  );
}

/** The mission played, with the state of each star; nothing where none is. What is won is said aloud. */
export function MissionPanel(): JSX.Element {
  const mission = played.value;
  useEffect(() => {
    news.value = "";
  }, [mission?.id]);
  return (
    <>
      <p class="hidden-text" role="status" data-mission-news>
        {news.value}
      </p>
      {mission && <Played key={mission.id} mission={mission} />}
    </>
  );
}

/** All missions in their order, with their stars. One that is locked says what opens it. */
export function MissionList(): JSX.Element {
  const isLocked = (index: number): boolean => !isOpen(progress.value, ids, index);
  return (
    <div class="m-list">
      <p>Broken setups to be mended, from one limit to a whole fleet. Each opens with a star in the one before.</p>
      <ol>
        {missions.map((mission, index) => (
          <li key={mission.id}>
            <button
              type="button"
              class="m-choose"
              data-mission-choose={mission.id}
              aria-disabled={isLocked(index)}
              aria-current={played.value?.id === mission.id ? "true" : undefined}
              onClick={(event) => {
                if (isLocked(index)) return;
                event.currentTarget.closest("dialog")?.close(); /* the same mission again, too */
                void begin(mission.id);
              }}
            >
              <span>
                {index + 1}. {mission.title}
              </span>
              {isLocked(index) ? <span class="note">locked</span> : <Stars count={progress.value.stars[mission.id] ?? 0} />}
            </button>
          </li>
        ))}
      </ol>
      {!progress.value.isAllOpen && (
        <button type="button" class="quiet" onClick={openAll}>
          Unlock all (for teachers)
        </button>
      )}
    </div>
  );
}
