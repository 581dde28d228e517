// What the tags of a constituency tree stand for (Penn Treebank).

const MEANINGS = {
  ROOT: "the whole", S: "clause", SBAR: "subordinate clause", SBARQ: "question with a question word",
  SINV: "clause in inverted order", SQ: "question, or what follows its question word", ADJP: "adjective phrase",
  ADVP: "adverb phrase", CONJP: "conjunction phrase", FRAG: "fragment", INTJ: "interjection",
  LST: "list marker", NAC: "not a constituent", NML: "part of a noun phrase", NP: "noun phrase", NX: "head of a noun phrase",
  PP: "prepositional phrase", PRN: "parenthesis", PRT: "particle", QP: "quantity", RRC: "reduced relative clause",
  UCP: "unlike phrases joined", VP: "verb phrase", WHADJP: "adjective phrase with a question word",
  WHADVP: "adverb phrase with a question word", WHNP: "noun phrase with a question word",
  WHPP: "prepositional phrase with a question word", X: "unknown",
  CC: "conjunction", CD: "number", DT: "article or determiner", EX: "existential there", FW: "foreign word",
  IN: "preposition", JJ: "adjective", JJR: "comparative adjective", JJS: "superlative adjective", MD: "modal verb",
  NN: "noun", NNS: "plural noun", NNP: "name", NNPS: "plural name", PDT: "predeterminer", POS: "possessive ending",
  PRP: "pronoun", PRP$: "possessive pronoun", RB: "adverb", RBR: "comparative adverb", RBS: "superlative adverb",
  RP: "particle", SYM: "symbol", TO: "to", UH: "interjection", VB: "verb", VBD: "verb, past", VBG: "verb, -ing",
  VBN: "past participle", VBP: "verb, present", VBZ: "verb, third person", WDT: "which, that", WP: "who, what",
  WP$: "whose", WRB: "how, where, when, why", HYPH: "hyphen", AFX: "affix", ADD: "address", NFP: "punctuation",
};

// [tag, meaning] of each tag in some trees, phrases first.
export function legendOf(trees) {
  const found = new Set();
  const walk = (node) => {
    if (!node.children.length) return;
    found.add(node.label);
    node.children.forEach(walk);
  };
  trees.forEach(walk);
  return Object.entries(MEANINGS).filter(([tag]) => found.has(tag));
}
