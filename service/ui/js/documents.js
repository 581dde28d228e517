// The view of documents: what a collection holds, page by page; adding files, with what became of each; deleting.

import { get, post, remove, showProblem } from "./api.js";
import { $, el } from "./dom.js";
import { count } from "./text.js";

const PAGE = 50;
const AGAIN = 700;
const TRIES = 20;
const BUSY = [429, 503];
const ENDED = ["done", "failed", "cancelled"];
let page = 0;

const collection = () => $("collection").value;
const failed = (error) => showProblem($("documents-problem"), error);
const pause = () => new Promise((resolve) => setTimeout(resolve, AGAIN));

async function attempt(work) {
  $("documents-problem").replaceChildren();
  try {
    await work();
  } catch (error) {
    failed(error);
  }
}

function row(document) {
  const facts = `${document.id} · ${count(document.passages, "passage")}, ${count(document.characters, "character")}`;
  const button = el("button", { type: "button", class: "small", "aria-label": `Delete ${document.id}`, onclick: () => confirm(document) }, "Delete");
  return el(
    "tr",
    { "data-document": document.id },
    el("th", { scope: "row" }, el("span", { class: "title" }, document.title || document.id), el("span", { class: "meaning" }, facts)),
    el("td", { class: "number" }, button),
  );
}

// The first page, or the one after a document.
async function list(after = "") {
  const mine = (page += 1);
  const prefix = $("prefix").value;
  const query = new URLSearchParams({ limit: PAGE, after, prefix });
  if (collection()) query.set("collection", collection());
  if (!after) $("documents-count").textContent = "Loading …";
  const reply = await get(`/v1/documents?${query}`);
  if (mine !== page) return; // somebody typed on
  const rows = reply.data.map(row);
  if (after) $("documents-list").append(...rows);
  else $("documents-list").replaceChildren(...rows);
  const begins = prefix ? ` whose ids begin with “${prefix}”` : "";
  const shown = $("documents-list").children.length;
  $("documents-count").textContent = `${count(reply.total, "document")}${begins} in ${reply.collection}, version ${reply.index_version}; ${shown} shown.`;
  $("documents-more").hidden = reply.next === null;
  $("documents-more").onclick = () => attempt(() => list(reply.next));
}

function confirm(document) {
  const dialog = $("delete");
  $("delete-text").textContent = `“${document.title || document.id}” (${document.id}) and all its passages are deleted from ${collection() || "the collection"}. This cannot be undone.`;
  dialog.returnValue = "";
  dialog.onclose = () => {
    if (dialog.returnValue !== "delete") return;
    attempt(async () => {
      const reply = await post("/v1/documents/delete", { documents: [document.id], collection: collection() || undefined });
      $("documents-said").textContent = `Deleted ${document.id}: ${count(reply.deleted, "passage")}, version ${reply.index_version}.`;
      await list();
      $("prefix").focus();
    });
  };
  dialog.showModal();
}

// A line that tells how it goes with a file or a job.
function progressOf(name) {
  const text = el("span", { class: "dim" }, "waits");
  const bar = el("progress", { "aria-label": name, hidden: true });
  const cancel = el("button", { type: "button", class: "small", hidden: true }, "Cancel");
  const line = el("div", { class: "line", role: "status" }, el("span", { class: "title" }, name), bar, text, cancel);
  $("jobs").append(line);
  const tell = (words, kind = "dim") => {
    text.textContent = words;
    text.className = kind;
  };
  return { line, bar, cancel, tell };
}

// Follows a job to its end.
async function follow(job, { line, bar, cancel, tell }) {
  const address = `/v1/jobs/${encodeURIComponent(job.id)}`;
  line.dataset.job = job.id;
  cancel.onclick = () => remove(address).catch(failed);
  for (let now = job; ; now = await get(address)) {
    const hasEnded = ENDED.includes(now.state);
    const facts = [
      `${now.state}: ${now.done} of ${count(now.total, "passage")}`,
      now.rate ? `${now.rate.toFixed(1)} a second` : "",
      now.waits_for ? `waits for ${now.waits_for}` : "",
      now.error,
    ];
    bar.max = Math.max(1, now.total);
    bar.value = now.done;
    bar.hidden = cancel.hidden = hasEnded;
    tell(facts.filter(Boolean).join("; "), now.error ? "note" : "dim");
    if (hasEnded) return;
    await pause();
  }
}

