"""Tensors between processes: two-member groups for push and pull, one group a barrier attempt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .superstep import AllReduce

# torch.distributed does not export these names explicitly, so type checkers cannot see them.
_dist: Any = dist
Store = Any
"""A torch.distributed store."""


def host_store(host: str, port: int = 0) -> Store:
    """Store at which all groups of a run meet; lives in the server process."""
    return _dist.TCPStore(host, port, is_master=True, wait_for_workers=False)


def join_store(host: str, port: int, seconds: float) -> Store:
    """A worker's connection to that store."""
    return _dist.TCPStore(host, port, is_master=False, timeout=timedelta(seconds=seconds))


class Pair:
    """A group of one worker and the server, so that a fault of one never disturbs another.

    Immediate-apply mode keeps the weights on the server's CPU, hence gloo whatever the device.
    """

    def __init__(self, store: Store, key: str, rank: int, seconds: float) -> None:
        self._peer = 1 - rank
        self._group = _dist.ProcessGroupGloo(
            _dist.PrefixStore(key, store), rank, 2, timedelta(seconds=seconds)
        )

    def send(self, tensor: Tensor) -> None:
        """Send a CPU vector; RuntimeError if the peer is gone or the timeout passes."""
        self._group.send([tensor.contiguous()], self._peer, 0).wait()

    def receive(self, like: Tensor) -> Tensor:
        """Receive a vector of the size and dtype of ``like``; RuntimeError as in ``send``."""
        tensor = torch.empty_like(like)
        self._group.recv([tensor], self._peer, 0).wait()
        return tensor


@contextmanager
def barrier_group(store: Store, key: str, rank: int, world: int, seconds: float) -> Iterator[None]:
    """The default process group, for one barrier attempt: nccl for CUDA tensors, gloo for others.

    Made anew for each attempt, because after a failure a group is unusable and its members may
    disagree on what happened. Leaving the block destroys it, which also wakes up peers that still
    wait in a collective.
    """
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(
        backend,
        store=_dist.PrefixStore(key, store),
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=seconds),
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


def sum_over_group() -> AllReduce:
    """The all-reduce that ``merge_local`` gets in a run."""

    def all_reduce(tensor: Tensor) -> Tensor:
        dist.all_reduce(tensor)
        return tensor

    return all_reduce


def broadcast_from(source: int, tensor: Tensor) -> Tensor:
    """Overwrite ``tensor`` by the one of group member ``source``."""
    dist.broadcast(tensor, src=source)
    return tensor
