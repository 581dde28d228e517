// The first view: a question in, an answer with everything that led to it out.

import { Answer } from "./answer.js";
import { events, post, Problem } from "./api.js";
import { armsCard } from "./arms.js";
import { bridgeOf } from "./bridge.js";
import { bridgeCard } from "./bridge_drawing.js";
import { contributionsCard } from "./contributions.js";
import { el } from "./dom.js";
import { DEMO, EXAMPLES } from "./examples.js";
import { routeCard } from "./gauge.js";
import { passagesCard } from "./passages.js";
import { showProblem } from "./problem.js";
import { timingsCard } from "./timings.js";
import { treeCard } from "./tree.js";

const $ = (id) => document.getElementById(id);
let underWay = null;

function wanted() {
  const body = {
    question: $("question").value,
    route: $("route").value,
    k: Number($("k").value),
    explain: true,
  };
  if ($("collection").value) body.collection = $("collection").value;
  const filter = $("filter").value.trim();
  if (!filter) return body;
  try {
    return { ...body, filter: JSON.parse(filter) };
  } catch (error) {
    throw new Problem({ title: "Filter", detail: `The filter is no JSON: ${error.message}.` });
  }
}

// What the router makes of a question whose route was forced; where it cannot say, why.
async function opinion(body, signal) {
  if (body.route === "auto") return {};
  const { question, collection, explain } = body;
  try {
    return (await post("/v1/route", { question, collection, explain }, signal)).route;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return { score: null, why: error.message };
  }
}

function cards(reply, scored, answer) {
  const parts = reply.route.contributions?.length ? reply.route : scored;
  const bridge = reply.explanation?.entities.length ? bridgeOf(reply) : null;
  return el(
    "div",
    { class: "grid" },
    reply.degraded
      ? el("p", { id: "degraded", class: "card degraded wide" }, "Not what was asked for. ", reply.degraded)
      : null,
    answer.card,
    routeCard(reply.route, scored.thresholds ? scored : null, scored.why ?? ""),
    timingsCard(reply.timings_ms, reply.arms, reply),
    bridge ? wide(bridgeCard(bridge)) : null,
    passagesCard(reply.passages, bridge?.sentences ?? new Map()),
    el(
      "div",
      { class: "column" },
      parts.contributions?.length ? contributionsCard(parts.contributions) : null,
      parts.trees?.length ? treeCard(parts.trees) : null,
    ),
    wide(armsCard(reply)),
  );
}

function wide(one) {
  one.classList.add("wide");
  return one;
}

async function run(onKey) {
  underWay?.abort();
  underWay = new AbortController();
  const { signal } = underWay;
  $("problem").replaceChildren();
  $("said").textContent = "";
  $("result").setAttribute("aria-busy", "true");
  try {
    const body = wanted();
    let answer = null;
    for await (const [name, value] of events("/v1/answer", { ...body, stream: true }, signal)) {
      if (name === "retrieval") {
        // The router is asked afterwards: beside the question, it would be a part of its time.
        answer = new Answer(value.passages.length);
        $("result").replaceChildren(cards(value, await opinion(body, signal), answer));
      } else if (name === "delta") answer.add(value.text);
      else if (name === "error") answer.fail(value.detail);
      else if (name === "done") {
        answer.end(value);
        $("said").textContent = `Answered: ${value.answer}`;
      }
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    $("result").replaceChildren();
    showProblem($("problem"), error, onKey);
  }
  if (!signal.aborted) $("result").setAttribute("aria-busy", "false");
}

export function showExamples(names) {
  if (!names.includes(DEMO)) return;
  $("examples").replaceChildren(
    el("span", { class: "dim" }, "Try"),
    ...EXAMPLES.map((question) =>
      el(
        "button",
        {
          type: "button",
          class: "chip",
          onclick: () => {
            $("question").value = question;
            $("collection").value = DEMO;
            $("ask").requestSubmit();
          },
        },
        question,
      ),
    ),
  );
}

export function installAsk(onKey) {
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    run(onKey);
  });
}
