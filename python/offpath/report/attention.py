"""What the page says of the attention engine's main job."""

from __future__ import annotations

from typing import Any

from .elements import Section, Table, bars, number
from .results import Result

__all__ = ["main_job"]

# As the command names and orders them. Tol's bright scheme, as elsewhere.
_PART_COLOURS = {
    "the rest of the model": "#bbbbbb",
    "store keys and values": "#ccbb44",
    "dense layers": "#228833",
    "select, and speculate": "#4477aa",
    "attend": "#ee6677",
    "merge, and predict": "#aa3377",
}
_LINES = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"]


def _time_by_part(results: list[Result]) -> dict[str, Any]:
    names = [r["setting"] for r in results]
    # llama.cpp's own attention is not timed apart from the model.
    whole = [0 if "ms_a_step" in r else r["ms_a_token"] for r in results]
    stacks = {"llama.cpp, all of it": whole} if any(whole) else {}
    stacks |= {part: [r.get("ms_a_step", {}).get(part, 0) for r in results] for part in _PART_COLOURS}
    return {
        "data": [
            {
                "type": "bar", "orientation": "h", "name": part, "x": values, "y": names,
                "marker": {"color": _PART_COLOURS.get(part, "#666666")},
                "hovertemplate": f"%{{y}}, {part}: %{{x:.3g}} ms<extra></extra>",
            }
            for part, values in stacks.items()
        ],
        "layout": {
            "title": {"text": "Milliseconds a token by part"},
            "barmode": "stack", "height": 190 + 36 * len(names),
            "xaxis": {"title": {"text": "ms"}}, "yaxis": {"autorange": "reversed"},
        },
    }  # fmt: skip


def _lines(title: str, x_title: str, y_title: str, lines: list[dict[str, Any]], log: bool = False) -> dict[str, Any]:
    for line, colour in zip(lines, _LINES * len(lines)):
        line.update(type="scatter", mode="lines+markers", line={"color": colour}, marker={"size": 5})
    return {
        "data": lines,
        "layout": {
            "title": {"text": title}, "height": 380,
            "xaxis": {"title": {"text": x_title}, "type": "log" if log else "linear"},
            "yaxis": {"title": {"text": y_title}},
        },
    }  # fmt: skip


def _coverage(results: list[Result]) -> list[dict[str, Any]]:
    lines = [
        {
            "name": r["setting"], "y": [100 * share for share in r["coverage_by_step"]],
            "x": list(range(1, len(r["coverage_by_step"]) + 1)),
        }
        for r in results
        if "coverage_by_step" in r and r.get("tier") != "file"
    ]  # fmt: skip
    if not lines:
        return []
    title = "Of the selected blocks, foreseen"
    return [_lines(title, "step", "%", lines)]


def _perplexity(results: list[Result]) -> list[dict[str, Any]]:
    measured = [r for r in results if "perplexity" in r]
    budgets = sorted({r["budget"] for r in measured if "budget" in r})
    if len(budgets) < 2:
        return [bars("Perplexity", "", [r["setting"] for r in measured], [r["perplexity"] for r in measured])] if measured else []
    lines = []
    for policy in dict.fromkeys(r["policy"] for r in measured):
        of = sorted((r for r in measured if r["policy"] == policy), key=lambda r: r.get("budget", 0))
        # Those without a budget attend to everything: a level line.
        x, y = ([r["budget"] for r in of], [r["perplexity"] for r in of]) if "budget" in of[0] else (
            budgets, [of[0]["perplexity"]] * len(budgets))  # fmt: skip
        lines.append({"name": "llama.cpp" if policy == "native" else policy, "x": x, "y": y})
    figure = _lines("Perplexity by budget", "tokens that a head attends to", "perplexity", lines, log=True)
    figure["layout"]["xaxis"].update(tickvals=budgets, ticktext=[str(b) for b in budgets])
    return [figure]


def _percent(part: Any, whole: Any) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def main_job(results: list[Result]) -> Section:
    first = results[0]
    text = (
        f"A text of {first['prompt_tokens']:,} tokens, read once by llama.cpp's own attention in "
        f"{number(first['prefill_s'])} s and taken over by every setting, each of which writes on. serial: select "
        "blocks, then attend to them. prr: attend to predicted blocks meanwhile, then to those that were missed; "
        "the result is serial's. In memory, where all cores are busy, nothing is gained by that; blocks in a file "
        "are read ahead."
    )
    head = ["setting", "ms a token", *list(_PART_COLOURS)[1:], "the rest", "attends to", "foreseen", "in vain",
            "not speculated", "perplexity", "over llama.cpp"]  # fmt: skip
    rows = []
    for r in results:
        parts = r.get("ms_a_step", {})
        predicted, covered = r.get("predicted_blocks", 0), r.get("covered_blocks", 0)
        rows.append(
            [
                r["setting"], number(r["ms_a_token"]), *(number(parts.get(part)) for part in list(_PART_COLOURS)[1:]),
                number(parts.get("the rest of the model")),
                _percent(r.get("selected_blocks", 0), r.get("context_blocks", 0)),
                _percent(covered, r.get("selected_blocks", 0) if predicted else 0),
                _percent(predicted - covered, predicted),
                _percent(r.get("withheld_steps", 0), r.get("sparse_steps", 0) if r["policy"] == "prr" else 0),
                number(r.get("perplexity"), 4), number(r.get("over_llama_cpp"), 4),
            ]
        )  # fmt: skip
    return Section(
        "A language model on a long text",
        text,
        [_time_by_part(results), *_coverage(results), *_perplexity(results)],
        [Table(head, rows)],
    )
