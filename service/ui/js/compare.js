// One question over every route, one after another, with their first passages side by side.

import { post } from "./api.js";
import { card, el } from "./dom.js";
import { ms } from "./text.js";

const ROUTES = ["auto", "dense", "lexical", "hybrid", "graph", "fusion", "steps", "clue", "zoom"];

// A passage by its title, which unfolds its text.
function passage({ rank, title, id, text }) {
  return el("li", {}, el("span", { class: "rank" }, String(rank)), el("details", { class: "title" }, el("summary", {}, title || id), el("p", { class: "dim" }, text)));
}

function column(name) {
  const body = el("div", {}, el("p", { class: "dim" }, "waits"));
  return { name, body, column: el("section", { class: "list", "data-route": name }, el("h3", {}, name), body) };
}

function fill({ name, body }, reply) {
  const taken = name === "auto" ? ` → ${reply.route.path}` : "";
  body.replaceChildren(
    el("p", { class: "dim" }, `${ms(reply.timings_ms.total)}${taken}`),
    ...(reply.degraded ? [el("p", { class: "note" }, reply.degraded)] : []),
    reply.passages.length ? el("ol", {}, ...reply.passages.map(passage)) : el("p", {}, "Nothing was found."),
  );
}

// Which routes have the same passage first.
function verdictOf(replies) {
  const firsts = new Map();
  for (const [name, { passages }] of replies) {
    if (!passages.length) continue;
    const { id, title } = passages[0];
    if (!firsts.has(id)) firsts.set(id, { title: title || id, routes: [] });
    firsts.get(id).routes.push(name);
  }
  const groups = [...firsts.values()].sort((a, b) => b.routes.length - a.routes.length);
  return groups.map(({ title, routes }) => `First by ${routes.join(", ")}: ${title}.`).join(" ") || "No route found anything.";
}

export async function compare(place, { question, k, collection, filter }, signal) {
  const columns = ROUTES.map(column);
  const verdict = el("p", { id: "verdict", role: "status" }, "Asking one route after another, so that their times can be compared.");
  place.replaceChildren(card("First passages of every route", verdict, el("div", { class: "lists", id: "compared" }, ...columns.map((one) => one.column))));
  const replies = [];
  for (const one of columns) {
    one.body.replaceChildren(el("p", { class: "dim" }, "asked …"));
    try {
      const reply = await post("/v1/retrieve", { question, k, collection, filter, route: one.name }, signal);
      fill(one, reply);
      replies.push([one.name, reply]);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      one.body.replaceChildren(el("p", { class: "note" }, error.message));
    }
  }
  verdict.textContent = verdictOf(replies);
}
