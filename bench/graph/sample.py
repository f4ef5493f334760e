#!/usr/bin/env python3
"""Sampling against GraphBolt and PyG; threads against processes; a graph 16 times as large.

Batches of 1,024 seeds, fan-outs 15, 10, 5 without replacement, on the graph of rmat_data.py, called from
Python on both sides; node and edge ids returned. The peers' environments: bench/peers/install.sh.
"""

import argparse
import json
import os
import subprocess
import sys

from rmat_data import make_arrays, make_store
from workers import Worker, line, machine, paired, peer_python, rate, show

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# Name of the environment: (peer_name of the lines, worker).
PEERS = {"graphbolt": ("GraphBolt", "graphbolt.py"), "torch-sparse": ("PyG + torch-sparse", "pyg_sampler.py")}


def our_worker(store, data, mode, threads, cores):
    return Worker([sys.executable, os.path.join(HERE, "offpath_worker.py"), store, data, mode, str(threads)], cores)


def against_peers(bench, args, store, mode, cases):
    """Lines of `cases`, (words, field, unit), for both lists of seeds, against each peer that is installed."""
    ours = our_worker(store, args.data, mode, 1, args.cores[:1])
    lines = []
    for environment, (name, script) in PEERS.items():
        python = peer_python(ROOT, environment, args.graphbolt if environment == "graphbolt" else None)
        if python is not None:
            script = os.path.join(ROOT, "bench", "peers", script)
            peer = Worker([python, script, args.data, mode], args.cores[:1])
            lines += against(bench, args, ours, peer, name, cases)
            peer.close()
        elif environment == "graphbolt":
            lines += alone(bench, args, ours, name, cases)
    ours.close()
    return lines


def against(bench, args, ours, peer, name, cases):
    lines = []
    for seeds in ("seeds", "seeds_nz"):
        count = max(args.batches // 8, 2)
        results = paired([ours], [peer], (seeds, seeds), (args.batches, count), args.pairs)
        lines += [line(bench, f"{words} {seeds}", results, field, unit, name, threads=1) for words, field, unit in cases]
    return lines


def alone(bench, args, ours, name, cases):
    """Lines that say why there is no ratio."""
    lines = []
    for seeds in ("seeds", "seeds_nz"):
        results = [ours.run(seeds, args.batches) for _ in range(args.pairs)]
        for words, field, unit in cases:
            rates = sorted(rate([result], field) for result in results)
            lines.append({"bench": bench, "case": f"{words} {seeds}", "ours": round(rates[len(rates) // 2], 3),
                          "unit": unit, "peer_name": name, "machine": machine(),
                          "note": f"{name} is not installed: bench/peers/install.sh graphbolt"})  # fmt: skip
    return lines


def threads_against_processes(args, store):
    if len(args.cores) < 2:
        print("one core: no comparison of two threads with two processes", file=sys.stderr)
        return []
    threads = [our_worker(store, args.data, "sample", 2, args.cores[:2])]
    processes = [our_worker(store, args.data, "sample", 1, [core]) for core in args.cores[:2]]
    results = paired(threads, processes, ("seeds", "seeds"), (2 * args.batches, args.batches), args.pairs)
    for worker in threads + processes:
        worker.close()
    return [line("graph-sample", "batches 2t seeds", results, "batches", "batches/s", "two processes", threads=2)]


def growth(args):
    """The same generator at 1M and at 16M nodes, 16 edges a node."""
    stores = {}
    for name, nodes in (("1M", 1 << 20), ("16M", 1 << 24)):
        path = os.path.join(args.data, f"growth-{name}")
        if not os.path.exists(os.path.join(path, "store.json")):
            subprocess.run(
                [args.offpath, "graph", "import", "rmat", path, "--nodes", str(nodes), "--edges", str(16 * nodes),
                 "--features", "0"],
                check=True, stdout=sys.stderr,
            )
        stores[name] = path
    # Seeds of the small graph are nodes of the large one too, as random as any there.
    large, small = (our_worker(stores[n], args.data, "sample", 1, args.cores[:1]) for n in ("16M", "1M"))
    results = paired([large], [small], ("seeds", "seeds"), (args.batches, args.batches), args.pairs)
    large.close()
    small.close()
    return [line("graph-sample", "edges 1t 16M", results, "edges", "edges/s", "1M nodes", threads=1)]


def random_access(args):
    """The sampler from C++ against the rate at which one thread reads as many random places of the same arrays."""
    program = os.path.join(ROOT, "build", "full", "bench", "graph", "sample", "bench_graph_sample_hops")
    lines = []
    for name, files, seeds in (
        ("seeds", "{}.npy", "seeds"), ("seeds_nz", "{}.npy", "seeds_nz"), ("16M", "growth-16M/edges-0-{}.npy", "seeds"),
    ):  # fmt: skip
        arrays = [os.path.join(args.data, files.format(array)) for array in ("indptr", "indices")]
        if not os.path.exists(arrays[0]):
            continue
        command = ["taskset", "-c", str(args.cores[0]), program, *arrays, os.path.join(args.data, f"{seeds}.npy")]
        measured = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])
        lines.append({"bench": "graph-sample", "case": f"random access 1t {name}", "ours": measured["batches_per_s"],
                      "unit": "batches/s", "limit_fraction": measured["limit_fraction"],
                      "table_bytes": measured["table_bytes"], "threads": 1, "machine": machine()})  # fmt: skip
    return lines


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--data", default=os.path.join(ROOT, "build", "bench", "rmat20"))
    parser.add_argument("--pairs", type=int, default=11, help="an odd number of pairs of slices")
    parser.add_argument("--batches", type=int, default=200, help="of a slice of ours")
    parser.add_argument("--graphbolt", help="the python of GraphBolt's environment")
    parser.add_argument("--offpath", default=os.path.join(os.path.dirname(sys.executable), "offpath"))
    parser.add_argument("--only", choices=["peers", "threads", "growth", "limit"], help="one part of the benchmark")
    args = parser.parse_args()
    if args.pairs % 2 == 0:
        parser.error("--pairs must be odd")
    args.cores = sorted(os.sched_getaffinity(0))
    return args


def main():
    args = arguments(__doc__)
    make_arrays(args.data)
    store = make_store(args.data)
    lines = []
    if args.only in (None, "peers"):
        cases = [("batches 1t", "batches", "batches/s"), ("edges 1t", "edges", "edges/s")]
        lines += against_peers("graph-sample", args, store, "sample", cases)
    if args.only in (None, "threads"):
        lines += threads_against_processes(args, store)
    if args.only in (None, "growth"):
        lines += growth(args)
    if args.only in (None, "limit"):
        lines += random_access(args)
    show(lines, args.json)


if __name__ == "__main__":
    main()
