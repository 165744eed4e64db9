"""Schedules of torch.distributed.pipelining: four layers over the stages of a pipeline."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.live import common as c
from torch import nn
from torch.distributed import pipelining as pp

from shardproof import Input, Mesh, Spec
from shardproof.testing.cases import Case, twins

BATCHES, ROWS, WIDTH = 4, 2, 4
LAYERS = ("a", "b", "c", "d")


class Whole(nn.Module):
    """Four layers and the squared error."""

    def __init__(self, names: tuple[str, ...] = LAYERS) -> None:
        super().__init__()
        for name in names:
            self.add_module(name, nn.Linear(WIDTH, WIDTH))

    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        for name in LAYERS:
            x = F.gelu(self.get_submodule(name)(x))
        loss = F.mse_loss(x, y)
        loss.backward()
        optimizer.step()
        return loss


class Stage(nn.Module):
    """Layers one after another; ``bug`` names a fault."""

    def __init__(self, layers: list[nn.Module], bug: str) -> None:
        super().__init__()
        self.layers, self.bug = nn.ModuleList(layers), bug

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            y = F.gelu(layer(x))  # carries: layers in another order
            x = x + y if self.bug == "residual" else y  # planted: residual
        return x


class Scaling(pp.PipelineStage):
    """Sends a part of the gradients."""

    def get_bwd_send_ops(self, bwd_chunk_id: int) -> Any:
        sends = super().get_bwd_send_ops(bwd_chunk_id)
        for send in sends:
            send.tensor = send.tensor / BATCHES  # planted: scaled between stages
        return sends


STAGES = {"scaled between stages": Scaling}


class Pipeline(Whole):
    """The stages of one rank: ``plan`` lists the layers of every stage."""

    def __init__(self, plan: Any, kind: Any, group: Any, mine: tuple[int, ...], bug: str) -> None:
        super().__init__(tuple(name for k in mine for name in plan[k]))
        self.plan, self.kind, self.group, self.bug = plan, kind, group, bug
        self.mine, self.last = mine, len(plan) - 1

    def stage(self, k: int) -> pp.PipelineStage:
        """Stage ``k``, with the shapes of a micro-batch."""
        names = self.plan[k]
        if self.bug == "layers in another order":
            names = names[::-1]  # planted: layers in another order
        layers = Stage([self.get_submodule(name) for name in names], self.bug)
        return STAGES.get(self.bug, pp.PipelineStage)(
            layers,
            k,
            self.last + 1,
            torch.device("cpu"),
            input_args=torch.empty(ROWS, WIDTH, requires_grad=k > 0),
            output_args=torch.empty(ROWS, WIDTH, requires_grad=True),
            group=self.group,
        )

    def schedule(self) -> Any:
        stages: Any = [self.stage(k) for k in self.mine]
        if issubclass(self.kind, pp.schedules.PipelineScheduleSingle):
            stages = stages[0]
        options = {"n_microbatches": BATCHES, "loss_fn": self.loss_of_batch}
        if self.bug == "gradients not scaled":
            options["scale_grads"] = False  # planted: gradients not scaled
        return self.kind(stages, **options)

    def loss_of_batch(self, z: Any, y: Any) -> Any:
        if self.bug == "sum over elements":
            return F.mse_loss(z, y, reduction="sum")  # planted: sum over elements
        # carries: labels of the next micro-batch, gradients not scaled, losses added up
        loss = F.mse_loss(z, y)
        if self.bug == "scaled twice":
            return loss / BATCHES  # planted: scaled twice
        return loss

    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        losses: list[Any] = []
        given = (x,) if 0 in self.mine else ()
        if self.bug == "labels of the next micro-batch":
            y = torch.cat([y[ROWS:], y[:ROWS]])  # planted: labels of the next micro-batch
        if self.last in self.mine:
            # carries: gradients not scaled, scaled twice, sum over elements
            self.schedule().step(*given, target=y, losses=losses)
        else:
            # carries: gradients not scaled, scaled between stages
            self.schedule().step(*given)
        optimizer.step()  # carries: gradients not scaled
        if not losses:
            return None
        if self.bug == "losses added up":
            return torch.stack(losses).sum()  # planted: losses added up
        return torch.stack(losses).mean()


def pipeline(kind: Any, plan: Any, owners: Any, bug: str) -> Spec:
    """SGD; ``owners`` lists the stages of every rank."""
    return Spec(
        sequential=Whole,
        distributed=lambda mesh, rank: Pipeline(plan, kind, mesh.get_group(), owners[rank], bug),
        mesh=Mesh(pp=len(owners)),
        inputs={k: Input((BATCHES * ROWS, WIDTH)) for k in ("x", "y")},
        step=c.own_step,
        optimizer=c.sgd,
    )


TWO, FOUR = (("a", "b"), ("c", "d")), (("a",), ("b",), ("c",), ("d",))


def gpipe(bug: str = "") -> Spec:
    return pipeline(pp.ScheduleGPipe, FOUR, ((0,), (1,), (2,), (3,)), bug)


def one_forward_one_backward(bug: str = "") -> Spec:
    return pipeline(pp.Schedule1F1B, TWO, ((0,), (1,)), bug)


def interleaved(bug: str = "") -> Spec:
    return pipeline(pp.ScheduleInterleaved1F1B, FOUR, ((0, 2), (1, 3)), bug)


def zero_bubble(bug: str = "") -> Spec:
    return pipeline(pp.ScheduleInterleavedZeroBubble, FOUR, ((0, 2), (1, 3)), bug)


def zero_bubble_v(bug: str = "") -> Spec:
    return pipeline(pp.ScheduleZBVZeroBubble, FOUR, ((0, 3), (1, 2)), bug)


def dual_pipe_v(bug: str = "") -> Spec:
    return pipeline(pp.ScheduleDualPipeV, FOUR, ((0, 3), (1, 2)), bug)


FAULTS = (
    "residual", "scaled between stages", "gradients not scaled", "scaled twice",
    "sum over elements", "labels of the next micro-batch", "losses added up",
)  # fmt: skip

CASES = [
    Case("pipelining GPipe", gpipe, twins(gpipe, "scaled between stages", *FAULTS[4:])),
    Case(
        "pipelining 1F1B",
        one_forward_one_backward,
        twins(one_forward_one_backward, "layers in another order", *FAULTS[1::2]),
    ),
    Case("pipelining interleaved 1F1B", interleaved, twins(interleaved, *FAULTS[::2])),
    Case("pipelining zero bubble", zero_bubble, twins(zero_bubble, *FAULTS[1::2])),
    Case("pipelining zero bubble V", zero_bubble_v, twins(zero_bubble_v, *FAULTS[::2])),
    Case("pipelining dual pipe V", dual_pipe_v, twins(dual_pipe_v, *FAULTS[1::2])),
]
