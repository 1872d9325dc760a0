// Liveness: one stream a page. Values change where they stand; only when rows come or go is a part of the page read again.

import { duration, moment, number, rate, shown, text } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const SILENCE_MS = 20000; // the server says something every 15 seconds at the latest
const SAY_EVERY_MS = 20000; // a screen reader is told the totals no more often
const READ_AGAIN_MS = 2000;
const SERIES_MAX = 900;
export const BRIDGED_MAX = 3; // unknown points in a row that a curve goes on over

const listeners = [];
let data = null; // as the server's last snapshot and changes have it

export function onData(listener) {
  listeners.push(listener);
  if (data) listener(data);
}

export function startLive(url) {
  const age = new Age(document.getElementById("age"));
  const page = new Page();
  const source = new EventSource(url);
  source.addEventListener("snapshot", (event) => { data = JSON.parse(event.data); news(); });
  source.addEventListener("change", (event) => {
    if (!data) return;
    const change = JSON.parse(event.data);
    for (const [path, value] of Object.entries(change.set ?? {})) assign(data, path, value);
    for (const [path, points] of Object.entries(change.append ?? {})) append(find(data, path), points);
    for (const name of ["as_of", "age_ms"]) if (name in change) data[name] = change[name];
    news();
  });
  source.addEventListener("error", () => age.lost());
  source.addEventListener("bye", (event) => {
    age.lost();
    if (JSON.parse(event.data).code !== "slow") source.close(); // an ended session or server is not asked over and over
  });
  addEventListener("pagehide", () => source.close());

  function news() {
    age.now(data.as_of);
    page.show(data);
    for (const listener of listeners) listener(data);
  }
}

class Age {
  constructor(box) {
    this.box = box;
    this.text = document.getElementById("age-text");
    this.heard = Date.now();
    setInterval(() => { if (Date.now() - this.heard > SILENCE_MS) this.lost(); }, 1000);
  }

  now(asOf) {
    this.heard = Date.now();
    this.box.hidden = false;
    this.box.classList.add("is-live");
    this.box.classList.remove("is-stale");
    put(this.text, text("js.live", { when: moment(asOf) }));
  }

  lost() {
    this.box.classList.remove("is-live");
    this.box.classList.add("is-stale");
    put(this.text, text("js.stale", { age: duration(Date.now() - this.heard) }));
  }
}

class Page {
  constructor() {
    this.saidAt = 0;
    this.readAt = 0;
    this.reading = false;
    this.known = new Map();
  }

  show(data) {
    for (const box of document.querySelectorAll("[data-live^='/']")) showValue(box, find(data, box.dataset.live));
    let changed = false;
    for (const body of document.querySelectorAll("[data-list]")) changed = showRows(body, find(data, body.dataset.list)) || changed;
    for (const box of document.querySelectorAll("dd[data-spark]")) spark(box, data.history?.[box.dataset.spark]?.points);
    if (this.newParts(data) || changed) this.readAgain();
    this.say(data);
  }

  // Notices and lists that were empty have nothing on the page to be changed: their part is read from the server.
  newParts(data) {
    let isNew = false;
    const parts = { notices: data.notices, items: data.items, brokers: data.brokers, top_topics: data.top_topics, top_groups: data.top_groups,
      queues: data.queues, groups: data.groups, members: data.members, levels: data.levels, timers: data.timers?.items,
      halves: data.halves?.items, tables: data.tables?.items, archives: data.archives?.items };
    for (const [name, rows] of Object.entries(parts)) {
      if (!Array.isArray(rows)) continue;
      const key = JSON.stringify(rows.map((row) => row?.id ?? row));
      const before = this.known.get(name);
      this.known.set(name, key);
      const isEmptyHere = name !== "notices" && rows.length > 0 && before === undefined && !document.querySelector("[data-list] tr");
      if ((before !== undefined && before !== key && (name === "notices" || before === "[]" || key === "[]")) || isEmptyHere) isNew = true;
    }
    return isNew;
  }

  async readAgain() {
    if (this.reading) return;
    this.reading = true;
    const wait = Math.max(this.readAt + READ_AGAIN_MS - Date.now(), 0);
    if (wait) await new Promise((done) => setTimeout(done, wait));
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.ok) replaceRegions(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch {
      // the next change tries again
    } finally {
      this.readAt = Date.now();
      this.reading = false;
    }
  }

  say(data) {
    const box = document.getElementById("totals");
    if (!box || !data.totals || Date.now() - this.saidAt < SAY_EVERY_MS) return;
    this.saidAt = Date.now();
    const { in_per_second: perSecond, lag } = data.totals;
    box.textContent = box.dataset.text.replace("{rate}", perSecond === null ? "–" : rate(perSecond).replace("/s", ""))
      .replace("{lag}", lag === null ? "–" : number(lag));
  }
}

// A part is left alone while the keyboard is in it, unless the same place can be found again.
function replaceRegions(fresh) {
  for (const region of document.querySelectorAll("[data-region]")) {
    const other = fresh.querySelector(`[data-region="${CSS.escape(region.dataset.region)}"]`);
    if (!other || region.querySelector(":checked, [data-busy]")) continue;
    const focused = region.contains(document.activeElement) ? document.activeElement : null;
    const at = focused && focused.getAttribute("href");
    const left = region.scrollLeft;
    region.replaceChildren(...other.childNodes);
    region.scrollLeft = left;
    if (at) region.querySelector(`a[href="${CSS.escape(at)}"]`)?.focus();
  }
}

