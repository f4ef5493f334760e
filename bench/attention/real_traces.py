"""Traces of SmolLM2 over real texts, which benchmarks share: recorded by `offpath attention trace` and kept in
build/bench/attention-traces."""

import os
import shutil
import subprocess
import sys

from offpath.attention import Trace

BUILD = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "build")
FOLDER = os.path.join(BUILD, "bench", "attention-traces")
# Tokens of each text that lie before a trace's: the texts begin with lists of names and contents.
TEXTS = {"bible": 100_000, "anarchism": 200_000}


def add_options(parser) -> None:
    parser.add_argument("--program", default=shutil.which("offpath", path=os.path.dirname(sys.executable)) or "offpath")
    parser.add_argument("--model", default=os.path.join(BUILD, "models", "SmolLM2-135M-Instruct.Q4_1.gguf"))


def record(name: str, text: str, tokens: int, steps: int, *, program: str, model: str) -> Trace:
    """The trace of that name; recorded where it is not there yet."""
    path = os.path.join(FOLDER, name)
    if not os.path.isdir(path):
        os.makedirs(FOLDER, exist_ok=True)
        command = [program, "attention", "trace", path, "-m", model, "-p", os.path.join(BUILD, "texts", f"{text}.txt")]
        command += ["--skip", str(TEXTS[text]), "--tokens", str(tokens), "--steps", str(steps), "--no-selections"]
        subprocess.run(command, check=True, stdout=sys.stderr)
    return Trace.load(path)
