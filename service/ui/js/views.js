// The views as tabs; the address says which one is shown.

import { $ } from "./dom.js";

const VIEWS = ["ask", "documents", "live"];

// `onChoose(name)` is told of a view that somebody chose.
export function installViews(onChoose) {
  for (const name of VIEWS) {
    $(`tab-${name}`).addEventListener("click", () => onChoose(name));
    $(`tab-${name}`).addEventListener("keydown", (event) => {
      const last = VIEWS.length - 1;
      const here = VIEWS.indexOf(name);
      const to = { ArrowLeft: here ? here - 1 : last, ArrowRight: here === last ? 0 : here + 1, Home: 0, End: last }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      onChoose(VIEWS[to]);
      $(`tab-${VIEWS[to]}`).focus();
    });
  }
}

export function show(name) {
  for (const view of VIEWS) {
    const chosen = view === name;
    $(`view-${view}`).hidden = !chosen;
    $(`tab-${view}`).setAttribute("aria-selected", String(chosen));
    $(`tab-${view}`).tabIndex = chosen ? 0 : -1;
  }
}
