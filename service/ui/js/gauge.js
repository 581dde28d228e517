// The score on its scale, with both thresholds and the route of each part.

import { card, el, svg } from "./dom.js";

const WIDTH = 400;
const X = (score) => 10 + score * (WIDTH - 20);

function part(from, to, route) {
  if (to <= from) return null;
  const label = (to - from) * WIDTH > 44 ? route : "";
  return svg(
    "g",
    {},
    svg("rect", { x: X(from), y: 34, width: X(to) - X(from), height: 14, class: `fill ${route}` }),
    svg("text", { x: (X(from) + X(to)) / 2, y: 64, class: "tick middle" }, label),
  );
}

function threshold(value, anchor) {
  return svg(
    "g",
    {},
    svg("line", { x1: X(value), x2: X(value), y1: 28, y2: 54, class: "mark" }),
    svg("text", { x: X(value), y: 82, class: `tick ${anchor}` }, value.toFixed(3)),
  );
}

export function gauge(score, { low, high }, simple) {
  const near = high - low < 0.14;
  return svg(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} 88`,
      role: "img",
      class: "gauge",
      "aria-label":
        `Score ${score.toFixed(3)} from 0 to 1. Up to ${low.toFixed(3)} it is ${simple}, ` +
        `from ${high.toFixed(3)} on graph, fusion between.`,
    },
    part(0, low, simple),
    part(low, high, "fusion"),
    part(high, 1, "graph"),
    threshold(low, near ? "end" : "middle"),
    high === low ? null : threshold(high, near ? "start" : "middle"),
    svg("path", { d: `M${X(score)} 34l-7 -11h14z`, class: "needle" }),
    svg("text", { x: Math.min(Math.max(X(score), 26), WIDTH - 26), y: 17, class: "score middle" }, score.toFixed(3)),
  );
}

export function changeInWords(change) {
  if (!change) return "No other score would change the route.";
  const direction = change.score > 0 ? "higher" : "lower";
  return (
    `A score ${Math.abs(change.score).toFixed(3)} ${direction}, at ` +
    `${change.threshold.toFixed(3)}, would make it ${change.route}.`
  );
}

// Thresholds do not tell which route is the simple one, but it may be this one or the nearest.
function simpleRoute(route) {
  if (route.score <= route.thresholds.low && route.reason === "score") return route.path;
  const near = route.nearest_change?.route ?? "graph";
  return ["graph", "fusion"].includes(near) ? "simple" : near;
}

// The route that was taken, and what the router made of the question if it was asked.
export function routeCard(route, opinion, why) {
  const scored = route.score === null ? opinion : route;
  const notes = [];
  if (scored && scored.score !== null && scored.thresholds) {
    notes.push(gauge(scored.score, scored.thresholds, simpleRoute(scored)));
    notes.push(el("p", { id: "change" }, changeInWords(scored.nearest_change)));
    if (scored !== route) notes.unshift(el("p", {}, `The router would have taken ${scored.path}.`));
    notes.push(el("p", { class: "dim" }, `Model ${scored.model}`));
  } else if (why) notes.push(el("p", { class: "dim" }, `No score: ${why}`));
  return card(
    "Route",
    el(
      "p",
      { class: "headline" },
      el("strong", { id: "path", class: `badge ${route.path}` }, route.path),
      " ",
      el("span", { class: "dim" }, route.reason === "score" ? "by its score" : route.reason),
    ),
    ...notes,
  );
}
