// What went wrong, where it is seen.

import { el } from "./dom.js";

export function showProblem(place, error, onKey) {
  const faults = error.errors ?? [];
  place.replaceChildren(
    el(
      "div",
      { class: "card problem" },
      el("h2", {}, error.title ?? "The console failed"),
      el("p", {}, error.message),
      faults.length
        ? el("ul", {}, ...faults.map((fault) => el("li", {}, el("code", {}, fault.at), ` ${fault.says}`)))
        : null,
      error.requestId ? el("p", { class: "dim" }, `Request ${error.requestId}`) : null,
      [401, 403].includes(error.status)
        ? el("button", { type: "button", class: "primary", onclick: onKey }, "Enter an API key")
        : null,
    ),
  );
}
