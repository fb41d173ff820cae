// Runs before the first paint, so that a chosen theme does not flash. Without a choice the system's is used.
try {
  const chosen = localStorage.getItem("theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be off; then the system's theme is used.
}
