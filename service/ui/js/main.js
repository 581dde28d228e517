// The console: the views, what the address says, and whether the server is ready.

import { read } from "./address.js";
import { askForKey, get, keepKey } from "./api.js";
import { ask, current, installAsk, showExamples } from "./ask.js";
import { $, el } from "./dom.js";
import { installDocuments, showDocuments } from "./documents.js";
import { count } from "./text.js";

const VIEWS = ["ask", "documents"];
const SOON = 1000;
const LATER = 15000;
const selects = document.querySelectorAll("[data-collections]");

let shown = "";
let collections = "";
let timer = 0;

function reveal(view) {
  for (const name of VIEWS) {
    const isShown = view === name;
    $(`view-${name}`).hidden = !isShown;
    $(`tab-${name}`).setAttribute("aria-selected", String(isShown));
    $(`tab-${name}`).tabIndex = isShown ? 0 : -1;
  }
  shown = view;
  if (view === "ask") $("question").focus();
  if (view === "documents") showDocuments();
}

// Shows a view that somebody chose; the question stands in the form, and comes back with the tab.
function choose(view) {
  history.pushState(null, "", view === "ask" ? current() || location.pathname : `#${view}`);
  reveal(view);
}

// Does what the address says: after a link, and on the way back.
function obey() {
  const { view, asked } = read();
  if (view !== shown) reveal(view);
  if (asked) ask(asked);
}

function refresh() {
  showExamples();
  if (shown === "documents") showDocuments();
}

function installViews() {
  const last = VIEWS.length - 1;
  VIEWS.forEach((name, here) => {
    const tab = $(`tab-${name}`);
    tab.addEventListener("click", () => choose(name));
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: here ? here - 1 : last, ArrowRight: here === last ? 0 : here + 1, Home: 0, End: last }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      choose(VIEWS[to]);
      $(`tab-${VIEWS[to]}`).focus();
    });
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input, textarea, select, dialog[open]");
    if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    choose("ask");
    $("question").select();
  });
}

function say(kind, text) {
  $("status").className = `status ${kind}`;
  $("status").textContent = text;
}

function fillSelects(names) {
  for (const select of selects) {
    const before = [...select.options].map((option) => option.value);
    if (before.join("\n") === names.join("\n")) return;
    select.replaceChildren(...names.map((name) => el("option", { value: name }, name)));
    select.closest("label").hidden = names.length < 2;
  }
}

// A link is followed only once the form has the collections, and one of them can answer.
function arrived(names) {
  if (collections === names.join("\n")) return;
  const isFirst = !collections;
  collections = names.join("\n");
  showExamples();
  if (isFirst && read().asked) ask(read().asked);
}

// Asks for the server's health again and again; called anew, as with another key, it asks at once.
async function follow() {
  clearTimeout(timer);
  let wait = SOON;
  try {
    const health = await get("/health");
    const all = health.collections ?? []; // a server with keys tells them to whoever has one
    const names = all.map((one) => one.collection);
    const counts = all.flatMap((one) => one.passages ?? []);
    const failed = all.find((one) => one.error);
    fillSelects(names);
    if (all.some((one) => one.ready)) arrived(names);
    if (failed) say("bad", `${failed.collection}: ${failed.error}`);
    else if (health.ready) say("good", counts.length ? `ready, ${count(counts.reduce((sum, one) => sum + one, 0), "passage")}` : "ready");
    else say("wait", "loading the models…");
    if (health.ready) wait = LATER;
  } catch (error) {
    say("bad", error.message);
  }
  clearTimeout(timer);
  timer = setTimeout(follow, wait);
}

$("key-form").addEventListener("submit", (event) => {
  keepKey(event.submitter?.value === "forget" ? "" : $("key-field").value.trim());
  $("key-field").value = "";
  follow();
  refresh();
});
$("open-key").addEventListener("click", askForKey);
for (const select of selects) {
  select.addEventListener("change", () => {
    for (const other of selects) other.value = select.value;
    refresh();
  });
}
installAsk();
installDocuments();
installViews();
reveal(read().view);
window.addEventListener("popstate", obey);
follow();
