"""NeighborLoader: PyG's arguments and fields over Offpath's sampler."""

from __future__ import annotations

import copy
import math
import os
from typing import Any, Callable, Iterator, Optional, Union

import numpy as np

from ..errors import InvalidArgumentError, UnsupportedError
from ._memory_graph import MemoryGraph, memory_graph
from ._plan import Seeds, seeds_of, whole_number
from ._pyg_data import is_pyg_data
from .batches import sample_batches
from .store import Store
from .view import URL_PREFIX, GraphView, LocalGraph, open_graph

__all__ = ["NeighborLoader"]

# DataLoader's options that say how worker processes are run. Workers here are threads that share
# the graph, so these have nothing left to choose; they are taken so that scripts run unchanged.
_MEANINGLESS = ("persistent_workers", "filter_per_worker", "is_sorted")

# Options that change which batches come, or what is in them: refused until they are in.
_NOT_YET = {
    "input_time": "temporal sampling",
    "time_attr": "temporal sampling",
    "weight_attr": "weighted sampling",
    "transform_sampler_output": "transforming the sampler's output",
    "neighbor_sampler": "a sampler of one's own",
    "custom_cls": "a class of one's own for batches",
    "sampler": "an order of one's own",
    "batch_sampler": "an order of one's own",
    "collate_fn": "a collate function of one's own",
    "worker_init_fn": "a function run in worker processes: workers are threads here",
    "multiprocessing_context": "worker processes: workers are threads here",
    "pin_memory_device": "pinning for a device by name",
}


def _default_seed(generator: Any) -> int:
    """From torch's generator, so that torch.manual_seed() governs."""
    import torch

    return int(torch.empty((), dtype=torch.int64).random_(generator=generator))


