// What every page does: follow its stream, draw its curves, open dialogs, switch colours without reading the page again.

import { startActions } from "./actions.js";
import { startCharts } from "./charts.js";
import { startLive } from "./live.js";

const stream = document.body.dataset.stream;
if (stream && document.body.dataset.page !== "messages") startLive(stream);
startCharts();
startActions();
startThemes();
startKeys();

function startThemes() {
  const form = document.getElementById("preferences");
  form?.addEventListener("submit", async (event) => {
    const button = event.submitter;
    if (button?.name !== "theme") return;
    event.preventDefault();
    const fields = new URLSearchParams(new FormData(form));
    fields.set("theme", button.value);
    document.documentElement.dataset.theme = button.value;
    for (const other of form.querySelectorAll("[name=theme]")) other.setAttribute("aria-pressed", String(other === button));
    await fetch(form.action, { method: "POST", body: fields, redirect: "manual" });
  });
}

// "/" goes to the search box, as in other consoles.
function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target instanceof HTMLElement && event.target.closest("input, textarea, select, dialog")) return;
    event.preventDefault();
    document.getElementById("find")?.focus();
  });
}
