// Keys that work wherever nothing is being typed.

import { el } from "./dom.js";

// [key, what it does, action]
export function installShortcuts(list, shortcuts) {
  list.replaceChildren(
    ...shortcuts.flatMap(([key, does]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, does)]),
    el("dt", {}, el("kbd", {}, "Enter")),
    el("dd", {}, "ask the question"),
    el("dt", {}, el("kbd", {}, "Esc")),
    el("dd", {}, "leave a field or a dialog"),
  );
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest?.("input, textarea, select, dialog[open]");
    if (event.key === "Escape" && typing && !typing.matches("dialog")) {
      event.target.blur();
      return;
    }
    const known = shortcuts.find(([key]) => key === event.key);
    if (!known || typing) return;
    event.preventDefault();
    known[2]();
  });
}
