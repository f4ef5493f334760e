"""What the jobs share: the program that they run, and one report of all engines' results."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys

from offpath.report import read_results


def program() -> str:
    """The offpath command that belongs to this Python, else the one in PATH."""
    beside = pathlib.Path(sys.executable).with_name("offpath")
    found = str(beside) if beside.exists() else shutil.which("offpath")
    if not found:
        raise RuntimeError("the command `offpath` is missing: install the package (pip install .)")
    return found


def write_report(kind: str, results: list[dict], report: pathlib.Path) -> None:
    """Puts results in the place of those of their kind beside the report, and draws all that are there.

    So the report shows what each engine's job found when it last ran here.
    """
    lines = report.with_suffix(".jsonl")
    others = [line for line in read_results([lines]) if line.get("kind") != kind] if lines.exists() else []
    aside = lines.with_name(f".{lines.name}.part")
    with aside.open("w", encoding="utf-8") as out:
        for result in [*others, *({**result, "kind": kind} for result in results)]:
            out.write(json.dumps(result) + "\n")
    aside.replace(lines)
    subprocess.run(
        [sys.executable, "-m", "offpath.report", str(lines), "-o", str(report)],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
