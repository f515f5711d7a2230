// Small lines without axes: those of the tiles, and of two setups side by side.

const WIDTH = 120;
const HEIGHT = 22;

/** Highest value of each of at most `most` equal parts of a time; NaN: a part has none. */
export function thin(values: ArrayLike<number>, bin: number, until: number, most: number): number[] {
  const parts = Math.max(1, Math.min(most, Math.ceil(until / bin)));
  const points = new Array<number>(parts).fill(NaN);
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    const part = Math.min(parts - 1, Math.floor((((i + 0.5) * bin) / until) * parts));
    if (!Number.isNaN(value)) points[part] = Math.max(points[part] || 0, value);
  }
  return points;
}

/** The points as a path of a box, from 0 at its foot to `top` near its upper edge. */
export function path(points: readonly number[], top: number, width: number, height: number): string {
  let d = "";
  points.forEach((value, i) => {
    if (Number.isNaN(value)) return;
    const x = ((i + 0.5) / points.length) * width;
    d += `${d ? "L" : "M"}${x.toFixed(1)} ${(height - 1 - (value / top) * (height - 3)).toFixed(1)}`;
  });
  return d;
}

export const peak = (points: readonly number[]): number =>
  points.reduce((most, value) => (value > most ? value : most), 0);

/** A line the size of a word: how a figure went over the run, and before the last change. */
export function Spark({ values, before }: { values: ArrayLike<number>; before: ArrayLike<number> | null }) {
  const [now, then] = [values, before ?? []].map((all) => thin(all, 1, all.length, 60)) as [number[], number[]];
  const top = Math.max(peak(now), peak(then)) || 1;
  return (
    <svg class="v-spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      <path class="v-then" d={path(then, top, WIDTH, HEIGHT)} />
      <path d={path(now, top, WIDTH, HEIGHT)} />
    </svg>
  );
}
