// Scores from 0 to 1 in twenty bars, each in the colour of the route it would take.

import { svg } from "./dom.js";
import { routeOf } from "./thresholds.js";

const BINS = 20;
const WIDTH = 400;
const HEIGHT = 110;

export function histogram(scores, thresholds) {
  const counts = new Array(BINS).fill(0);
  for (const score of scores) counts[Math.min(BINS - 1, Math.floor(score * BINS))] += 1;
  const most = Math.max(1, ...counts);
  const wide = WIDTH / BINS;
  const bars = counts.map((count, bin) => {
    const tall = (count / most) * HEIGHT;
    return svg(
      "rect",
      { x: bin * wide + 1, y: HEIGHT - tall, width: wide - 2, height: tall, class: `fill ${routeOf((bin + 0.5) / BINS, thresholds)}` },
      svg("title", {}, `${(bin / BINS).toFixed(2)} to ${((bin + 1) / BINS).toFixed(2)}: ${count}`),
    );
  });
  const lines = [thresholds.low, thresholds.high].map((value) =>
    svg("line", { x1: value * WIDTH, x2: value * WIDTH, y1: 0, y2: HEIGHT, class: "mark" }),
  );
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((value) =>
    svg("text", { x: value * WIDTH, y: HEIGHT + 16, class: `tick ${value === 0 ? "start" : value === 1 ? "end" : "middle"}` }, String(value)),
  );
  return svg(
    "svg",
    { viewBox: `0 -4 ${WIDTH} ${HEIGHT + 24}`, class: "histogram", role: "img", "aria-label": `Histogram of ${scores.length} scores` },
    ...bars,
    svg("line", { x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT, class: "axis" }),
    ...lines,
    ...ticks,
  );
}
