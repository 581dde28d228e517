// The second view: what the server did lately, asked again every few seconds while it is looked at.

import { hashOf } from "./address.js";
import { get } from "./api.js";
import { $, badge, card, el, headed, wide } from "./dom.js";
import { amount, ms, percent } from "./format.js";
import { showProblem } from "./problem.js";
import { Tryout } from "./tryout.js";

const EVERY = 3000;
const tryouts = new Map();
let timer = 0;
let watching = false;
let shown = "";

export function watch(on, onKey) {
  watching = on;
  clearTimeout(timer);
  if (on) look(onKey);
}

async function look(onKey) {
  try {
    const stats = await get("/v1/stats");
    $("live-problem").replaceChildren();
    draw(stats);
  } catch (error) {
    showProblem($("live-problem"), error, onKey);
  }
  clearTimeout(timer);
  if (watching) timer = setTimeout(() => look(onKey), EVERY);
}

// Sliders keep their elements from one look to the next, or they could not be dragged.
function draw(stats) {
  if (!$("live-now")) {
    $("live").replaceChildren(el("div", { id: "live-now", class: "grid" }), el("div", { id: "tryouts" }), el("div", { id: "recent" }));
  }
  $("live-now").replaceChildren(tiles(stats), ...(stats.remembered ? [routes(stats), degraded(stats)] : []));
  for (const scores of stats.collections) {
    if (!tryouts.has(scores.collection)) {
      const made = new Tryout(scores.collection);
      tryouts.set(scores.collection, made);
      $("tryouts").append(made.card);
    }
    tryouts.get(scores.collection).update(scores);
  }
  // Left as it is while it says the same, or whoever is on a link of it would lose their place.
  const asked = JSON.stringify(stats.questions);
  if (asked !== shown) $("recent").replaceChildren(recent(stats.questions, stats.collections.length > 1));
  shown = asked;
}

function tiles(stats) {
  const facts = [
    [String(stats.answered), "answered since the start"],
    [String(stats.last_minute), "in the last minute"],
    [String(stats.queue_depth), "waiting now"],
  ];
  if (stats.remote_arms.length) {
    facts.push([amount(stats.spent), "spent on remote arms"], [amount(stats.saved), "saved by the router"]);
  }
  if (stats.spent_today !== null) {
    facts.push([amount(stats.spent_today), `spent today, of ${amount(stats.max_cost_per_day)}`]);
  }
  return wide(card(
    "Traffic",
    el("div", { class: "tiles" }, ...facts.map(([value, name]) => el("div", {}, el("strong", {}, value), el("span", {}, name)))),
    stats.remembered
      ? el("p", { class: "dim" }, `The last ${stats.remembered} answers of this server, process ${stats.worker}.`)
      : el("p", {}, "No question yet since the start. ", el("a", { href: "#" }, "Ask a question"), ": its route, its score and its time are shown here."),
  ));
}

function routes({ routes: found }) {
  const rows = Object.entries(found);
  const slowest = Math.max(1e-9, ...rows.map(([, times]) => times.p95_ms));
  return card(
    "Routes",
    el(
      "div",
      { class: "stack", role: "img", "aria-label": "Shares of the routes" },
      ...rows.map(([route, { share }]) => el("span", { class: `fill ${route}`, style: { width: `${100 * share}%` }, title: `${route} ${percent(share)}` })),
    ),
    el(
      "table",
      { class: "plain", id: "routes" },
      headed("route", "share", "p50", "p95", ""),
      el("tbody", {}, ...rows.map((row) => routeRow(row, slowest))),
    ),
  );
}

function routeRow([route, { count, share, p50_ms: median, p95_ms: slow }], slowest) {
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, badge(route)),
    el("td", { class: "number", title: `${count} answers` }, percent(share)),
    el("td", { class: "number" }, ms(median)),
    el("td", { class: "number" }, ms(slow)),
    el(
      "td",
      { class: "bar-cell from-left" },
      el("span", { class: `bar fill ${route}`, style: { width: `${(100 * median) / slowest}%` } }),
      el("span", { class: `bar faint ${route}`, style: { width: `${(100 * (slow - median)) / slowest}%` } }),
    ),
  );
}

function degraded({ degraded: kinds }) {
  const rows = Object.entries(kinds);
  const meaning = {
    failed: "a route failed, dense answered instead",
    late: "a route would have been late, dense answered instead",
    arm: "a single arm was requested, and had nothing to search with",
  };
  return card(
    "Degraded",
    rows.length
      ? el("ul", {}, ...rows.map(([kind, count]) => el("li", {}, el("strong", {}, `${count} `), `${kind}: ${meaning[kind] ?? kind}`)))
      : el("p", { class: "dim" }, "None of these answers was degraded."),
  );
}

function recent(questions, several) {
  if (questions === null) {
    return card(
      "Recent questions",
      el("p", { class: "dim" }, "Not recorded: set WYE_SERVE__REQUEST_LOG to a file. If the server needs keys, use one with the scope admin."),
    );
  }
  return card(
    "Recent questions",
    questions.length ? null : el("p", { class: "dim" }, "None yet."),
    el(
      "ul",
      { id: "questions", class: "questions" },
      ...questions.map((one) =>
        el(
          "li",
          {},
          badge(one.route),
          el("a", { class: "title", href: hashOf({ question: one.question, route: one.asked, collection: one.collection }) }, one.question),
          several ? el("span", { class: "dim" }, one.collection) : null,
          el("span", { class: "dim number" }, one.score === null ? one.asked : one.score.toFixed(3)),
          el("span", { class: "dim number" }, ms(one.ms)),
          one.degraded ? el("span", { class: one.degraded === "arm" ? "dim" : "note" }, one.degraded) : null,
        ),
      ),
    ),
  );
}
