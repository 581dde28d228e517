// Constituency trees, read from brackets: "(S (NP (PRP it)) (VP (VBZ rains)))".

const PLAIN = { "-LRB-": "(", "-RRB-": ")" };

// A tree as {label, children}; a word has no children.
export function parseBrackets(text) {
  const open = [];
  let top = null;
  const tokens = text.match(/\(|\)|[^\s()]+/g) ?? [];
  for (let place = 0; place < tokens.length; place += 1) {
    const token = tokens[place];
    if (token === "(") {
      place += 1;
      open.push({ label: tokens[place], children: [] });
    } else if (token === ")") {
      const node = open.pop();
      if (open.length) open.at(-1).children.push(node);
      else top = node;
    } else open.at(-1)?.children.push({ label: PLAIN[token] ?? token, children: [] });
  }
  return top;
}