// True if there are rows that the page does not have.
function showRows(body, rows) {
  if (!Array.isArray(rows)) return false;
  const have = new Map([...body.children].map((row) => [row.dataset.id, row]));
  const wanted = new Set(rows.map((row) => String(row.id)));
  let missing = false, at = 0;
  for (const [id, row] of have) if (!wanted.has(id) && !row.contains(document.activeElement)) row.remove();
  for (const row of rows) {
    const shownRow = have.get(String(row.id));
    if (!shownRow) { missing = true; continue; }
    if (body.children[at] !== shownRow && !body.contains(document.activeElement)) body.insertBefore(shownRow, body.children[at] ?? null);
    at += 1;
    for (const box of shownRow.querySelectorAll("[data-live]")) if (!box.dataset.live.startsWith("/")) showValue(box, find(row, box.dataset.live));
    for (const box of shownRow.querySelectorAll("[data-spark]")) {
      const points = find(row, box.dataset.spark);
      spark(box, Array.isArray(points) ? points : points?.points);
    }
  }
  return missing;
}

function showValue(box, value) {
  if (value === undefined || box.dataset.live === "") return;
  const kind = box.dataset.as;
  if (kind === "share") box.setAttribute("width", String(Math.min(value ?? 0, 1) * 100));
  else if (kind === "flag") showFlag(box, value);
  else if (value === null) showUnknown(box);
  else put(box, shown(value, kind));
}

function showUnknown(box) {
  if (box.querySelector(".unknown")) return;
  const mark = document.createElement("span");
  mark.className = "unknown";
  mark.textContent = "–";
  if (box.dataset.why) mark.title = box.dataset.why;
  const said = document.createElement("span");
  said.className = "sr";
  said.textContent = ` ${box.dataset.why ?? text("js.unknown")}`;
  mark.append(said);
  box.replaceChildren(mark);
}

function showFlag(box, value) {
  const word = value === null ? null : value ? box.dataset.yes : box.dataset.no;
  if (box.textContent.trim() === (word ?? `– ${text("js.unknown")}`)) return;
  box.className = `tag ${value ? "good" : value === null ? "" : box.dataset.bad}`;
  if (word === null) { box.textContent = `– ${text("js.unknown")}`; return; }
  const bold = document.createElement("b");
  bold.textContent = word;
  box.replaceChildren(icon(value ? "good" : box.dataset.bad), bold);
}

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `${document.body.dataset.icons}#${name}`);
  svg.append(use);
  return svg;
}

function spark(box, points) {
  if (!Array.isArray(points)) return;
  const known = points.filter((value) => value !== null);
  if (known.length < 2) return;
  let svg = box.querySelector("svg");
  if (!svg) {
    svg = document.createElementNS(SVG, "svg");
    for (const [name, value] of Object.entries({ class: "spark", viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" })) svg.setAttribute(name, value);
    box.append(svg);
  }
  const top = Math.max(...known, 0) || 1, step = 100 / Math.max(points.length - 1, 1), shapes = [];
  let run = [], unknown = 0;
  [...points, ...Array(BRIDGED_MAX + 1).fill(null)].forEach((value, at) => {
    unknown = value === null ? unknown + 1 : 0;
    if (value !== null) run.push([(at * step).toFixed(2), (100 - Math.min(Math.max(value / top, 0), 1) * 98 - 1).toFixed(1)]);
    else if (run.length && unknown > BRIDGED_MAX) {
      const path = run.map((pair) => pair.join(",")).join(" ");
      shapes.push(shape("polygon", `${run[0][0]},100 ${path} ${run.at(-1)[0]},100`), shape("polyline", path));
      run = [];
    }
  });
  svg.replaceChildren(...shapes);
}

function shape(name, points) {
  const element = document.createElementNS(SVG, name);
  element.setAttribute("points", points);
  return element;
}

function put(box, value) {
  if (box.textContent === value) return;
  box.textContent = value;
}

// Paths as the server writes them: a list whose rows have ids is entered by id.

function steps(path) {
  return path.split("/").filter((step, at) => at > 0 || step !== "").map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function enter(value, step) {
  if (Array.isArray(value)) return value.find((row) => String(row?.id) === step) ?? value[Number(step)];
  return value?.[step];
}

function find(value, path) {
  for (const step of steps(path)) value = enter(value, step);
  return value;
}

function assign(value, path, what) {
  const all = steps(path), last = all.pop();
  for (const step of all) value = enter(value, step);
  if (value === undefined || value === null) return;
  if (Array.isArray(value)) {
    const at = value.findIndex((row) => String(row?.id) === last);
    if (at >= 0) value[at] = what;
    else if (/^\d+$/.test(last)) value[Number(last)] = what;
  } else value[last] = what;
}

// A series goes on: what lies between is not known, what is beyond its length falls off at the front.
function append(series, points) {
  if (!series) return;
  for (const [at, value] of points) {
    const place = Math.round((at - series.from_ms) / series.step_ms);
    if (place < 0) continue;
    while (series.points.length < place) series.points.push(null);
    series.points[place] = value;
  }
  const over = series.points.length - SERIES_MAX;
  if (over > 0) { series.points.splice(0, over); series.from_ms += over * series.step_ms; }
}
