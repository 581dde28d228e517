// The bridge as a drawing, and in words for those who cannot see it or have a narrow screen.

import { card, el, scrolling, svg } from "./dom.js";
import { percent, wrap } from "./format.js";

const SIZE = {
  question: [150, 26, 7],
  seed: [140, 22, 2],
  sentence: [208, 34, 5],
  entity: [140, 22, 2],
  passage: [150, 22, 3],
};
const LINE = 15;
const BETWEEN_COLUMNS = 44;
const BETWEEN_NODES = 12;
const HEADER = 24;

const TITLES = { question: "question", seed: "seeds", sentence: "sentences", entity: "entities", passage: "passages" };

function measure(node) {
  const [width, letters, most] = SIZE[node.kind];
  const lines = wrap(node.text, Math.floor((width - 16) / 6.4) || letters, most);
  const note = noteOf(node);
  return { ...node, width, lines, note, height: (lines.length + (note ? 1 : 0)) * LINE + 12 };
}

function noteOf(node) {
  if (node.kind === "seed") return node.mention && node.mention !== node.text ? `“${node.mention}”` : "";
  if (node.kind === "sentence") return `similarity ${node.similarity.toFixed(2)}`;
  if (node.kind === "passage") return `rank ${node.rank}, ${percent(node.share)}`;
  return "";
}

// Puts columns side by side, and nodes near the middle of what leads to them.
function layout({ columns, edges }) {
  const places = new Map();
  const heights = columns.map((column) =>
    column.reduce((sum, node) => sum + measure(node).height + BETWEEN_NODES, -BETWEEN_NODES),
  );
  const height = Math.max(...heights);
  let x = 2;
  columns.forEach((column, number) => {
    const sized = column.map(measure);
    const pull = (node) => {
      const from = edges.filter(([, to]) => to === node.key).map(([key]) => places.get(key));
      const known = from.filter(Boolean).map((one) => one.y + one.height / 2);
      return known.length ? known.reduce((sum, y) => sum + y, 0) / known.length : height / 2;
    };
    if (number) sized.sort((a, b) => pull(a) - pull(b));
    let y = HEADER + (height - heights[number]) / 2;
    for (const node of sized) {
      places.set(node.key, { ...node, x, y });
      y += node.height + BETWEEN_NODES;
    }
    x += Math.max(...sized.map((node) => node.width)) + BETWEEN_COLUMNS;
  });
  return { places, width: x - BETWEEN_COLUMNS + 2, height: height + HEADER + 4 };
}

function edge([from, to, strength], places) {
  const a = places.get(from);
  const b = places.get(to);
  const [x1, y1] = [a.x + a.width, a.y + a.height / 2];
  const [x2, y2] = [b.x, b.y + b.height / 2];
  const middle = (x1 + x2) / 2;
  return svg("path", {
    d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`,
    // One that passes other columns lies behind their nodes.
    class: x2 - x1 > 2 * BETWEEN_COLUMNS ? "edge far" : "edge",
    "stroke-width": (1 + 2 * Math.min(1, Math.max(0, strength))).toFixed(2),
  });
}

function box(node) {
  const lines = [...node.lines.map((text) => [text, ""]), ...(node.note ? [[node.note, "note"]] : [])];
  return svg(
    "g",
    { class: `node ${node.kind}`, transform: `translate(${node.x} ${node.y})` },
    svg("title", {}, node.text),
    svg("rect", { width: node.width, height: node.height, rx: node.kind === "passage" ? 2 : 8 }),
    ...lines.map(([text, kind], row) => svg("text", { x: 8, y: 18 + row * LINE, class: kind }, text)),
  );
}

function inWords(bridge) {
  const nodes = new Map(bridge.columns.flat().map((node) => [node.key, node]));
  const reached = bridge.columns.flat().filter((node) => node.kind === "entity");
  const items = reached.map((node) => {
    const { source, passage, sentence } = node.note.bridge;
    return el("li", {}, `${source} → `, el("q", {}, sentence), ` (${passage}) → ${node.text}`);
  });
  const seeds = bridge.edges.filter(([from]) => from === "q").map(([, to]) => nodes.get(to).text);
  return el(
    "details",
    {},
    el("summary", {}, "In words"),
    el("p", {}, seeds.length ? `The question names ${seeds.join(", ")}.` : "The question names nothing that the graph knows."),
    el("ol", {}, ...items),
  );
}

export function bridgeCard(bridge) {
  const { places, width, height } = layout(bridge);
  const headers = bridge.columns.map((column) => {
    const first = places.get(column[0].key);
    return svg("text", { x: first.x, y: 14, class: "column" }, TITLES[column[0].kind]);
  });
  const drawing = svg(
    "svg",
    { id: "bridge", class: "bridge", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "The way of the graph from the question to the passages" },
    ...headers,
    ...bridge.edges.map((one) => edge(one, places)),
    ...[...places.values()].map(box),
  );
  return card("The bridge", scrolling("The bridge, drawn", drawing), inWords(bridge));
}
