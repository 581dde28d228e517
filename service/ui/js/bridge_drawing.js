// The bridge as a drawing, and in words for those who cannot see it or have a narrow screen.

import { drawing } from "./columns.js";
import { card, details, drawn, el } from "./dom.js";
import { percent } from "./format.js";

function noteOf(node) {
  if (node.kind === "seed") return node.mention && node.mention !== node.text ? `“${node.mention}”` : "";
  if (node.kind === "sentence") return `similarity ${node.similarity.toFixed(2)}`;
  if (node.kind === "passage") return `rank ${node.rank}, ${percent(node.share)}`;
  return "";
}

function inWords(bridge) {
  const nodes = new Map(bridge.columns.flat().map((node) => [node.key, node]));
  const reached = bridge.columns.flat().filter((node) => node.kind === "entity");
  const items = reached.map((node) => {
    const { source, passage, sentence } = node.note.bridge;
    return el("li", {}, `${source || "the question"} → `, el("q", {}, sentence), ` (${passage}) → ${node.text}`);
  });
  const seeds = bridge.edges.filter(([from]) => from === "q").map(([, to]) => nodes.get(to).text);
  return details(
    "In words",
    el("p", {}, seeds.length ? `The question names ${seeds.join(", ")}.` : "The question names nothing that the graph has."),
    el("ol", {}, ...items),
    ...bridge.named.map(([title, source]) => el("p", {}, `${title} moved up, since ${source} mentions it.`)),
  );
}

export function bridgeCard({ columns, edges, named }) {
  const noted = columns.map((column) => column.map((node) => ({ ...node, note: noteOf(node) })));
  const label = "The graph's path from the question to the passages";
  return card(
    "The bridge",
    drawn("The bridge, drawn", (narrow) => drawing("bridge", label, { columns: noted, edges }, narrow)),
    inWords({ columns, edges, named }),
  );
}
