// Light or dark: the system's until one is chosen here. A classic script, run before the first paint, so that
// a chosen theme does not flash.

(function () {
  const ORDER = ["system", "light", "dark"];
  const root = document.documentElement;

  function use(theme) {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  }

  try {
    use(localStorage.getItem("wye-theme"));
  } catch {
    // Storage may be forbidden; the system's theme it is.
  }
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const current = () => root.dataset.theme ?? "system";
    const label = () => (button.textContent = `Theme: ${current()}`);
    label();
    button.addEventListener("click", () => {
      use(ORDER[(ORDER.indexOf(current()) + 1) % ORDER.length]);
      label();
      try {
        localStorage.setItem("wye-theme", current());
      } catch {
        // Not remembered, but used.
      }
    });
  });
})();
