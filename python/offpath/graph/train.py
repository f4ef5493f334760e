"""`offpath graph train STORE_OR_URL`: GraphSAGE on any store with labels."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from typing import Iterator, Optional, Sequence

from .._arguments import real, whole
from ..errors import Error


def _fanouts(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected numbers such as 15,10,5") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="offpath graph train",
        description="Trains GraphSAGE (homogeneous or heterogeneous) on a store, or from a memory node.",
        epilog="Examples:\n  offpath graph train cora.store --fanouts=-1,-1 --epochs 50\n"
        "  offpath graph train offpath://127.0.0.1:7077 --features i8 --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("graph", metavar="STORE_OR_URL")
    parser.add_argument(
        "--fanouts", type=_fanouts, default=[15, 10], metavar="LIST",
        help="neighbours by hop, the seeds' hop first, -1: all; a layer each (default: 15,10)",
    )  # fmt: skip
    parser.add_argument("--epochs", type=whole(0), default=5)
    parser.add_argument("--batch-size", type=whole(1), default=1024)
    parser.add_argument("--hidden", type=whole(1), default=64)
    parser.add_argument("--dropout", type=real(1), default=0.5)
    parser.add_argument("--input-dropout", type=real(1), default=0.0)
    parser.add_argument("--lr", type=real(1e6), default=0.01)
    parser.add_argument("--weight-decay", type=real(1e6), default=5e-4)
    parser.add_argument("--normalize-rows", action="store_true", help="scale feature rows to sum to 1")
    parser.add_argument("--node-type", help="what to classify (default: the only type with labels)")
    parser.add_argument("--features", metavar="FORMAT", help="how they travel: f32 f16 bf16 i8 i4 i2")
    parser.add_argument("--mode", default="near", choices=["near", "rpc", "pull"], help="with a URL")
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("--workers", type=whole(0), default=1, help="threads that make batches ahead")
    parser.add_argument("--threads", type=whole(0), default=0, help="of torch (default: torch's choice)")
    parser.add_argument("--max-batches", type=whole(0), default=0, help="an epoch (default: all)")
    parser.add_argument("--eval-batches", type=whole(0), default=0, help="a split (default: all)")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    return parser


@contextlib.contextmanager
def _progress(quiet: bool) -> Iterator:
    """A bar on a terminal, nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda stage, done, total: bar.update(task, description=stage, completed=done, total=total)


def _print(result: dict) -> None:
    loss = "-" if result["loss"] is None else f"{result['loss']:.4f}"
    print(f"{result['graph']}: {result['epochs']} epochs, {result['batches']} batches, loss {loss}")
    for split, accuracy in result["accuracy"].items():
        print(f"  accuracy, {split:<6} {accuracy:.4f}   (largest class: {result['majority'][split]:.4f})")
    print("  seconds: " + ", ".join(f"{part} {value:.2f}" for part, value in result["seconds"].items()))
    if result["bytes_received"]:
        print(f"  received: {result['bytes_received'] / 1e6:.1f} MB")


def main(argv: Optional[Sequence[str]] = None) -> int:
    args = _parser().parse_args(argv)
    try:
        import torch
    except ImportError:
        print("error: training needs torch: pip install torch", file=sys.stderr)
        return 1
    from .training import Trainer, TrainOptions
    from .view import open_graph

    if args.threads:
        torch.set_num_threads(args.threads)
    options = TrainOptions(
        fanouts=args.fanouts,
        epochs=args.epochs,
        batch_size=args.batch_size,
        hidden=args.hidden,
        dropout=args.dropout,
        input_dropout=args.input_dropout,
        learning_rate=args.lr,
        weight_decay=args.weight_decay,
        normalize_rows=args.normalize_rows,
        seed=args.seed,
        node_type=args.node_type,
        feature_format=args.features,
        mode=args.mode,
        workers=args.workers,
        max_batches=args.max_batches,
        eval_batches=args.eval_batches,
    )
    try:
        with _progress(args.quiet) as progress:
            trained = Trainer(open_graph(args.graph), options).run(progress)
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    result = {"kind": "graph-train", "graph": args.graph, "epochs": args.epochs, **trained.as_dict()}
    if args.json:
        print(json.dumps(result))
    else:
        _print(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
