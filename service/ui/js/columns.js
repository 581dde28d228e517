// Nodes in columns with edges between them, as a drawing: side by side, or below one another where the
// screen is narrow. A node is {key, kind, text, note}, an edge [from, to, strength].

import { svg } from "./dom.js";
import { wrap } from "./format.js";

// Width, and most lines.
const SIZE = {
  question: [150, 7],
  seed: [140, 2],
  sentence: [208, 5],
  entity: [140, 2],
  passage: [150, 3],
  phrase: [170, 6],
  name: [140, 3],
  spare: [140, 3],
};
const LINE = 15;
const BETWEEN_COLUMNS = 44;
const BETWEEN_NODES = 12;
const HEADER = 24;
const PHONE = 324;

const TITLES = {
  question: "question",
  seed: "seeds",
  sentence: "sentences",
  entity: "entities",
  passage: "passages",
  phrase: "searched for",
  name: "names",
  spare: "names",
};

function measure(node, given = 0) {
  const [own, most] = SIZE[node.kind];
  const width = given || own;
  const lines = wrap(node.text, Math.floor((width - 16) / 6.4), most);
  return { ...node, width, lines, height: (lines.length + (node.note ? 1 : 0)) * LINE + 12 };
}

// Puts columns side by side, and nodes near the middle of what leads to them.
function sideBySide(columns, edges) {
  const places = new Map();
  const headers = [];
  const heights = columns.map((column) =>
    column.reduce((sum, node) => sum + measure(node).height + BETWEEN_NODES, -BETWEEN_NODES),
  );
  const height = Math.max(...heights);
  let x = 2;
  columns.forEach((column, number) => {
    const sized = column.map((node) => measure(node));
    const pull = (node) => {
      const from = edges.filter(([, to]) => to === node.key).map(([key]) => places.get(key));
      const known = from.filter(Boolean).map((one) => one.y + one.height / 2);
      return known.length ? known.reduce((sum, y) => sum + y, 0) / known.length : height / 2;
    };
    if (number) sized.sort((a, b) => pull(a) - pull(b));
    headers.push([x, 14, column]);
    let y = HEADER + (height - heights[number]) / 2;
    for (const node of sized) {
      places.set(node.key, { ...node, x, y });
      y += node.height + BETWEEN_NODES;
    }
    x += Math.max(...sized.map((node) => node.width)) + BETWEEN_COLUMNS;
  });
  return { places, headers, width: x - BETWEEN_COLUMNS + 2, height: height + HEADER + 4 };
}

// Puts columns below one another, two small nodes to a row; a question or a sentence takes it all.
function stacked(columns) {
  const places = new Map();
  const headers = [];
  const half = (PHONE - 4 - BETWEEN_NODES) / 2;
  let y = 0;
  for (const column of columns) {
    const isLong = ["question", "sentence", "phrase"].includes(column[0].kind);
    headers.push([2, y + 14, column]);
    y += HEADER;
    const sized = column.map((node) => measure(node, isLong ? PHONE - 4 : half));
    for (let row = 0; row < sized.length; row += isLong ? 1 : 2) {
      const beside = sized.slice(row, row + (isLong ? 1 : 2));
      beside.forEach((node, place) => places.set(node.key, { ...node, x: 2 + place * (half + BETWEEN_NODES), y }));
      y += Math.max(...beside.map((node) => node.height)) + BETWEEN_NODES;
    }
    y += BETWEEN_NODES;
  }
  return { places, headers, width: PHONE, height: y - BETWEEN_NODES };
}

function edge([from, to, strength], places, narrow) {
  const a = places.get(from);
  const b = places.get(to);
  const [x1, y1] = narrow ? [a.x + a.width / 2, a.y + a.height] : [a.x + a.width, a.y + a.height / 2];
  const [x2, y2] = narrow ? [b.x + b.width / 2, b.y] : [b.x, b.y + b.height / 2];
  const [x, y] = [(x1 + x2) / 2, (y1 + y2) / 2];
  return svg("path", {
    d: narrow ? `M${x1} ${y1}C${x1} ${y} ${x2} ${y} ${x2} ${y2}` : `M${x1} ${y1}C${x} ${y1} ${x} ${y2} ${x2} ${y2}`,
    // One that passes other columns lies behind their nodes.
    class: (narrow ? y2 - y1 : x2 - x1) > 2 * BETWEEN_COLUMNS ? "edge far" : "edge",
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

// {columns, edges} as an image of that name; each column is headed by the kind of its nodes.
export function drawing(id, label, { columns, edges }, narrow) {
  const { places, headers, width, height } = narrow ? stacked(columns) : sideBySide(columns, edges);
  const style = { "max-width": `${width}px`, "min-width": `${Math.min(width, narrow ? 280 : 0.8 * width)}px` };
  return svg(
    "svg",
    { id, class: "bridge", viewBox: `0 0 ${width} ${height}`, style, role: "img", "aria-label": label },
    ...headers.map(([x, y, column]) => svg("text", { x, y, class: "column" }, TITLES[column[0].kind])),
    ...edges.map((one) => edge(one, places, narrow)),
    ...[...places.values()].map(box),
  );
}
