"""Benchmark workers in processes of their own, run in slices that alternate.

A worker prints {"ready": true}, then answers each line {"seeds": NAME, "batches": N} with
{"seconds": s, "batches": n, "nodes": n, "edges": n}. Between slices it only waits, so two workers on
one core take turns under the same load of the machine, and a pair of neighbouring slices gives a
ratio that the machine's noise has little part in.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from typing import Optional, Sequence


class Worker:
    def __init__(self, command: Sequence[str], cores: Sequence[int]):
        env = dict(os.environ, OMP_NUM_THREADS=str(len(cores)))
        self._name = os.path.basename(command[1])
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        self._read()

    def start(self, seeds: str, batches: int) -> None:
        self._process.stdin.write(json.dumps({"seeds": seeds, "batches": batches}) + "\n")
        self._process.stdin.flush()

    def finish(self) -> dict:
        return self._read()

    def run(self, seeds: str, batches: int) -> dict:
        self.start(seeds, batches)
        return self.finish()

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def _read(self) -> dict:
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._name} ended with status {self._process.wait()}")
        return json.loads(line)


def rate(results: Sequence[dict], field: str) -> float:
    """Of workers that ran side by side."""
    return sum(result[field] / result["seconds"] for result in results)


def paired(ours: Sequence[Worker], peer: Sequence[Worker], seeds: tuple[str, str], batches: tuple[int, int], pairs: int):
    """Slices of ours and the peer's in turns; each side's workers run side by side.

    Returns [(our results, peer results)] of `pairs` pairs, after one that warms up.
    """
    out = []
    for pair in range(pairs + 1):
        sides = []
        for workers, name, count in ((ours, seeds[0], batches[0]), (peer, seeds[1], batches[1])):
            for worker in workers:
                worker.start(name, count)
            sides.append([worker.finish() for worker in workers])
        print(f"\rpair {pair} of {pairs}", end="", file=sys.stderr, flush=True)
        if pair > 0:
            out.append(tuple(sides))
    print(file=sys.stderr)
    return out


def line(bench: str, case: str, results, field: str, unit: str, peer_name: str, **more) -> dict:
    """A comparison: the pair with the median ratio, and the spread of the ratios."""
    pairs = [(rate(a, field), rate(b, field)) for a, b in results]
    ratios = [a / b for a, b in pairs]
    ours, peer = pairs[ratios.index(statistics.median_low(ratios))]
    return {
        "bench": bench,
        "case": case,
        "ours": round(ours, 3),
        "peer": round(peer, 3),
        "peer_name": peer_name,
        "unit": unit,
        "ratio": round(ours / peer, 4),
        "spread": [round(min(ratios), 3), round(max(ratios), 3)],
        "pairs": len(pairs),
        "machine": machine(),
        **more,
    }


def machine() -> str:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as info:
            model = next(l.split(":", 1)[1].strip() for l in info if l.startswith("model name"))
    except (OSError, StopIteration):
        model = "unknown processor"
    return f"{model}, {os.cpu_count()} cores"


def show(lines: Sequence[dict], as_json: bool) -> None:
    for entry in lines:
        if as_json:
            print(json.dumps(entry), flush=True)
        elif "ratio" in entry:
            print(
                f"{entry['case']:24} {entry['ours']:>12.4g} {entry['unit']}, {entry['peer_name']} "
                f"{entry['peer']:.4g}: {entry['ratio']:.2f} times ({entry['spread'][0]} to {entry['spread'][1]})"
            )
        elif "limit_fraction" in entry:
            print(
                f"{entry['case']:24} {entry['ours']:>12.4g} {entry['unit']}, {entry['limit_fraction']:.2f} of the "
                f"random-access limit; numbering tables {entry['table_bytes']} bytes"
            )
        else:
            print(f"{entry['case']:24} {entry['ours']:>12.4g} {entry['unit']}; {entry['note']}")


def peer_python(root: str, peer: str, given: Optional[str]) -> Optional[str]:
    """The interpreter of a peer's environment, or None where it is not installed."""
    path = given or os.path.join(root, "build", "peers", peer, "bin", "python")
    return path if os.access(path, os.X_OK) else None
