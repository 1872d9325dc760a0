// Curves with a cursor take the place of the server's drawing; where uPlot is missing the drawing stays.

import { BRIDGED_MAX, onData } from "./live.js";
import { shown, text } from "./format.js";

const HEIGHT = 165;

export function startCharts() {
  const uPlot = window.uPlot;
  const sections = [...document.querySelectorAll("[data-chart]")];
  if (!uPlot || !sections.length) return;
  const charts = sections.map((section) => new Chart(uPlot, section));
  onData((data) => { for (const chart of charts) chart.show(data.history); });
  new ResizeObserver(() => { for (const chart of charts) chart.fit(); }).observe(document.getElementById("content"));
  const redraw = () => { for (const chart of charts) chart.draw(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
}

// uPlot draws on over what is undefined and breaks off at null.
function bridged(values) {
  let from = 0;
  values.forEach((value, at) => {
    if (value === null) return;
    if (at - from <= BRIDGED_MAX) values.fill(undefined, from, at);
    from = at + 1;
  });
  return values;
}

class Chart {
  constructor(uPlot, section) {
    this.uPlot = uPlot;
    this.box = section.querySelector(".curve");
    this.title = section.querySelector("h2").textContent;
    this.span = section.querySelector("[data-span]");
    this.kind = section.dataset.chart;
    this.series = [];
    for (let at = 0; section.dataset[`series${at}`]; at += 1) this.series.push([section.dataset[`series${at}`], section.dataset[`name${at}`]]);
    this.plot = null;
    this.values = null;
  }

  show(history) {
    const first = history?.[this.series[0][0]];
    if (!first?.points?.some((value) => value !== null)) return;
    const times = first.points.map((_, at) => (first.from_ms + at * first.step_ms) / 1000);
    this.values = [times, ...this.series.map(([name]) => bridged(times.map((_, at) => history[name]?.points?.[at] ?? null)))];
    if (this.plot) this.plot.setData(this.values);
    else this.draw();
  }

  draw() {
    if (!this.values) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 19);
    const axis = { stroke: colour("soft"), grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const value = (_, raw) => (raw === null || raw === undefined ? "–" : shown(raw, this.kind));
    this.plot?.destroy();
    this.box.replaceChildren();
    this.box.setAttribute("role", "img");
    this.box.setAttribute("aria-label", this.title);
    if (this.span) this.span.hidden = true; // the axis says it now
    this.plot = new this.uPlot({
      width: this.box.clientWidth, height: HEIGHT,
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [{ ...axis, space: 80, size: 30, values: (_, ticks) => ticks.map(clock) }, { ...axis, size: 62, values: (_, ticks) => ticks.map((tick) => shown(tick, this.kind)) }],
      series: [{ label: text("js.time"), value: (_, raw) => (raw === null || raw === undefined ? "–" : `${clock(raw)} UTC`) }, ...this.series.map(([, name], at) => ({ label: name, stroke: colour(`s${at}`), width: 1.7, value, points: { show: false }, dash: at ? [7, 4] : [] }))],
      cursor: { y: false, drag: { setScale: false, x: false, y: false } }, legend: { markers: { width: 2 } },
    }, this.values, this.box);
  }

  fit() {
    if (this.plot && this.plot.width !== this.box.clientWidth && this.box.clientWidth) this.plot.setSize({ width: this.box.clientWidth, height: HEIGHT });
  }
}
