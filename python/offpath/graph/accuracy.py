"""What quantized features cost in accuracy: `python -m offpath.graph.accuracy --planetoid FOLDER`.

Two questions, answered with GraphSAGE over sampled batches:

* Does training reach what the literature does? Cora and Citeseer on their public splits, f32, mean
  over seeds.
* What do i8, i4 and i2 cost against f32? Planetoid's own features are zeros and ones, which every
  width holds without loss, so they are judged through a seeded Gaussian projection to 128 columns,
  and beside them R-MAT's planted Gaussian features. Runs are paired: one seed decides the initial
  weights, the dropout and every batch, whatever the format.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import statistics
import sys
import tempfile
from dataclasses import dataclass, replace
from typing import Iterable, Optional, Sequence

import numpy as np

from .. import _core
from .._arguments import whole
from ..errors import Error
from .importers import import_graph
from .store import Store
from .training import Trainer, TrainOptions
from .view import open_graph

FORMATS = ("f32", "i8", "i4", "i2")
# The promise: points of accuracy below f32, at most, with 95% confidence. i2 is reported.
LIMITS = {"i8": 0.5, "i4": 2.0}
PUBLIC_FLOORS = {"cora": 0.78, "citeseer": 0.66}
_GRAPHS = (*PUBLIC_FLOORS, "rmat")
PROJECTED_DIM = 128
PROJECTION_SEED = 1

_PLANETOID = TrainOptions(
    fanouts=[-1, -1], epochs=60, batch_size=512, hidden=64, dropout=0.5, input_dropout=0.5,
    learning_rate=0.01, weight_decay=5e-3, normalize_rows=True, workers=0,
)  # fmt: skip
_PROJECTED = replace(_PLANETOID, normalize_rows=False)
_RMAT = TrainOptions(
    fanouts=[10, 5], epochs=4, batch_size=512, hidden=64, dropout=0.0, learning_rate=0.01,
    weight_decay=0.0, workers=0, eval_batches=16,
)  # fmt: skip
_RMAT_GRAPH = {"nodes": 40_000, "edges": 640_000, "dim": 128, "classes": 16, "seed": 42}


@dataclass
class Comparison:
    """Paired differences to f32 in points of accuracy, over seeds."""

    graph: str
    format: str
    accuracy: float  # mean
    difference: float  # mean of (format - f32), points
    half_width: float  # of its 95% interval
    seeds: int

    @property
    def low(self) -> float:
        return self.difference - self.half_width

    @property
    def limit(self) -> Optional[float]:
        return LIMITS.get(self.format)

    @property
    def holds(self) -> bool:
        """The whole interval is above the limit."""
        return self.limit is None or self.low >= -self.limit

    def as_dict(self) -> dict:
        return {
            "kind": "graph-quantization", "graph": self.graph, "format": self.format,
            "accuracy": self.accuracy, "difference": self.difference,
            "low": self.low, "high": self.difference + self.half_width, "seeds": self.seeds,
            "limit": self.limit, "holds": self.holds,
        }  # fmt: skip


def student_t_975(degrees: int) -> float:
    """The 97.5% point of Student's t, to 0.2% (a table below 5, else Cornish and Fisher's series)."""
    small = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}
    if degrees in small:
        return small[degrees]
    z = 1.959964
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / degrees ** (i + 1) for i, term in enumerate(terms))


def compare(graph: str, format: str, accuracies: Sequence[float], f32: Sequence[float]) -> Comparison:
    points = [100 * (a - b) for a, b in zip(accuracies, f32)]
    half = math.inf
    if len(points) > 1:
        half = student_t_975(len(points) - 1) * statistics.stdev(points) / math.sqrt(len(points))
    return Comparison(
        graph, format, statistics.mean(accuracies), statistics.mean(points), half, len(points)
    )


def project(source: Store, folder: pathlib.Path) -> Store:
    """A copy of a store whose features went through a seeded Gaussian projection."""
    features = np.asarray(source.features(), dtype=np.float64)
    features /= np.maximum(features.sum(axis=1, keepdims=True), 1.0)
    matrix = np.random.default_rng(PROJECTION_SEED).standard_normal((features.shape[1], PROJECTED_DIM))
    rows = features @ matrix
    # To unit variance: the learning rate then fits as it does for other dense features.
    rows /= rows.std()
    writer = _core.StoreWriter(str(folder), True, f"{source.description}, projected to {PROJECTED_DIM}")
    writer.add_node_type(source.node_types[0], source.num_nodes())
    writer.append_features(0, np.ascontiguousarray(rows, dtype=np.float32))
    writer.set_labels(0, np.ascontiguousarray(source.labels()), source.num_classes())
    for name in source.split_names():
        writer.set_split(0, name, np.ascontiguousarray(source.split(name)))
    indptr, indices, _ = source.csc()
    destinations = np.repeat(np.arange(source.num_nodes()), np.diff(indptr))
    writer.add_edge_type(0, source.edge_types[0][1], 0)
    writer.append_edges(0, np.ascontiguousarray(indices, dtype=np.int64), destinations)
    writer.commit()
    return Store.open(folder)


def accuracies(store: Store, options: TrainOptions, formats: Iterable[str], seeds: int, say) -> dict:
    """Test accuracy by format, one a seed; formats of one seed see the same weights and batches."""
    view = open_graph(store)
    found: dict[str, list[float]] = {format: [] for format in formats}
    for seed in range(seeds):
        for format, values in found.items():
            trainer = Trainer(view, replace(options, seed=seed, feature_format=format))
            for epoch in range(options.epochs):
                trainer.train_epoch(epoch)
            values.append(trainer.evaluate("test")[0])
        say(f"{pathlib.Path(store.folder).name}: seed {seed + 1} of {seeds}")
    return found


def public_splits(stores: dict[str, Store], seeds: int, say) -> list[dict]:
    """Accuracy at f32 on the public splits, features as they are."""
    results = []
    for name, store in stores.items():
        values = accuracies(store, _PLANETOID, ["f32"], seeds, say)["f32"]
        mean = statistics.mean(values)
        results.append(
            {
                "kind": "graph-accuracy", "graph": name, "accuracy": mean,
                "spread": statistics.pstdev(values), "seeds": seeds, "floor": PUBLIC_FLOORS[name],
                "holds": mean >= PUBLIC_FLOORS[name],
            }
        )  # fmt: skip
    return results


def quantization(stores: dict[str, tuple[Store, TrainOptions]], seeds: int, say) -> list[Comparison]:
    results = []
    for name, (store, options) in stores.items():
        found = accuracies(store, options, FORMATS, seeds, say)
        results += [compare(name, format, values, found["f32"]) for format, values in found.items()]
    return results


def wordnet_class_task(work: pathlib.Path, say) -> dict:
    """WordNet's 45 lexicographer files from typed pointers and glosses; once, with the majority."""
    say("wordnet: import and train")
    store = import_graph("wordnet", work / "wordnet.store", replace=True)
    options = TrainOptions(fanouts=[5, 5], epochs=2, hidden=64, dropout=0.2, weight_decay=0.0, workers=1)
    trained = Trainer(open_graph(store), options).run()
    return {
        "kind": "graph-accuracy", "graph": "wordnet", "accuracy": trained.accuracy["test"], "seeds": 1,
        "majority": trained.majority["test"], "holds": trained.accuracy["test"] > 2 * trained.majority["test"],
    }  # fmt: skip


