"""Training of GraphSAGE from a stream of batches: the loop, without the command line."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field
from typing import Callable, Optional

import torch
from torch.nn import functional

from .. import _core
from ..errors import InvalidArgumentError
from ._plan import whole_number
from .batches import Batches, sample_batches
from .sage import GraphSage, MessageEdges, SampledHops
from .view import GraphView

__all__ = ["TrainOptions", "TrainResult", "Trainer", "labelled_type", "sampled_hops"]

# (stage, done, total): "epoch 3", batches
Progress = Callable[[str, int, int], None]


# Of what are numbers from 0: the most.
_RANGES = {"dropout": 1.0, "input_dropout": 1.0, "learning_rate": 1e6, "weight_decay": 1e6}


@dataclass
class TrainOptions:
    fanouts: list[int] = field(default_factory=lambda: [15, 10])  # the seeds' hop first; a layer each
    epochs: int = 5
    batch_size: int = 1024
    hidden: int = 64
    dropout: float = 0.5
    input_dropout: float = 0.0  # of the features
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    normalize_rows: bool = False  # features are scaled to sum to 1 a row
    seed: int = 0
    node_type: Optional[str] = None  # None: the only one with labels
    feature_format: Optional[str] = None  # None: f32 here, the memory node's choice there
    mode: str = "near"
    workers: int = 1
    max_batches: int = 0  # an epoch; 0: all
    eval_batches: int = 0  # a split; 0: all

    def __post_init__(self) -> None:
        """Raises InvalidArgumentError naming what is out of its range; sample_batches() checks the rest."""
        for name, least in (("epochs", 0), ("hidden", 1), ("max_batches", 0), ("eval_batches", 0)):
            whole_number(getattr(self, name), name, least)
        for name, most in _RANGES.items():
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 0 <= value <= most:
                raise InvalidArgumentError(f"{name} is {value!r}: expected a number from 0 to {most:g}")


@dataclass
class TrainResult:
    accuracy: dict[str, float]  # by split
    loss: Optional[float]  # mean of the last epoch; None: there was none, or it is not finite
    batches: int
    seconds: dict[str, float]  # sampling, transfer, dequantize: summed over batches; wait, compute: passed
    bytes_received: int
    majority: dict[str, float]  # share of the largest class, by split: what guessing reaches

    def as_dict(self) -> dict:
        return asdict(self)


def labelled_type(view: GraphView, name: Optional[str]) -> int:
    """The node type to classify."""
    if name is not None:
        t = view.node_type_index(name)
        if not view.nodes[t].has_labels:
            raise InvalidArgumentError(f"node type {name!r} has no labels to train on")
        return t
    labelled = [t for t, node in enumerate(view.nodes) if node.has_labels]
    if not labelled:
        raise InvalidArgumentError(
            "the graph has no labels to train on: import it with --node-labels (in Python: labels=)"
        )
    if len(labelled) > 1:
        names = ", ".join(view.node_types[t] for t in labelled)
        raise InvalidArgumentError(f"which node type is to be classified? With labels: {names}")
    return labelled[0]


def sampled_hops(view: GraphView, batch: _core.Batch, *, normalize_rows: bool = False) -> SampledHops:
    """What the model needs of a batch of `view`, which came with features; nothing is copied."""
    types = range(len(view.nodes))
    features = []
    for t in types:
        x = None if view.nodes[t].feature_dim is None else torch.from_dlpack(batch.features(t))
        if x is not None and normalize_rows:
            x = x / x.sum(dim=1, keepdim=True).clamp(min=1.0)
        features.append(x)
    edges = [
        MessageEdges(
            src, dst, torch.from_dlpack(batch.row(e)), torch.from_dlpack(batch.col(e)), batch.edge_hop_counts(e)
        )
        for e, (src, dst) in enumerate(view.edge_ends)
    ]
    return SampledHops(
        features=features,
        node_hop_counts=[batch.node_hop_counts(t) for t in types],
        edges=edges,
        node_ids=[torch.from_dlpack(batch.node_ids(t)) for t in types],
    )


class Trainer:
    """One model on one graph. Batches and initial weights depend on the options alone."""

    def __init__(self, view: GraphView, options: TrainOptions):
        self.view = view
        self.options = options
        self.target = labelled_type(view, options.node_type)
        splits = view.nodes[self.target].splits
        if not splits.get("train"):
            raise InvalidArgumentError(
                f"node type {view.node_types[self.target]!r} has no nodes in a split 'train'; its splits: "
                f"{', '.join(f'{name} ({size})' for name, size in splits.items()) or 'none'}"
            )
        torch.manual_seed(options.seed)
        self.model = GraphSage(
            [node.feature_dim for node in view.nodes],
            [node.count for node in view.nodes],
            view.edge_ends,
            hidden=options.hidden,
            classes=view.nodes[self.target].num_classes,
            layers=len(options.fanouts),
            dropout=options.dropout,
            input_dropout=options.input_dropout,
        )
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay
        )
        self._streams: dict[str, Batches] = {}
        self.seconds = dict.fromkeys(("sampling", "transfer", "dequantize", "wait", "compute"), 0.0)
        self.bytes_received = 0
        self.batches = 0

    def _stream(self, split: str) -> Batches:
        if split not in self._streams:
            options = self.options
            self._streams[split] = sample_batches(
                self.view,
                options.fanouts,
                (self.view.node_types[self.target], split),
                batch_size=options.batch_size,
                shuffle=True,
                seed=options.seed,
                with_edge_ids=False,
                feature_format=options.feature_format,
                num_workers=options.workers,
                mode=options.mode,
            )
        return self._streams[split]

    def _scores(self, batch: _core.Batch) -> tuple[torch.Tensor, torch.Tensor]:
        hops = sampled_hops(self.view, batch, normalize_rows=self.options.normalize_rows)
        scores = self.model(hops, self.target, batch.batch_size)
        return scores, torch.from_dlpack(batch.labels(self.target))[: batch.batch_size]

    def train_epoch(self, epoch: int, progress: Optional[Progress] = None) -> float:
        """One pass over the training nodes; the mean loss of the batches with labels, NaN without."""
        stream = self._stream("train")
        limit = self.options.max_batches or len(stream)
        total = min(limit, len(stream))
        losses = 0.0
        done = steps = 0
        self.model.train()
        waiting = time.perf_counter()
        for batch in stream.epoch_core(epoch):
            arrived = time.perf_counter()
            self.seconds["wait"] += arrived - waiting
            self._add_costs(batch)
            scores, labels = self._scores(batch)
            # The mean over no labels is NaN, which the weights would keep.
            if bool((labels >= 0).any()):
                loss = functional.cross_entropy(scores, labels, ignore_index=-1)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                losses += loss.item()
                steps += 1
            done += 1
            waiting = time.perf_counter()
            self.seconds["compute"] += waiting - arrived
            if progress is not None:
                progress(f"epoch {epoch + 1}", done, total)
            if done == limit:
                break
        self.batches += done
        return losses / steps if steps else math.nan

    def _add_costs(self, batch: _core.Batch) -> None:
        costs = batch.costs()
        self.seconds["sampling"] += (costs["sample_ns"] + costs["encode_ns"]) / 1e9
        self.seconds["transfer"] += costs["transfer_ns"] / 1e9
        self.seconds["dequantize"] += costs["decode_ns"] / 1e9
        self.bytes_received += costs["bytes_received"]

    @torch.no_grad()
    def evaluate(self, split: str, progress: Optional[Progress] = None) -> tuple[float, float]:
        """(accuracy, share of the largest class) over the labelled nodes of a split."""
        stream = self._stream(split)
        limit = self.options.eval_batches or len(stream)
        total = min(limit, len(stream))
        classes = self.view.nodes[self.target].num_classes
        counts = torch.zeros(max(classes, 1), dtype=torch.int64)
        right = seen = done = 0
        self.model.eval()
        for batch in stream.epoch_core(0):
            scores, labels = self._scores(batch)
            labelled = labels >= 0
            right += int((scores.argmax(dim=1) == labels)[labelled].sum())
            seen += int(labelled.sum())
            counts += torch.bincount(labels[labelled], minlength=len(counts))
            done += 1
            if progress is not None:
                progress(f"accuracy, {split}", done, total)
            if done == limit:
                break
        return right / max(seen, 1), int(counts.max()) / max(seen, 1)

    def run(self, progress: Optional[Progress] = None) -> TrainResult:
        """All epochs, then the accuracy of every split."""
        loss = math.nan
        for epoch in range(self.options.epochs):
            loss = self.train_epoch(epoch, progress)
        measured = {
            split: self.evaluate(split, progress) for split in self.view.nodes[self.target].splits
        }
        return TrainResult(
            accuracy={split: value for split, (value, _) in measured.items()},
            majority={split: share for split, (_, share) in measured.items()},
            loss=loss if math.isfinite(loss) else None,
            batches=self.batches,
            seconds=dict(self.seconds),
            bytes_received=self.bytes_received,
        )
