// A constituency tree as it stands in books: words in a row, each phrase above its parts. On a narrow
// screen it is an outline: each phrase with its parts indented below it.

import { parseBrackets } from "./brackets.js";
import { card, drawn, el, glossary, svg } from "./dom.js";
import { legendOf } from "./tags.js";

const LEVEL = 38;
const GAP = 14;
const LETTER = 7.6;

// Gives each node its place: words from left to right, phrases above the middle of their parts.
function place(node, state, depth) {
  state.depth = Math.max(state.depth, depth);
  if (!node.children.length) {
    const width = Math.max(22, node.label.length * LETTER);
    const x = state.x + width / 2;
    state.x += width + GAP;
    return { node, x, depth, word: true, parts: [] };
  }
  const start = state.x;
  const parts = node.children.map((child) => place(child, state, depth + 1));
  // A label that is wider than all below it needs room of its own.
  state.x = Math.max(state.x, start + node.label.length * LETTER + GAP);
  return { node, x: (parts[0].x + parts.at(-1).x) / 2, depth, word: false, parts };
}

function draw(placed, bottom) {
  const y = (one) => (one.word ? bottom : 16 + one.depth * LEVEL);
  const kind = placed.word ? "word" : placed.parts[0].word ? "tag" : "phrase";
  return [
    ...placed.parts.map((part) =>
      svg("line", { x1: placed.x, y1: y(placed) + 5, x2: part.x, y2: y(part) - 14, class: part.word ? "stem" : "branch" }),
    ),
    svg("text", { x: placed.x, y: y(placed), class: `middle ${kind}` }, placed.node.label),
    ...placed.parts.flatMap((part) => draw(part, bottom)),
  ];
}

function drawing(text, tree) {
  const state = { x: GAP, depth: 0 };
  const placed = place(tree, state, 0);
  const bottom = 16 + state.depth * LEVEL;
  // It shrinks to fit, and scrolls where its letters would become too small.
  const style = { "max-width": `${state.x}px`, "min-width": `${0.7 * state.x}px` };
  return svg("svg", { class: "tree", viewBox: `0 0 ${state.x} ${bottom + 12}`, role: "img", "aria-label": text, style }, ...draw(placed, bottom));
}

// Phrases that hold nothing but one other stand on its line.
function outline(node, above = []) {
  const chain = [...above, node.label];
  const [only] = node.children;
  if (!only.children.length) return el("li", {}, el("span", { class: "tag" }, chain.join(" ")), " ", el("span", { class: "word" }, only.label));
  if (node.children.length === 1) return outline(only, chain);
  return el("li", {}, el("span", { class: "phrase" }, chain.join(" ")), el("ul", {}, ...node.children.map((child) => outline(child))));
}

export function treeCard(trees) {
  const parsed = trees.map((text) => [text, parseBrackets(text)]);
  const legend = legendOf(parsed.map(([, tree]) => tree));
  return card(
    "Parse tree",
    ...parsed.map(([text, tree]) => drawn("Parse tree", (narrow) => (narrow ? el("ul", { class: "tree outline" }, outline(tree)) : drawing(text, tree)))),
    glossary("What the tags mean", legend),
  );
}