class NeighborLoader:
    """torch_geometric.loader.NeighborLoader over a Store, its folder, `offpath://host:port`, or a
    Data or HeteroData object.

    Arguments and the fields of batches are PyG's. What differs:

    * `num_workers` are threads that make batches ahead in C++ and share the graph; 0 makes each
      batch when it is asked for. The batches are the same for any number.
    * `seed` decides every draw; by default it is drawn from torch's generator, so that
      torch.manual_seed() makes a run repeatable. Each iteration is the next epoch.
    * `timeout` is in seconds for a batch; 0 is 600 s, as nothing waits without a deadline.
    * For a store, `input_nodes` may name a split ("train"), and batches carry the splits as
      `train_mask`, `val_mask` and `test_mask` where the store is local. `feature_format` and `mode`
      are those of sample_batches().
    * Options that are not in yet raise UnsupportedError; none is ignored.

    Iterators of one loader may be used side by side.
    """

    def __init__(
        self,
        data: Union[Store, str, os.PathLike, Any],
        num_neighbors: Any,
        input_nodes: Any = None,
        input_time: Any = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: Optional[str] = None,
        weight_attr: Optional[str] = None,
        transform: Optional[Callable] = None,
        transform_sampler_output: Optional[Callable] = None,
        is_sorted: bool = False,
        filter_per_worker: Optional[bool] = None,
        neighbor_sampler: Any = None,
        directed: bool = True,
        *,
        input_id: Any = None,
        batch_size: int = 1,
        shuffle: Optional[bool] = False,
        drop_last: bool = False,
        num_workers: int = 0,
        prefetch_factor: Optional[int] = None,
        pin_memory: bool = False,
        timeout: float = 0,
        generator: Any = None,
        seed: Optional[int] = None,
        feature_format: Optional[str] = None,
        mode: str = "near",
        **options: Any,
    ):
        options.update(
            input_time=input_time,
            time_attr=time_attr,
            weight_attr=weight_attr,
            transform_sampler_output=transform_sampler_output,
            neighbor_sampler=neighbor_sampler,
        )
        _refuse(options, subgraph_type, disjoint, directed, temporal_strategy)
        self.data = data
        self.graph = _graph_of(data)
        self.transform = transform
        self.batch_size = whole_number(batch_size, "batch_size", 1)
        self.pin_memory = bool(pin_memory)
        self.num_workers = whole_number(num_workers, "num_workers", 0)
        if prefetch_factor is not None and self.num_workers == 0 and isinstance(self.graph, LocalGraph):
            raise InvalidArgumentError(
                f"prefetch_factor is {prefetch_factor}, but num_workers is 0: each batch is made when it is asked for"
            )
        self._seeds: Seeds = seeds_of(self.graph, input_nodes)
        self._fill = _fields_of(self.graph, data)
        _check_format(self.graph, feature_format)
        # What __call__ keeps of the plan.
        self._sampling = dict(
            replace=replace,
            seed=_default_seed(generator) if seed is None else seed,
            with_features=self._fill.reads_features,
            with_labels=self._fill.reads_labels,
            feature_format=feature_format,
            mode=mode,
            timeout=_seconds(timeout),
        )
        self._batches = sample_batches(
            self.graph,
            num_neighbors,
            input_nodes,
            batch_size=batch_size,
            shuffle=bool(shuffle),
            drop_last=drop_last,
            num_workers=self.num_workers,
            prefetch=2 if prefetch_factor is None else prefetch_factor,
            **self._sampling,
        )
        self._input_id = self._checked_input_id(input_id)
        # What scripts ask of DataLoader.dataset is its length.
        self.dataset = range(self._batches.num_seeds)

    def _checked_input_id(self, input_id: Any) -> Optional[np.ndarray]:
        if input_id is None:
            return None
        ids = input_id.detach().cpu().numpy() if hasattr(input_id, "detach") else np.asarray(input_id)
        if ids.shape != (self._batches.num_seeds,):
            raise InvalidArgumentError(
                f"input_id has shape {ids.shape}, but there are {self._batches.num_seeds} input nodes"
            )
        return ids

    def __reduce__(self):
        raise TypeError(
            f"a {type(self).__name__} holds threads and connections: pickle the graph (a Store, its "
            "folder or URL) and the arguments, and make the loader in the process that iterates over it"
        )

    def __copy__(self):
        one = object.__new__(type(self))
        one.__dict__.update(self.__dict__)
        return one

    def __len__(self) -> int:
        """Batches of an epoch."""
        return len(self._batches)

    def __iter__(self) -> Iterator[Any]:
        batches = self._batches
        epoch = batches.next_epoch
        batches.next_epoch += 1
        return self._epoch(epoch)

    def _epoch(self, epoch: int) -> Iterator[Any]:
        import torch

        pin = self.pin_memory and torch.cuda.is_available()
        for core in self._batches.epoch_core(epoch):
            batch = self._fill(core, self._input_ids(core, epoch), self._seeds.node_type)
            if self.transform is not None:
                batch = self.transform(batch)
            yield batch.pin_memory() if pin else batch

    def _input_ids(self, core, epoch: int):
        """PyG's input_id: what the batch's seeds are in the list of input nodes."""
        import torch

        if self._input_id is None and self._seeds.ids_are_nodes:
            return torch.from_dlpack(core.node_ids(self._seeds.node_type))[: core.batch_size]
        plan = self._batches.plan
        if plan.shuffle:
            places = self._batches.places(epoch, core.number)
        else:
            first = core.number * plan.batch_size
            places = np.arange(first, first + core.batch_size)
        return torch.from_numpy(places if self._input_id is None else self._input_id[places])

    def __call__(self, index: Any):
        """The batch of some input nodes, given by their places."""
        one = copy.copy(self)
        places = index.cpu().numpy() if hasattr(index, "cpu") else np.asarray(index)
        if places.ndim != 1 or places.size == 0 or places.dtype.kind not in "iu":
            raise InvalidArgumentError("expected a list of places in the input nodes, at least one")
        count = self._batches.num_seeds
        if places.min() < 0 or places.max() >= count:
            raise InvalidArgumentError(
                f"places from {places.min()} to {places.max()}, but there are {count} input nodes"
            )
        places = places.astype(np.int64)
        t = self._seeds.node_type
        if self._seeds.nodes is not None:
            nodes = self._seeds.nodes[places]
        elif self._seeds.split is not None:
            nodes = self.graph.split(t, self._seeds.split)[places]
        else:
            nodes = places
        plan = self._batches.plan
        one._batches = sample_batches(
            self.graph,
            dict(zip(self.graph.edge_types, plan.fanouts)),
            (self.graph.node_types[t], nodes),
            batch_size=places.size,
            **self._sampling,
        )
        one._seeds = Seeds(t, nodes, ids_are_nodes=self._seeds.ids_are_nodes)
        one._input_id = places if self._input_id is None else self._input_id[places]
        if self._seeds.ids_are_nodes and self._input_id is None:
            one._input_id = None
        return next(iter(one))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} batches of {self.batch_size} from {self.data!r})"


