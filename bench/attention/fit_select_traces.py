#!/usr/bin/env python3
"""Fits the generator of the benchmarks attention-select and attention-prr to traces of a model, and checks it.

Beyond 8K tokens, contexts are drawn from a process (bench/attention/select_traces.h). For each KV head, before the
rotary embedding (interleaved pairs):

    key of token t in block b   k = m + u_b + s_t e_t      u ~ N(0, U), e ~ N(0, E), independent
                                s_t = exp(c N(0, 1) - c^2), so that the mean of s_t^2 is 1
    the group's queries         q_t = n + L z_t,  z_t = p z_{t-1} + sqrt(1 - p^2) N(0, 1)

The parameters m, U, E, c, n, L and p are moments of the first 2048 and of the first 4096 tokens of each text, of the
queries the last 512 of these; the two are averaged, and none is set by hand. The rule by which they are extrapolated
is that they stay: the process is stationary, and a longer context differs by its number of blocks and by the
rotations. The check holds the parameters, as they are written (f16), to the real 8192 tokens, none of whose second
half was fitted: coverage by the previous selection, quantiles of the scores and the fraction that bounds prune, each
averaged over the heads written, must be within 10%, else nothing is written.

Without c, some keys being larger than others, bounds would prune 13% too much by the coarse copy: it is the outliers
that widen a group's ranges. The averages hold, single heads do not all.
"""

import argparse
import os
import sys

import numpy as np
import real_traces

LAYERS = (2, 7, 12, 17, 22, 27)
FITTED = (2048, 4096)
CHECKED = 8192
ROPE_BASE = 100000.0  # SmolLM2's
BLOCK = 16
BUDGET = 32  # blocks
STEPS = 512  # queries that a fit reads
CHECKED_STEPS = 256
DRAWS = 6  # of the process, averaged: one draw's pruned fraction is off by 2% by chance
GROUP = 128  # landmarks, as in bounded_table.h
SPREAD_RANK = 16  # leading directions of the keys that c is a moment of
QUERY_RANK = 24  # columns of L that are kept; the rest of the variance is independent noise


