// What somebody thinks of an answer. The newest that was said of a reply counts, so each press sends
// all of it, and pressing again takes it back.

import { post } from "./api.js";
import { el, svg } from "./dom.js";

const THUMB = "M1 7h3v7H1zM5 7l3-6c1.5 0 2 1 1.7 2.3L9.2 6H13.6c.9 0 1.4.7 1.2 1.5l-1.4 5.3c-.2.7-.7 1.2-1.5 1.2H5z";

export class Feedback {
  constructor(requestId) {
    this.requestId = requestId;
    this.rating = "none";
    this.passages = new Set();
    this.said = el("span", { class: "dim", role: "status", id: "feedback-said" });
    this.buttons = [];
    this.row = el("div", { class: "feedback" }, el("span", {}, "Is this right?"), this.thumb("good", "Yes"), this.thumb("bad", "No"), this.said);
  }

  button(kind, isOn, change, ...label) {
    const made = el("button", { type: "button", class: "toggle", "aria-pressed": "false", "data-feedback": kind, onclick: () => this.press(change) }, ...label);
    this.buttons.push([made, isOn]);
    return made;
  }

  thumb(rating, word) {
    const change = () => {
      this.rating = this.rating === rating ? "none" : rating;
    };
    const turn = rating === "bad" ? "rotate(180 8 8)" : null;
    const sign = svg("svg", { class: "thumb", viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: THUMB, transform: turn }));
    return this.button(rating, () => this.rating === rating, change, sign, ` ${word}`);
  }

  // For one passage; what the question's answer stands in is what `wye tune --from-log` learns from.
  answers(id) {
    const change = () => {
      if (!this.passages.delete(id)) this.passages.add(id);
    };
    return this.button("answers", () => this.passages.has(id), change, "This passage answers it");
  }

  async press(change) {
    const before = [this.rating, new Set(this.passages)];
    change();
    this.show(true);
    const passages = [...this.passages];
    // A passage that answers the question is a good reply, unless somebody says otherwise.
    const rating = this.rating === "none" && passages.length ? "good" : this.rating;
    try {
      await post("/v1/feedback", { request_id: this.requestId, rating, passages });
      this.said.className = "dim";
      this.said.textContent = rating === "none" ? "Withdrawn." : "Saved. Press again to withdraw.";
    } catch (error) {
      [this.rating, this.passages] = before;
      this.said.className = "note";
      this.said.textContent = error.message;
    }
    this.show(false);
  }

  show(busy) {
    for (const [button, isOn] of this.buttons) {
      button.setAttribute("aria-pressed", String(isOn()));
      button.setAttribute("aria-disabled", String(busy));
    }
  }
}
