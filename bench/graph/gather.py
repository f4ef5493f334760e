#!/usr/bin/env python3
"""Sampling with the gather of 128 f32 features, against GraphBolt and PyG; see sample.py for the rest."""

from rmat_data import make_arrays, make_store
from sample import against_peers, arguments
from workers import show


def main():
    args = arguments(__doc__)
    args.batches = max(args.batches // 4, 8)
    make_arrays(args.data)
    cases = [("batches 1t", "batches", "batches/s")]
    show(against_peers("graph-gather", args, make_store(args.data), "gather", cases), args.json)


if __name__ == "__main__":
    main()