// Name of a file with the folders that it was dropped or chosen in.
function pathOf(file) {
  return file.inFolder ?? (file.webkitRelativePath || file.name);
}

// The files of what was dropped, those in folders too.
async function filesIn(entry, folder = "") {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    return [Object.assign(file, { inFolder: folder + file.name })];
  }
  const reader = entry.createReader();
  const files = [];
  for (;;) {
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!entries.length) return files;
    for (const one of entries) if (!one.name.startsWith(".")) files.push(...(await filesIn(one, `${folder}${entry.name}/`)));
  }
}

// Sends one file; returns the job that it became, or null once it is stored.
async function send(file, { tell }) {
  const form = new FormData();
  form.append("file", file, pathOf(file));
  if (file.lastModified) form.append("modified", new Date(file.lastModified).toISOString().slice(0, 10));
  if (collection()) form.append("collection", collection());
  tell("is sent …");
  const reply = await post("/v1/documents", form);
  if (reply.state) return reply;
  const counts = ["added", "updated", "unchanged", "removed"].filter((name) => reply[name]).map((name) => `${reply[name]} ${name}`);
  tell(`stored: ${counts.join(", ") || "nothing to do"} (passages), version ${reply.index_version}`);
  return null;
}

// As `send`, but a server that is busy or limits the rate is asked again.
async function sendPatiently(file, progress) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await send(file, progress);
    } catch (error) {
      if (!BUSY.includes(error.status) || tries === TRIES) throw error;
      progress.tell(`waits: ${error.message}`);
      await pause();
    }
  }
}

// Files go one after another, so that one that cannot be read does not keep the others out.
async function add(files) {
  $("documents-problem").replaceChildren();
  const lines = files.map((file) => [file, progressOf(pathOf(file))]);
  const jobs = [];
  let refused = 0;
  for (const [file, progress] of lines) {
    try {
      const job = await sendPatiently(file, progress);
      if (job) jobs.push(follow(job, progress).catch(failed));
    } catch (error) {
      refused += 1;
      progress.tell(error.message, "note");
      if ([401, 403].includes(error.status)) failed(error);
    }
  }
  $("documents-said").textContent = `${count(files.length - refused, "file")} sent${refused ? `, ${refused} refused` : ""}.`;
  await attempt(() => list());
  if (!jobs.length) return;
  await Promise.all(jobs);
  await attempt(() => list());
}

async function readEndings() {
  const schema = await get("/openapi.json");
  const form = schema.paths["/v1/documents"].post.requestBody.content["multipart/form-data"].schema;
  const endings = form.properties.file["x-endings"];
  $("files").accept = endings.join(",");
  $("endings").textContent = endings.join(" ");
}

// Jobs that are under way already, whoever sent them.
async function followOthers() {
  const { data } = await get(`/v1/jobs${collection() ? `?${new URLSearchParams({ collection: collection() })}` : ""}`);
  for (const job of data.filter(({ state }) => !ENDED.includes(state))) {
    if ($("jobs").querySelector(`[data-job="${CSS.escape(job.id)}"]`)) continue;
    follow(job, progressOf(`Job ${job.id}`)).then(() => attempt(() => list()), failed);
  }
}

export function showDocuments() {
  attempt(async () => {
    if (!$("files").accept) await readEndings();
    await list();
    await followOthers();
  });
}

export function installDocuments() {
  $("files").addEventListener("change", () => {
    add([...$("files").files]);
    $("files").value = "";
  });
  for (const kind of ["dragover", "dragleave", "drop"]) {
    $("drop").addEventListener(kind, (event) => {
      event.preventDefault();
      $("drop").classList.toggle("over", kind === "dragover");
      if (kind !== "drop") return;
      const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
      const plain = [...event.dataTransfer.files];
      attempt(async () => add(entries.length ? (await Promise.all(entries.map((one) => filesIn(one)))).flat() : plain));
    });
  }
  $("prefix").addEventListener("input", () => attempt(() => list()));
}
