// Elements. Whatever comes from a server becomes a text node and never markup.

export const $ = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export function card(title, ...children) {
  return el("section", { class: "card" }, el("h2", {}, title), ...children);
}

export function badge(name, ...more) {
  return el("span", { class: "badge" }, name, ...more);
}

// A table; the first cell of each row is its header. A cell is a text or an element, a number is set right.
export function table(id, heads, rows) {
  const isNumber = (column) => heads[column]?.number;
  const cell = (value, column) =>
    column ? el("td", { class: isNumber(column) ? "number" : null }, value) : el("th", { scope: "row" }, value);
  const head = (one, column) => el("th", { scope: "col", class: isNumber(column) ? "number" : null }, one.number ?? one);
  return el(
    "div",
    { class: "scroll" },
    el(
      "table",
      { id },
      el("thead", {}, el("tr", {}, ...heads.map(head))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map(cell)))),
    ),
  );
}
