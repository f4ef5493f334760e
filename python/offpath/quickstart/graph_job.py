"""The graph engine's main job: training fed by a memory node over a link, in every mode.

Imports WordNet, makes an R-MAT graph, starts a memory node on one core with a quota behind a link
of 1 Gbit/s (two network namespaces where root allows; else loopback, and the seconds that the bytes
would take on such a link are computed and labelled as modelled), trains over it, and prints a table.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

from offpath import children
from offpath import link as links

from .results import program, write_report

FANOUTS = [15, 10, 5]
RMAT = {"nodes": 1 << 20, "edges": 16 << 20, "features": 128, "classes": 16, "seed": 42}

# name, mode, features, fan-outs, batches, trained on. Three full hops of this graph are 345 MB a
# batch and 2.9 s of the link: moved, not trained on.
MODES = [
    ("near i8", "near", "i8", FANOUTS, 8, True),
    ("near f32", "near", "f32", FANOUTS, 8, True),
    ("rpc f32", "rpc", "f32", FANOUTS, 8, True),
    ("pull f32", "pull", "f32", FANOUTS, 8, True),
    ("full f32", "near", "f32", [-1, -1, -1], 2, False),
]
# Run first and left out: torch's first step takes seconds, which the first mode would be charged with.
WARM_UP = ("warm-up", "near", "i8", FANOUTS, 1, True)
SECONDS_A_MODE = 8.0
# What is waited for until a child counts as stuck: the node's first word, and between two words of
# the trainer, which first imports torch and says a word a batch (it waits 120 s for one itself).
START_SECONDS = 60.0
BATCH_SECONDS = 180.0


def make_store(folder: pathlib.Path, arguments: list[str]) -> None:
    """Makes a store unless a whole one is there: a folder appears only once it is whole."""
    if (folder / "store.json").exists():
        print(f"  {folder} is there")
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    done = subprocess.run([program(), "graph", "import", *arguments, "--json"], check=False, stdout=subprocess.PIPE)
    if done.returncode != 0:
        raise RuntimeError(f"{folder} was not made")
    made = json.loads(done.stdout)
    nodes, edges = (sum(entry["count"] for entry in made[what]) for what in ("nodes", "edges"))
    print(f"  {folder} made in {time.perf_counter() - began:.1f} s: {nodes:,} nodes, {edges:,} edges")


def read_through(folder: pathlib.Path) -> None:
    """Brings a store into the page cache: the first mode would pay for a cold disk, and the others not."""
    for file in sorted(folder.iterdir()):
        with file.open("rb", buffering=0) as data:
            while data.read(8 << 20):
                pass


def make_stores(data: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    wordnet, rmat = data / "wordnet.store", data / "rmat-1m.store"
    make_store(wordnet, ["wordnet", str(wordnet)])
    make_store(
        rmat,
        ["rmat", str(rmat), *(word for key, value in RMAT.items() for word in (f"--{key}", str(value)))],
    )
    return wordnet, rmat


def cores() -> tuple[int, int]:
    """One core for the node and one for the trainer; the same one where there is no other."""
    available = sorted(os.sched_getaffinity(0))
    return available[0], available[-1]


@contextlib.contextmanager
def child(command: list[str], end: links.LinkEnd | None, log: pathlib.Path, **pipes):
    """A child behind an end of the link, or here, with its stderr in a log; ends with the context."""
    with log.open("wb") as errors:
        options = {"stdout": subprocess.PIPE, "stderr": errors, "bufsize": 0, **pipes}
        process = children.popen(command, **options) if end is None else end.popen(command, **options)
    try:
        yield process
    finally:
        process.terminate()
        children.end(process)


@contextlib.contextmanager
def memory_node(store: pathlib.Path, end: links.LinkEnd | None, quota: float, log: pathlib.Path):
    """A memory node on one core; yields its address and what it said of its lane."""
    command = [
        program(), "graph", "serve", str(store), "--json", "--quiet", "--send-buffers", "16",
        "--cores", str(cores()[0]), "--quota", str(quota),
    ]  # fmt: skip
    if end is None:
        command += ["--listen", "127.0.0.1:0"]
    else:
        # The namespaces hold nobody else: the link is private to this job.
        command += ["--listen", f"{end.address}:0", "--unauthenticated"]
    with child(command, end, log) as process:
        yield json.loads(children.Lines(process, "the memory node", log).next(START_SECONDS))


def progress(text: str) -> None:
    """Draws a line over the one before on a terminal; elsewhere the table at the end says it all."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


