// Actions: the same forms that work without a script, with preview, confirmation and outcome in a dialog.
// What the server answers is a page; the part named "answer" is what the dialog shows.

import { text } from "./format.js";

const dialog = document.getElementById("dialog");
let opener = null, hasChanged = false;

export function startActions() {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!(form instanceof HTMLFormElement) || !form.dataset.action) return;
    event.preventDefault();
    opener ??= event.submitter;
    send(form, event.submitter);
  });
  dialog.addEventListener("click", (event) => {
    if (!event.target.closest("[data-close]")) return;
    event.preventDefault();
    dialog.close();
  });
  dialog.addEventListener("input", checkConfirmation);
  dialog.addEventListener("close", () => {
    if (hasChanged) { location.reload(); return; }
    opener?.focus();
    opener = null;
  });
}

async function send(form, button) {
  const fields = new URLSearchParams(new FormData(form));
  if (button) button.disabled = true;
  say(text("js.waiting"));
  try {
    const answer = await fetch(form.action, { method: "POST", body: fields, headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const part = page.getElementById("answer");
    if (!part) throw new Error(`HTTP ${answer.status}`);
    part.classList.remove("card");
    dialog.replaceChildren(part);
    if (part.dataset.done === "true" && answer.ok) hasChanged = true;
  } catch (error) {
    say(text("js.failed", { detail: error.message }));
  } finally {
    if (button) button.disabled = false;
  }
  checkConfirmation();
  (dialog.querySelector("input[data-confirm]") ?? dialog.querySelector("h1"))?.focus();
}

function say(words) {
  const box = document.createElement("div");
  box.className = "form";
  const head = document.createElement("h1");
  head.id = "dialog-title";
  head.tabIndex = -1;
  head.textContent = words;
  const close = document.createElement("button");
  close.type = "button";
  close.dataset.close = "";
  close.textContent = text("js.close");
  box.append(head, close);
  dialog.replaceChildren(box);
  if (!dialog.open) dialog.showModal();
}

// The button waits until the name is typed; the server asks for it as well.
function checkConfirmation() {
  const field = dialog.querySelector("input[data-confirm]");
  const button = dialog.querySelector("form[data-final] button[type=submit]");
  if (field && button) button.disabled = field.value !== field.dataset.confirm;
}
