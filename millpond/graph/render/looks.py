"""How pictures and pages of graphs look and behave: plain CSS in two palettes, and a few lines of script."""

from __future__ import annotations

COLOURS = """
:root { color-scheme: light dark;
  --paper: #ffffff; --ink: #1c2430; --soft: #566172; --band: #f3f5f8; --rule: #d5dbe3; --box: #ffffff;
  --edge: #44536a; --link: #93a1b4; --store: #e7f0fb; --partial: #fdf0dc; --lit: #c2410c; --glow: #ffedd5;
  --warn: #9a3412; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14181f; --ink: #e6eaf0; --soft: #a3aebd; --band: #1b212b; --rule: #323c4a; --box: #252e3b;
  --edge: #a9b8cc; --link: #6c7c92; --store: #1d3350; --partial: #453416; --lit: #fb923c; --glow: #43301f;
  --warn: #fdba74; } }
"""

STYLE = """
.graph { background: var(--paper); }
.graph text { font: 12px ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono", monospace; fill: var(--ink); }
.graph .lane { fill: var(--band); }
.graph .entry { font-weight: 600; font-size: 13px; stroke: var(--band); stroke-width: 5; paint-order: stroke; }
.graph .entry tspan { font-weight: 400; font-size: 11px; fill: var(--soft); }
.graph .column { fill: var(--soft); font-size: 11px; text-anchor: middle; }
.graph .task rect { fill: var(--box); stroke: var(--edge); stroke-width: 1.3; }
.graph .name { font-weight: 600; }
.graph .soft { fill: var(--soft); }
.graph .feed rect, .graph .reply rect { fill: var(--paper); stroke: var(--link); }
.graph .feed text, .graph .reply text { fill: var(--soft); text-anchor: middle; }
.graph .state path { fill: var(--store); stroke: var(--edge); stroke-width: 1.2; }
.graph .state.partial path { fill: var(--partial); }
.graph .state path.lid { fill: none; }
.graph .edge path, .graph .link path { fill: none; }
.graph .edge .shaft { stroke: var(--edge); stroke-width: 1.5; marker-end: url(#arrow); }
.graph .edge.fan .shaft { stroke-width: 3.2; marker-end: url(#arrow-fan); }
.graph .edge.back .shaft { stroke-dasharray: 7 3; }
.graph .edge .reach { stroke: transparent; stroke-width: 14; }
.graph .link .shaft { stroke: var(--link); stroke-width: 1.1; stroke-dasharray: 3 3; }
.graph .link.writes .shaft { marker-end: url(#arrow-link); }
.graph .label text { font-size: 11px; text-anchor: middle; stroke: var(--band); stroke-width: 4; paint-order: stroke; }
.graph [data-on] { cursor: default; outline: none; }
.graph .lit rect, .graph .state.lit path { stroke: var(--lit); stroke-width: 2.4; fill: var(--glow); }
.graph .state.lit path.lid { fill: none; }
.graph .edge.lit .shaft { stroke: var(--lit); stroke-width: 2.6; marker-end: url(#arrow-lit); }
.graph .link.lit .shaft { stroke: var(--lit); stroke-width: 1.8; }
.graph .link.writes.lit .shaft { marker-end: url(#arrow-lit); }
.graph .label.lit text { fill: var(--lit); }
"""

PAGE_STYLE = """
* { box-sizing: border-box; }
html, body { height: 100%; margin: 0; }
body { display: flex; flex-direction: column; background: var(--paper); color: var(--ink);
  font: 14px/1.45 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
header { padding: 10px 16px; border-bottom: 1px solid var(--rule); display: flex; gap: 14px; align-items: baseline; }
h1 { font-size: 17px; margin: 0; }
header span { color: var(--soft); }
main { flex: 1; display: flex; min-height: 0; }
#source { width: 34%; min-width: 240px; max-width: 75%; overflow: auto; resize: horizontal;
  border-right: 1px solid var(--rule); }
#source h2 { position: sticky; top: 0; left: 0; margin: 0; padding: 6px 12px; background: var(--band);
  font-size: 12px; font-weight: 600; color: var(--soft); z-index: 1; }
.line, #tell { font: 12px/1.55 ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono", monospace; }
.line { display: flex; width: max-content; min-width: 100%; white-space: pre; padding-right: 8px;
  border-left: 4px solid transparent; scroll-margin: 34px 0; }
.line i, .line b { font-style: normal; font-weight: 400; color: var(--soft); flex: none; user-select: none; }
.line i { width: 4ch; text-align: right; margin-right: 1ch; }
.line b { min-width: 4ch; margin-right: 1ch; }
.line[data-on] { border-left-color: var(--link); cursor: default; outline: none; }
.line.lit { background: var(--glow); border-left-color: var(--lit); }
#right { flex: 1; min-width: 0; display: flex; flex-direction: column; }
#drawing { flex: 1; min-height: 0; overflow: auto; padding: 8px; }
#drawing svg { display: block; height: auto; max-width: 100%; min-width: calc(0.7px * var(--width)); }
#tell { margin: 0; border-top: 1px solid var(--rule); background: var(--band); padding: 10px 16px; min-height: 6.4em;
  max-height: 34%; overflow: auto; white-space: pre-wrap; font-size: 13px; }
#facts { border-top: 1px solid var(--rule); padding: 5px 16px 6px; max-height: 24%; overflow: auto; flex: none; }
#facts summary { cursor: pointer; color: var(--soft); font-size: 13px; }
#facts h3 { font-size: 13px; margin: 8px 0 2px; }
#facts p { margin: 0 0 0 14px; font-size: 13px; }
#facts .warn { color: var(--warn); }
@media (max-width: 800px) { main { flex-direction: column; }
  #source { width: 100%; max-width: none; height: 40%; resize: vertical; } }
"""

SCRIPT = """
const tell = document.getElementById("tell"), rest = tell.textContent;
let pinned = null;
function show(part, from) {
  document.querySelectorAll(".lit").forEach(other => other.classList.remove("lit"));
  tell.textContent = part ? part.dataset.tell : rest;
  if (!part) return;
  const lit = part.dataset.on.split(" ").map(id => document.getElementById(id)).filter(Boolean);
  [part, ...lit].forEach(other => other.classList.add("lit"));
  const line = lit.find(other => other.classList.contains("line"));
  if (line && !from.closest("#source")) line.scrollIntoView({ block: "nearest" });
}
const part = event => event.target.closest ? event.target.closest("[data-on]") : null;
document.addEventListener("pointerover", event => { if (!pinned) show(part(event), event.target); });
document.addEventListener("focusin", event => { if (!pinned && part(event)) show(part(event), event.target); });
document.addEventListener("click", event => {
  if (event.target.closest("#tell, #facts")) return;
  const found = part(event);
  pinned = found === pinned ? null : found;
  show(found, event.target);
});
document.addEventListener("keydown", event => { if (event.key === "Escape") { pinned = null; show(null); } });
"""
