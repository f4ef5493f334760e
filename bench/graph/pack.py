#!/usr/bin/env python3
"""Bytes an edge of a packed batch, against PyG's form of two int64 an edge and one a node.

Structure and global node ids, without edge ids, of batches of 1,024 seeds with fan-outs 15, 10, 5 on the
graph of rmat_data.py; the measurement itself is bench/graph/protocol/pack_bench.cc.
"""

import argparse
import json
import os
import subprocess

from rmat_data import make_arrays, make_store
from workers import machine

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--data", default=os.path.join(ROOT, "build", "bench", "rmat20"))
    parser.add_argument(
        "--program", default=os.path.join(ROOT, "build", "full", "bench", "graph", "protocol", "bench_graph_pack")
    )
    args = parser.parse_args()
    make_arrays(args.data)
    store = make_store(args.data)
    measured = subprocess.run(
        [args.program, store, os.path.join(args.data, "seeds.npy")], check=True, stdout=subprocess.PIPE, text=True
    )
    line = dict(json.loads(measured.stdout), threads=1, machine=machine())
    if args.json:
        print(json.dumps(line))
        return
    print(
        f"{line['case']:24} {line['ours']:>12.4g} {line['unit']}, {line['peer_name']} {line['peer']:.4g}: "
        f"{line['ratio']:.2f} times ({line['spread'][0]:.2f} to {line['spread'][1]:.2f}); "
        f"packed in {line['pack_ms']:.2f} ms, unpacked in {line['unpack_ms']:.2f} ms"
    )


if __name__ == "__main__":
    main()
