// The answer as it comes, its citations as links, and what somebody thinks of it.

import { post } from "./api.js";
import { card, el } from "./dom.js";
import { row } from "./text.js";

// A part of the answer with links to the passages that it cites; a row of a table by itself, with its name.
function cited({ text, passages }, titles) {
  const goTo = (number) => (event) => {
    event.preventDefault(); // the address keeps the question
    const passage = document.getElementById(`passage-${number}`);
    passage?.focus();
    passage?.scrollIntoView({ block: "nearest" });
  };
  const link = (number) =>
    el("a", { class: "cite", href: `#passage-${number}`, "aria-label": `Passage ${number}`, onclick: goTo(number) }, String(number));
  const links = passages.map(link);
  const [, remark = "", rest] = /^([^:;\n]*[.!?]\s)?(.*)$/s.exec(text);
  const title = titles[passages[0] - 1] ?? "";
  const cells = row(rest.startsWith(`${title}: `) ? rest.slice(title.length + 2) : rest);
  return cells ? [remark, el("span", { class: "row" }, el("strong", {}, title), " ", cells, ...links)] : [text, ...links];
}

export class Answer {
  // `searched` says what was searched for in place of a follow-up; `next` asks one, once this is answered.
  constructor(title, passages, feedback, searched, next) {
    this.passages = passages;
    this.text = "";
    this.next = next;
    this.body = el("p", { id: "answer", class: "answer", dir: "auto" });
    this.note = el("p", { class: "dim" });
    this.card = card(title, searched ? el("p", { class: "dim" }, searched) : null, this.body, this.note, feedback.row, next);
  }

  add(piece) {
    this.text += piece;
    this.body.textContent = this.text;
  }

  end({ answer, segments, note, generator }) {
    this.next.hidden = false;
    const titles = this.passages.map(({ title }) => title);
    if (segments?.length) this.body.replaceChildren(...segments.flatMap((segment) => cited(segment, titles)));
    else this.body.textContent = answer;
    this.note.textContent = note || (this.passages.length ? `Written by ${generator}.` : "");
  }

  fail(detail) {
    this.note.textContent = detail;
    this.note.className = "note";
  }
}

// The newest that was said of a reply counts, so each press sends all of it, and pressing again takes it back.
export class Feedback {
  constructor(requestId) {
    this.requestId = requestId;
    this.rating = "none";
    this.passages = new Set();
    this.state = el("span", { class: "dim", role: "status", id: "feedback-said" });
    this.buttons = [];
    this.row = el("div", { class: "line" }, el("span", { class: "dim" }, "Is this right?"), this.rate("good", "Yes"), this.rate("bad", "No"), this.state);
  }

  button(kind, isOn, change, label) {
    const press = () => this.press(change);
    const made = el("button", { type: "button", class: "small", "aria-pressed": "false", "data-feedback": kind, onclick: press }, label);
    this.buttons.push([made, isOn]);
    return made;
  }

  rate(rating, label) {
    const change = () => {
      this.rating = this.rating === rating ? "none" : rating;
    };
    return this.button(rating, () => this.rating === rating, change, label);
  }

  // For one passage; the request log keeps the passages that answer a question.
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
      this.state.className = "dim";
      this.state.textContent = rating === "none" ? "Withdrawn." : "Saved. Press again to withdraw.";
    } catch (error) {
      [this.rating, this.passages] = before;
      this.state.className = "note";
      this.state.textContent = error.message;
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