def page(public: list[dict], compared: list[Comparison]) -> str:
    """docs/experiments/quantization.md"""
    lines = [
        "# What quantized features cost in accuracy",
        "",
        "Written by `scripts/accuracy.sh`; `python -m offpath.graph.accuracy --help` says how.",
        "",
        "## Training at f32",
        "",
        "| graph | test accuracy | spread | seeds | asked for |",
        "|---|---|---|---|---|",
    ]
    for r in public:
        spread = f"{r['spread']:.3f}" if "spread" in r else "-"
        asked = f"at least {r['floor']:.2f}" if "floor" in r else f"well above {r['majority']:.3f}, the largest class"
        lines.append(f"| {r['graph']} | {r['accuracy']:.3f} | {spread} | {r['seeds']} | {asked} |")
    lines += [
        "",
        "## Quantized against f32",
        "",
        "Planetoid's features are zeros and ones, lossless at any width, so they are judged through a seeded",
        f"Gaussian projection to {PROJECTED_DIM} columns; rmat has planted Gaussian features. A seed decides initial",
        "weights, dropout and every batch of all formats; differences are paired, in points of test accuracy.",
        "One scale a row, nearest rounding.",
        "",
        "| graph | format | test accuracy | difference | 95% interval | may lose | holds |",
        "|---|---|---|---|---|---|---|",
    ]
    for c in compared:
        if c.format == "f32":
            lines.append(f"| {c.graph} | f32 | {c.accuracy:.4f} | | | | |")
            continue
        limit = "reported" if c.limit is None else f"{c.limit:g}"
        verdict = "" if c.limit is None else ("yes" if c.holds else "no")
        lines.append(
            f"| {c.graph} | {c.format} | {c.accuracy:.4f} | {c.difference:+.2f} | "
            f"{c.low:+.2f} to {c.difference + c.half_width:+.2f} | {limit} | {verdict} |"
        )
    seeds = compared[0].seeds if compared else 0
    lines += ["", f"{seeds} paired seeds a graph and format.", ""]
    return "\n".join(lines)


