// Files on their way into a collection: what was written at once, and jobs that go on.

import { get, post, remove } from "./api.js";
import { el } from "./dom.js";

const AGAIN = 700;
const ENDED = ["done", "failed", "cancelled"];

function bar(job) {
  const label = `${job.state}: ${job.done} of ${job.total} passages`;
  const done = el("progress", { max: Math.max(1, job.total), value: job.done, "aria-label": `Job ${job.id}` });
  const facts = [
    label,
    job.rate ? `${job.rate.toFixed(1)} a second` : "",
    job.waits_for ? `waits for ${job.waits_for}` : "",
    job.error,
  ];
  return [done, el("span", { class: job.error ? "note" : "dim" }, facts.filter(Boolean).join("; "))];
}

// Follows a job until it has ended, then says so once.
async function watch(place, job, onEnd, onError) {
  const body = el("div", { class: "job", "data-job": job.id, role: "status" });
  place.append(body);
  const cancel = el("button", { type: "button", onclick: () => remove(`/v1/jobs/${encodeURIComponent(job.id)}`).catch(onError) }, "Cancel");
  try {
    for (let now = job; ; now = await get(`/v1/jobs/${encodeURIComponent(job.id)}`)) {
      const ended = ENDED.includes(now.state);
      body.replaceChildren(...bar(now), ...(ended ? [] : [cancel]));
      if (ended) break;
      await new Promise((resolve) => setTimeout(resolve, AGAIN));
    }
    onEnd();
  } catch (error) {
    body.remove();
    onError(error);
  }
}

// What became of files, in words; what takes longer is followed in `place`.
export async function upload(files, collection, place, onEnd, onError) {
  const form = new FormData();
  for (const file of files) form.append("file", file);
  if (collection) form.append("collection", collection);
  const done = await post("/v1/documents", form);
  if (done.state) {
    watch(place, done, onEnd, onError);
    return `Accepted as a job of ${done.total} passages; it continues if you close this page.`;
  }
  const counts = ["added", "updated", "unchanged", "removed"].filter((name) => done[name]).map((name) => `${done[name]} ${name}`);
  return `Stored ${done.documents.join(", ")}: ${counts.join(", ") || "nothing to do"} (passages), version ${done.index_version}.`;
}

// Jobs that are under way already, whoever sent them.
export async function follow(place, collection, onEnd, onError) {
  const { data } = await get(`/v1/jobs${collection ? `?${new URLSearchParams({ collection })}` : ""}`);
  for (const job of data.filter(({ state }) => !ENDED.includes(state))) {
    if (!place.querySelector(`[data-job="${CSS.escape(job.id)}"]`)) watch(place, job, onEnd, onError);
  }
}
