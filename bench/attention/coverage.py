#!/usr/bin/env python3
"""How much of what a selector selects was predicted: the previous step's set, the moving average and the regression.

SmolLM2 over 8K tokens of two real texts, each token a step of the text itself (teacher-forced), k = 32 blocks of
16 tokens. The last 256 steps count; predictors are fitted to the 64 steps before. Blocks that are always kept and
layers that a selector leaves dense are left out. The traces come from `offpath attention trace` and are kept in
build/bench/attention-traces.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys

import numpy as np

from offpath.attention import Trace, measure_selector

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(os.path.dirname(os.path.dirname(HERE)), "build")
# Tokens of each text that lie before the trace's: the texts begin with lists of names and contents.
TEXTS = {"bible": 100_000, "anarchism": 200_000}
TOKENS, FIT_STEPS, STEPS = 8192, 64, 256
SELECTORS = ("quest", "mean-std", "arkvale", "infllm", "shadowkv", "double-sparsity", "i4-keys")
BUDGET = 32
SHARES = {"1.5xk": 48, "2xk": 64}


def make_trace(text: str, program: str, model: str, folder: str) -> Trace:
    """Records a text's trace where it is not there yet."""
    path = os.path.join(folder, text)
    if not os.path.isdir(path):
        os.makedirs(folder, exist_ok=True)
        command = [program, "attention", "trace", path, "-m", model, "-p", os.path.join(BUILD, "texts", f"{text}.txt")]
        command += ["--skip", str(TEXTS[text]), "--tokens", str(TOKENS), "--steps", str(FIT_STEPS + STEPS)]
        subprocess.run(command, check=True, stdout=sys.stderr)
    return Trace.load(path)


def print_line(selector: str, share: str, predictor: str, means, heads, previous, as_json: bool) -> None:
    ours = float(np.mean(means))
    line = {
        "bench": "attention-coverage",
        "case": f"{selector} {share} {predictor}",
        "ours": round(ours, 5),
        "unit": "of the selection",
        "worst_heads": round(float(np.percentile(heads, 5)), 5),
        "spread": round(float(np.ptp(means)), 5),
        "steps": STEPS * len(means),
    }
    if predictor != "previous":
        # Of the figures as they are printed.
        peer = round(float(np.mean(previous)), 5)
        line |= {"peer": peer, "peer_name": "previous set", "ratio": round(line["ours"] / peer, 4)}
    if as_json:
        print(json.dumps(line), flush=True)
    else:
        print(f"{line['case']:34} {ours:.4f}  5th percentile of heads {line['worst_heads']:.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--selectors", nargs="*", default=SELECTORS, help="default: all")
    parser.add_argument("--layers", type=int, nargs="*", help="default: all that a selector does not leave dense")
    parser.add_argument("--program", default=shutil.which("offpath", path=os.path.dirname(sys.executable)) or "offpath")
    parser.add_argument("--model", default=os.path.join(BUILD, "models", "SmolLM2-135M-Instruct.Q4_1.gguf"))
    args = parser.parse_args()
    folder = os.path.join(BUILD, "bench", "attention-traces")
    traces = [make_trace(text, args.program, args.model, folder) for text in TEXTS]
    for selector in args.selectors:
        for share, predicted in SHARES.items():
            print(f"{selector} {share}", file=sys.stderr, flush=True)
            reports = [
                measure_selector(
                    trace,
                    selector,
                    budget_blocks=BUDGET,
                    predicted_blocks=predicted,
                    fit_steps=FIT_STEPS,
                    layers=args.layers,
                )
                for trace in traces
            ]
            coverages = [report.coverage for report in reports]
            previous = [coverage["previous"].mean for coverage in coverages]
            for predictor in coverages[0]:
                means = [coverage[predictor].mean for coverage in coverages]
                heads = np.concatenate([coverage[predictor].heads for coverage in coverages])
                print_line(selector, share, predictor, means, heads, previous, args.json)


if __name__ == "__main__":
    main()
