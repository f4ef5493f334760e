#!/usr/bin/env python3
"""Runs the snippets of a Markdown file that are marked to be run.

    scripts/check_snippets.py README.md

A fenced block whose info string says `run` ("```bash run", "```python run") is run; all of a file in
one fresh folder, in order, so that one may use what another made. The `offpath` and `python3` that
they meet are those of .venv. Exits with 1 at the first that fails or where none is marked.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

COMMANDS = {
    "bash": ["bash", "-euo", "pipefail", "-c"],
    "sh": ["sh", "-eu", "-c"],
    "python": ["python3", "-c"],
}
FENCE = re.compile(r"^```(\w+) run\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DEADLINE_SECONDS = 240


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    file = pathlib.Path(sys.argv[1])
    text = file.read_text(encoding="utf-8")
    root = pathlib.Path(__file__).resolve().parent.parent
    environment = {**os.environ, "PATH": f"{root / '.venv' / 'bin'}:{os.environ['PATH']}"}
    count = 0
    with tempfile.TemporaryDirectory(prefix="offpath-snippets-") as folder:
        for match in FENCE.finditer(text):
            language, body = match.groups()
            where = f"{file.name}:{text.count(chr(10), 0, match.start()) + 1}"
            begin = time.monotonic()
            if language not in COMMANDS:
                print(f"{where}: no way to run {language}; known are {', '.join(COMMANDS)}")
                return 1
            try:
                done = subprocess.run(
                    [*COMMANDS[language], body], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                    timeout=DEADLINE_SECONDS, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                print(f"{where}: {language} snippet did not end within {DEADLINE_SECONDS} s:\n{body}")
                return 1
            seconds = time.monotonic() - begin
            if done.returncode != 0:
                print(done.stdout)
                print(f"{where}: {language} snippet failed with {done.returncode}:\n{body}")
                return 1
            print(f"{where}: {language} snippet ran in {seconds:.1f} s")
            count += 1
    if count == 0:
        print(f"{file.name}: no snippet is marked to be run")
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main())
