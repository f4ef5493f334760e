"""`offpath report RESULTS.jsonl... -o offpath-report.html`"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from typing import Optional, Sequence

from ..errors import Error
from .page import make_page
from .results import read_results


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="offpath report",
        description="Draws result files (one JSON object a line) as one HTML page.",
        epilog="Example:\n  offpath report results.jsonl -o offpath-report.html",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("results", nargs="+", metavar="RESULTS.jsonl")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("offpath-report.html"))
    parser.add_argument("--title", default="Offpath report")
    args = parser.parse_args(argv)
    try:
        page = make_page(read_results(args.results), args.title)
        # Written aside: an old report stays whole until the new one is.
        aside = args.output.with_name(f".{args.output.name}.{os.getpid()}")
        try:
            aside.write_text(page, encoding="utf-8")
            aside.replace(args.output)
        finally:
            aside.unlink(missing_ok=True)
    except (Error, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(args.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