def rotate(rows, positions, sign):
    """Rotates rows [tokens, ..., dim] by their positions."""
    dim = rows.shape[-1]
    angles = positions[:, None] * ROPE_BASE ** (-np.arange(dim // 2) * 2 / dim)
    shape = (len(rows),) + (1,) * (rows.ndim - 2) + (dim // 2,)
    cos, sin = np.cos(angles).reshape(shape), sign * np.sin(angles).reshape(shape)
    out = np.empty_like(rows)
    out[..., 0::2] = rows[..., 0::2] * cos - rows[..., 1::2] * sin
    out[..., 1::2] = rows[..., 0::2] * sin + rows[..., 1::2] * cos
    return out


def root(matrix):
    """A symmetric root of a covariance, whose negative eigenvalues are noise of its estimate."""
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T


def head_of(trace, layer, head, steps):
    """Keys [tokens, dim] and the last queries [steps, group, dim] of a KV head."""
    group = trace.queries.shape[2] // trace.keys.shape[2]
    queries = trace.queries[-steps:, layer, head * group : (head + 1) * group]
    return np.asarray(trace.keys[:, layer, head], np.float64), np.asarray(queries, np.float64)


def spread(rows):
    """Var(s^2), of rows [n, dim] of s N(0, C): by the fourth moment of their length in the leading directions."""
    values, vectors = np.linalg.eigh(np.cov(rows.T))
    leading = rows @ vectors[:, -SPREAD_RANK:] / np.sqrt(values[-SPREAD_RANK:])
    squares = (leading**2).sum(1)
    return max(0, (squares**2).mean() / squares.mean() ** 2 / (1 + 2 / SPREAD_RANK) - 1)


def moments(keys, queries):
    tokens, dim = keys.shape
    blocks = rotate(keys, np.arange(tokens), -1)[BLOCK:].reshape(-1, BLOCK, dim)  # without the sink
    queries = rotate(queries, np.arange(tokens - len(queries), tokens), -1).reshape(len(queries), -1)
    means = blocks.mean(1)
    within = blocks - means[:, None]
    token = np.einsum("bti,btj->ij", within, within) / (len(blocks) * (BLOCK - 1))
    centred = queries - queries.mean(0)
    return {
        "mean": means.mean(0),
        "block": np.cov(means.T) - token / BLOCK,
        "token": token,
        "spread": np.array([spread(within.reshape(-1, dim))]),
        "query": queries.mean(0),
        "query_covariance": centred.T @ centred / len(centred),
        "persistence": np.array([(centred[1:] * centred[:-1]).sum() / (centred**2).sum()]),
    }


def fit(traces, layer, head):
    fits = [moments(*head_of(traces[tokens], layer, head, STEPS)) for tokens in FITTED]
    mean = {name: np.mean([f[name] for f in fits], axis=0) for name in fits[0]}
    values, vectors = np.linalg.eigh(mean["query_covariance"])
    leading = vectors[:, -QUERY_RANK:] * np.sqrt(np.maximum(values[-QUERY_RANK:], 0))
    noise = np.diag(mean["query_covariance"]) - (leading**2).sum(1)
    fitted = {
        "persistence": np.clip(mean["persistence"], 0, 0.99),
        "spread": np.sqrt(np.log(1 + mean["spread"])) / 2,
        "mean": mean["mean"],
        "block": root(mean["block"]),
        "token": root(mean["token"]),
        "query": mean["query"],
        "query_leading": leading,
        "query_noise": np.sqrt(np.maximum(noise, 0)),
    }
    return {name: values.astype(np.float16) for name, values in fitted.items()}


def generate(parameters, tokens, steps, random):
    p = {name: values.astype(np.float64) for name, values in parameters.items()}
    dim = len(p["mean"])
    blocks = random.standard_normal((tokens // BLOCK, 1, dim)) @ p["block"]
    sizes = np.exp(p["spread"] * random.standard_normal((tokens // BLOCK, BLOCK, 1)) - p["spread"] ** 2)
    keys = p["mean"] + blocks + sizes * random.standard_normal((tokens // BLOCK, BLOCK, dim)) @ p["token"]
    rank = p["query_leading"].shape[1]
    state = random.standard_normal(rank + len(p["query"]))
    queries = []
    for _ in range(steps):
        fresh = random.standard_normal(len(state))
        state = p["persistence"] * state + np.sqrt(1 - p["persistence"] ** 2) * fresh
        queries.append(p["query"] + p["query_leading"] @ state[:rank] + p["query_noise"] * state[rank:])
    queries = np.array(queries).reshape(steps, -1, dim)
    keys = rotate(keys.reshape(tokens, dim), np.arange(tokens), 1)
    return keys, rotate(queries, np.arange(tokens - steps, tokens), 1)


def coarse_bits(spread):
    """Bits of the coarse copy, as offpath/attention/select/bounded_table.cc gives them out."""
    missed = (spread[:2, 0] ** 2).sum(0)
    bits = np.zeros(len(missed))
    for _ in range(len(missed)):
        widest = np.argmax(missed)
        bits[widest] += 1
        missed[widest] /= 4
    return bits


def fine_bits(spread):
    return np.full(spread.shape[-1], 4.0)


def bounds(rows, features, bits_of):
    """Upper bounds of the scores from the copies of bounded_table.h."""
    groups = features.reshape(-1, GROUP, features.shape[1])
    least = groups.min(1, keepdims=True)
    spread = groups.max(1, keepdims=True) - least + 1e-9
    steps = 2.0 ** bits_of(spread)
    codes = np.clip(np.floor((groups - least) / spread * steps), 0, steps - 1)
    copies = least + (codes + 0.5) / steps * spread
    rests = np.linalg.norm(groups - copies, axis=2).reshape(-1)
    scores = rows @ copies.reshape(len(features), -1).T
    return scores + np.linalg.norm(rows, axis=1)[:, None] * rests


def figures(keys, queries):
    """What the check compares, with Quest's boxes as landmarks."""
    blocks = keys.reshape(-1, BLOCK, keys.shape[1])
    low, high = blocks.min(1), blocks.max(1)
    features = np.concatenate([(low + high) / 2, (high - low) / 2], 1)
    rows = np.concatenate([queries.mean(1), np.abs(queries).mean(1)], -1)
    scores = rows @ features.T
    order = np.sort(scores, 1)
    top = np.argsort(-scores, 1)[:, :BUDGET]
    kept = [len(np.intersect1d(a, b)) / BUDGET for a, b in zip(top, top[1:])]
    last = order[:, -BUDGET:][:, :1]
    return {
        "previous-set coverage": np.mean(kept),
        "score quantile 50%": np.quantile(order, 0.5, axis=1).mean(),
        "score quantile 90%": np.quantile(order, 0.9, axis=1).mean(),
        "score quantile 99%": np.quantile(order, 0.99, axis=1).mean(),
        "score of the last selected": order[:, -BUDGET].mean(),
        "standard deviation of scores": scores.std(1).mean(),
        "pruned by coarse bounds": (bounds(rows, features, coarse_bits) < last).mean(),
        "pruned by fine bounds": (bounds(rows, features, fine_bits) < last).mean(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="the file to write, for bench_attention_select and bench_attention_prr")
    real_traces.add_options(parser)
    args = parser.parse_args()
    random = np.random.default_rng(1)
    rows, real, predicted = [], [], []
    for text in real_traces.TEXTS:
        traces = {
            tokens: real_traces.record(f"{text}-{tokens}", text, tokens, STEPS, program=args.program, model=args.model)
            for tokens in (*FITTED, CHECKED)
        }
        for layer in LAYERS:
            for head in range(traces[CHECKED].keys.shape[2]):
                print(f"fitting {text}, layer {layer}, KV head {head}", file=sys.stderr)
                parameters = fit(traces, layer, head)
                real.append(figures(*head_of(traces[CHECKED], layer, head, CHECKED_STEPS)))
                for _ in range(DRAWS):
                    predicted.append(figures(*generate(parameters, CHECKED, CHECKED_STEPS, random)))
                rows.append(np.concatenate([p.reshape(-1) for p in parameters.values()]))
    worst = 0
    for name in real[0]:
        is_, said = np.mean([r[name] for r in real]), np.mean([p[name] for p in predicted])
        worst = max(worst, abs(said / is_ - 1))
        print(f"{name:30s} real {is_:9.3f}  predicted {said:9.3f}  {100 * (said / is_ - 1):+5.1f}%", file=sys.stderr)
    if worst > 0.1:
        sys.exit("the generator is more than 10% off: nothing written")
    aside = f"{args.out}.{os.getpid()}.npy"
    np.save(aside, np.array(rows, np.float16))
    os.replace(aside, args.out)


if __name__ == "__main__":
    main()
