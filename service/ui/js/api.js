// Requests to this server, and what goes wrong with them.

import { $, el } from "./dom.js";

const KEY = "wye-api-key";

export class Problem extends Error {
  constructor({ title, detail, status = 0, errors = [], request_id: id = "" }) {
    super(detail);
    this.title = title;
    this.status = status;
    this.errors = errors;
    this.requestId = id;
  }
}

export function apiKey() {
  return sessionStorage.getItem(KEY) ?? "";
}

export function keepKey(secret) {
  if (secret) sessionStorage.setItem(KEY, secret);
  else sessionStorage.removeItem(KEY);
}

async function send(path, body, signal, method = body === undefined ? "GET" : "POST") {
  const headers = {};
  if (apiKey()) headers.authorization = `Bearer ${apiKey()}`;
  const options = { headers, signal, method };
  if (body instanceof FormData) options.body = body; // with a boundary that the browser chooses
  else if (body !== undefined) {
    headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let reply;
  try {
    reply = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({
      title: "No answer",
      detail: "The server does not answer. Is it still running?",
    });
  }
  if (!reply.ok) throw new Problem(await problemOf(reply));
  return reply;
}

async function problemOf(reply) {
  try {
    return { ...(await reply.json()), status: reply.status };
  } catch {
    return { title: `Status ${reply.status}`, detail: "The reply is not from Wye.", status: reply.status };
  }
}

export async function get(path, signal) {
  return (await send(path, undefined, signal)).json();
}

export async function post(path, body, signal) {
  return (await send(path, body, signal)).json();
}

export async function remove(path) {
  return (await send(path, undefined, undefined, "DELETE")).json();
}

export function askForKey() {
  $("key-field").value = apiKey();
  $("key").showModal();
}

// What went wrong, where it is seen.
export function showProblem(place, error) {
  const faults = error.errors ?? [];
  place.replaceChildren(
    el(
      "div",
      { class: "card problem" },
      el("h2", {}, error.title ?? "The console failed"),
      el("p", {}, error.message),
      faults.length
        ? el("ul", {}, ...faults.map((fault) => el("li", {}, el("code", {}, fault.at), ` ${fault.says}`)))
        : null,
      error.requestId ? el("p", { class: "dim" }, `Request ${error.requestId}`) : null,
      [401, 403].includes(error.status)
        ? el("button", { type: "button", class: "primary", onclick: askForKey }, "Enter an API key")
        : null,
    ),
  );
}

// Server-sent events of a reply, as [name, value] pairs.
export async function* events(path, body, signal) {
  const reply = await send(path, body, signal);
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    pending += value;
    const blocks = pending.split("\n\n");
    pending = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      const name = lines.find((line) => line.startsWith("event: "))?.slice(7) ?? "message";
      const data = lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
      if (data.length) yield [name, JSON.parse(data.join("\n"))];
    }
  }
}
