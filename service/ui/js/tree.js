// A constituency tree as it stands in books: words in a row, each phrase above its parts.

import { parseBrackets } from "./brackets.js";
import { card, scrolling, svg } from "./dom.js";

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

export function treeCard(trees) {
  return card(
    "Parse tree",
    ...trees.map((text) => {
      const state = { x: GAP, depth: 0 };
      const placed = place(parseBrackets(text), state, 0);
      const bottom = 16 + state.depth * LEVEL;
      const drawing = svg(
        "svg",
        { class: "tree", width: state.x, height: bottom + 12, role: "img", "aria-label": text },
        ...draw(placed, bottom),
      );
      return scrolling("Parse tree", drawing);
    }),
  );
}
