// The last questions of this browser; they are kept nowhere else.

import { hashOf } from "./address.js";
import { $, el } from "./dom.js";

const KEY = "wye-history";
const MOST = 50;

function stored() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one?.question === "string") : [];
  } catch {
    return [];
  }
}

function store(questions) {
  try {
    if (questions.length) localStorage.setItem(KEY, JSON.stringify(questions));
    else localStorage.removeItem(KEY);
  } catch {
    // Storage may be forbidden or full; then there is no history.
  }
  show();
}

export function remember({ question, route, k, collection, filter }) {
  const asked = { question, route, k, collection, filter };
  const others = stored().filter((one) => hashOf(one) !== hashOf(asked));
  store([asked, ...others].slice(0, MOST));
}

export function show() {
  const questions = stored();
  $("history").hidden = !questions.length;
  $("history-list").replaceChildren(
    ...questions.map((one) =>
      el("li", {}, el("a", { href: hashOf(one) }, one.question), el("span", { class: "dim" }, one.route ?? "")),
    ),
  );
}

export function installHistory() {
  $("history-clear").addEventListener("click", () => {
    store([]);
    $("question").focus();
  });
  show();
}
