// The answer as it comes; once it is whole, its parts name the passages that they are from.

import { card, el, wide } from "./dom.js";

function goTo(number) {
  return (event) => {
    event.preventDefault();
    const passage = document.getElementById(`passage-${number}`);
    passage?.focus();
    passage?.scrollIntoView({ block: "nearest" });
  };
}

function cited({ text, passages }) {
  return [
    text,
    ...passages.map((number) =>
      el("a", { class: "cite", href: `#passage-${number}`, "aria-label": `Passage ${number}`, onclick: goTo(number) }, String(number)),
    ),
  ];
}

export class Answer {
  constructor(count, ...tools) {
    this.count = count;
    this.text = "";
    this.body = el("p", { id: "answer", class: "answer", dir: "auto" });
    this.note = el("p", { class: "dim" });
    this.card = wide(card("Answer", this.body, this.note, el("div", { class: "answer-tools" }, ...tools)));
  }

  add(piece) {
    this.text += piece;
    this.body.textContent = this.text;
  }

  end({ answer, segments, note, generator }) {
    if (segments?.length) this.body.replaceChildren(...segments.flatMap(cited));
    else this.body.textContent = answer;
    this.note.textContent = note || (this.count ? `Written by ${generator}.` : "");
  }

  fail(detail) {
    this.note.textContent = detail;
    this.note.className = "note";
  }
}
