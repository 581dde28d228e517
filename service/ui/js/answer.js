// The answer, as it comes, with its citations.

import { card, el } from "./dom.js";

// A text with [1] made links to the passages that there are.
function cited(text, count) {
  return text.split(/(\[\d+\])/).map((piece) => {
    const number = /^\[(\d+)\]$/.exec(piece)?.[1];
    return number && number <= count ? el("a", { href: `#passage-${number}` }, piece) : piece;
  });
}

export class Answer {
  constructor(count) {
    this.count = count;
    this.text = "";
    this.body = el("p", { id: "answer", class: "answer", dir: "auto" });
    this.note = el("p", { class: "dim" });
    this.card = card("Answer", this.body, this.note);
    this.card.classList.add("wide");
  }

  add(piece) {
    this.text += piece;
    this.body.replaceChildren(...cited(this.text, this.count));
  }

  end({ answer, note, generator }) {
    this.text = "";
    this.add(answer);
    this.note.textContent = note || `Written by ${generator}.`;
  }

  fail(detail) {
    this.note.textContent = detail;
    this.note.className = "note";
  }
}
