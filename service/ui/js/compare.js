// One question over every route, one after another, with their first passages side by side.

import { post } from "./api.js";
import { linked } from "./arms.js";
import { badge, card, el } from "./dom.js";
import { ms } from "./format.js";

const ROUTES = ["auto", "dense", "lexical", "hybrid", "graph", "fusion", "steps", "clue", "zoom"];

// A passage by its title, which unfolds its text; its places in the other lists light up.
function passage(hit) {
  const text = el("p", { class: "dim", hidden: true }, hit.text);
  const open = (event) => {
    text.hidden = !text.hidden;
    event.currentTarget.setAttribute("aria-expanded", String(!text.hidden));
  };
  return el(
    "li",
    linked(hit.id),
    el("span", { class: "rank" }, String(hit.rank)),
    el("span", { class: "title" }, el("button", { type: "button", class: "link", "aria-expanded": "false", onclick: open }, hit.title || hit.id), text),
  );
}

function column(name) {
  const body = el("div", {}, el("p", { class: "dim" }, "waits"));
  return { name, body, column: el("section", { class: "list", "data-route": name }, el("h3", {}, badge(name)), body) };
}

function fill({ name, body }, reply) {
  const taken = name === "auto" ? ` → ${reply.route.path}` : "";
  body.replaceChildren(
    el("p", { class: "dim" }, `${ms(reply.timings_ms.total)}${taken}`),
    ...(reply.degraded ? [el("p", { class: "note" }, reply.degraded)] : []),
    reply.passages.length ? el("ol", {}, ...reply.passages.map(passage)) : el("p", {}, "Nothing was found."),
    el("p", { class: "agrees dim" }),
  );
}

// Which routes have the same passage first.
function agree(done, verdict) {
  const firsts = new Map();
  for (const { one, reply } of done) {
    const first = reply.passages[0];
    if (!first) continue;
    if (!firsts.has(first.id)) firsts.set(first.id, { title: first.title || first.id, routes: [] });
    firsts.get(first.id).routes.push(one.name);
  }
  for (const { one, reply } of done) {
    const same = (firsts.get(reply.passages[0]?.id)?.routes ?? []).filter((name) => name !== one.name);
    const text = same.length ? `Same first passage: ${same.join(", ")}.` : "No other route has this passage first.";
    one.body.querySelector(".agrees").textContent = reply.passages.length ? text : "";
  }
  const groups = [...firsts.values()].sort((a, b) => b.routes.length - a.routes.length);
  verdict.textContent = groups.map(({ title, routes }) => `First by ${routes.join(", ")}: ${title}.`).join(" ") || "No route found anything.";
}

export async function compare(place, { question, k, collection, filter }, signal) {
  const columns = ROUTES.map(column);
  const verdict = el("p", { id: "verdict", role: "status" }, "Asking one route after another, so that their times can be compared.");
  const made = card("First passages of every route", verdict, el("div", { class: "compared", id: "compared" }, ...columns.map((one) => one.column)));
  made.classList.add("compare");
  place.replaceChildren(made);
  const done = [];
  for (const one of columns) {
    one.body.replaceChildren(el("p", { class: "dim" }, "asked …"));
    try {
      const reply = await post("/v1/retrieve", { question, k, collection, filter, route: one.name }, signal);
      fill(one, reply);
      done.push({ one, reply });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      one.body.replaceChildren(el("p", { class: "note" }, error.message));
    }
  }
  agree(done, verdict);
}
