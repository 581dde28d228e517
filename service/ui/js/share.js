// A question as a link, as curl and as Python. A key is named by its variable and never written out.

import { apiKey } from "./api.js";
import { hashOf } from "./address.js";
import { $, el } from "./dom.js";


function inQuotes(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function asCurl(origin, body) {
  const key = apiKey() ? ' \\\n  -H "authorization: Bearer $API_KEY"' : "";
  const url = inQuotes(`${origin}/v1/answer`);
  return `curl ${url} -H 'content-type: application/json'${key} \\\n  -d ${inQuotes(JSON.stringify(body))}`;
}

function literal(value) {
  if (value === null) return "None";
  if (value === true || value === false) return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${literal(one)}`).join(", ")}}`;
}

function asPython(origin, body) {
  const key = apiKey() ? ', "authorization": "Bearer " + os.environ["API_KEY"]' : "";
  return [
    "import json",
    ...(key ? ["import os"] : []),
    "import urllib.request",
    "",
    `body = ${literal(body)}`,
    `headers = {"content-type": "application/json"${key}}`,
    `request = urllib.request.Request(${JSON.stringify(`${origin}/v1/answer`)}, json.dumps(body).encode(), headers)`,
    "reply = json.load(urllib.request.urlopen(request))",
    'print(reply["answer"])',
    'for passage in reply["retrieval"]["passages"]:',
    '    print(passage["rank"], passage["title"])',
  ].join("\n");
}

function copied(name, text) {
  const said = el("span", { class: "dim", role: "status" });
  const area = el("textarea", { readonly: true, rows: Math.min(9, text.split("\n").length + 1), "aria-label": name, "data-copy": name }, text);
  const copy = async () => {
    area.select();
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = "Copied.";
    } catch {
      said.textContent = "Selected; copy it with your keyboard.";
    }
  };
  return el("section", {}, el("h3", {}, name), area, el("div", { class: "buttons" }, el("button", { type: "button", onclick: copy }, `Copy ${name}`), said));
}

export function shareButton({ question, route, k, collection, filter }) {
  const body = JSON.parse(JSON.stringify({ question, route, k, collection, filter }));
  const open = () => {
    $("share-forms").replaceChildren(
      copied("link", `${location.origin}/${hashOf(body)}`),
      copied("curl", asCurl(location.origin, body)),
      copied("Python", asPython(location.origin, body)),
    );
    $("share").showModal();
  };
  return el("button", { type: "button", id: "open-share", "aria-haspopup": "dialog", onclick: open }, "Copy as link, curl, Python");
}
