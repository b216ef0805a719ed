"""A document as a page: one file with its style and its script, which fetches nothing."""

from __future__ import annotations

from html import escape

from tessel.display.documents import Document, Section
from tessel.display.html import render_html

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_STYLE = (
    "body{margin:1.2em auto;max-width:76em;padding:0 1em}"
    "nav a{margin-right:1.2em}"
    "section[id]{scroll-margin-top:1em}"
    ".tessel [data-of]{cursor:pointer}"
    ".tessel g[data-of]:hover rect,.tessel rect[data-of]:hover{filter:brightness(1.25)}"
    ".tessel.choosing [data-of]:not(.chosen){opacity:.18}"
    ".tessel button{margin-left:.4em;min-width:2em}"
    "#tip{position:fixed;z-index:9;padding:.4em .7em;border-radius:4px;background:#222;"
    "color:#eee;white-space:pre-wrap;font:12px/1.4 system-ui,sans-serif;max-width:34em;"
    "pointer-events:none;overflow-wrap:anywhere}"
)
_SCRIPT = """
const root = document.querySelector(".tessel"), tip = document.getElementById("tip");
for (const title of root.querySelectorAll("svg title")) {
  title.parentNode.dataset.tip = title.textContent;
  title.remove();
}
const show = (element, x, y) => {
  tip.hidden = !element;
  if (!element) return;
  tip.textContent = element.dataset.tip;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + "px";
  tip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 8 : y + 18) + "px";
};
root.addEventListener("mousemove", e => show(e.target.closest("[data-tip]"), e.clientX, e.clientY));
root.addEventListener("mouseleave", () => show(null));
root.addEventListener("focusin", e => {
  const element = e.target.closest("[data-tip]");
  if (!element) return;
  const box = element.getBoundingClientRect();
  show(element, box.x, box.bottom);
});
const choose = name => {
  const same = name !== null && root.dataset.chosen !== name;
  root.dataset.chosen = same ? name : "";
  root.classList.toggle("choosing", same);
  for (const each of root.querySelectorAll("[data-of]"))
    each.classList.toggle("chosen", same && each.dataset.of === name);
};
root.addEventListener("click", e => {
  const element = e.target.closest("[data-of]");
  if (element) choose(element.dataset.of);
  else if (!e.target.closest("button,a")) choose(null);
});
root.addEventListener("keydown", e => {
  if (e.key === "Enter" && e.target.dataset.of !== undefined) choose(e.target.dataset.of);
  if (e.key === "Escape") { choose(null); show(null); }
});
for (const lanes of root.querySelectorAll(".lanes")) {
  const stop = Number(lanes.dataset.stop), strips = lanes.querySelectorAll("svg");
  let from = 0, part = 1;
  const draw = () => {
    for (const strip of strips) {
      const place = [from * 1000, 0, part * 1000, strip.getAttribute("height")];
      strip.setAttribute("viewBox", place.join(" "));
    }
    const ticks = lanes.querySelectorAll(".axis span");
    ticks.forEach((tick, at) => {
      const value = stop * (from + part * at / (ticks.length - 1));
      const digits = value < 10000 ? 5 : 15;
      const text = Number(value.toPrecision(digits)).toLocaleString("en");
      tick.textContent = `${text} ${lanes.dataset.unit}`;
    });
  };
  const zoom = (by, middle) => {
    const wide = Math.min(1, Math.max(1e-4, part * by));
    from = Math.max(0, Math.min(1 - wide, from + middle * (part - wide)));
    part = wide;
    draw();
  };
  const bar = document.createElement("div");
  const button = (text, title, work) => {
    const made = document.createElement("button");
    made.textContent = text; made.title = title; made.onclick = work;
    bar.append(made);
  };
  button("+", "zoom in", () => zoom(.5, .5));
  button("−", "zoom out", () => zoom(2, .5));
  button("◀", "earlier", () => { from = Math.max(0, from - part / 2); draw(); });
  button("▶", "later", () => { from = Math.min(1 - part, from + part / 2); draw(); });
  button("all", "the whole axis", () => { from = 0; part = 1; draw(); });
  lanes.prepend(bar);
  for (const strip of strips) strip.addEventListener("wheel", e => {
    if (!e.ctrlKey) return;
    e.preventDefault();
    const box = strip.getBoundingClientRect();
    zoom(e.deltaY < 0 ? .8 : 1.25, (e.clientX - box.x) / box.width);
  }, {passive: false});
}
"""


def render_page(document: Document) -> str:
    """Return a document as a page; its sections are named above it.

    Boxes of graphs and spans of lanes say what they are under the pointer. A click on one leaves
    those of its name, another click shows all again. Lanes are stretched by their buttons.
    """
    names = [part.title for part in document.parts if isinstance(part, Section)]
    links = "".join(f'<a href="#{escape(_anchor(name))}">{escape(name)}</a>' for name in names)
    body = render_html(document)
    for name in names:
        heading = f"<section><h3>{escape(name)}</h3>"
        body = body.replace(heading, heading.replace(">", f' id="{escape(_anchor(name))}">', 1), 1)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(document.title) or 'Tessel'}</title><style>{_STYLE}</style></head>"
        f'<body><nav>{links}</nav>{body}<div id="tip" hidden></div>'
        f"<script>{_SCRIPT}</script></body></html>"
    )


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")
