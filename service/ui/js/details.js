// One fold below the passages with all that led to them: route and score, paths, time, lists of the arms.

import { get } from "./api.js";
import { badge, el, table } from "./dom.js";
import { count, ms, signed } from "./text.js";

const FEATURES = 10;
const GROUPS = { names: "what it names", passages: "what the first passages hold", build: "how it is built" };
const STAGES = [
  ["reading", ["parsing", "trees", "encoding", "features"]],
  ["routing", ["routing"]],
  ["searching", ["seeds", "dense", "lexical", "graph", "clue", "zoom"]],
  ["fusing", ["fusing", "fetching"]],
  ["steps", ["steps"]],
  ["explaining", ["explaining"]],
];

let known = null;
let isOpen = false;

// Name of a feature -> {group, meaning}; fetched once.
export async function meanings() {
  try {
    known ??= new Map((await get("/v1/features")).data.map((one) => [one.name, one]));
  } catch {
    return new Map(); // then there are numbers without words
  }
  return known;
}

function section(title, ...children) {
  return el("section", {}, el("h3", {}, title), ...children);
}

function rangesOf({ thresholds: { low, high }, simple }) {
  const at = (value) => value.toFixed(3);
  return [
    low > 0 ? `${simple} up to ${at(low)}` : `no score is low enough for ${simple}`,
    ...(high > low ? [`fusion between ${at(low)} and ${at(high)}`] : []),
    high < 1 ? `graph from ${at(high)}` : "no score reaches graph",
  ].join(", ");
}

// `opinion`: what the router makes of a question whose route was named, or {why} if it cannot say.
function routeOf(route, opinion) {
  const scored = route.score === null ? opinion : route;
  const lines = [el("p", {}, `${route.path}: ${route.reason === "score" ? "by its score" : route.reason}.`)];
  if (route.summary) lines.push(el("p", { id: "summary" }, route.summary));
  if (scored !== route && scored.path) lines.push(el("p", {}, `The router would have taken ${scored.path}. ${scored.summary}`));
  if (typeof scored.score === "number" && scored.thresholds) {
    lines.push(
      el("p", { id: "score" }, "Score ", el("strong", {}, scored.score.toFixed(3)), ` of 1. The router takes ${rangesOf(scored)}.`),
      el("p", { class: "dim" }, `Model ${scored.model}`),
    );
  } else if (scored.why) lines.push(el("p", { class: "dim" }, `No score: ${scored.why}`));
  return section("Route", ...lines);
}

function contributions(parts, described) {
  const [average, ...features] = parts;
  const sum = (some) => some.reduce((total, one) => total + one.logit, 0);
  const groupOf = (part) => described.get(part.name)?.group ?? "build";
  const groups = Object.entries(GROUPS).map(([group, label]) => `${label} ${signed(sum(features.filter((part) => groupOf(part) === group)))}`);
  const shown = features.slice(0, FEATURES).filter((part) => part.logit !== 0);
  const rows = shown.map(({ name, value, logit }) => [
    [name.replaceAll("_", " "), el("span", { class: "meaning" }, described.get(name)?.meaning ?? "")],
    value === null ? "" : String(Number(value.toPrecision(3))),
    signed(logit),
  ]);
  const rest = features.slice(shown.length);
  if (rest.length) rows.push([`${rest.length} more`, "", signed(sum(rest))]);
  return section(
    "What pushed the score",
    el("p", {}, `Above 0 speaks for the graph: an average question ${signed(average.logit)}, ${groups.join(", ")}; in all ${signed(sum(parts))}.`),
    table("contributions", ["feature", { number: "value" }, { number: "logit" }], rows),
  );
}

// [part, milliseconds, stages], which add up to the total.
function partsOf({ total, ...stages }, batch) {
  const parts = STAGES.map(([name, names]) => {
    const ran = names.filter((stage) => stages[stage] !== undefined);
    const spent = ran.reduce((sum, stage) => sum + stages[stage], 0);
    return [name, spent, ran.length > 1 ? ran.map((stage) => `${stage} ${ms(stages[stage])}`).join(", ") : ""];
  }).filter(([, spent]) => spent > 0);
  const rest = total - parts.reduce((sum, [, spent]) => sum + spent, 0);
  const waiting = batch > 1 ? "the queue, and other questions of the batch" : "the queue, and switching between threads";
  return rest > 0 ? [...parts, ["waiting", rest, waiting]] : parts;
}

function time({ timings_ms: timings, batch }) {
  const rows = partsOf(timings, batch).map(([name, spent, stages]) => [name, ms(spent), stages]);
  return section("Time", table("timings", ["part", { number: "time" }, "of which"], [...rows, ["total", ms(timings.total), ""]]));
}

function arm([name, { candidates, returned, note, hits, remote }], ranks) {
  const rankOf = (id) => (ranks.has(id) ? `→ ${ranks.get(id)}` : "");
  const items = (hits ?? []).map(({ id, title, rank }) =>
    el("li", {}, el("span", { class: "rank" }, String(rank)), el("span", { class: "title" }, title || id), el("span", { class: "dim" }, rankOf(id))),
  );
  return el(
    "div",
    { class: "list", "data-arm": name },
    el("h4", {}, name),
    el("p", { class: "dim" }, `${returned.toLocaleString("en")} of ${count(candidates, "candidate")}`),
    note ? el("p", { class: "dim" }, note) : null,
    remote ? el("p", { class: "dim" }, `${remote.kind}: ${count(remote.calls, "paid call")}, ${ms(remote.ms)}, spent ${remote.spent}`) : null,
    el("ol", {}, ...items),
  );
}

function lists({ arms, passages, missing, route }) {
  const ranks = new Map(passages.map(({ id, rank }) => [id, rank]));
  const isFused = passages.some(({ sources }) => sources.some(({ share }) => share !== null));
  const sharesOf = (sources) => sources.map((one) => `${one.arm} ${one.share.toFixed(3)} (rank ${one.rank})`).join(" + ");
  const shares = () => passages.map(({ title, id, sources }) => [title || id, sharesOf(sources)]);
  return section(
    "Lists of the arms",
    passages.length ? el("p", { class: "dim" }, "→ is the rank in the reply.") : null,
    ...(missing ?? []).map((one) => el("p", { class: "note" }, `${one.arm} is missing: ${one.reason}`)),
    el("div", { class: "lists", id: "arms" }, ...Object.entries(arms).map((one) => arm(one, ranks))),
    isFused ? table("fused", ["passage", `shares of its score in ${route.path}`], shares()) : null,
  );
}

// The fold stays open from one question to the next.
export function detailsOf(reply, opinion, described, paths) {
  const { route, timings_ms: timings, index, batch } = reply;
  const parts = route.contributions?.length ? route.contributions : opinion.contributions;
  const facts = [...(route.score === null ? [] : [`score ${route.score.toFixed(3)}`]), ms(timings.total)];
  const fold = el(
    "details",
    { id: "details", class: "card", open: isOpen },
    el("summary", {}, el("h2", {}, "Details"), badge(route.path), el("span", { class: "dim" }, facts.join(" · "))),
    routeOf(route, opinion),
    ...paths,
    parts?.length ? contributions(parts, described) : null,
    time(reply),
    lists(reply),
    el(
      "p",
      { class: "dim" },
      `Collection ${index.collection}, version ${index.version}; ${batch === 1 ? "alone in its batch" : `in a batch of ${batch}`}; request ${reply.request_id}`,
    ),
  );
  fold.querySelector(".badge").id = "path";
  fold.addEventListener("toggle", () => {
    isOpen = fold.open;
  });
  return fold;
}
