// Where the time went: one bar, a piece for each stage.

import { card, el } from "./dom.js";
import { ms } from "./format.js";

function armRows([name, arm]) {
  const counts = el(
    "tr",
    {},
    el("th", { scope: "row" }, el("span", { class: `badge ${name}` }, name)),
    el("td", { class: "number" }, String(arm.candidates)),
    el("td", { class: "number" }, String(arm.returned)),
  );
  if (!arm.degraded) return [counts];
  return [counts, el("tr", {}, el("td", { class: "note", colspan: "3" }, arm.degraded))];
}

export function timingsCard(timings, arms, reply) {
  const { total, ...stages } = timings;
  const spent = Object.entries(stages).filter(([, value]) => value > 0);
  const whole = Math.max(total, spent.reduce((sum, [, value]) => sum + value, 0), 1e-9);
  return card(
    "Time and candidates",
    el(
      "div",
      { id: "timings", class: "stack", role: "img", "aria-label": `${ms(total)} in all` },
      ...spent.map(([stage, value], place) =>
        el("span", { class: `stage-${place % 12}`, style: { width: `${(100 * value) / whole}%` }, title: `${stage} ${ms(value)}` }),
      ),
    ),
    el(
      "ul",
      { class: "legend" },
      ...spent.map(([stage, value], place) =>
        el("li", {}, el("i", { class: `stage-${place % 12}` }), `${stage} ${ms(value)}`),
      ),
      el("li", {}, el("strong", {}, `total ${ms(total)}`)),
    ),
    el(
      "table",
      { class: "plain", id: "arms-counts" },
      el(
        "thead",
        {},
        el("tr", {}, ...["arm", "candidates", "returned"].map((name) => el("th", { scope: "col" }, name))),
      ),
      el(
        "tbody",
        {},
        ...Object.entries(arms).flatMap(armRows),
      ),
    ),
    el(
      "p",
      { class: "dim" },
      `Collection ${reply.index.collection}, version ${reply.index.version}; ` +
        `${reply.batch === 1 ? "worked on alone" : `in a batch of ${reply.batch}`}; request ${reply.request_id}`,
    ),
  );
}
