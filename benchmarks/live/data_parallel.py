"""Data parallelism with DDP: the C++ reducer with a hook of the user's, and without."""

from __future__ import annotations

from typing import Any

from benchmarks.live import common as c
from torch import nn

from shardproof import Mesh, Spec
from shardproof.testing.cases import Case

LEFT_OUT = {"loss": None}


def ddp() -> Spec:
    return Spec(
        sequential=c.Mlp,
        distributed=c.ddp,
        mesh=Mesh(dp=2),
        inputs=c.pairs(c.BATCH),
        step="train",
        optimizer=c.sgd,
        outputs=LEFT_OUT,
    )


def summed(mesh: Any, rank: int) -> Any:
    """DDP whose hook forgets to divide."""
    wrapped = nn.parallel.DistributedDataParallel(c.Mlp(), bucket_cap_mb=1)
    wrapped.register_comm_hook(2, c.summing)  # planted: sum of gradients
    return wrapped


def hooked(distributed: Any = c.ddp_hook) -> Spec:
    return Spec(
        sequential=c.Mlp,
        distributed=distributed,
        mesh=Mesh(dp=2),
        inputs=c.pairs(c.BATCH),
        step="backward",
        outputs=LEFT_OUT,
    )


CASES = [
    Case("ddp", ddp),
    Case("ddp, hook", hooked, {"sum of gradients": lambda: hooked(summed)}),
]
