// The passages of a reply, each with the reasons for it. Words of the question are bold; sentences that the
// graph or the steps went over are marked.

import { badge, card, el } from "./dom.js";
import { finderOf, percent, plain } from "./text.js";

// A text with the words of the question set off.
function pieces(text, finder) {
  if (!finder) return [text];
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(finder)) {
    parts.push(text.slice(end, match.index), el("strong", {}, match[0]));
    end = match.index + match[0].length;
  }
  return [...parts, text.slice(end)];
}

// Start and end of a sentence in a text; white space may differ.
function spanOf(text, sentence) {
  const escaped = sentence.trim().replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  if (!escaped) return null;
  const match = new RegExp(escaped.replace(/\s+/g, "\\s+")).exec(text);
  return match && [match.index, match.index + match[0].length];
}

function marked(text, sentences, finder) {
  const spans = [...sentences].map((sentence) => spanOf(text, plain(sentence))).filter(Boolean);
  spans.sort((a, b) => a[0] - b[0]);
  const parts = [];
  let end = 0;
  for (const [from, to] of spans) {
    if (from < end) continue;
    parts.push(...pieces(text.slice(end, from), finder), el("mark", {}, ...pieces(text.slice(from, to), finder)));
    end = to;
  }
  return [...parts, ...pieces(text.slice(end), finder)];
}

// A few lines of a text, and all of it at the press of a button where there is more.
function clamped(id, content) {
  const text = el("p", { id, class: "text clamped", dir: "auto" }, ...content);
  const more = el("button", { type: "button", class: "link", "aria-expanded": "false", "aria-controls": id, hidden: true }, "more");
  more.addEventListener("click", () => {
    const open = text.classList.toggle("clamped") === false;
    more.setAttribute("aria-expanded", String(open));
    more.textContent = open ? "less" : "more";
  });
  new ResizeObserver(() => {
    if (text.classList.contains("clamped")) more.hidden = text.scrollHeight <= text.clientHeight + 1;
  }).observe(text);
  return [text, more];
}

function reasons({ text, sources, relevance, metadata }) {
  const unsaid = Object.entries(metadata).filter(([name, value]) => !text.includes(`${name}: ${value}`));
  const facts = unsaid.map(([name, value]) => `${name} ${value}`);
  if (relevance !== null) facts.unshift(`relevant: ${percent(relevance)}`);
  return el(
    "span",
    { class: "reasons dim" },
    sources.length ? "found by" : null,
    ...sources.map(({ arm, rank }) => badge(`${arm} ${rank}`)),
    facts.length ? el("span", {}, facts.join(" · ")) : null,
  );
}

// `sentences`: id of a passage -> its sentences to mark.
export function passagesCard(reply, sentences, feedback) {
  const finder = finderOf(reply.question);
  const items = reply.passages.map((passage) =>
    el(
      "li",
      { id: `passage-${passage.rank}`, "data-passage": passage.id, tabindex: "-1" },
      el("h3", {}, el("span", { class: "rank" }, String(passage.rank)), passage.title || passage.id),
      ...clamped(`text-${passage.rank}`, marked(plain(passage.text), sentences.get(passage.id) ?? [], finder)),
      el("div", { class: "line apart" }, reasons(passage), feedback.answers(passage.id)),
    ),
  );
  const chance = reply.answerability;
  return card(
    "Passages",
    chance === null
      ? null
      : el("p", { id: "answerability", class: "dim" }, `Probability that the collection has an answer: ${percent(chance)}.`),
    el("ol", { id: "passages", class: "passages" }, ...items),
  );
}
