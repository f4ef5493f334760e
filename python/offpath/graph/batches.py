"""Batches as plain arrays: the thinnest way from the sampler to Python."""

from __future__ import annotations

import os
from typing import Any, Iterator, Optional, Union

import numpy as np

from .. import _core
from ..errors import InvalidArgumentError
from ._plan import fanouts_of, seeds_of, set_feature_format, whole_number
from .store import EdgeType, Store
from .view import GraphView, RemoteGraph, open_graph

__all__ = ["Batches", "SampledBatch", "sample_batches"]


def _converter(tensors: str):
    if tensors == "numpy":
        return np.asarray
    if tensors == "torch":
        import torch

        return torch.from_dlpack
    raise InvalidArgumentError(f"tensors is {tensors!r}: expected 'torch' or 'numpy'")


class SampledBatch:
    """One batch. Arrays are made when asked for, without a copy, and keep the batch's memory.

    The first `batch_size` nodes of the seeds' type are the seeds. Where the graph has one node type,
    `n_id`, `x` and `y` are those of that type; where it has one edge type, `row`, `col` and `e_id`
    are. Elsewhere they raise InvalidArgumentError naming the types that there are.
    """

    __slots__ = ("core", "_convert", "_view")

    def __init__(self, core: _core.Batch, convert, view: GraphView):
        self.core = core
        self._convert = convert
        self._view = view

    @property
    def batch_size(self) -> int:
        return self.core.batch_size

    @property
    def number(self) -> int:
        """Of the epoch."""
        return self.core.number

    def nodes(self, node_type: Optional[str] = None):
        """int64 [nodes] node numbers in the store, in order of discovery."""
        return self._convert(self.core.node_ids(self._view.node_type_index(node_type)))

    def edges(self, edge_type: Optional[EdgeType] = None):
        """(row, col), int64: sources and destinations as places in their types' nodes()."""
        e = self._view.edge_type_index(edge_type)
        return self._convert(self.core.row(e)), self._convert(self.core.col(e))

    def edge_ids(self, edge_type: Optional[EdgeType] = None):
        """int64 [edges]; empty where the batches were asked for without them."""
        return self._convert(self.core.edge_ids(self._view.edge_type_index(edge_type)))

    def features(self, node_type: Optional[str] = None):
        """f32 [nodes, dim], or None."""
        array = self.core.features(self._view.node_type_index(node_type))
        return None if array is None else self._convert(array)

    def labels(self, node_type: Optional[str] = None):
        """int64 [nodes], -1 where unlabelled; or None."""
        array = self.core.labels(self._view.node_type_index(node_type))
        return None if array is None else self._convert(array)

    def num_sampled_nodes(self, node_type: Optional[str] = None) -> list[int]:
        """Nodes found by the seeds, by hop 1, ..."""
        return self.core.node_hop_counts(self._view.node_type_index(node_type))

    def num_sampled_edges(self, edge_type: Optional[EdgeType] = None) -> list[int]:
        return self.core.edge_hop_counts(self._view.edge_type_index(edge_type))

    @property
    def n_id(self):
        return self.nodes()

    @property
    def row(self):
        return self._convert(self.core.row(self._view.edge_type_index()))

    @property
    def col(self):
        return self._convert(self.core.col(self._view.edge_type_index()))

    @property
    def e_id(self):
        return self.edge_ids()

    @property
    def x(self):
        return self.features()

    @property
    def y(self):
        return self.labels()

    def __reduce__(self):
        raise TypeError(
            "a SampledBatch is a view of memory that is used again: pickle its arrays, such as nodes() "
            "and edges()"
        )

    @property
    def costs(self) -> dict[str, int]:
        """Where the batch's time and bytes went: sample_ns, encode_ns, transfer_ns, decode_ns, ..."""
        return self.core.costs()


