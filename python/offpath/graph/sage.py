"""GraphSAGE (mean aggregation) in plain torch, over homogeneous and heterogeneous sampled batches.

A batch of H hops feeds H layers. Layer l needs the neighbours of the first H - l hops only, so each
layer works on the prefix of nodes and edges that still matters: hops are contiguous in a sampled
batch, and edges are in order of their destination.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["GraphSage", "MessageEdges", "SampledHops", "mean_of_neighbours"]


@dataclass
class MessageEdges:
    """Sampled edges of one type: sources and destinations as places in their types' node lists."""

    src_type: int
    dst_type: int
    row: Tensor  # int64 [edges]
    col: Tensor  # int64 [edges], non-decreasing
    hop_counts: list[int]  # [hops]


@dataclass
class SampledHops:
    """What the model needs of a batch."""

    features: list[Tensor | None]  # [node type] f32 [nodes, dim]; None: the type has no features
    node_hop_counts: list[list[int]]  # [node type][hops + 1]
    edges: list[MessageEdges]  # [edge type]
    node_ids: list[Tensor]  # [node type] int64 [nodes]


def mean_of_neighbours(x: Tensor, row: Tensor, col: Tensor, num_dst: int) -> Tensor:
    """[num_dst, dim]: the mean of x[row] over the edges that end in each destination, else zeros.

    `col` must be non-decreasing. The gather and the sum are one kernel: nothing of the size
    [edges, dim] is made.
    """
    starts = torch.searchsorted(col, torch.arange(num_dst, dtype=col.dtype, device=col.device))
    return functional.embedding_bag(row, x, starts, mode="mean")


class _SageLayer(nn.Module):
    """out[v] = W_type(v) x[v] + sum over edge types of W_edge mean(x[neighbours])."""

    def __init__(self, in_dims: list[int], out_dim: int, edge_ends: list[tuple[int, int]]):
        super().__init__()
        self.own = nn.ModuleList(nn.Linear(dim, out_dim) for dim in in_dims)
        self.neighbours = nn.ModuleList(
            nn.Linear(in_dims[src], out_dim, bias=False) for src, _ in edge_ends
        )

    def forward(
        self, x: list[Tensor], edges: list[MessageEdges], hops_left: int, node_counts: list[int]
    ) -> list[Tensor]:
        out = [linear(x[t][: node_counts[t]]) for t, linear in enumerate(self.own)]
        for part, linear in zip(edges, self.neighbours):
            kept = sum(part.hop_counts[:hops_left])
            if kept == 0:
                continue
            mean = mean_of_neighbours(
                x[part.src_type], part.row[:kept], part.col[:kept], node_counts[part.dst_type]
            )
            out[part.dst_type] = out[part.dst_type] + linear(mean)
        return out


class GraphSage(nn.Module):
    """As many layers as hops, ReLU and dropout between them; class scores of the seeds.

    Node types without features are given a learnt row by node number: `feature_dims` holds None for
    them, and `node_counts` how many there are.
    """

    def __init__(
        self,
        feature_dims: list[int | None],
        node_counts: list[int],
        edge_ends: list[tuple[int, int]],
        *,
        hidden: int,
        classes: int,
        layers: int,
        dropout: float = 0.5,
        input_dropout: float = 0.0,
    ):
        super().__init__()
        self.embeddings = nn.ModuleDict(
            {
                str(t): nn.Embedding(node_counts[t], hidden, sparse=False)
                for t, dim in enumerate(feature_dims)
                if dim is None
            }
        )
        dims = [hidden if dim is None else dim for dim in feature_dims]
        self.layers = nn.ModuleList()
        for layer in range(layers):
            out = classes if layer == layers - 1 else hidden
            self.layers.append(_SageLayer(dims, out, edge_ends))
            dims = [out] * len(dims)
        self.dropout = dropout
        self.input_dropout = input_dropout

    def forward(self, batch: SampledHops, seed_type: int, num_seeds: int) -> Tensor:
        x = [
            self.embeddings[str(t)](batch.node_ids[t]) if features is None else features
            for t, features in enumerate(batch.features)
        ]
        depth = len(self.layers)
        for done, layer in enumerate(self.layers):
            share = self.dropout if done > 0 else self.input_dropout
            if share > 0.0:
                x = [functional.dropout(v, share, self.training) for v in x]
            hops_left = depth - done
            counts = [sum(hops[:hops_left]) for hops in batch.node_hop_counts]
            x = layer(x, batch.edges, hops_left, counts)
            if done + 1 < depth:
                x = [functional.relu(v) for v in x]
        return x[seed_type][:num_seeds]
