"""A selector of your own, measured beside Offpath's on a trace of a model's attention.

    python examples/own_selector.py [TRACE]

TRACE is a folder that holds one (offpath.attention.Trace); without it, a made one is used, whose
queries turn slowly, as a model's do.
"""

import sys

import numpy as np

from offpath import attention


class LargestKeys(attention.BlockSelector):
    """A block scores as the better of its mean and its longest key."""

    name = "largest-keys"

    def summarize(self, keys):
        longest = keys[np.square(keys).sum(1).argmax()]
        return np.concatenate([keys.mean(0), longest])

    def score(self, summaries, queries, scale):
        query = queries.mean(0)
        return (summaries.reshape(len(summaries), 2, -1) @ query).max(1)


def made_trace() -> attention.Trace:
    rng = np.random.default_rng(0)
    queries = np.cumsum(rng.standard_normal((128, 2, 6, 64)), 0) / 6
    keys = rng.standard_normal((2048, 2, 2, 64))
    return attention.Trace(
        keys=keys.astype(np.float16), queries=queries.astype(np.float32), values=None, scale=64**-0.5
    )


def main() -> None:
    trace = attention.Trace.load(sys.argv[1]) if len(sys.argv) > 1 else made_trace()
    print(f"{'selector':14} {'softmax held':>12}   next selection predicted by")
    for selector in (LargestKeys(), "quest", "arkvale", "oracle"):
        report = attention.measure_selector(trace, selector, budget_blocks=16, fit_steps=32, layers=[trace.layers - 1])
        predicted = "  ".join(f"{name} {coverage.mean:.3f}" for name, coverage in report.coverage.items())
        print(f"{report.selector:14} {report.mass:12.3f}   {predicted}")


if __name__ == "__main__":
    main()
