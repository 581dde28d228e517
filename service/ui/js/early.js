// Runs before the first paint, so that a chosen theme does not flash; see theme.js.
(function () {
  let chosen = null;
  try {
    chosen = localStorage.getItem("wye-theme");
  } catch {
    return; // storage may be forbidden; the system's theme it is
  }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
