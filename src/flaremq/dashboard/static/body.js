// The body of a message: text, a tree of its JSON, hex; fetched when asked for, the page stays.

import { text, visible } from "./format.js";

const OPEN_ITEMS_MAX = 50; // larger lists begin folded
// A number as it was written.
class Digits {
  constructor(source) { this.source = source; }
  toString() { return this.source; }
}

const section = document.getElementById("body");
const content = document.getElementById("body-content");

if (section && content) {
  if (content.dataset.kind === "json") drawTree(content.querySelector("pre").textContent);
  for (const link of section.querySelectorAll("a[data-kind]")) {
    link.addEventListener("click", async (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      await show(link);
    });
  }
  const copy = document.getElementById("copy-body");
  copy.hidden = !navigator.clipboard;
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(content.textContent);
    const before = copy.textContent;
    copy.textContent = text("js.copied");
    setTimeout(() => { copy.textContent = before; }, 1500);
  });
}

async function show(link) {
  const url = new URL(section.dataset.body, location.href);
  url.searchParams.set("as", link.dataset.kind);
  try {
    const answer = await fetch(url);
    const said = await answer.json();
    if (!answer.ok) throw new Error(said.error?.message ?? `HTTP ${answer.status}`);
    const body = said.body ?? said;
    for (const other of section.querySelectorAll("a[data-kind]")) other.removeAttribute("aria-current");
    link.setAttribute("aria-current", "true");
    history.replaceState(null, "", link.href);
    content.dataset.kind = body.as;
    if (body.as !== "json" || !drawTree(body.content ?? "")) drawText(body);
    if (body.error) drawText({ as: body.as, content: `${body.error}\n${body.content ?? ""}` });
  } catch (error) {
    drawText({ as: "text", content: text("js.failed", { detail: error.message }) });
  }
}

function drawText(body) {
  const pre = document.createElement("pre");
  pre.className = `body-view${body.as === "hex" ? " hex" : ""}`;
  pre.tabIndex = 0;
  pre.setAttribute("role", "region");
  pre.setAttribute("aria-label", section.querySelector("h2").textContent);
  pre.textContent = visible(body.content ?? "", "\n\t");
  content.replaceChildren(pre);
}

function drawTree(json) {
  let value;
  try { value = JSON.parse(json, exact); } catch { return false; }
  const box = document.createElement("div");
  box.className = "body-view json mono";
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", section.querySelector("h2").textContent);
  box.append(nodeOf(value));
  content.replaceChildren(box);
  return true;
}

// Numbers that JavaScript would round are shown as they are written, where the browser tells how that was.
function exact(_, value, context) {
  return typeof value === "number" && context?.source && String(value) !== context.source ? new Digits(context.source) : value;
}

function nodeOf(value) {
  if (value === null || typeof value !== "object" || value instanceof Digits) {
    const leaf = document.createElement("span");
    leaf.className = typeof value === "string" ? "s" : "v";
    leaf.textContent = visible(typeof value === "string" ? JSON.stringify(value) : String(value));
    return leaf;
  }
  const entries = Array.isArray(value) ? value.map((item, at) => [at, item]) : Object.entries(value);
  const details = document.createElement("details");
  details.open = entries.length <= OPEN_ITEMS_MAX;
  const summary = document.createElement("summary");
  summary.textContent = Array.isArray(value) ? `[ ${entries.length} ]` : `{ ${entries.length} }`;
  details.append(summary);
  const fill = () => {
    if (details.querySelector("ul")) return;
    const list = document.createElement("ul");
    for (const [name, item] of entries) {
      const line = document.createElement("li"), key = document.createElement("span");
      key.className = "k";
      key.textContent = visible(String(name));
      line.append(key, ": ", nodeOf(item));
      list.append(line);
    }
    details.append(list);
  };
  if (details.open) fill();
  else details.addEventListener("toggle", fill);
  return details;
}