class Trainer:
    """A trainer process behind the other end of the link."""

    def __init__(self, process: subprocess.Popen, log: pathlib.Path):
        self._process = process
        self._lines = children.Lines(process, "the trainer", log)

    def run(self, request: dict) -> dict:
        """What was measured; progress on the way goes to stderr."""
        with contextlib.suppress(BrokenPipeError):  # it has ended: reading says so
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
        while "progress" in (answer := json.loads(self._lines.next(BATCH_SECONDS))):
            progress(f"  {answer['progress']}")
        progress("")
        if "error" in answer:
            raise RuntimeError(f"{answer['name']}: {answer['error']}")
        return answer


@contextlib.contextmanager
def trainer(address: str, end: links.LinkEnd | None, log: pathlib.Path):
    command = ["taskset", "-c", str(cores()[1]), sys.executable, "-m", "offpath.quickstart.trainer", address]
    with child(command, end, log, stdin=subprocess.PIPE) as process:
        yield Trainer(process, log)


def measure(
    store: pathlib.Path, rate: str, quota: float, logs: pathlib.Path
) -> tuple[list[dict], dict]:
    """Every mode over one link and one node; the results, and how they were measured."""
    reason = links.unavailable_reason()
    with contextlib.ExitStack() as stack:
        link = None if reason else stack.enter_context(links.ShapedLink(rate))
        node = stack.enter_context(memory_node(store, link and link.left, quota, logs / "memory-node.log"))
        setting = {
            "link": rate if link else "loopback", "modelled": link is None, "why": reason,
            "quota": quota if node["quota_set"] else None, "cores": node["cores"],
        }  # fmt: skip
        print(f"  node on core {node['cores'][0]}, " + (f"{quota:g}% of it" if node["quota_set"] else node["message"]))
        print(f"  link: {rate} between two network namespaces" if link else f"  link: loopback ({reason})")
        far = stack.enter_context(trainer(node["address"], link and link.right, logs / "trainer.log"))
        results = []
        for name, mode, features, fanouts, batches, train in (WARM_UP, *MODES):
            result = far.run(
                {
                    "name": name, "mode": mode, "features": features, "fanouts": fanouts, "batches": batches,
                    "train": train, "seconds": SECONDS_A_MODE, "batch_size": 1024, "prefetch": 4 if train else 1,
                    "seed": 1,
                }
            )  # fmt: skip
            if link is None:
                bits = links.ShapedLink(rate).bits_per_second
                result["modelled_link_s"] = result["bytes_a_batch"] * 8 / bits
            results.append(result)
    return results[1:], setting


def print_table(results: list[dict], setting: dict) -> None:
    slowest = {r["name"]: r for r in results}["full f32"]["seconds_a_batch"]
    modelled = "  link (modelled)" if setting["modelled"] else ""
    print()
    print("                     MB  seconds   of these at the node     at the trainer   times")
    print(f"             batches  a batch  a batch   sample  encode      decode   train   full{modelled}    accuracy")
    for r in results:
        accuracy = f"{r['accuracy']:.3f}" if "accuracy" in r else "-"
        extra = f"{r['modelled_link_s']:17.3f}" if setting["modelled"] else ""
        print(
            f"  {r['name']:<10} {r['batches']:7d} {r['bytes_a_batch'] / 1e6:8.1f} {r['seconds_a_batch']:8.3f} "
            f"{r['sample_s']:8.4f} {r['encode_s']:7.4f} {r['decode_s']:11.4f} {r['compute_s']:7.4f} "
            f"{slowest / r['seconds_a_batch']:6.1f}{extra} {accuracy:>11}"
        )
    print()
    print("  near: the node samples, gathers and quantizes. rpc: it samples hop by hop, rows are fetched")
    print("  then. pull: it only stores. full: all neighbours, the baseline. Parts overlap each other.")


def run(data: pathlib.Path, report: pathlib.Path, *, rate: str, quota: float) -> None:
    print("1. graphs", flush=True)
    _, rmat = make_stores(data)
    read_through(rmat)
    print("2. a memory node and a trainer", flush=True)
    print(f"  {len(MODES)} modes of at most 8 batches or {SECONDS_A_MODE:g} s each", flush=True)
    results, setting = measure(rmat, rate, quota, data)
    print_table(results, setting)
    write_report("graph-main-job", [{**setting, **result} for result in results], report)
    print(f"\n  plots: {report}")
