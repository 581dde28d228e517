// The chain of steps: what was searched for, the sentences that gave names, and the names that took its
// place in what was searched for next. As a drawing, and in words.

import { drawing } from "./columns.js";
import { card, details, drawn, el } from "./dom.js";
import { wrap } from "./format.js";

const NAMES = 4;
const TYPES = { person: "a person", place: "a place", date: "a date", work: "a work", number: "a number", organisation: "an organisation" };

function asksFor({ wanted }) {
  return TYPES[wanted] ? `asks for ${TYPES[wanted]}` : "";
}

function fate(name) {
  return name.put_in ? "used" : "not used";
}

// {columns: [[node]], edges: [[from, to, strength]]} of the surest names, for `drawing`.
function drawingOf(steps, titles) {
  const columns = [];
  const edges = [];
  const key = (step, name) => `n:${step.place}:${name.name}`;
  const placed = steps.map((step, place) => ({ ...step, place, shown: step.candidates.slice(0, NAMES) }));
  for (const level of [...new Set(steps.map((step) => step.level))].sort((a, b) => a - b)) {
    const own = placed.filter((step) => step.level === level);
    const sentences = new Map();
    const names = [];
    for (const step of own) {
      const from = `p:${step.place}`;
      for (const before of placed.filter((one) => one.level < level && step.phrase.includes(one.phrase))) {
        for (const name of before.shown.filter((one) => one.put_in)) edges.push([key(before, name), from, name.confidence]);
      }
      for (const name of step.shown) {
        names.push({ key: key(step, name), kind: name.put_in ? "name" : "spare", text: name.name, note: `${name.confidence.toFixed(2)}, ${fate(name)}` });
        const sentence = `s:${level}:${name.passage}:${name.row}`;
        if (name.sentence) {
          const note = wrap(titles.get(name.passage) ?? name.passage, 30, 1)[0];
          sentences.set(sentence, { key: sentence, kind: "sentence", text: name.sentence, note });
          edges.push([from, sentence, 1], [sentence, key(step, name), name.confidence]);
        } else edges.push([from, key(step, name), name.confidence]);
      }
    }
    const phrases = own.map((step) => ({ key: `p:${step.place}`, kind: "phrase", text: step.asked, note: asksFor(step) }));
    columns.push(...[phrases, [...sentences.values()], names].filter((column) => column.length));
  }
  return { columns, edges };
}

function nameInWords(name, titles) {
  const passage = titles.get(name.passage) ?? name.passage;
  const source = name.sentence
    ? [el("q", { dir: "auto" }, name.sentence), " (", el("bdi", {}, passage), ")"]
    : ["title of ", el("bdi", {}, passage)];
  return el("li", {}, el("bdi", { class: name.put_in ? "put-in" : null }, name.name), `, confidence ${name.confidence.toFixed(2)}, ${fate(name)}: `, ...source);
}

function stepInWords(step, titles) {
  return el(
    "li",
    {},
    el("q", { dir: "auto" }, step.asked),
    asksFor(step) ? ` ${asksFor(step)}` : "",
    step.candidates.length ? null : ": no name was found",
    el("ul", {}, ...step.candidates.map((name) => nameInWords(name, titles))),
  );
}

function inWords(steps, titles) {
  const items = steps.map((step) => stepInWords(step, titles));
  return details("In words", el("ol", { id: "chain-words", class: "chain-words" }, ...items));
}

// Passage id -> sentences that gave a name which was put in.
export function sentencesOf(steps) {
  const found = new Map();
  for (const name of steps.flatMap((step) => step.candidates)) {
    if (!name.put_in || !name.sentence) continue;
    if (!found.has(name.passage)) found.set(name.passage, new Set());
    found.get(name.passage).add(name.sentence);
  }
  return found;
}

export function chainCard({ steps, passages, arms, degraded }) {
  const late = degraded.split("; ").filter((note) => note.startsWith("steps: "));
  if (!steps.length && !late.length) return card("Steps", el("p", { id: "no-steps" }, "No part of this question can be looked up first; fusion answered it."));
  const known = [...passages, ...Object.values(arms).flatMap((arm) => arm.hits ?? [])];
  const titles = new Map(known.map(({ id, title }) => [id, title || id]));
  const shown = drawingOf(steps, titles);
  const label = "What was searched for, the sentences that gave names, and the names";
  return card(
    "Steps",
    ...late.map((note) => el("p", { class: "note" }, note)),
    steps.length ? drawn("Steps, drawn", (narrow) => drawing("chain", label, shown, narrow)) : null,
    steps.length ? inWords(steps, titles) : null,
  );
}
