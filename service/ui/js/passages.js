// The passages of a reply: a few lines each, with the words of the question and the sentences that
// the graph walked over marked.

import { card, el } from "./dom.js";
import { finderOf, plain } from "./plain.js";

// A text with the words of the question set off.
function pieces(text, finder) {
  if (!finder) return [text];
  const found = [];
  let end = 0;
  for (const match of text.matchAll(finder)) {
    found.push(text.slice(end, match.index), el("span", { class: "asked" }, match[0]));
    end = match.index + match[0].length;
  }
  return [...found, text.slice(end)];
}

// A text as pieces, those of `sentences` as <mark>; white space may differ.
function marked(text, sentences, finder) {
  const spans = [...sentences].map((sentence) => spanOf(text, plain(sentence))).filter(Boolean);
  spans.sort((a, b) => a[0] - b[0]);
  const found = [];
  let end = 0;
  for (const [from, to] of spans) {
    if (from < end) continue;
    found.push(...pieces(text.slice(end, from), finder), el("mark", {}, ...pieces(text.slice(from, to), finder)));
    end = to;
  }
  return [...found, ...pieces(text.slice(end), finder)];
}

function spanOf(text, sentence) {
  const escaped = sentence.trim().replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  if (!escaped) return null;
  const found = new RegExp(escaped.replace(/\s+/g, "\\s+")).exec(text);
  return found && [found.index, found.index + found[0].length];
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

function facts(metadata) {
  const text = Object.entries(metadata).map(([name, value]) => `${name} ${value}`);
  return text.length ? el("span", { class: "dim" }, text.join(" · ")) : null;
}

function percent(chance) {
  return `${Math.round(100 * chance)} %`;
}

function answerability(chance) {
  if (chance === null) return null;
  return el("p", { id: "answerability", class: "dim" }, `Probability that the collection has an answer: ${percent(chance)}.`);
}

function relevance(chance) {
  return chance === null ? null : el("span", { class: "dim relevance" }, `relevant: ${percent(chance)}`);
}

export function passagesCard(reply, sentences, feedback) {
  const finder = finderOf(reply.question);
  return card(
    "Passages",
    answerability(reply.answerability),
    el(
      "ol",
      { id: "passages", class: "passages" },
      ...reply.passages.map((passage) =>
        el(
          "li",
          { id: `passage-${passage.rank}`, "data-passage": passage.id, tabindex: "-1" },
          el(
            "h3",
            {},
            el("span", { class: "rank" }, String(passage.rank)),
            ` ${passage.title || passage.id} `,
            ...passage.sources.map(({ arm, rank }) => el("span", { class: `badge ${arm}` }, `${arm} ${rank}`)),
          ),
          ...clamped(`text-${passage.rank}`, marked(plain(passage.text), sentences.get(passage.id) ?? [], finder)),
          el("div", { class: "under-text" }, relevance(passage.relevance), facts(passage.metadata), feedback.answers(passage.id)),
        ),
      ),
    ),
  );
}
