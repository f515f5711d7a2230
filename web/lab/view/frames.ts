// Work for the main thread in small parts: drawings share the animation frames, long preparations are cut
// into slices, so that no task holds up the page.

/** What drawings may take of one frame, milliseconds; at least one is done. */
const FRAME_MS = 4;
/** What one slice of a preparation may take, milliseconds. */
const SLICE_MS = 5;

const waiting = new Map<object, () => void>();
let isScheduled = false;

async function drawFrame(): Promise<void> {
  isScheduled = false;
  const began = performance.now();
  for (const [key, draw] of waiting) {
    waiting.delete(key);
    draw();
    await null; // what the drawing itself put off to a microtask belongs to its time
    if (performance.now() - began > FRAME_MS) break;
  }
  schedule();
}

function schedule(): void {
  if (isScheduled || waiting.size === 0) return;
  isScheduled = true;
  requestAnimationFrame(() => void drawFrame());
}

/** Draws in one of the next frames. A newer drawing of the same key takes the older one's place in the line. */
export function drawSoon(key: object, draw: () => void): void {
  waiting.set(key, draw);
  schedule();
}

/** Draws no more. */
export function drawNever(key: object): void {
  waiting.delete(key);
}

/** Runs a preparation to its end, a slice at a time; null: `isStale` said that nobody waits for it any more. */
export async function inSlices<T>(
  steps: Generator<void, T>,
  isStale: () => boolean,
): Promise<T | null> {
  let began = performance.now();
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    if (performance.now() - began > SLICE_MS) {
      await new Promise((resolve) => setTimeout(resolve, 0));
      if (isStale()) return null;
      began = performance.now();
    }
  }
}
