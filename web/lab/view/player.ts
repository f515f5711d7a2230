// The moment of the run that is shown: moved by hand or played.
import { computed, effect, signal } from "@preact/signals";
import { isPlaying, moment, run } from "../state/store";

/** What stands in words beside the picture changes this often at most, milliseconds. */
const WORDS_MS = 250;
/** With reduced motion the picture steps, this often a second. */
const STEPS_PER_SECOND = 1;

/** Seconds of the run in a second. */
export const speed = signal<number>(1);

/** The end of what there is to see, seconds. */
export const lastMoment = computed(() =>
  run.value ? Math.max(run.value.result.end, run.value.setup.time) : 0,
);

/** Goes to a moment of the run; by hand, so that playing ends. */
export function goTo(at: number): void {
  isPlaying.value = false;
  moment.value = Math.min(Math.max(0, at), lastMoment.value);
}

export const wantsStillness = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Moves the moment while the run is played. */
export function play(): () => void {
  let frame = 0;
  const stop = effect(() => {
    cancelAnimationFrame(frame);
    if (!isPlaying.value) return;
    if (moment.peek() >= lastMoment.peek()) moment.value = 0;
    let before = performance.now();
    const step = (now: number) => {
      const passed = Math.max(0, now - before) / 1000;
      if (!wantsStillness() || passed >= 1 / STEPS_PER_SECOND) {
        before = now;
        moment.value = Math.min(lastMoment.peek(), moment.peek() + Math.min(passed, 1) * speed.peek());
      }
      if (moment.peek() >= lastMoment.peek()) isPlaying.value = false;
      else if (isPlaying.peek()) frame = requestAnimationFrame(step);
    };
    frame = requestAnimationFrame(step);
  });
  return () => {
    cancelAnimationFrame(frame);
    stop();
  };
}

/** The moment, as often as words can follow it. */
export const told = signal(0);
export function tell(): () => void {
  let timer = 0;
  const stop = effect(() => {
    const at = moment.value;
    if (!isPlaying.value) {
      clearTimeout(timer);
      timer = 0;
      told.value = at;
    } else if (!timer) {
      timer = window.setTimeout(() => {
        timer = 0;
        told.value = moment.peek();
      }, WORDS_MS);
    }
  });
  return () => {
    clearTimeout(timer);
    stop();
  };
}
