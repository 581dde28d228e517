// Thresholds of one collection, to try on its recent scores. Nothing here changes the server: what
// comes out is a file.

import { badge, card, el, headed } from "./dom.js";
import { ms, percent } from "./format.js";
import { histogram } from "./histogram.js";
import { sharesOf, thresholdsFile } from "./thresholds.js";

const STEP = 0.005;

export class Tryout {
  constructor(collection) {
    this.collection = collection;
    this.tried = null;
    this.drawing = el("div", {});
    this.shares = el("div", {});
    this.sliders = el("div", { class: "sliders" });
    this.fields = {};
    this.note = el("p", { class: "dim" });
    this.fault = el("p", { class: "note" });
    this.saved = el("p", { class: "dim", role: "status" });
    this.buttons = el("div", { class: "buttons" });
    const title = `Scores and thresholds: ${collection}`;
    this.card = card(title, this.note, this.fault, el("div", { class: "two" }, el("div", {}, this.drawing, this.sliders, this.buttons, this.saved), this.shares));
    this.card.classList.add("tryout");
  }

  // Takes the newest figures; sliders stay where they were put, or where the thresholds are.
  update(scores) {
    const moved = this.tried && !this.isUntouched();
    this.scores = scores;
    this.fault.textContent = scores.error;
    this.fault.hidden = !scores.error;
    if (!scores.thresholds || !scores.scores.length) {
      this.note.textContent = scores.thresholds
        ? `${this.now()} No question has been scored yet.`
        : `No router is loaded, so nothing is scored: name a route, or give the server --router ${this.collection}=MODEL.`;
      this.tried = null;
      for (const part of [this.drawing, this.sliders, this.buttons, this.shares]) part.replaceChildren();
      return;
    }
    if (!moved && !this.isUntouched()) this.begin();
    this.tried.simple = scores.simple;
    this.show();
  }

  now() {
    const { router, thresholds } = this.scores;
    return `Now ${router} decides with ${thresholds.low.toFixed(3)} and ${thresholds.high.toFixed(3)}.`;
  }

  // Whether the sliders stand where the thresholds are.
  isUntouched() {
    const { low, high } = this.scores.thresholds ?? {};
    return this.tried?.low === low && this.tried?.high === high;
  }

  begin() {
    this.tried = { ...this.scores.thresholds, simple: this.scores.simple };
    this.sliders.replaceChildren(this.slider("low", "simple up to"), this.slider("high", "graph from"));
    this.buttons.replaceChildren(
      el("button", { type: "button", class: "primary", onclick: () => this.download() }, "Download thresholds"),
      el("button", { type: "button", onclick: () => this.begin() || this.show() }, "Reset"),
    );
  }

  slider(name, label) {
    const id = `${name}-${this.collection}`;
    const output = el("output", { for: id }, this.tried[name].toFixed(3));
    const input = el("input", { id, type: "range", min: 0, max: 1, step: "any", "data-threshold": name });
    input.value = this.tried[name];
    input.addEventListener("input", () => this.move(name, Number(input.value)));
    input.addEventListener("keydown", (event) => this.step(event, name));
    this.fields[name] = { input, output };
    return el("label", { for: id }, el("span", {}, label), input, output);
  }

  // A range of any step has no arrow keys of its own that would be fine enough.
  step(event, name) {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    this.move(name, Math.min(1, Math.max(0, this.tried[name] + by * STEP)));
  }

  // One threshold pushes the other along, as low may not be above high.
  move(name, value) {
    this.saved.textContent = "";
    this.tried[name] = value;
    if (this.tried.low > this.tried.high) this.tried[name === "low" ? "high" : "low"] = value;
    for (const [other, { input, output }] of Object.entries(this.fields)) {
      input.value = this.tried[other];
      output.textContent = this.tried[other].toFixed(3);
    }
    this.show();
  }

  show() {
    const { scores, thresholds, simple } = this.scores;
    this.note.textContent = `${this.now()} Recent scores in this collection: ${scores.length}. Trying thresholds changes nothing on the server.`;
    this.drawing.replaceChildren(histogram(scores, this.tried));
    const before = sharesOf(scores, { ...thresholds, simple });
    const then = sharesOf(scores, this.tried);
    this.shares.replaceChildren(
      el(
        "table",
        { class: "plain shares" },
        headed("route", "now", "tried"),
        el("tbody", {}, ...Object.keys(then).map((route) => shareRow(route, before[route], then[route]))),
        el("tfoot", {}, this.meanRow(before, then)),
      ),
      el("p", { class: "dim" }, "Questions that went in steps count by their score. Times are medians of this collection's recent answers. To see how good the answers would be, evaluate with wye tune."),
    );
  }

  meanRow(now, then) {
    const mean = (shares) => {
      let sum = 0;
      for (const [route, share] of Object.entries(shares)) {
        if (share && !this.scores.routes[route]) return "?";
        sum += share * (this.scores.routes[route]?.p50_ms ?? 0);
      }
      return ms(sum);
    };
    return el("tr", {}, el("th", { scope: "row" }, "mean time, about"), el("td", { class: "number" }, mean(now)), el("td", { class: "number" }, mean(then)));
  }

  download() {
    const file = new Blob([thresholdsFile(this.tried, this.scores)], { type: "application/json" });
    const name = `thresholds-${this.collection}.json`;
    const link = el("a", { href: URL.createObjectURL(file), download: name });
    link.click();
    URL.revokeObjectURL(link.href);
    this.saved.textContent =
      "Saved for review. Put in place of this collection's thresholds file, it takes effect within seconds. " +
      `If it uses none, start the server with --thresholds ${this.collection}=${name}.`;
  }
}

function shareRow(route, now, then) {
  const cell = (share) =>
    el("td", { class: "number" }, percent(share), el("span", { class: "under" }, el("span", { class: `fill ${route}`, style: { width: `${100 * share}%` } })));
  return el("tr", {}, el("th", { scope: "row" }, badge(route)), cell(now), cell(then));
}
