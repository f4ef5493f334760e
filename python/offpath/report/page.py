"""The page: one HTML file with everything in it, light and dark, readable on a phone."""

from __future__ import annotations

import html
import json
import platform
from typing import Any

from ..errors import UnsupportedError
from .elements import Section, Table
from .results import Result, group_results
from .sections import sections_of

__all__ = ["make_page"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --soft: #5b6570; --line: #d5dae0; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ed; --paper: #14171b; --soft: #9aa4af; --line: #333a42; }
}
body { margin: 0 auto; max-width: 62rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0.5rem 0; } h2 { font-size: 1.25rem; margin: 2rem 0 0.25rem; }
p { color: var(--soft); margin: 0.25rem 0 1rem; }
.scroll { overflow-x: auto; } .plot { width: 100%; margin-bottom: 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9rem; }
th, td { padding: 0.3rem 0.7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 600; }
"""

_SCRIPT = """
const dark = window.matchMedia("(prefers-color-scheme: dark)");
function themed(layout) {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink").trim(), line = style.getPropertyValue("--line").trim();
  const narrow = window.innerWidth < 600;
  const axis = extra => ({ gridcolor: line, zerolinecolor: line, automargin: true, fixedrange: true, ...extra });
  return { ...layout, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: ink, size: narrow ? 11 : 13 }, margin: { l: 10, r: 20, t: 50, b: 40 },
    legend: { orientation: "h", y: -0.15 }, xaxis: axis(layout.xaxis), yaxis: axis(layout.yaxis) };
}
function draw() {
  for (const [id, figure] of Object.entries(FIGURES)) {
    Plotly.react(id, figure.data, themed(figure.layout), { responsive: true, displayModeBar: false });
  }
}
draw();
dark.addEventListener("change", draw);
"""


def _plotly_script() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise UnsupportedError("the report is drawn with plotly: pip install plotly") from None
    return get_plotlyjs()


def _embedded(value: Any) -> str:
    """JSON that may stand inside <script>."""
    return json.dumps(value).replace("<", "\\u003c")


def _table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in table.head)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _section(index: int, section: Section, figures: dict[str, Any]) -> str:
    parts = [f"<h2>{html.escape(section.title)}</h2>"]
    if section.text:
        parts.append(f"<p>{html.escape(section.text)}</p>")
    for i, figure in enumerate(section.figures):
        name = f"plot-{index}-{i}"
        figures[name] = figure
        parts.append(f'<div class="plot" id="{name}"></div>')
    parts.extend(_table(table) for table in section.tables)
    return "<section>" + "".join(parts) + "</section>"


def make_page(results: list[Result], title: str = "Offpath report") -> str:
    """The whole page. Needs no network to be read."""
    figures: dict[str, Any] = {}
    sections = [
        _section(i, section, figures) for i, section in enumerate(sections_of(group_results(results)))
    ]
    machine = f"{platform.machine()}, {platform.system()} {platform.release()}"
    body = "".join(sections) or "<p>The files held no results.</p>"
    scripts = (
        f"<script>{_plotly_script()}</script>"
        f"<script>const FIGURES = {_embedded(figures)};{_SCRIPT}</script>"
        if figures
        else ""
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{html.escape(title)}</h1><p>Drawn on {html.escape(machine)}.</p>{body}{scripts}</body></html>"
    )
