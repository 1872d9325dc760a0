"""The style sheet of the report page. The page's security policy names it by its hash, so nothing else can style it."""

from __future__ import annotations

import base64
import hashlib

from flaremq.look.palette import DARK, LIGHT, declarations

STYLE = (
    f":root {{ color-scheme: light dark; {declarations(LIGHT)} }}\n"
    f"@media (prefers-color-scheme: dark) {{ :root {{ {declarations(DARK)} }} }}"
    """
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 24px 20px 48px; }
header { margin-bottom: 20px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 6px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 0 0 4px; }
h3 { font-size: 15px; margin: 20px 0 6px; }
p { margin: 0 0 10px; }
.soft, figcaption, .about { color: var(--soft); }
.about { font-size: 14px; margin-bottom: 14px; max-width: 80ch; }
.where { overflow-wrap: anywhere; margin: 0; }
nav { display: flex; flex-wrap: wrap; gap: 4px 14px; margin: 14px 0 0; font-size: 14px; }
nav a { color: var(--link); text-decoration: none; }
nav a:hover { text-decoration: underline; }
.notices { list-style: none; margin: 0 0 18px; padding: 0; display: grid; gap: 6px; }
.notices li { padding: 8px 12px; border-radius: 8px; overflow-wrap: anywhere; }
.notices b { text-transform: capitalize; margin-right: 6px; }
.critical { background: var(--critical-ground); color: var(--critical); }
.warning { background: var(--warning-ground); color: var(--warning); }
.note { background: var(--note-ground); color: var(--note); }
.numbers { display: grid; grid-template-columns: repeat(4, 1fr); gap: 12px; margin-bottom: 18px; }
.numbers div { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 14px; }
.numbers b { display: block; font-size: 23px; line-height: 1.3; font-variant-numeric: tabular-nums; }
.numbers span { color: var(--soft); font-size: 13px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 18px 20px;
  margin-bottom: 16px; scroll-margin-top: 12px; }
.none { color: var(--soft); font-style: italic; margin: 6px 0 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { padding: 5px 10px; border-bottom: 1px solid var(--line); text-align: left; vertical-align: middle; }
th { color: var(--soft); font-weight: 600; font-size: 13px; white-space: nowrap; }
tbody tr:last-child td { border-bottom: 0; }
th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.name { overflow-wrap: anywhere; min-width: 9em; }
td.bar { width: 22%; min-width: 90px; }
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
.more { color: var(--soft); font-size: 13px; margin: 8px 0 0; }
details { margin-top: 12px; }
summary { cursor: pointer; color: var(--link); font-size: 14px; }
.share { display: block; width: 100%; height: 10px; background: var(--grid); border-radius: 2px; }
.chart { margin: 8px 0 18px; }
.plot { display: grid; grid-template-columns: 46px 1fr; }
.plot svg { width: 100%; height: 190px; display: block; border-bottom: 1px solid var(--line); }
.scale { display: flex; flex-direction: column; justify-content: space-between; font-size: 12px; line-height: 1;
  color: var(--soft); text-align: right; padding-right: 8px; font-variant-numeric: tabular-nums; }
.axis { display: flex; margin: 5px 0 0 46px; font-size: 12px; color: var(--soft); font-variant-numeric: tabular-nums; }
.axis.ends { justify-content: space-between; gap: 8px; }
.axis.ends span:last-child { text-align: right; }
.axis.ends span:nth-child(2) { text-align: center; }
.axis.even span { flex: 1 1 0; min-width: 0; display: flex; justify-content: center; white-space: nowrap; }
figcaption { font-size: 13px; margin-top: 6px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: 13px; margin: 8px 0 0 46px; }
.key { display: inline-flex; align-items: center; gap: 6px; overflow-wrap: anywhere; }
.key svg { width: 10px; height: 10px; flex: none; }
.gauge { width: 100%; height: 20px; display: block; background: var(--grid); border-radius: 4px; }
.grid { stroke: var(--grid); stroke-width: 1; vector-effect: non-scaling-stroke; }
.mark { stroke: var(--mark); stroke-width: 2; vector-effect: non-scaling-stroke; }
.hit { fill: transparent; }
g:hover > .hit { fill: var(--grid); }
.s0 { fill: var(--s0); } .s1 { fill: var(--s1); } .s2 { fill: var(--s2); }
.s3 { fill: var(--s3); } .s4 { fill: var(--s4); } .s5 { fill: var(--s5); }
footer { color: var(--soft); font-size: 13px; }
@media (max-width: 600px) {
  main { padding: 16px 10px 32px; } section { padding: 14px 12px; } h1 { font-size: 21px; }
  .numbers { grid-template-columns: repeat(2, 1fr); gap: 8px; } .numbers b { font-size: 19px; }
  .plot svg { height: 150px; }
  th, td { padding: 5px 7px; } th.bar, td.bar { display: none; } .axis.ends span:nth-child(2) { display: none; } }
@media print { body { background: #fff; } section { break-inside: avoid; } nav { display: none; } }
"""
)


def style_policy() -> str:
    """The source expression that lets a browser apply ``STYLE`` and nothing else."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    return f"'sha256-{digest}'"
