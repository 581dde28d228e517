// What the server did lately, read again every few seconds while somebody looks.

import { hashOf } from "./address.js";
import { get, showProblem } from "./api.js";
import { $, badge, card, el, table } from "./dom.js";
import { ms, percent } from "./text.js";

const EVERY = 3000;
const DEGRADED = {
  failed: "a route failed, dense answered instead",
  late: "a route would have been late, dense answered instead",
  arm: "a single arm was requested, and had nothing to search with",
};
let timer = 0;
let isWatching = false;
let shown = "";

export function watch(on) {
  isWatching = on;
  clearTimeout(timer);
  if (on) look();
}

async function look() {
  try {
    const [stats, health] = await Promise.all([get("/v1/stats"), get("/health")]);
    $("live-problem").replaceChildren();
    draw(stats, health.collections ?? []);
  } catch (error) {
    showProblem($("live-problem"), error);
  }
  clearTimeout(timer);
  if (isWatching) timer = setTimeout(look, EVERY);
}

function draw(stats, collections) {
  $("live-now").replaceChildren(traffic(stats), routers(collections));
  // Left as it is while it says the same, or whoever is on a link of it would lose their place.
  const questions = JSON.stringify(stats.questions);
  if (questions !== shown) $("recent").replaceChildren(recent(stats.questions, collections.length > 1));
  shown = questions;
}

// Of money, in whatever currency the arms file has.
function amount(value) {
  return String(Number(value.toPrecision(3)));
}

function traffic(stats) {
  const facts = [
    [stats.answered, "answered since the start"],
    [stats.last_minute, "in the last minute"],
    [stats.queue_depth, "waiting now"],
  ];
  if (stats.spent !== null) facts.push([amount(stats.spent), "spent on remote arms"], [amount(stats.saved), "saved by the router"]);
  if (stats.spent_today !== null) facts.push([amount(stats.spent_today), `spent today, of ${amount(stats.max_cost_per_day)}`]);
  const tiles = facts.map(([value, name]) => el("div", {}, el("strong", {}, String(value)), el("span", { class: "dim" }, name)));
  const rows = Object.entries(stats.routes).map(([route, times]) => [route, percent(times.share), ms(times.p50_ms), ms(times.p95_ms)]);
  const degraded = Object.entries(stats.degraded).map(([kind, number]) => `${number} ${kind}: ${DEGRADED[kind] ?? kind}.`);
  return card(
    "Traffic",
    el("div", { class: "tiles" }, ...tiles),
    ...(stats.remembered
      ? [
          table("routes", ["route", { number: "share" }, { number: "p50" }, { number: "p95" }], rows),
          el("p", { class: degraded.length ? "note" : "dim", id: "degraded-said" }, degraded.join(" ") || "None of these answers was degraded."),
          el("p", { class: "dim" }, `The last ${stats.remembered} answers of this server, process ${stats.worker}.`),
        ]
      : [el("p", {}, "No question yet since the start. ", el("a", { href: "#" }, "Ask a question"), ": its route and its time are shown here.")]),
  );
}

function routers(collections) {
  const rows = collections.map(({ collection, router, thresholds, error }) => [
    collection,
    [thresholds ? `${router}, ${thresholds.low.toFixed(3)} and ${thresholds.high.toFixed(3)}` : "none: name a route, or start with --router", error ? el("p", { class: "note" }, error) : null],
  ]);
  return card("Routers", table("routers", ["collection", "router, thresholds"], rows));
}

function item({ route, question, asked, collection, score, ms: time, degraded }, isNamed) {
  return el(
    "li",
    {},
    badge(route),
    el("a", { class: "title", href: hashOf({ question, route: asked, collection }) }, question),
    isNamed ? el("span", { class: "dim" }, collection) : null,
    el("span", { class: "dim number" }, score === null ? asked : score.toFixed(3)),
    el("span", { class: "dim number" }, ms(time)),
    degraded ? el("span", { class: degraded === "arm" ? "dim" : "note" }, degraded) : null,
  );
}

function recent(questions, isNamed) {
  if (questions === null) {
    const how = "Not recorded: set WYE_SERVE__REQUEST_LOG to a file. If the server needs keys, use one with the scope admin.";
    return card("Recent questions", el("p", { class: "dim" }, how));
  }
  return card(
    "Recent questions",
    questions.length ? null : el("p", { class: "dim" }, "None yet."),
    el("ul", { id: "questions", class: "questions" }, ...questions.map((one) => item(one, isNamed))),
  );
}
