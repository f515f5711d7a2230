// A line the size of a word: how a figure went over the run, and before the last change.

const WIDTH = 120;
const HEIGHT = 22;
const POINTS = 60;

/** Largest value of each of at most 60 equal parts. */
function thin(values: ArrayLike<number>): number[] {
  const each = Math.max(1, Math.ceil(values.length / POINTS));
  const points: number[] = [];
  for (let from = 0; from < values.length; from += each) {
    let most = 0;
    for (let i = from; i < Math.min(from + each, values.length); i++) most = Math.max(most, values[i] || 0);
    points.push(most);
  }
  return points;
}

function path(points: readonly number[], top: number): string {
  const step = WIDTH / Math.max(1, points.length - 1);
  return points
    .map((value, i) => `${i ? "L" : "M"}${(i * step).toFixed(1)} ${(HEIGHT - 1 - (value / top) * (HEIGHT - 3)).toFixed(1)}`)
    .join("");
}

export function Spark({ values, before }: { values: ArrayLike<number>; before: ArrayLike<number> | null }) {
  const now = thin(values);
  const then = before ? thin(before) : [];
  const top = Math.max(...now, ...then, 1e-9);
  return (
    <svg class="v-spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      {then.length > 0 && <path class="v-then" d={path(then, top)} />}
      <path d={path(now, top)} />
    </svg>
  );
}
