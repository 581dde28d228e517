// The score on its scale, with both thresholds and the route of each part.

import { card, el, svg } from "./dom.js";

const WIDTH = 400;
const X = (score) => 10 + score * (WIDTH - 20);

// [route, what it takes], for the parts of the scale; a route that no score reaches is said so.
function zones({ low, high }, simple) {
  const at = (value) => value.toFixed(3);
  return [
    [simple, 0, low, low > 0 ? `scores up to ${at(low)}` : "no score is so low"],
    ["fusion", low, high, high > low ? `scores between ${at(low)} and ${at(high)}` : "no score, both thresholds are equal"],
    ["graph", high, 1, high < 1 ? `scores from ${at(high)} on` : "no score reaches 1"],
  ];
}

function part([route, from, to, says]) {
  if (to <= from) return null;
  const label = (to - from) * WIDTH > 44 ? route : "";
  return svg(
    "g",
    {},
    svg("title", {}, `${route}: ${says}`),
    svg("rect", { x: X(from), y: 34, width: X(to) - X(from), height: 14, class: `fill ${route}` }),
    svg("text", { x: (X(from) + X(to)) / 2, y: 64, class: "tick middle" }, label),
  );
}

function threshold(value, anchor) {
  const end = value > 0.94 ? "end" : value < 0.06 ? "start" : anchor;
  return svg(
    "g",
    {},
    svg("line", { x1: X(value), x2: X(value), y1: 28, y2: 54, class: "mark" }),
    svg("text", { x: X(value), y: 82, class: `tick ${end}` }, value.toFixed(3)),
  );
}

function gauge(score, { low, high }, parts) {
  const near = high - low < 0.14;
  return svg(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} 88`,
      role: "img",
      class: "gauge",
      "aria-label": `Score ${score.toFixed(3)} from 0 to 1. ${parts.map(([route, , , says]) => `${route}: ${says}`).join("; ")}.`,
    },
    ...parts.map(part),
    threshold(low, near ? "end" : "middle"),
    high === low ? null : threshold(high, near ? "start" : "middle"),
    svg("path", { d: `M${X(score)} 34l-7 -11h14z`, class: "needle" }),
    svg("text", { x: Math.min(Math.max(X(score), 26), WIDTH - 26), y: 17, class: "score middle" }, score.toFixed(3)),
  );
}

function changeInWords(change) {
  if (!change) return "No other score would change the route.";
  const direction = change.score > 0 ? "higher" : "lower";
  return (
    `A score ${Math.abs(change.score).toFixed(3)} ${direction}, at ` +
    `${change.threshold.toFixed(3)}, would make it ${change.route}.`
  );
}

// The route that was taken, and what the router made of the question if it was asked.
export function routeCard(route, opinion, why) {
  const scored = route.score === null ? opinion : route;
  const notes = [];
  if (scored && scored.score !== null && scored.thresholds) {
    const parts = zones(scored.thresholds, scored.simple ?? "simple");
    if (scored !== route) notes.push(el("p", {}, `The router would have taken ${scored.path}. ${scored.summary}`));
    notes.push(
      gauge(scored.score, scored.thresholds, parts),
      el("ul", { class: "legend" }, ...parts.map(([name, , , says]) => el("li", {}, el("i", { class: `fill ${name}` }), `${name}: ${says}`))),
      el("p", { id: "change" }, changeInWords(scored.nearest_change)),
      el("p", { class: "dim" }, `Model ${scored.model}`),
    );
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
    route.summary ? el("p", { id: "summary" }, route.summary) : null,
    ...notes,
  );
}
