"""Data parallelism with DDP: the C++ reducer, with and without a hook of the user's, and the Python
reducer. The loss of a rank is the mean over its own samples, so it is left out."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.live import common as c
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from shardproof import Mesh, Spec
from shardproof.testing.cases import Case, twins


class Net(nn.Module):
    """Two layers and the squared error."""

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.bug = bug
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Any, y: Any) -> Any:
        # carries: not synchronised, one parameter left out, bucket not reduced
        z = self.down(F.gelu(self.up(x)))
        if self.bug == "loss divided by the ranks":
            return F.mse_loss(z, y) / 2  # planted: loss divided by the ranks
        return F.mse_loss(z, y)


def step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
    """One step of either program."""
    bug = getattr(model, "module", model).bug
    synchronised: Any = contextlib.nullcontext()
    if bug == "not synchronised":
        synchronised = model.no_sync()  # planted: not synchronised
    with synchronised:
        loss = model(x, y)
        loss.backward()  # carries: loss divided by the ranks
    if bug == "other rate on one rank" and dist.get_rank() == 1:
        optimizer.param_groups[0]["lr"] *= 2  # planted: other rate on one rank
    # carries: not synchronised, other rate on one rank, one parameter left out
    optimizer.step()
    return loss


def wrapped(bug: str) -> Any:
    net = Net(bug)
    if bug == "one parameter left out":
        DDP._set_params_and_buffers_to_ignore_for_model(
            net,
            ["down.weight"],  # planted: one parameter left out
        )
    return DDP(net)


def hook(bug, bucket):  # DDP reads the annotations
    """A mean by hand."""
    flat = bucket.buffer()
    if bug != "bucket not reduced":
        dist.all_reduce(flat)  # carries: sum of gradients
    if bug not in ("sum of gradients", "bucket not reduced"):
        flat = flat / dist.get_world_size()
    if bug == "divided twice":
        flat = flat / dist.get_world_size()  # planted: divided twice
    done = torch.futures.Future()
    done.set_result(flat)  # planted: sum of gradients, bucket not reduced
    return done


def hooked(bug: str) -> Any:
    model = wrapped(bug)
    model.register_comm_hook(bug, hook)
    return model


def python_reducer(bug: str) -> Any:
    """The reducer that compiled programs use, run eagerly."""
    with torch._dynamo.config.patch(optimize_ddp="python_reducer"):
        model = wrapped(bug)
    if bug == "hook that sums":
        model.register_comm_hook(None, summing)
    return model


def summing(state, bucket):  # DDP reads the annotations
    """A hook of the Python reducer: it gets a gradient and its parameter."""
    grad, _ = bucket
    dist.all_reduce(grad)  # planted: hook that sums


def spec(make: Any, bug: str, ranks: int = 2, optimizer: Any = c.sgd) -> Spec:
    return Spec(
        sequential=Net,
        distributed=lambda mesh, rank: make(bug),
        mesh=Mesh(dp=ranks),
        inputs=c.pairs(c.BATCH),
        step=step,
        optimizer=optimizer,
        outputs={"loss": None},
    )


def ddp(bug: str = "") -> Spec:
    return spec(wrapped, bug)


def ddp_hook(bug: str = "") -> Spec:
    return spec(hooked, bug, 4, c.adamw)


def ddp_python(bug: str = "") -> Spec:
    return spec(python_reducer, bug)


def ddp_python4(bug: str = "") -> Spec:
    return spec(python_reducer, bug, 4, c.adamw)


FAULTS = (
    "loss divided by the ranks",
    "not synchronised",
    "one parameter left out",
    "other rate on one rank",
)

CASES = [
    Case("ddp2", ddp, twins(ddp, *FAULTS)),
    Case(
        "ddp4, hook",
        ddp_hook,
        twins(ddp_hook, "sum of gradients", "divided twice", "bucket not reduced", FAULTS[3]),
    ),
    Case(
        "ddp2, python reducer",
        ddp_python,
        twins(ddp_python, *FAULTS[:3], "hook that sums"),
    ),
    Case("ddp4, python reducer", ddp_python4, twins(ddp_python4, *FAULTS[1:])),
]
