// The first view: a question in, an answer with everything that led to it out.

import { hashOf } from "./address.js";
import { Answer } from "./answer.js";
import { events, post, Problem } from "./api.js";
import { armsCard } from "./arms.js";
import { bridgeOf } from "./bridge.js";
import { bridgeCard } from "./bridge_drawing.js";
import { chainCard, sentencesOf } from "./chain.js";
import { compare } from "./compare.js";
import { contributionsCard, meanings } from "./contributions.js";
import { $, el, wide } from "./dom.js";
import { examplesOf } from "./examples.js";
import { Feedback } from "./feedback.js";
import { routeCard } from "./gauge.js";
import { remember } from "./history.js";
import { passagesCard } from "./passages.js";
import { showProblem } from "./problem.js";
import { shareButton } from "./share.js";
import { timingsCard } from "./timings.js";
import { treeCard } from "./tree.js";

let underWay = null;
let onKey = () => {};
let shown = "";

function wanted() {
  const body = { question: $("question").value, route: $("route").value, k: Number($("k").value) };
  if ($("collection").value) body.collection = $("collection").value;
  const filter = $("filter").value.trim();
  if (!filter) return body;
  try {
    return { ...body, filter: JSON.parse(filter) };
  } catch (error) {
    throw new Problem({ title: "Filter", detail: `The filter is not JSON: ${error.message}.` });
  }
}

// Fills the form in as a link has it; what it does not name stays as it is.
function fillIn({ question, route, k, collection, filter }) {
  $("question").value = question;
  if (route) $("route").value = route;
  if (k) $("k").value = k;
  if (collection) $("collection").value = collection;
  $("filter").value = filter ? JSON.stringify(filter) : "";
  $("filter").closest("details").open = Boolean(filter);
}

// What the router makes of a question whose route was forced; where it cannot say, why.
async function opinion({ route, question, collection }, signal) {
  if (route === "auto") return {};
  try {
    return (await post("/v1/route", { question, collection, explain: true }, signal)).route;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return { score: null, why: error.message };
  }
}

// Something failed or was late; that an arm has nothing to say is told in its row.
function isAlarm({ degraded }) {
  return degraded.startsWith("degraded: ");
}

function nothingFound(reply) {
  const left = Object.values(reply.arms).every((arm) => arm.candidates === 0);
  if ($("filter").value.trim() && left) return "No passage passes the filter.";
  return `No passage was found${reply.degraded ? `: ${reply.degraded}` : ""}.`;
}

// Two maps of sets as one.
function merged(one, other) {
  const keys = [...new Set([...one.keys(), ...other.keys()])];
  return new Map(keys.map((key) => [key, new Set([...(one.get(key) ?? []), ...(other.get(key) ?? [])])]));
}

function cards(reply, scored, described, answer, feedback) {
  const parts = reply.route.contributions?.length ? reply.route : scored;
  const bridge = reply.passages.length && reply.explanation?.entities.length ? bridgeOf(reply) : null;
  const marked = merged(bridge?.sentences ?? new Map(), sentencesOf(reply.steps ?? []));
  return el(
    "div",
    { class: "grid" },
    isAlarm(reply)
      ? el("p", { id: "degraded", class: "card degraded wide" }, "Not what was asked for: ", reply.degraded.slice("degraded: ".length))
      : null,
    answer.card,
    el(
      "div",
      { class: "column" },
      routeCard(reply.route, scored.thresholds ? scored : null, scored.why ?? ""),
      parts.contributions?.length ? contributionsCard(parts.contributions, described) : null,
      timingsCard(reply),
    ),
    reply.passages.length
      ? passagesCard(reply, marked, feedback)
      : el("p", { class: "card" }, nothingFound(reply)),
    reply.steps ? wide(chainCard(reply)) : null,
    bridge ? wide(bridgeCard(bridge)) : null,
    reply.passages.length ? wide(armsCard(reply)) : null,
    parts.trees?.length ? wide(treeCard(parts.trees)) : null,
  );
}

// The address of the question whose answer is shown, or "".
export function current() {
  return shown;
}

// Clears the way for a question; gives its body and what stops it, or null where the form is wrong.
function begin() {
  underWay?.abort();
  underWay = new AbortController();
  $("problem").replaceChildren();
  $("said").textContent = "";
  try {
    const body = wanted();
    shown = hashOf(body);
    if (location.hash !== shown) history.pushState(null, "", shown);
    remember(body);
    return { body, signal: underWay.signal };
  } catch (error) {
    failed(error);
    return null;
  }
}

function failed(error) {
  $("result").replaceChildren();
  showProblem($("problem"), error, onKey);
}

async function busy(signal, work) {
  $("result").setAttribute("aria-busy", "true");
  $("result").classList.add("old");
  try {
    await work();
  } catch (error) {
    if (error.name === "AbortError") return;
    failed(error);
  }
  if (signal.aborted) return;
  $("result").setAttribute("aria-busy", "false");
  $("result").classList.remove("old");
}

async function answered(body, signal) {
  let answer = null;
  for await (const [name, value] of events("/v1/answer", { ...body, explain: true, stream: true }, signal)) {
    if (name === "retrieval") {
      const feedback = new Feedback(value.request_id);
      answer = new Answer(value.passages.length, feedback.row, shareButton(body));
      // The router is asked afterwards: beside the question, it would be a part of its time.
      const [scored, described] = await Promise.all([opinion(body, signal), meanings()]);
      $("result").replaceChildren(cards(value, scored, described, answer, feedback));
      $("result").classList.remove("old"); // what comes now is new, and read while it comes
    } else if (name === "delta") answer.add(value.text);
    else if (name === "error") answer.fail(value.detail);
    else if (name === "done") {
      answer.end(value);
      $("said").textContent = `Answered: ${value.answer}`;
    }
  }
}

function run() {
  const begun = begin();
  if (begun) busy(begun.signal, () => answered(begun.body, begun.signal));
}

function runAll() {
  if (!$("ask").reportValidity()) return;
  const begun = begin();
  if (!begun) return;
  busy(begun.signal, () => {
    $("result").classList.remove("old");
    return compare($("result"), begun.body, begun.signal);
  });
}

// Asks as a link says; what it names and there is not here is told, and nothing else asked instead.
export function ask(body) {
  for (const name of ["route", "collection"]) {
    const there = [...$(name).options].map((option) => option.value);
    if (body[name] && !there.includes(body[name])) {
      const detail = `There is no ${name} '${body[name]}' here; use one of ${there.join(", ")}.`;
      failed(new Problem({ title: "This link is not valid here", detail }));
      return;
    }
  }
  fillIn(body);
  run();
}

function chip(question) {
  return el("button", { type: "button", class: "chip", onclick: () => ask({ question }) }, question);
}

export async function showExamples() {
  const collection = $("collection").value;
  if (!collection) return;
  const questions = await examplesOf(collection);
  if (collection !== $("collection").value) return; // another was chosen meanwhile
  $("examples").replaceChildren(...(questions.length ? [el("span", { class: "dim" }, "Try")] : []), ...questions.map(chip));
}

export function installAsk(askForKey) {
  onKey = askForKey;
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  $("compare").addEventListener("click", runAll);
}
