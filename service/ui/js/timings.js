// Where the time went: one bar that is the whole, in seven parts at most.

import { badge, card, el, headed, glossary } from "./dom.js";
import { ms } from "./format.js";

const PARTS = [
  ["reading", ["parsing", "trees", "encoding", "features"], "The parser and the encoder work side by side: encoding is the part that remained after parsing."],
  ["routing", ["routing"], "Scoring the question and explaining the score."],
  ["searching", ["seeds", "dense", "lexical", "graph", "clue", "zoom"], "Each arm that was searched."],
  ["fusing", ["fusing", "fetching"], "Merging the rankings, and fetching the texts of the passages."],
  ["steps", ["steps"], "Searches for parts of the question, one level after another."],
  ["explaining", ["explaining"], "How the graph came to its ranking; only the console asks for it."],
];
const WAITING = "The queue, and switching between threads.";
const SHARED = "The queue, and the other questions of the same batch.";

// [name, milliseconds, what it is made of], which add up to the total.
function partsOf({ total, ...stages }, batch) {
  const parts = PARTS.map(([name, own, says]) => {
    const known = own.filter((stage) => stages[stage] !== undefined);
    const spent = known.reduce((sum, stage) => sum + stages[stage], 0);
    return [name, spent, `${known.map((stage) => `${stage} ${ms(stages[stage])}`).join(", ")}. ${says}`];
  }).filter(([, spent]) => spent > 0);
  const rest = total - parts.reduce((sum, [, spent]) => sum + spent, 0);
  return rest > 0 ? [...parts, ["waiting", rest, batch > 1 ? SHARED : WAITING]] : parts;
}

function armRows([name, arm]) {
  const counts = el(
    "tr",
    {},
    el("th", { scope: "row" }, badge(name)),
    el("td", { class: "number" }, String(arm.candidates)),
    el("td", { class: "number" }, String(arm.returned)),
  );
  if (!arm.note) return [counts];
  return [counts, el("tr", {}, el("td", { class: "dim", colspan: "3" }, arm.note))];
}

export function timingsCard(reply) {
  const { total } = reply.timings_ms;
  const parts = partsOf(reply.timings_ms, reply.batch);
  const whole = Math.max(parts.reduce((sum, [, spent]) => sum + spent, 0), 1e-9);
  return card(
    "Time and candidates",
    el(
      "div",
      { id: "timings", class: "stack", role: "img", "aria-label": `${ms(total)} in all: ${parts.map(([name, spent]) => `${name} ${ms(spent)}`).join(", ")}` },
      ...parts.map(([name, spent, says]) => el("span", { class: `stage ${name}`, style: { width: `${(100 * spent) / whole}%` }, title: `${name}: ${says}` })),
    ),
    el(
      "ul",
      { class: "legend" },
      ...parts.map(([name, spent, says]) => el("li", { title: says }, el("i", { class: `stage ${name}` }), `${name} ${ms(spent)}`)),
      el("li", {}, el("strong", {}, `total ${ms(total)}`)),
    ),
    glossary("What each part is", parts.map(([name, , says]) => [name, says])),
    el(
      "table",
      { class: "plain", id: "arms-counts" },
      headed("arm", "candidates", "returned"),
      el("tbody", {}, ...Object.entries(reply.arms).flatMap(armRows)),
    ),
    el(
      "p",
      { class: "dim" },
      `Collection ${reply.index.collection}, version ${reply.index.version}; ` +
        `${reply.batch === 1 ? "alone in its batch" : `in a batch of ${reply.batch}`}; request ${reply.request_id}`,
    ),
  );
}
