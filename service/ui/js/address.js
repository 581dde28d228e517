// What the address says: a view, or a question with how it was asked, so that a link carries it.

const KEPT = ["route", "k", "collection", "filter"];

// {view, asked}: `asked` is a body for the API, or null.
export function read() {
  const hash = location.hash.slice(1);
  if (hash === "documents") return { view: hash, asked: null };
  const fields = new URLSearchParams(hash);
  if (!fields.get("q")) return { view: "ask", asked: null };
  const asked = { question: fields.get("q") };
  for (const name of KEPT) if (fields.get(name)) asked[name] = fields.get(name);
  if (asked.k) asked.k = Number(asked.k);
  return { view: "ask", asked };
}

export function hashOf({ question, ...body }) {
  const fields = new URLSearchParams({ q: question });
  for (const name of KEPT) if (body[name]) fields.set(name, body[name]);
  return `#${fields}`;
}