def _graph_of(data: Any) -> GraphView:
    if is_pyg_data(data):
        return memory_graph(data)
    if not isinstance(data, (GraphView, Store, str, os.PathLike)):
        raise InvalidArgumentError(
            f"expected a Store, a store's folder, {URL_PREFIX}HOST:PORT, or a torch_geometric Data or "
            f"HeteroData; got {type(data).__name__}"
        )
    return open_graph(data)


def _seconds(timeout: Any) -> float:
    """torch's timeout, where 0 is none."""
    if not isinstance(timeout, (int, float)) or not 0 <= timeout < math.inf:
        raise InvalidArgumentError(f"timeout is {timeout!r}: expected seconds, 0 or more")
    return timeout or 600.0


def _check_format(graph, feature_format: Optional[str]) -> None:
    """Features that are selected here as they are do not go through a format: not to be ignored."""
    if feature_format in (None, "f32") or not isinstance(graph, MemoryGraph):
        return
    for node, gathers in zip(graph.parts.nodes, graph.gathers_x):
        if "x" in node.attributes and not gathers:
            raise InvalidArgumentError(
                f"feature_format={feature_format!r} needs x of {node.name!r} to be a table of finite f32 "
                "on the CPU"
            )


def _fields_of(graph, data: Any):
    try:
        from . import _fields
    except ImportError as error:
        raise UnsupportedError(
            f"NeighborLoader makes torch_geometric's Data objects: pip install torch torch_geometric, "
            f"or use offpath.graph.sample_batches() for plain arrays ({error})"
        ) from None
    if isinstance(graph, MemoryGraph):
        return _fields.MemoryFields(graph, data)
    return _fields.StoreFields(graph)


def _refuse(
    options: dict, subgraph_type: Any, disjoint: bool, directed: bool, temporal_strategy: str
) -> None:
    kind = str(getattr(subgraph_type, "value", subgraph_type))
    if kind not in ("directional", "bidirectional", "induced"):
        raise InvalidArgumentError(f"subgraph_type {kind!r}: expected 'directional'")
    if kind != "directional" or not directed:
        raise UnsupportedError(
            f"subgraph_type={kind!r}, directed={directed}: only directional subgraphs are in yet"
        )
    if disjoint:
        raise UnsupportedError("disjoint=True is not in yet")
    if temporal_strategy != "uniform":
        raise UnsupportedError(f"temporal_strategy={temporal_strategy!r}: temporal sampling is not in yet")
    for name, value in options.items():
        if name in _NOT_YET:
            if value is not None and not (isinstance(value, str) and value == ""):
                raise UnsupportedError(f"{name} is not in yet ({_NOT_YET[name]})")
        elif name not in _MEANINGLESS:
            raise InvalidArgumentError(f"NeighborLoader has no argument {name!r}")
