// What pushed the score: one bar for each feature, to the left for simple, to the right for graph.

import { card, el } from "./dom.js";
import { signed, words } from "./format.js";

const SHOWN = 10;

function row(name, logit, value, scale, plain = false) {
  const share = `${(50 * Math.abs(logit)) / scale}%`;
  const side = logit < 0 ? "against" : "for";
  return el(
    "tr",
    plain ? { class: "dim" } : {},
    el("th", { scope: "row" }, words(name)),
    el("td", { class: "number" }, value === null ? "" : String(Number(value.toPrecision(3)))),
    el("td", { class: "bar-cell" }, el("span", { class: `bar ${side}`, style: { width: share } })),
    el("td", { class: "number" }, signed(logit)),
  );
}

export function contributionsCard(parts) {
  const [baseline, ...features] = parts;
  const shown = features.slice(0, SHOWN).filter((part) => part.logit !== 0);
  const rest = features.slice(shown.length);
  const restSum = rest.reduce((sum, part) => sum + part.logit, 0);
  const scale = Math.max(1e-9, ...[baseline, ...shown].map((part) => Math.abs(part.logit)), Math.abs(restSum));
  const total = parts.reduce((sum, part) => sum + part.logit, 0);
  return card(
    "What pushed the score",
    el(
      "table",
      { id: "contributions", class: "bars" },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          el("th", { scope: "col" }, "feature"),
          el("th", { scope: "col", class: "number" }, "value"),
          el("th", { scope: "col", class: "scale" }, el("span", {}, "simple"), el("span", {}, "graph")),
          el("th", { scope: "col", class: "number" }, "logit"),
        ),
      ),
      el(
        "tbody",
        {},
        row(baseline.name, baseline.logit, null, scale, true),
        ...shown.map((part) => row(part.name, part.logit, part.value, scale)),
        rest.length ? row(`(${rest.length} more)`, restSum, null, scale, true) : null,
      ),
      el(
        "tfoot",
        {},
        el("tr", {}, el("th", { scope: "row" }, "sum"), el("td"), el("td"), el("td", { class: "number" }, signed(total))),
      ),
    ),
  );
}
