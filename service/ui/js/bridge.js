// The part of the graph's walk that led to the first passages: question → seeds → sentences →
// entities → passages, as columns of nodes and the edges between them.

const PASSAGES = 4;
const ENTITIES = 3;

// {columns: [[node]], edges: [[from, to, strength]], sentences: passage id -> [sentence],
//  named: [[passage that was moved up, passage that names it]]}
export function bridgeOf(reply) {
  const { seeds, entities, passages: shares } = reply.explanation;
  const notes = new Map(entities.map((entity) => [entity.entity, entity]));
  const walk = new Walk(reply.question, seeds, notes);
  const titles = new Map(reply.passages.map((passage) => [passage.id, passage.title || passage.id]));
  const named = [];
  for (const passage of reply.passages.slice(0, PASSAGES)) {
    const found = shares.find((one) => one.id === passage.id);
    if (found?.named_in) named.push([titles.get(passage.id), titles.get(found.named_in) ?? found.named_in]);
    const names = (found?.entities ?? []).filter((name) => notes.has(name)).slice(0, ENTITIES);
    if (!names.length) continue;
    walk.add({ key: `p:${passage.id}`, kind: "passage", text: passage.title || passage.id, rank: passage.rank, share: found.pagerank }, Infinity);
    for (const name of names) {
      walk.reach(name);
      walk.join(`e:${name}`, `p:${passage.id}`, notes.get(name).weight);
    }
  }
  return { ...walk.result(), named };
}

class Walk {
  constructor(question, seeds, notes) {
    this.nodes = new Map();
    this.edges = new Map();
    this.sentences = new Map();
    this.notes = notes;
    this.seeds = seeds;
    this.add({ key: "q", kind: "question", text: question }, 0);
    for (const seed of seeds) this.reach(seed.entity);
  }

  add(node, column) {
    if (!this.nodes.has(node.key)) this.nodes.set(node.key, { ...node, column });
  }

  join(from, to, strength) {
    this.edges.set(`${from}\n${to}`, [from, to, strength]);
  }

  // An entity, and how it was reached, back to the question.
  reach(name) {
    const note = this.notes.get(name);
    if (!note || this.nodes.has(`e:${name}`)) return;
    this.add({ key: `e:${name}`, kind: note.bridge ? "entity" : "seed", text: name, note }, 2 * note.level - 1);
    if (!note.bridge) {
      this.nodes.get(`e:${name}`).mention = this.seeds.find((seed) => seed.entity === name)?.mention ?? "";
      this.join("q", `e:${name}`, note.value);
      return;
    }
    const { source, passage, sentence, similarity } = note.bridge;
    const key = `s:${passage}:${sentence}`;
    // Some arms go to sentences straight from the question.
    const from = source ? `e:${source}` : "q";
    if (source) this.reach(source);
    this.add({ key, kind: "sentence", text: sentence, passage, similarity }, 2 * note.level - (source ? 2 : 1.5));
    if (!this.sentences.has(passage)) this.sentences.set(passage, new Set());
    this.sentences.get(passage).add(sentence);
    this.join(from, key, similarity);
    this.join(key, `e:${name}`, note.value);
  }

  result() {
    const used = [...new Set([...this.nodes.values()].map((node) => node.column))].sort((a, b) => a - b);
    const columns = used.map((column) => [...this.nodes.values()].filter((node) => node.column === column));
    const known = [...this.edges.values()].filter(([from, to]) => this.nodes.has(from) && this.nodes.has(to));
    return { columns, edges: known, sentences: this.sentences };
  }
}
