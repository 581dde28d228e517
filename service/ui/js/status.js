// Whether the server is ready, and which collections it has.

import { get } from "./api.js";
import { $, el } from "./dom.js";

const AGAIN = 1000;
const LATER = 15000;

function say(kind, text) {
  $("status").className = `status ${kind}`;
  $("status").textContent = text;
}

function fill(names) {
  for (const select of document.querySelectorAll("[data-collections]")) {
    const before = [...select.options].map((option) => option.value);
    if (before.join("\n") === names.join("\n")) return;
    select.replaceChildren(...names.map((name) => el("option", { value: name }, name)));
    select.closest("label").hidden = names.length < 2;
  }
}

let timer = 0;

// Asks again and again; called anew, as with another key, it asks at once.
export async function follow(onNames) {
  clearTimeout(timer);
  let wait = AGAIN;
  try {
    const health = await get("/health");
    const collections = health.collections ?? []; // a server with keys tells them to whoever has one
    const failed = collections.find((one) => one.error);
    const counts = collections.flatMap((one) => one.passages ?? []);
    const passages = counts.reduce((sum, one) => sum + one, 0).toLocaleString("en");
    const names = collections.map((one) => one.collection);
    fill(names);
    if (collections.some((one) => one.ready)) onNames(names);
    if (failed) say("bad", `${failed.collection}: ${failed.error}`);
    else if (health.ready) say("good", counts.length ? `ready, ${passages} passages` : "ready");
    else say("wait", "loading the models…");
    if (health.ready) wait = LATER;
  } catch (error) {
    say("bad", error.message);
  }
  clearTimeout(timer);
  timer = setTimeout(() => follow(onNames), wait);
}
