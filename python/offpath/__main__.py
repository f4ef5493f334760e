"""`python -m offpath COMMAND`: the subcommands of `offpath` that are written in Python."""

from __future__ import annotations

import sys

_USAGE = "usage: python -m offpath {graph train | report} ...; the rest is in the command `offpath`"


def main(argv: list[str]) -> int:
    if argv[:2] == ["graph", "train"]:
        from .graph.train import main as train

        return train(argv[2:])
    if argv[:1] == ["report"]:
        from .report.__main__ import main as report

        return report(argv[1:])
    print(_USAGE, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
