// Following new messages of a topic. While paused they wait, up to a limit; what is beyond it is counted.

import { shown, text, visible } from "./format.js";

const ROWS_MAX = 500, WAITING_MAX = 1000;
const box = document.getElementById("tail");
const rows = document.getElementById("message-rows");

if (box && rows) {
  const start = document.getElementById("tail-start"), pause = document.getElementById("tail-pause");
  const state = document.getElementById("tail-state");
  let source = null, isPaused = false, waiting = [], count = 0, dropped = 0;
  box.hidden = false;

  start.addEventListener("click", () => (source ? stop() : follow()));
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    if (!isPaused) { show(waiting); waiting = []; }
    tell();
  });
  addEventListener("pagehide", () => source?.close());
  if (new URLSearchParams(location.search).has("tail")) follow();

  function follow() {
    source = new EventSource(box.dataset.stream);
    source.addEventListener("messages", (event) => {
      const news = JSON.parse(event.data);
      dropped += news.dropped ?? 0;
      count += news.items.length;
      if (isPaused) {
        waiting.push(...news.items);
        if (waiting.length > WAITING_MAX) dropped += waiting.splice(0, waiting.length - WAITING_MAX).length;
      } else show(news.items);
      tell();
    });
    source.addEventListener("open", tell);
    source.addEventListener("bye", stop);
    tell();
  }

  function stop() {
    source?.close();
    source = null;
    isPaused = false;
    show(waiting);
    waiting = [];
    tell();
  }

  function tell() {
    start.textContent = text(source ? "js.stop" : "js.start");
    start.setAttribute("aria-pressed", String(Boolean(source)));
    pause.hidden = !source;
    pause.textContent = text(isPaused ? "js.resume" : "js.pause");
    pause.setAttribute("aria-pressed", String(isPaused));
    const words = !source ? text("js.tail_off") : isPaused ? text("js.tail_paused", { n: waiting.length }) : text("js.tail_on", { n: count });
    state.textContent = dropped ? `${words} ${text("js.tail_dropped", { n: dropped })}` : words;
    state.dataset.state = !source ? "off" : isPaused ? "paused" : source.readyState === EventSource.OPEN ? "on" : "opening";
  }

  function show(items) {
    const known = new Set([...rows.children].map((row) => row.dataset.id));
    for (const item of items) if (!known.has(String(item.id))) rows.prepend(rowOf(item));
    while (rows.children.length > ROWS_MAX) rows.lastElementChild.remove();
    if (rows.children.length) {
      document.getElementById("message-table").hidden = false;
      document.getElementById("no-messages")?.remove();
    }
  }
}

function rowOf(item) {
  const row = document.getElementById("message-pattern").content.firstElementChild.cloneNode(true);
  row.dataset.id = item.id;
  for (const cell of row.querySelectorAll("[data-field]")) {
    const name = cell.dataset.field;
    if (name === "link") {
      cell.textContent = visible(item.message_id);
      cell.href = `${document.body.dataset.base}messages/${encodeURIComponent(item.message_id)}?${new URLSearchParams({ topic: item.topic })}`;
    } else if (name === "place") cell.textContent = visible(`${item.broker} ${item.queue}`);
    else if (name === "keys") cell.textContent = visible((item.keys ?? []).join(" "));
    else if (name === "preview") cell.textContent = visible(previewOf(item));
    else cell.textContent = item[name] === null || item[name] === undefined ? "" : shown(item[name], cell.dataset.as);
  }
  return row;
}

function previewOf(item) {
  if (item.preview_kind === "empty") return text("js.empty");
  return item.preview_kind === "binary" ? `${text("js.binary")} ${item.preview}` : item.preview;
}