class Batches:
    """A repeatable stream of batches; each iteration is an epoch. Made by sample_batches().

    A batch depends on the store, the arguments and (epoch, number) alone: not on workers, not on
    where it is made. Iterators of one Batches may be used side by side.
    """

    def __init__(
        self,
        graph: GraphView,
        plan: _core.BatchPlan,
        *,
        empty: bool,
        num_workers: int,
        prefetch: int,
        mode: str,
        timeout: float,
        convert,
        first_epoch: int,
    ):
        self.graph = graph
        self.plan = plan
        self.next_epoch = first_epoch
        self.timeout = timeout
        self._convert = convert
        self._open = lambda: graph.open_source(
            plan, threads=num_workers, prefetch=prefetch, mode=mode
        )
        # Sources hold samplers, threads and connections: kept between epochs, by the process that
        # made them. A forked child makes its own.
        self._idle: list = []
        self._process = os.getpid()
        self._empty = empty
        if empty:
            self.num_seeds = self.num_batches = 0
        else:
            source = self._open()
            self.num_seeds, self.num_batches = source.num_seeds, source.num_batches
            self._idle.append(source)

    def __reduce__(self):
        raise TypeError(
            "Batches hold threads and connections: pickle the Store (or its folder or URL) and the "
            "arguments, and call sample_batches() where the batches are used"
        )

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[SampledBatch]:
        epoch = self.next_epoch
        self.next_epoch += 1
        return self.epoch(epoch)

    def epoch(self, epoch: int, first: int = 0) -> Iterator[SampledBatch]:
        """The batches of one epoch, from number `first`."""
        convert, graph = self._convert, self.graph
        for core in self.epoch_core(epoch, first):
            yield SampledBatch(core, convert, graph)

    def epoch_core(self, epoch: int, first: int = 0) -> Iterator[_core.Batch]:
        if self._empty:
            return
        process = os.getpid()
        if process != self._process:
            self._idle, self._process = [], process
        source = self._idle.pop() if self._idle else self._open()
        try:
            source.begin(epoch, first)
            next_batch, timeout = source.next, self.timeout
            while (batch := next_batch(timeout)) is not None:
                yield batch
        finally:
            if os.getpid() == process:
                self._idle.append(source)

    def places(self, epoch: int, number: int) -> np.ndarray:
        """Places of a batch's seeds in the list of input nodes."""
        plan = self.plan
        return np.asarray(
            _core.batch_places(
                self.num_seeds, plan.batch_size, plan.shuffle, plan.drop_last, plan.seed, epoch, number
            )
        )


def sample_batches(
    graph: Union[GraphView, Store, str, os.PathLike],
    num_neighbors: Any,
    input_nodes: Any = None,
    *,
    batch_size: int = 1024,
    shuffle: bool = False,
    drop_last: bool = False,
    replace: bool = False,
    seed: int = 0,
    with_features: bool = True,
    with_labels: bool = True,
    with_edge_ids: bool = True,
    feature_format: Optional[str] = None,
    num_workers: int = 0,
    prefetch: int = 2,
    mode: str = "near",
    timeout: float = 600.0,
    first_epoch: int = 0,
    tensors: str = "torch",
) -> Batches:
    """Batches of `graph`: a Store, a store's folder, or `offpath://host:port`.

    `num_neighbors` and `input_nodes` are PyG's; for a store, a split's name ("train") works too. The
    last batch is smaller unless `drop_last`; with `replace` a neighbour may be drawn more than once.
    `seed` (from -2**63 to 2**64 - 1) decides every draw, and epochs count from `first_epoch`.
    `feature_format` is how features travel ("f32", "f16", "bf16", "i8", "i4", "i2"; "i4/32": a scale
    for each 32 columns; "i4~": stochastic rounding), by default f32 here and the memory node's choice
    there; they always arrive as f32. `num_workers` threads make batches ahead, `prefetch` each; 0: the
    caller's own thread makes each when it is asked for. A memory node is asked for as many ahead, and
    for 4 at least. `mode` is how it is asked: near, rpc or pull. `timeout`: seconds until a batch that
    does not come raises TimeoutError. `tensors`: torch or numpy. A value that is out of its range
    raises InvalidArgumentError naming the argument.
    """
    view = open_graph(graph)
    batch_size = whole_number(batch_size, "batch_size", 1)
    num_workers = whole_number(num_workers, "num_workers", 0, 1024)
    prefetch = whole_number(prefetch, "prefetch", 1, 65536)
    first_epoch = whole_number(first_epoch, "first_epoch", 0)
    seed = whole_number(seed, "seed", -(2**63), 2**64 - 1)
    if not isinstance(timeout, (int, float)) or not timeout > 0:
        raise InvalidArgumentError(f"timeout is {timeout!r}: expected seconds above 0")
    seeds = seeds_of(view, input_nodes)
    plan = _core.BatchPlan()
    plan.fanouts = fanouts_of(view, num_neighbors)
    plan.replace = bool(replace)
    plan.seed = seed & (2**64 - 1)
    plan.seed_type = seeds.node_type
    if seeds.split is not None:
        plan.split = seeds.split
    if seeds.nodes is not None:
        plan.set_nodes(seeds.nodes)
    plan.batch_size = batch_size
    plan.shuffle = bool(shuffle)
    plan.drop_last = bool(drop_last)
    plan.with_features = bool(with_features)
    plan.with_labels = bool(with_labels)
    plan.with_edge_ids = bool(with_edge_ids)
    set_feature_format(plan, feature_format, isinstance(view, RemoteGraph), plan.seed)
    empty = (seeds.nodes is not None and seeds.nodes.size == 0) or (
        seeds.nodes is None and seeds.split is None and view.nodes[seeds.node_type].count == 0
    )
    return Batches(
        view,
        plan,
        empty=empty,
        num_workers=num_workers,
        prefetch=prefetch,
        mode=mode,
        timeout=min(timeout, 1e9),  # an int may be more than a float holds
        convert=_converter(tensors),
        first_epoch=first_epoch,
    )