def _graphs(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in _GRAPHS:
            raise argparse.ArgumentTypeError(f"no graph {name!r}: {', '.join(_GRAPHS)}")
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m offpath.graph.accuracy",
        description="Measures accuracy at f32 on public splits, and what quantized features cost.",
        epilog="Example:\n  python -m offpath.graph.accuracy --planetoid planetoid --seeds 30 "
        "--output docs/experiments/quantization.md",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--planetoid", type=pathlib.Path, required=True, help="folder of ind.cora.* and ind.citeseer.*")
    parser.add_argument("--seeds", type=whole(2), default=30, help="paired seeds of the comparison, 2 or more")
    parser.add_argument("--public-seeds", type=whole(0), default=10, help="of the public splits; 0: leave out")
    parser.add_argument(
        "--graphs", type=_graphs, default=list(_GRAPHS), metavar="LIST", help=f"of the comparison: {','.join(_GRAPHS)}"
    )
    parser.add_argument("--wordnet", action="store_true", help="also the WordNet class task")
    parser.add_argument("--output", type=pathlib.Path, help="a Markdown page to write")
    parser.add_argument("--json", action="store_true", help="one JSON object a result")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a bar is missed")
    return parser


def run(args: argparse.Namespace, work: pathlib.Path, say) -> tuple[list[dict], list[Comparison]]:
    planetoid = {
        name: import_graph(args.planetoid / f"ind.{name}.graph", work / f"{name}.store")
        for name in PUBLIC_FLOORS
    }
    stores: dict[str, tuple[Store, TrainOptions]] = {}
    for name in args.graphs:
        if name == "rmat":
            stores[name] = (import_graph("rmat", work / "rmat.store", **_RMAT_GRAPH), _RMAT)
        else:
            stores[name] = (project(planetoid[name], work / f"{name}-{PROJECTED_DIM}.store"), _PROJECTED)
    public = public_splits(planetoid, args.public_seeds, say) if args.public_seeds else []
    if args.wordnet:
        public.append(wordnet_class_task(work, say))
    return public, quantization(stores, args.seeds, say)


def main(argv: Optional[Sequence[str]] = None) -> int:
    args = _parser().parse_args(argv)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    try:
        with tempfile.TemporaryDirectory(prefix="offpath-accuracy-") as folder:
            public, compared = run(args, pathlib.Path(folder), say)
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(page(public, compared), encoding="utf-8")
    if args.json:
        for result in [*public, *(c.as_dict() for c in compared)]:
            print(json.dumps(result))
    else:
        print(page(public, compared))
    missed = [r["graph"] for r in public if not r["holds"]]
    missed += [f"{c.graph} {c.format}" for c in compared if not c.holds]
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    return 1 if args.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
