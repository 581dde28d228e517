// The passages of a reply, with the sentences that the graph walked over marked.

import { card, el } from "./dom.js";

// A text as pieces, those of `sentences` as <mark>; white space may differ.
export function marked(text, sentences) {
  const spans = [...sentences].map((sentence) => spanOf(text, sentence)).filter(Boolean);
  spans.sort((a, b) => a[0] - b[0]);
  const pieces = [];
  let end = 0;
  for (const [from, to] of spans) {
    if (from < end) continue;
    pieces.push(text.slice(end, from), el("mark", {}, text.slice(from, to)));
    end = to;
  }
  return [...pieces, text.slice(end)];
}

function spanOf(text, sentence) {
  const escaped = sentence.trim().replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  if (!escaped) return null;
  const found = new RegExp(escaped.replace(/\s+/g, "\\s+")).exec(text);
  return found && [found.index, found.index + found[0].length];
}

function source({ arm, rank }) {
  return el("span", { class: `badge ${arm}` }, `${arm} ${rank}`);
}

function facts(metadata) {
  const text = Object.entries(metadata).map(([name, value]) => `${name} ${value}`);
  return text.length ? el("p", { class: "dim" }, text.join(" · ")) : null;
}

export function passagesCard(passages, sentences) {
  return card(
    "Passages",
    passages.length ? null : el("p", {}, "Nothing was found."),
    el(
      "ol",
      { id: "passages", class: "passages" },
      ...passages.map((passage) =>
        el(
          "li",
          { id: `passage-${passage.rank}`, "data-passage": passage.id, tabindex: "-1" },
          el(
            "h3",
            {},
            el("span", { class: "rank" }, String(passage.rank)),
            ` ${passage.title || passage.id} `,
            ...passage.sources.map(source),
          ),
          el("p", { class: "text" }, ...marked(passage.text, sentences.get(passage.id) ?? [])),
          facts(passage.metadata),
        ),
      ),
    ),
  );
}
