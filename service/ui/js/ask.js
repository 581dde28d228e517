// The first view: a question in, its answer, passages and details out.

import { hashOf } from "./address.js";
import { Answer, Feedback } from "./answer.js";
import { events, post, Problem, showProblem } from "./api.js";
import { compare } from "./compare.js";
import { detailsOf, meanings } from "./details.js";
import { $, el } from "./dom.js";
import { examplesOf } from "./examples.js";
import { passagesCard } from "./passages.js";
import { pathsOf } from "./paths.js";

const MOST_TURNS = 24;
const LONGEST_TURN = 16384;

let underWay = null;
let shown = "";
let turns = []; // {question, answer}: what was said before what is shown now
let latest = null;

function bodyOfForm() {
  const body = { question: $("question").value, route: $("route").value, k: Number($("k").value) };
  if ($("collection").value) body.collection = $("collection").value;
  if ($("filter").value.trim()) body.filter = $("filter").value.trim();
  return body;
}

// Fills the form in as a link has it; what it does not name stays as it is.
function fillIn({ question, route, k, collection, filter }) {
  $("question").value = question;
  if (route) $("route").value = route;
  if (k) $("k").value = k;
  if (collection) $("collection").value = collection;
  $("filter").value = filter ?? "";
  $("filter").closest("details").open = Boolean(filter);
}

// What the router makes of a question whose route was named; where it cannot say, why.
async function opinionOn({ route, question, collection }, signal) {
  if (route === "auto") return {};
  try {
    return (await post("/v1/route", { question, collection, explain: true }, signal)).route;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return { score: null, why: error.message };
  }
}

function whyEmpty(reply) {
  const isFiltered = Object.values(reply.arms).every((arm) => arm.candidates === 0);
  if ($("filter").value.trim() && isFiltered) return "No passage passes the filter.";
  return `No passage was found${reply.degraded ? `: ${reply.degraded}` : ""}.`;
}

function showTurns() {
  const turn = ({ question, answer: text }) => el("li", { class: "card" }, el("h2", { dir: "auto" }, question), el("p", { dir: "auto" }, text));
  $("turns").replaceChildren(...turns.map(turn));
}

// A line below an answer for the next question of the conversation.
function followUp() {
  const words = { id: "follow", type: "text", placeholder: "Ask a follow-up", maxlength: 4096, autocomplete: "off", required: true };
  const field = el("input", { ...words, "aria-label": "Follow-up question" });
  const go = (event) => {
    event.preventDefault();
    turns = [...turns, latest].slice(-MOST_TURNS);
    showTurns();
    run(answer, field.value);
  };
  return el("form", { class: "ask-line", hidden: true, onsubmit: go }, field, el("button", { type: "submit" }, "Ask"));
}

function partsOf(reply, opinion, described, answer, feedback) {
  const { sections, sentences } = pathsOf(reply);
  // That an arm has nothing to say is told in the details; this is for what failed or was late.
  const alarm = reply.degraded.startsWith("degraded: ") ? reply.degraded.slice("degraded: ".length) : "";
  return [
    ...(alarm ? [el("p", { id: "degraded", class: "card degraded" }, "Not what was asked for: ", alarm)] : []),
    ...(reply.searched ? [el("p", { class: "note", dir: "auto" }, `Searched for: ${reply.searched}`)] : []),
    answer.card,
    reply.passages.length ? passagesCard(reply, sentences, feedback) : el("p", { class: "card" }, whyEmpty(reply)),
    detailsOf(reply, opinion, described, sections),
  ];
}

// The address of the question whose answer is shown, or "".
export function current() {
  return shown;
}

function failed(error) {
  $("result").replaceChildren();
  showProblem($("problem"), error);
}

// Stops the question before, and does `work(body, signal)` with what the form says, or a follow-up asks.
async function run(work, next = "") {
  underWay?.abort();
  const { signal } = (underWay = new AbortController());
  $("problem").replaceChildren();
  $("said").textContent = "";
  $("examples").hidden = true;
  $("result").setAttribute("aria-busy", "true");
  $("result").classList.add("old");
  if (!$("result").firstChild) $("result").replaceChildren(el("p", { class: "dim" }, "Searching …"));
  try {
    const body = bodyOfForm();
    if (next) {
      body.question = next;
      const said = (role, content) => ({ role, content: content.slice(0, LONGEST_TURN) });
      body.history = turns.flatMap((turn) => [said("user", turn.question), said("assistant", turn.answer)]);
    } else {
      turns = [];
      showTurns();
      shown = hashOf(body);
      if (location.hash !== shown) history.pushState(null, "", shown);
    }
    await work(body, signal);
  } catch (error) {
    if (error.name === "AbortError") return;
    failed(error);
  }
  if (signal.aborted) return;
  $("result").setAttribute("aria-busy", "false");
  $("result").classList.remove("old");
}

// On a small screen, the answer would begin below its end.
function intoView(card) {
  if (card.getBoundingClientRect().top > innerHeight / 2) card.scrollIntoView({ block: "start" });
}

async function answer(body, signal) {
  let coming = null;
  for await (const [name, value] of events("/v1/answer", { ...body, explain: true, stream: true }, signal)) {
    if (name === "retrieval") {
      const feedback = new Feedback(value.request_id);
      const searched = body.history && value.question !== body.question ? `Searched for: ${value.question}` : "";
      coming = new Answer(body.history ? body.question : "Answer", value.passages, feedback, searched, followUp());
      // The router is asked afterwards: beside the question, it would be a part of its time.
      const [opinion, described] = await Promise.all([opinionOn(body, signal), meanings()]);
      $("result").replaceChildren(...partsOf(value, opinion, described, coming, feedback));
      $("result").classList.remove("old"); // what comes now is new, and read while it comes
      intoView(coming.card);
    } else if (name === "delta") coming.add(value.text);
    else if (name === "error") coming.fail(value.detail);
    else if (name === "done") {
      latest = { question: body.question, answer: value.answer };
      coming.end(value);
      $("said").textContent = `Answered: ${value.answer}`;
    }
  }
}

function compareAll(body, signal) {
  $("result").classList.remove("old");
  return compare($("result"), body, signal);
}

// Asks as a link says; what it names and is not here is told, and nothing else asked instead.
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
  run(answer);
}

export async function showExamples() {
  const collection = $("collection").value;
  if (!collection) return;
  const { label, questions } = await examplesOf(collection);
  if (collection !== $("collection").value) return; // another was chosen meanwhile
  const chip = (question) => el("button", { type: "button", class: "small", onclick: () => ask({ question }) }, question);
  $("examples").replaceChildren(...(questions.length ? [el("span", { class: "dim" }, label)] : []), ...questions.map(chip));
}

export function installAsk() {
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    run(answer);
  });
  $("compare").addEventListener("click", () => {
    if ($("ask").reportValidity()) run(compareAll);
  });
}
