// Elements. Whatever comes from a server becomes a text node and never markup.

const SVG = "http://www.w3.org/2000/svg";

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") {
      for (const [property, text] of Object.entries(value)) node.style.setProperty(property, text);
    } else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export function el(tag, attributes = {}, ...children) {
  return build(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return build(document.createElementNS(SVG, tag), attributes, children);
}

export function card(title, ...children) {
  return el("section", { class: "card" }, el("h2", {}, title), ...children);
}

export const $ = (id) => document.getElementById(id);

export function wide(one) {
  one.classList.add("wide");
  return one;
}

export function details(summary, ...children) {
  return el("details", {}, el("summary", {}, summary), ...children);
}

// Terms and what they mean, folded away.
export function glossary(summary, pairs) {
  return details(summary, el("dl", { class: "meanings" }, ...pairs.flatMap(([term, says]) => [el("dt", {}, term), el("dd", {}, says)])));
}

export function headed(...names) {
  return el("thead", {}, el("tr", {}, ...names.map((name) => el("th", { scope: "col" }, name))));
}

export function badge(name) {
  return el("span", { class: `badge ${name}` }, name);
}

const NARROW = matchMedia("(max-width: 600px)");

// A drawing that may still be wider than its card scrolls inside of it, with the keyboard too, and
// fades where it goes on. `draw(narrow)` is asked again when the screen becomes narrow or wide.
export function drawn(label, draw) {
  const box = el("div", { class: "scroll", role: "group", "aria-label": label });
  const fade = () => {
    const rest = box.scrollWidth - box.clientWidth;
    box.classList.toggle("more-left", box.scrollLeft > 1);
    box.classList.toggle("more-right", box.scrollLeft < rest - 1);
    if (rest > 1) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  };
  const again = () => {
    if (!box.isConnected && box.firstChild) {
      NARROW.removeEventListener("change", again);
      return;
    }
    box.replaceChildren(draw(NARROW.matches));
  };
  NARROW.addEventListener("change", again);
  box.addEventListener("scroll", fade);
  again();
  new ResizeObserver(fade).observe(box);
  return box;
}
