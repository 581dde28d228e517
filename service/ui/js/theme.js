// Light or dark: the system's until it is chosen here.

const ORDER = ["system", "light", "dark"];

function chosen() {
  return document.documentElement.dataset.theme ?? "system";
}

function show(button) {
  button.textContent = `Theme: ${chosen()}`;
}

export function nextTheme(button) {
  const next = ORDER[(ORDER.indexOf(chosen()) + 1) % ORDER.length];
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("wye-theme", next);
  } catch {
    // Not remembered, but used.
  }
  show(button);
}

export function installTheme(button) {
  show(button);
  button.addEventListener("click", () => nextTheme(button));
}
