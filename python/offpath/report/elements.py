"""What sections are made of: headings, sentences, figures, tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Section", "Table", "bars", "number", "spans_decades"]

_OURS = "#4477aa"


@dataclass
class Table:
    head: list[str]
    rows: list[list[str]]


@dataclass
class Section:
    title: str
    text: str
    figures: list[dict[str, Any]] = field(default_factory=list)  # plotly's data and layout
    tables: list[Table] = field(default_factory=list)


def number(value: Any, digits: int = 3) -> str:
    """Three significant digits, thousands separated; "-" for what is not there."""
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def bars(title: str, unit: str, names: list[str], values: list[float], log: bool = False) -> dict:
    return {
        "data": [
            {
                "type": "bar", "orientation": "h", "x": values, "y": names, "cliponaxis": False,
                "text": [number(v) for v in values], "textposition": "auto",
                "marker": {"color": _OURS}, "hovertemplate": f"%{{y}}: %{{x:.4g}} {unit}<extra></extra>",
            }
        ],
        "layout": {
            "title": {"text": title},
            "xaxis": {"title": {"text": unit}, "type": "log" if log else "linear"},
            "yaxis": {"autorange": "reversed"},
            "height": 130 + 36 * len(names),
        },
    }  # fmt: skip


def spans_decades(values: list[float]) -> bool:
    positive = [v for v in values if v > 0]
    return bool(positive) and max(positive) / min(positive) > 30
