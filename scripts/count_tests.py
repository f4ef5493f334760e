#!/usr/bin/env python3
"""Adds up JUnit files: prints "N passed, N failed, N skipped" alone on the last line.

    scripts/count_tests.py [--skips] [--plus PASSED FAILED] FILE...

--skips lists the skipped tests with their reasons first. Exits with 1 where a test failed, where a
file is missing or where nothing was run.
"""

import argparse
import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree


def outcome(case: ElementTree.Element) -> str:
    """ "passed", "failed" or "skipped"; CTest says it in an attribute, pytest in a child."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
        return "skipped"
    return "failed" if case.get("status") == "fail" else "passed"


def skip_reason(case: ElementTree.Element) -> str:
    """GoogleTest prints the reason below "Skipped"; pytest keeps it as the child's message."""
    printed = re.search(r"Skipped\n(.+)", case.findtext("system-out") or "")
    if printed:
        return printed.group(1).strip()
    child = case.find("skipped")
    return (child.get("message") if child is not None else "") or "no reason given"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--skips", action="store_true")
    parser.add_argument("--plus", nargs=2, type=int, default=(0, 0), metavar=("PASSED", "FAILED"))
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()

    counts = collections.Counter(passed=arguments.plus[0], failed=arguments.plus[1])
    reasons: dict[str, list[str]] = collections.defaultdict(list)
    for file in arguments.files:
        if not file.exists():
            print(f"{file.name}: no results")
            counts["failed"] += 1
            continue
        for case in ElementTree.parse(file).iter("testcase"):
            counts[outcome(case)] += 1
            if outcome(case) == "skipped":
                reasons[skip_reason(case)].append(case.get("name") or "")
            elif outcome(case) == "failed":
                print(f"failed: {file.stem} {case.get('classname')} {case.get('name')}")
    if arguments.skips:
        for reason, names in sorted(reasons.items()):
            print(f"skipped {len(names)} ({reason}): {', '.join(names[:5])}{' ...' * (len(names) > 5)}")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
