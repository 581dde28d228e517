// The console: puts the parts together.

import { read } from "./address.js";
import { apiKey, keepKey } from "./api.js";
import { ask, current, installAsk, showExamples } from "./ask.js";
import { $ } from "./dom.js";
import { installDocuments, showDocuments } from "./documents.js";
import { installHistory } from "./history.js";
import { watch } from "./live.js";
import { installShortcuts } from "./shortcuts.js";
import { follow } from "./status.js";
import { installTheme, nextTheme } from "./theme.js";
import { installViews, show } from "./views.js";

let shown = "";
let collections = "";

function askForKey() {
  $("key-field").value = apiKey();
  $("key").showModal();
}

function reveal(view) {
  show(view);
  shown = view;
  watch(view === "live", askForKey);
  if (view === "ask") $("question").focus();
  if (view === "documents") showDocuments();
}

// Shows a view that somebody chose; the question stands in the form, and comes back with the tab.
function choose(view) {
  history.pushState(null, "", view === "ask" ? current() || location.pathname : `#${view}`);
  reveal(view);
}

// Does what the address says: at the start, after a link, and on the way back.
function obey() {
  const { view, asked } = read();
  if (view !== shown) reveal(view);
  if (asked) ask(asked);
}

function refresh() {
  showExamples();
  if (shown === "documents") showDocuments();
}

$("key-form").addEventListener("submit", (event) => {
  keepKey(event.submitter?.value === "forget" ? "" : $("key-field").value.trim());
  $("key-field").value = "";
  follow(arrived);
  refresh();
});
$("open-key").addEventListener("click", askForKey);
$("open-help").addEventListener("click", () => $("help").showModal());
for (const select of document.querySelectorAll("[data-collections]")) {
  select.addEventListener("change", () => {
    for (const other of document.querySelectorAll("[data-collections]")) other.value = select.value;
    refresh();
  });
}
installTheme($("theme"));
installAsk(askForKey);
installDocuments(askForKey);
installHistory();
installViews(choose);
installShortcuts($("shortcuts"), [
  ["/", "go to the question", () => {
    choose("ask");
    $("question").select();
  }],
  ["1", "ask", () => choose("ask")],
  ["2", "documents", () => choose("documents")],
  ["3", "live traffic", () => choose("live")],
  ["t", "next theme", () => nextTheme($("theme"))],
  ["?", "this list", () => $("help").showModal()],
]);
reveal(read().view);
window.addEventListener("popstate", obey);

// Not before the form has the collections, and one of them can answer.
function arrived(names) {
  if (collections === names.join("\n")) return;
  const first = !collections;
  collections = names.join("\n");
  showExamples();
  if (first && read().asked) ask(read().asked);
}
follow(arrived);
