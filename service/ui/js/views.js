// Two views as tabs; the address remembers which one is shown.

const VIEWS = ["ask", "live"];
const $ = (id) => document.getElementById(id);

export function installViews(onShow) {
  for (const name of VIEWS) {
    $(`tab-${name}`).addEventListener("click", () => show(name, onShow));
    $(`tab-${name}`).addEventListener("keydown", (event) => {
      if (!["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
      event.preventDefault();
      const other = event.key === "Home" ? "ask" : event.key === "End" ? "live" : VIEWS.find((one) => one !== name);
      show(other, onShow);
      $(`tab-${other}`).focus();
    });
  }
  show(location.hash === "#live" ? "live" : "ask", onShow);
}

export function show(name, onShow) {
  for (const view of VIEWS) {
    const chosen = view === name;
    $(`view-${view}`).hidden = !chosen;
    $(`tab-${view}`).setAttribute("aria-selected", String(chosen));
    $(`tab-${view}`).tabIndex = chosen ? 0 : -1;
  }
  history.replaceState(null, "", name === "ask" ? location.pathname : `#${name}`);
  onShow(name);
}
