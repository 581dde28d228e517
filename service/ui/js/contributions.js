// What pushed the score: three sums in sight, and each feature with its meaning folded away.

import { get } from "./api.js";
import { card, details, el } from "./dom.js";
import { signed, words } from "./format.js";

const SHOWN = 10;
const GROUPS = { names: "what it names", passages: "what the first passages hold", build: "how it is built" };
let known = null;

// Name -> {group, meaning}; asked for once.
export async function meanings() {
  try {
    known ??= new Map((await get("/v1/features")).data.map((one) => [one.name, one]));
  } catch {
    return new Map(); // then there are numbers without words
  }
  return known;
}

// A name whose meaning shows on hover, focus and tap.
function term(name, meaning, place) {
  if (!meaning) return words(name);
  const id = `meaning-${place}`;
  return [
    el("button", { type: "button", class: "term", "aria-describedby": id }, words(name)),
    el("span", { id, role: "tooltip", class: "meaning" }, meaning),
  ];
}

function row(label, logit, value, scale, plain = false) {
  const share = `${(50 * Math.abs(logit)) / scale}%`;
  const side = logit < 0 ? "against" : "for";
  return el(
    "tr",
    plain ? { class: "dim" } : {},
    el("th", { scope: "row" }, label),
    el("td", { class: "number" }, value === null ? "" : String(Number(value.toPrecision(3)))),
    el("td", { class: "bar-cell" }, el("span", { class: `bar ${side}`, style: { width: share } })),
    el("td", { class: "number" }, signed(logit)),
  );
}

function table(id, head, rows, total) {
  const scale = el("th", { scope: "col", class: "scale" }, el("span", {}, "simple"), el("span", {}, "graph"));
  const [first, second] = head.map((name) => el("th", { scope: "col", class: name === "value" ? "number" : "" }, name));
  return el(
    "table",
    { id, class: "bars" },
    el("thead", {}, el("tr", {}, first, second, scale, el("th", { scope: "col", class: "number" }, "logit"))),
    el("tbody", {}, ...rows),
    total === null
      ? null
      : el("tfoot", {}, el("tr", {}, el("th", { scope: "row" }, "sum"), el("td"), el("td"), el("td", { class: "number" }, signed(total)))),
  );
}

const sum = (parts) => parts.reduce((total, part) => total + part.logit, 0);

export function contributionsCard(parts, described) {
  const [baseline, ...features] = parts;
  const groups = Object.entries(GROUPS).map(([group, label]) => [
    label,
    sum(features.filter((part) => (described.get(part.name)?.group ?? "build") === group)),
  ]);
  const shown = features.slice(0, SHOWN).filter((part) => part.logit !== 0);
  const rest = features.slice(shown.length);
  const widest = (values) => Math.max(1e-9, ...values.map(Math.abs));
  const coarse = widest([baseline.logit, ...groups.map(([, logit]) => logit)]);
  const fine = widest([...shown.map((part) => part.logit), sum(rest)]);
  return card(
    "What pushed the score",
    table(
      "groups",
      ["about", ""],
      [row("an average question", baseline.logit, null, coarse, true), ...groups.map(([label, logit]) => row(label, logit, null, coarse))],
      sum(parts),
    ),
    details(
      `The numbers: ${features.length} features`,
      table(
        "contributions",
        ["feature", "value"],
        [
          ...shown.map((part, place) => row(term(part.name, described.get(part.name)?.meaning, place), part.logit, part.value, fine)),
          ...(rest.length ? [row(`(${rest.length} more)`, sum(rest), null, fine, true)] : []),
        ],
        null,
      ),
    ),
  );
}
