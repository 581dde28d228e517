// The console: puts the parts together.

import { apiKey, keepKey } from "./api.js";
import { installAsk, showExamples } from "./ask.js";
import { watch } from "./live.js";
import { installShortcuts } from "./shortcuts.js";
import { follow } from "./status.js";
import { installTheme, nextTheme } from "./theme.js";
import { installViews, show } from "./views.js";

const $ = (id) => document.getElementById(id);

function askForKey() {
  $("key-field").value = apiKey();
  $("key").showModal();
}

function onShow(name) {
  watch(name === "live", askForKey);
  if (name === "ask") $("question").focus();
}

$("key-form").addEventListener("submit", (event) => {
  keepKey(event.submitter?.value === "forget" ? "" : $("key-field").value.trim());
  $("key-field").value = "";
});
$("open-key").addEventListener("click", askForKey);
$("open-help").addEventListener("click", () => $("help").showModal());
installTheme($("theme"));
installAsk(askForKey);
installViews(onShow);
installShortcuts($("shortcuts"), [
  ["/", "go to the question", () => {
    show("ask", onShow);
    $("question").select();
  }],
  ["1", "ask", () => show("ask", onShow)],
  ["2", "live traffic", () => show("live", onShow)],
  ["t", "next theme", () => nextTheme($("theme"))],
  ["?", "this list", () => $("help").showModal()],
]);

let known = "";
follow((names) => {
  if (known !== names.join("\n")) showExamples(names);
  known = names.join("\n");
});
