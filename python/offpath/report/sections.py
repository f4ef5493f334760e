"""What the page says of each kind of result: a heading, a sentence, figures, a table."""

from __future__ import annotations

from ..errors import CorruptDataError
from . import attention
from .elements import Section, Table, bars, number, spans_decades
from .results import Result

__all__ = ["sections_of"]

# Tol's bright scheme: told apart by the colour-blind, on light and on dark.
_PART_COLOURS = {
    "sample": "#4477aa",
    "encode": "#ee6677",
    "transfer": "#ccbb44",
    "decode": "#228833",
    "train": "#aa3377",
}


def _main_job(results: list[Result]) -> Section:
    names = [r["name"] for r in results]
    seconds = [r["seconds_a_batch"] for r in results]
    bytes_a_batch = [r["bytes_a_batch"] / 1e6 for r in results]
    parts = {
        "sample": [r.get("sample_s", 0) for r in results],
        "encode": [r.get("encode_s", 0) for r in results],
        "transfer": [r.get("transfer_s", 0) for r in results],
        "decode": [r.get("decode_s", 0) for r in results],
        "train": [r.get("compute_s", 0) for r in results],
    }
    by_part = {
        "data": [
            {
                "type": "bar", "orientation": "h", "name": part, "x": values, "y": names,
                "marker": {"color": _PART_COLOURS[part]},
                "hovertemplate": f"%{{y}}, {part}: %{{x:.4g}} s<extra></extra>",
            }
            for part, values in parts.items()
        ],
        "layout": {
            "title": {"text": "Seconds a batch by part (they overlap)"},
            "barmode": "group", "height": 170 + 80 * len(names),
            "xaxis": {"title": {"text": "seconds"}, "type": "log"},
            "yaxis": {"autorange": "reversed"},
        },
    }  # fmt: skip
    slowest = max(seconds)
    setting = results[0]
    where = (
        f"over loopback; the seconds of a {setting.get('link')} link are modelled"
        if setting.get("modelled")
        else f"over a link of {setting.get('link')}"
    )
    quota = setting.get("quota")
    share = f", the node on {quota:g}% of a core" if isinstance(quota, (int, float)) else ""
    text = (
        f"A trainer fed by a memory node {where}{share}. near: the node samples, gathers and quantizes. "
        "rpc: it samples hop by hop, rows are fetched then. pull: it only stores. full: all neighbours."
    )
    modelled = any("modelled_link_s" in r for r in results)
    head = ["mode", "batches", "MB a batch", "s a batch", "sample", "encode", "transfer", "decode", "train"]
    head += ["link (modelled)"] if modelled else []
    head += ["times slowest", "accuracy"]
    rows = []
    for i, r in enumerate(results):
        row = [r["name"], number(r.get("batches")), number(bytes_a_batch[i]), number(seconds[i])]
        row += [number(values[i]) for values in parts.values()]
        row += [number(r.get("modelled_link_s"))] if modelled else []
        row += [number(slowest / seconds[i]), number(r.get("accuracy"))]
        rows.append(row)
    return Section(
        "Training fed by a memory node",
        text,
        [
            bars("Seconds a batch", "seconds", names, seconds, spans_decades(seconds)),
            by_part,
            bars("Megabytes a batch", "MB", names, bytes_a_batch, spans_decades(bytes_a_batch)),
        ],
        [Table(head, rows)],
    )


def _benchmarks(results: list[Result]) -> Section:
    compared = [r for r in results if isinstance(r.get("ratio"), (int, float))]
    limited = [r for r in results if isinstance(r.get("limit_fraction"), (int, float))]
    figures = []
    if compared:
        names = [f"{r['bench']} {r.get('case', '')} / {r.get('peer_name', 'peer')}" for r in compared]
        ratios = [r["ratio"] for r in compared]
        figures.append(bars("Times the peer (above 1: ours is better)", "times", names, ratios))
    if limited:
        names = [f"{r['bench']} {r.get('case', '')}" for r in limited]
        figures.append(
            bars("Part of the physical limit reached", "of 1", names, [r["limit_fraction"] for r in limited])
        )
    head = ["bench", "case", "ours", "peer", "unit", "ratio", "of the limit", "spread"]
    rows = []
    for r in results:
        peer = f"{number(r['peer'])} ({r.get('peer_name', 'peer')})" if r.get("peer") is not None else "-"
        rows.append(
            [
                str(r["bench"]), str(r.get("case", "")), number(r.get("ours")), peer, str(r.get("unit", "")),
                number(r.get("ratio")), number(r.get("limit_fraction")), number(r.get("spread")),
            ]
        )  # fmt: skip
    return Section(
        "Benchmarks", "Medians of one interleaved run on one machine.", figures, [Table(head, rows)]
    )


def _training(results: list[Result]) -> Section:
    splits = sorted({s for r in results for s in r.get("accuracy", {})})
    parts = sorted({p for r in results for p in r.get("seconds", {})})
    rows = [
        [
            str(r.get("graph", "")), number(r.get("epochs")),
            *(number(r.get("accuracy", {}).get(s)) for s in splits),
            *(number(r.get("seconds", {}).get(p)) for p in parts),
        ]
        for r in results
    ]  # fmt: skip
    head = ["graph", "epochs", *(f"accuracy, {s}" for s in splits), *(f"{p} (s)" for p in parts)]
    return Section("Training runs", "Accuracy by split, and where the time went.", [], [Table(head, rows)])


def _anything(kind: str, results: list[Result]) -> Section:
    head = list(dict.fromkeys(key for r in results for key in r if key != "kind"))
    rows = [[number(r.get(key)) for key in head] for r in results]
    return Section(kind, "", [], [Table(head, rows)])


_KINDS = {"graph-main-job": _main_job, "attention-main-job": attention.main_job, "bench": _benchmarks, "graph-train": _training}


def sections_of(groups: dict[str, list[Result]]) -> list[Section]:
    """In the order of first appearance; kinds that are not known become plain tables.

    Raises CorruptDataError naming the kind whose results are not as its command writes them.
    """
    sections = []
    for kind, results in groups.items():
        try:
            sections.append(_KINDS[kind](results) if kind in _KINDS else _anything(kind, results))
        except KeyError as error:
            raise CorruptDataError(f"a result of kind {kind!r} lacks the field {error}") from None
        except (ArithmeticError, AttributeError, TypeError, ValueError) as error:
            raise CorruptDataError(f"a result of kind {kind!r} is not as its command writes it: {error}") from None
    return sections
