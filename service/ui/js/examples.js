// Questions to begin with: those of the demo corpus where a collection holds it, whatever its name;
// of any other collection, questions about the titles of some documents.

import { get } from "./api.js";

const OF_DEMO = ["mallard", "nigel-gresley"];
const SHOWN = 5;

const QUESTIONS = [
  "Which captain had once claimed the island where the James Caird came ashore?",
  "Which programming language is older, Fortran or Lisp?",
  "Which famous composer was for a year organist in the town where the planner of the Brooklyn Bridge was born?",
  "steam speed world record 1938 mph",
  "How was a railway laid across the peat bog of Chat Moss?",
  "what does the name of the ship fram mean",
];

// A title that is a question stays; one with a mark or a number is rather that of a document than of a thing.
function questionAbout(title) {
  if (title.endsWith("?")) return title;
  return /[\d:._/]/.test(title) ? `What does ${title} say?` : `Who or what is ${title}?`;
}

function list(collection, query) {
  return get(`/v1/documents?${new URLSearchParams({ collection, ...query })}`);
}

// {label, questions}; none where documents cannot be listed, as without a key.
export async function examplesOf(collection) {
  try {
    const known = await Promise.all(OF_DEMO.map((prefix) => list(collection, { prefix, limit: 1 })));
    if (known.every(({ total }) => total > 0)) return { label: "Try", questions: QUESTIONS };
    const { data } = await list(collection, { limit: 4 * SHOWN });
    const titles = new Set(data.map(({ title }) => title.trim()).filter(Boolean));
    return { label: "Try", questions: [...titles].slice(0, SHOWN).map(questionAbout) };
  } catch {
    return { label: "", questions: [] };
  }
}
