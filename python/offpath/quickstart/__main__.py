"""Runs the main jobs: `python -m offpath.quickstart [graph | attention] [--data FOLDER]`."""

from __future__ import annotations

import argparse
import pathlib
import signal
import subprocess
import sys

from . import attention_job, graph_job


def _leave(number: int, _frame) -> None:
    # So that processes and namespaces are taken down on the way out.
    raise SystemExit(128 + number)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="offpath.quickstart",
        description="Runs the main job of each engine and writes offpath-report.html.",
        epilog="Example:\n  python -m offpath.quickstart graph",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("engine", nargs="?", default="all", choices=["all", "graph", "attention"])
    parser.add_argument(
        "--data", type=pathlib.Path, default=pathlib.Path("data"), help="where stores are made and kept"
    )
    parser.add_argument(
        "--report", type=pathlib.Path, default=pathlib.Path("offpath-report.html"), help="the report to write"
    )
    parser.add_argument("--rate", default="1gbit", help="rate of the link, in tc's form")
    parser.add_argument("--quota", type=float, default=50, help="percent of a core for the memory node")
    parser.add_argument(
        "--model", type=pathlib.Path, default=pathlib.Path("build/models/SmolLM2-135M-Instruct.Q4_1.gguf"),
        help="the language model of the attention job",
    )  # fmt: skip
    parser.add_argument(
        "--text", type=pathlib.Path, default=pathlib.Path("build/texts/bible.txt"), help="the text that it reads"
    )
    args = parser.parse_args(argv)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        if args.engine != "attention":
            graph_job.run(args.data, args.report, rate=args.rate, quota=args.quota)
        if args.engine != "graph":
            attention_job.run(args.model, args.text, args.report)
    except KeyboardInterrupt:
        return 130
    except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
