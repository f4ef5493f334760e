#!/usr/bin/env python3
"""How much of what a selector selects was predicted: the previous step's set, the moving average and the regression.

SmolLM2 over 8K tokens of two real texts, each token a step of the text itself (teacher-forced), k = 32 blocks of
16 tokens. The last 256 steps count; predictors are fitted to the 64 steps before. Blocks that are always kept and
layers that a selector leaves dense are left out. infllm-v2 is too, which selects from 8,192 tokens on.
"""

import argparse
import json
import sys

import numpy as np
import real_traces

from offpath.attention import measure_selector

TOKENS, FIT_STEPS, STEPS = 8192, 64, 256
SELECTORS = ("quest", "mean-std", "arkvale", "infllm", "shadowkv", "double-sparsity", "i4-keys")
BUDGET = 32
SHARES = {"1.5xk": 48, "2xk": 64}


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
    real_traces.add_options(parser)
    args = parser.parse_args()
    traces = [
        real_traces.record(text, text, TOKENS, FIT_STEPS + STEPS, program=args.program, model=args.model)
        for text in real_traces.TEXTS
    ]
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
