// Each arm's own list beside the others', and what fusion or steps made of them.

import { badge, card, el } from "./dom.js";

// Wherever a passage stands, all of its places light up together.
export function linked(id) {
  const toggle = (on) => () => {
    for (const other of document.querySelectorAll("[data-passage]")) {
      if (other.dataset.passage === id) other.classList.toggle("lit", on);
    }
  };
  const [on, off] = [toggle(true), toggle(false)];
  return { "data-passage": id, onmouseenter: on, onmouseleave: off, onfocusin: on, onfocusout: off };
}

function row({ id, rank, title }, ...facts) {
  return el("li", linked(id), el("span", { class: "rank" }, String(rank)), el("span", { class: "title" }, title || id), ...facts);
}

function armRow(hit, places) {
  return row(
    hit,
    el("span", { class: "dim number", title: "The arm's own score" }, hit.score.toFixed(3)),
    el("span", { class: "place" }, places.has(hit.id) ? `→ ${places.get(hit.id)}` : "—"),
  );
}

function armList(name, arm, places) {
  const hits = arm.hits ?? [];
  return el(
    "section",
    { class: "list" },
    el("h3", {}, badge(name)),
    arm.note ? el("p", { class: "dim" }, arm.note) : null,
    hits.length ? null : el("p", { class: "dim" }, "nothing"),
    el("ol", {}, ...hits.map((hit) => armRow(hit, places))),
  );
}

function share(source, largest) {
  const width = `${(100 * source.share) / largest}%`;
  const text = `${source.arm}: rank ${source.rank}, share ${source.share.toFixed(4)}`;
  return el("span", { class: `fill ${source.arm}`, style: { width }, title: text });
}

function fusedRow(passage, largest) {
  const { sources } = passage;
  return row(
    passage,
    el("span", { class: "stack thin" }, ...sources.map((one) => share(one, largest))),
    el("span", { class: "dim" }, sources.map((one) => `${one.arm} ${one.rank}: ${one.share.toFixed(3)}`).join(" + ")),
  );
}

function fused(passages, name) {
  const sums = passages.map((passage) => passage.sources.reduce((sum, one) => sum + one.share, 0));
  const largest = Math.max(1e-9, ...sums);
  return el(
    "section",
    { class: "list wide", id: "fused" },
    el("h3", {}, `How ${name} combined them: each list's share of the score`),
    el("ol", {}, ...passages.map((passage) => fusedRow(passage, largest))),
  );
}

export function armsCard(reply) {
  const places = new Map(reply.passages.map((passage) => [passage.id, passage.rank]));
  const isFused = reply.passages.some((passage) => passage.sources.some((one) => one.share !== null));
  const arms = Object.entries(reply.arms);
  const one = arms.length === 1 ? `Only ${arms[0][0]} was asked; route fusion asks several.` : "";
  return card(
    "Lists side by side",
    el("p", { class: "dim" }, one || "→ is the rank in the reply; — means that it is not in it."),
    el("div", { class: "lists", id: "arms" }, ...arms.map(([name, arm]) => armList(name, arm, places))),
    isFused ? fused(reply.passages, reply.route.path) : null,
  );
}
