// How names led to passages, in words: the walk over the graph, and the names that steps put in.

import { el } from "./dom.js";
import { percent } from "./text.js";

const PASSAGES = 5;
const NAMES = 2;
const TYPES = { person: "a person", place: "a place", date: "a date", work: "a work", number: "a number", organisation: "an organisation" };

function titlesOf({ passages, arms }) {
  const hits = [...Object.values(arms).flatMap((arm) => arm.hits ?? []), ...passages];
  return new Map(hits.map(({ id, title }) => [id, title || id]));
}

function quote(sentence, title) {
  return [el("q", { dir: "auto" }, sentence), " (", el("bdi", {}, title), ")"];
}

// From the question to an entity: [{name, sentence, passage}], the first one named by the question.
function stepsTo(name, notes, before = new Set()) {
  const note = notes.get(name);
  if (!note || before.has(name)) return [];
  if (!note.bridge) return [{ name }];
  const { source, sentence, passage } = note.bridge;
  return [...stepsTo(source, notes, before.add(name)), { name, sentence, passage }];
}

function add(sentences, passage, sentence) {
  if (!sentences.has(passage)) sentences.set(passage, new Set());
  sentences.get(passage).add(sentence);
}

// The sentence of a text that has a title's words, or undefined.
function sentenceWith(title, text) {
  const words = title.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`[^.!?\\n]*(?<![\\p{L}\\p{N}])${words}(?![\\p{L}\\p{N}])[^.!?\\n]*[.!?]?`, "iu").exec(text)?.[0].trim();
}

// {name, sentence, passage}: where another passage names this one, as steps saw it or the graph's promotion.
function namedBy({ id, title }, share, { passages, steps }) {
  const isThis = ({ name, sentence, passage }) => sentence && passage !== id && name.toLowerCase() === title.toLowerCase();
  const seen = (steps ?? []).flatMap((step) => step.candidates).find(isThis);
  if (seen) return seen;
  const source = passages.find((one) => one.id === share?.named_in);
  const sentence = source && title && sentenceWith(title, source.text);
  return sentence ? { name: title, sentence, passage: source.id } : null;
}

// How the graph came to the first passages.
function walk(reply, titles, sentences) {
  const { explanation, passages } = reply;
  const notes = new Map(explanation.entities.map((entity) => [entity.entity, entity]));
  const shares = new Map(explanation.passages.map((one) => [one.id, one]));
  const items = [];
  const namesIn = (id) => (shares.get(id)?.entities ?? []).filter((name) => notes.has(name)).slice(0, NAMES);
  for (const found of passages.slice(0, PASSAGES)) {
    const { id, rank } = found;
    const share = shares.get(id);
    const last = namedBy(found, share, reply);
    if (!share || !(last || namesIn(id).length)) continue;
    // A way that ends in the passage itself leads nowhere.
    const ways = namesIn(id).map((name) => stepsTo(name, notes)).filter((steps) => steps.at(-1)?.passage !== id);
    if (last && !ways.some((steps) => steps.at(-1)?.passage === last.passage)) ways.unshift([...stepsTo(namesIn(last.passage)[0], notes), last]);
    const told = ways.map((steps) => {
      for (const { sentence, passage } of steps) if (sentence) add(sentences, passage, sentence);
      const parts = steps.flatMap((step) => [
        " → ",
        ...(step.sentence ? [...quote(step.sentence, titles.get(step.passage) ?? step.passage), " → "] : []),
        el("strong", {}, step.name),
      ]);
      return el("li", {}, "question", ...parts);
    });
    const moved = share.named_in ? `, moved up because ${titles.get(share.named_in) ?? share.named_in} mentions it` : "";
    const title = el("p", {}, el("strong", {}, `${rank} ${titles.get(id)}`), ` has ${percent(share.pagerank)} of the walk${moved}.`);
    items.push(el("li", {}, title, told.length ? el("ul", {}, ...told) : null));
  }
  if (!items.length) return null;
  const seeds = explanation.seeds.map(({ entity }) => entity);
  return [
    el("h3", {}, "The graph's path"),
    el("p", {}, seeds.length ? `The question names ${[...new Set(seeds)].join(", ")}.` : "The question names nothing that the graph has."),
    el("ul", { id: "bridge", class: "path" }, ...items),
  ];
}

function candidate(name, titles) {
  const title = titles.get(name.passage) ?? name.passage;
  return el(
    "li",
    {},
    el(name.put_in ? "strong" : "bdi", { dir: "auto" }, name.name),
    `, confidence ${name.confidence.toFixed(2)}, ${name.put_in ? "used" : "not used"}: `,
    ...(name.sentence ? quote(name.sentence, title) : ["title of ", el("bdi", {}, title)]),
  );
}

function chain({ steps, degraded }, titles, sentences) {
  const late = degraded.split("; ").filter((note) => note.startsWith("steps: "));
  for (const { passage, sentence, put_in: used } of steps.flatMap((step) => step.candidates)) {
    if (used && sentence) add(sentences, passage, sentence);
  }
  const items = steps.map((step) =>
    el(
      "li",
      {},
      el("q", { dir: "auto" }, step.asked),
      TYPES[step.wanted] ? ` asks for ${TYPES[step.wanted]}` : "",
      step.candidates.length ? null : ": no name was found",
      el("ul", {}, ...step.candidates.map((name) => candidate(name, titles))),
    ),
  );
  const none = "No part of this question can be looked up first; fusion answered it.";
  return [
    el("h3", {}, "Steps"),
    ...late.map((note) => el("p", { class: "note" }, note)),
    items.length ? el("ol", { id: "chain", class: "path" }, ...items) : null,
    items.length || late.length ? null : el("p", { id: "no-steps" }, none),
  ];
}

// {sections, sentences}: what there is to tell of a reply, and id of a passage -> sentences that it went over.
export function pathsOf(reply) {
  const titles = titlesOf(reply);
  const sentences = new Map();
  const parts = [
    reply.steps ? chain(reply, titles, sentences) : null,
    reply.explanation && reply.passages.length ? walk(reply, titles, sentences) : null,
  ];
  return { sections: parts.filter(Boolean).map((part) => el("section", {}, ...part)), sentences };
}
