"""Tensors between processes: two-member groups for push and pull, one group a barrier attempt."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

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


class BarrierGroup:
    """The process group of barriers: nccl if the tensors are on CUDA devices, else gloo.

    Kept while barriers succeed with the same members, made anew after a failure, when a group is
    unusable and its members may disagree on what happened. The default process group of
    torch.distributed would not do: names of groups come from a counter in each process, which a
    failed initialisation leaves advanced in some processes and not in others, and from then on they
    never find each other again.

    Closing drops the connections, which wakes up peers that still wait in a collective. Operations
    raise RuntimeError when a peer is gone or the timeout passes.
    """

    def __init__(
        self, store: Store, key: str, rank: int, world: int, seconds: float, *, cuda: bool
    ) -> None:
        prefixed, timeout = _dist.PrefixStore(key, store), timedelta(seconds=seconds)
        if cuda:
            options = _dist.ProcessGroupNCCL.Options()
            options._timeout = timeout
            self._group = _dist.ProcessGroupNCCL(prefixed, rank, world, options)
        else:
            self._group = _dist.ProcessGroupGloo(prefixed, rank, world, timeout)

    def close(self) -> None:
        """Drop the connections."""
        self._group = None

    def broadcast(self, source: int, tensor: Tensor) -> Tensor:
        """Overwrite ``tensor`` by the one of group member ``source``."""
        self._group.broadcast(tensor, source).wait()
        return tensor

    def sum(self, tensor: Tensor, started: Callable[[], None] = lambda: None) -> Tensor:
        """Sum over the group, in place; ``started`` is called while the operation is under way."""
        work = self._group.allreduce([tensor])
        started()
        work.wait()
        return tensor
