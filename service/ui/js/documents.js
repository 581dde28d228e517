// The view of documents: what a collection holds, page by page; adding files; deleting.

import { get, post } from "./api.js";
import { $, el } from "./dom.js";
import { showProblem } from "./problem.js";
import { follow, upload } from "./uploads.js";

const PAGE = 50;
let onKey = () => {};
let page = 0;

function collection() {
  return $("collection").value;
}

function failed(error) {
  showProblem($("documents-problem"), error, onKey);
}

async function tried(work) {
  $("documents-problem").replaceChildren();
  try {
    await work();
  } catch (error) {
    failed(error);
  }
}

function row(document) {
  const parts = document.passages === 1 ? "1 passage" : `${document.passages} passages`;
  const facts = `${document.id} · ${parts}, ${document.characters.toLocaleString("en")} characters`;
  return el(
    "tr",
    { "data-document": document.id },
    el("th", { scope: "row" }, el("span", { class: "title" }, document.title || document.id), el("span", { class: "dim id" }, facts)),
    el("td", { class: "number" }, el("button", { type: "button", "aria-label": `Delete ${document.id}`, onclick: () => confirm(document) }, "Delete")),
  );
}

// The first page, or the one after a document.
async function list(after = "") {
  const mine = (page += 1);
  const query = new URLSearchParams({ limit: PAGE, after, prefix: $("prefix").value });
  if (collection()) query.set("collection", collection());
  const found = await get(`/v1/documents?${query}`);
  if (mine !== page) return; // somebody typed on
  const rows = found.data.map(row);
  if (after) $("documents-list").append(...rows);
  else $("documents-list").replaceChildren(...rows);
  const begins = $("prefix").value ? ` whose ids begin with “${$("prefix").value}”` : "";
  const all = found.total === 1 ? "1 document" : `${found.total.toLocaleString("en")} documents`;
  $("documents-count").textContent = `${all}${begins} in ${found.collection}, version ${found.index_version}; ${$("documents-list").children.length} shown.`;
  $("documents-more").hidden = found.next === null;
  $("documents-more").onclick = () => tried(() => list(found.next));
}

function confirm(document) {
  $("delete-text").textContent = `“${document.title || document.id}” (${document.id}) and all its passages are deleted from ${collection() || "the collection"}. This cannot be undone.`;
  $("delete").returnValue = "";
  $("delete").onclose = () => {
    if ($("delete").returnValue !== "delete") return;
    tried(async () => {
      const done = await post("/v1/documents/delete", { documents: [document.id], collection: collection() || undefined });
      const parts = done.deleted === 1 ? "1 passage" : `${done.deleted} passages`;
      $("documents-said").textContent = `Deleted ${document.id}: ${parts}, version ${done.index_version}.`;
      await list();
      $("prefix").focus();
    });
  };
  $("delete").showModal();
}

async function add(files) {
  if (!files.length) return;
  await tried(async () => {
    $("documents-said").textContent = `Sending ${files.length === 1 ? files[0].name : `${files.length} files`} …`;
    try {
      $("documents-said").textContent = await upload(files, collection(), $("jobs"), () => tried(() => list()), failed);
    } catch (error) {
      $("documents-said").textContent = "";
      throw error;
    }
    await list();
  });
}

async function accepted() {
  const schema = await get("/openapi.json");
  const form = schema.paths["/v1/documents"].post.requestBody.content["multipart/form-data"].schema;
  const endings = form.properties.file["x-endings"];
  $("files").accept = endings.join(",");
  $("endings").textContent = endings.join(" ");
}

export function showDocuments() {
  tried(async () => {
    if (!$("files").accept) await accepted();
    await list();
    await follow($("jobs"), collection(), () => tried(() => list()), failed);
  });
}

export function installDocuments(askForKey) {
  onKey = askForKey;
  const drop = $("drop");
  $("files").addEventListener("change", async () => {
    await add([...$("files").files]);
    $("files").value = "";
  });
  for (const kind of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
      if (kind === "drop") add([...event.dataTransfer.files]);
    });
  }
  $("prefix").addEventListener("input", () => tried(() => list()));
}
