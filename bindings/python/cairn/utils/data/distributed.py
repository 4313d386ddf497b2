"""DistributedSampler: the share of one of several processes."""
from __future__ import annotations

import math
from typing import Any, Iterator

from ... import _C
from ..._tensor import Tensor
from .sampler import _MORE, Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every num_replicas-th number from `rank` on, in an order that all processes share (seed and epoch make it).

    All shares are of one length: the first samples come twice, or with drop_last the last ones not at all. Call
    set_epoch before each epoch to get another order."""

    def __init__(self, dataset: Any, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True,
                 seed: int = 0, drop_last: bool = False) -> None:
        if num_replicas is None or rank is None:
            raise RuntimeError("DistributedSampler needs num_replicas and rank: there is no process group to ask")
        if rank >= num_replicas or rank < 0:
            raise ValueError("DistributedSampler: there is no rank %d among %d" % (rank, num_replicas))
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        n = len(dataset)
        self.num_samples = (n // num_replicas if drop_last and n % num_replicas
                            else math.ceil(n / num_replicas))
        self.total_size = self.num_samples * num_replicas

    def _order(self) -> Tensor:
        n = len(self.dataset)
        if self.shuffle:
            order = _C.randperm(n, generator=_C.Generator().manual_seed(self.seed + self.epoch))
        else:
            order = _C.arange(0, n)
        if not self.drop_last and self.total_size > n:
            order = order.repeat(-(-self.total_size // n))
        return order[self.rank:self.total_size:self.num_replicas].contiguous()

    def __iter__(self) -> Iterator[int]:
        return iter(self._order().tolist())

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Another order, the same for all processes that say the same epoch."""
        self.epoch = epoch


_MORE.append(DistributedSampler)
