// A constituency tree as it stands in books: words in a row, each phrase above its parts. On a narrow
// screen it lies on its side: words below one another, each phrase left of its parts.

import { parseBrackets } from "./brackets.js";
import { card, drawn, el, svg } from "./dom.js";
import { legendOf } from "./tags.js";

const LEVEL = 38;
const GAP = 14;
const LETTER = 7.6;
const ROW = 24;
const WIDE = 324;

// Gives each node its place along the words, and its depth.
function place(node, state, depth, widthOf) {
  state.depth = Math.max(state.depth, depth);
  if (!node.children.length) {
    const width = widthOf(node);
    const along = state.along + width / 2;
    state.along += width;
    return { node, along, depth, word: true, parts: [] };
  }
  const start = state.along;
  const parts = node.children.map((child) => place(child, state, depth + 1, widthOf));
  // A label that is wider than all below it needs room of its own.
  state.along = Math.max(state.along, start + state.label(node));
  return { node, along: (parts[0].along + parts.at(-1).along) / 2, depth, word: false, parts };
}

function draw(placed, at, anchor) {
  const kind = placed.word ? "word" : placed.parts[0].word ? "tag" : "phrase";
  const [x, y] = at(placed);
  return [
    ...placed.parts.map((part) => {
      const [x2, y2] = at(part);
      const ends = anchor === "middle" ? { x1: x, y1: y + 5, x2, y2: y2 - 14 } : { x1: x + 2, y1: y + 4, x2: x2 - 4, y2: y2 - 4 };
      return svg("line", { ...ends, class: part.word ? "stem" : "branch" });
    }),
    svg("text", { x, y, class: `${anchor} ${kind}` }, placed.node.label),
    ...placed.parts.flatMap((part) => draw(part, at, anchor)),
  ];
}

function upright(tree) {
  const state = { along: GAP, depth: 0, label: (node) => node.label.length * LETTER + GAP };
  const placed = place(tree, state, 0, (node) => Math.max(22, node.label.length * LETTER) + GAP);
  const bottom = 16 + state.depth * LEVEL;
  const at = (one) => [one.along, one.word ? bottom : 16 + one.depth * LEVEL];
  return { width: state.along, height: bottom + 12, parts: draw(placed, at, "middle") };
}

function onItsSide(tree) {
  const state = { along: 6, depth: 0, label: () => ROW };
  const placed = place(tree, state, 0, () => ROW);
  const letters = (node) => (node.children.length ? Math.max(...node.children.map(letters)) : node.label.length);
  const words = WIDE - Math.min(letters(tree), 16) * LETTER;
  const step = words / Math.max(1, state.depth);
  const at = (one) => [one.word ? words : 2 + one.depth * step, one.along + 4];
  return { width: WIDE, height: state.along + 6, parts: draw(placed, at, "start") };
}

function drawing(text, tree, narrow) {
  const { width, height, parts } = narrow ? onItsSide(tree) : upright(tree);
  // It shrinks to fit, and scrolls where its letters would become too small.
  const style = { "max-width": `${width}px`, "min-width": `${Math.min(width, narrow ? 280 : 0.7 * width)}px` };
  return svg("svg", { class: "tree", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": text, style }, ...parts);
}

export function treeCard(trees) {
  const parsed = trees.map((text) => [text, parseBrackets(text)]);
  const legend = legendOf(parsed.map(([, tree]) => tree));
  return card(
    "Parse tree",
    ...parsed.map(([text, tree]) => drawn("Parse tree", (narrow) => drawing(text, tree, narrow))),
    el("details", {}, el("summary", {}, "What the tags mean"), el("dl", { class: "meanings" }, ...legend.flatMap(([tag, says]) => [el("dt", {}, tag), el("dd", {}, says)]))),
  );
}
