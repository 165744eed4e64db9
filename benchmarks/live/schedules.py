"""Schedules of torch.distributed.pipelining: a language model over the stages of a pipeline."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.live import common as c
from benchmarks.live import transformer as t
from torch import nn
from torch.distributed import pipelining as pp

from shardproof import Mesh, Spec
from shardproof.testing.cases import Case, twins

BATCHES, ROWS = 4, 2
# What each stage holds, by names of the whole model.
TWO = (("embed", "layers.0"), ("layers.1", "norm", "head"))
FOUR = (("embed",), ("layers.0",), ("layers.1",), ("norm", "head"))


class Stage(nn.Module):
    """Modules of the model, one after another; ``bug`` names a fault."""

    def __init__(self, model: nn.Module, names: tuple[str, ...], bug: str) -> None:
        super().__init__()
        self.run = [model.get_submodule(name) for name in names]
        self.bug = bug
        self.parts = nn.ModuleList(self.run)

    def forward(self, x: Any) -> Any:
        for module in self.run:
            if self.bug == "residual twice" and isinstance(module, t.Layer):
                x = x + module(x)  # planted: residual twice
            else:
                x = module(x)
        return x


class Swapping(pp.PipelineStage):
    """Sends the gradients of the micro-batches in the wrong order."""

    def get_bwd_send_ops(self, bwd_chunk_id: int) -> Any:
        order = [1, 0, 3, 2]
        return super().get_bwd_send_ops(order[bwd_chunk_id])  # planted: gradients swapped


class Scaling(pp.PipelineStage):
    """Sends a part of the gradients."""

    def get_bwd_send_ops(self, bwd_chunk_id: int) -> Any:
        sends = super().get_bwd_send_ops(bwd_chunk_id)
        for send in sends:
            send.tensor = send.tensor / BATCHES  # planted: scaled between stages
        return sends


STAGES = {"gradients swapped": Swapping, "scaled between stages": Scaling}


class Pipeline(t.Transformer):
    """The stages of one rank: the rest of the model is not on it."""

    def __init__(self, plan: Any, kind: Any, group: Any, mine: tuple[int, ...], bug: str) -> None:
        super().__init__()
        self.kind, self.group, self.bug = kind, group, bug
        self.mine, self.last = mine, len(plan) - 1
        self.stages = {k: Stage(self, plan[k], bug) for k in mine}
        kept = [name for k in mine for name in plan[k]]
        for name in ("embed", "layers.0", "layers.1", "norm", "head"):
            if name not in kept:
                parent, _, child = name.rpartition(".")
                setattr(self.get_submodule(parent), child, None)

    def stage(self, k: int) -> pp.PipelineStage:
        """Stage ``k``, with the shapes of a micro-batch."""
        hidden = torch.empty(ROWS, t.LENGTH, t.HIDDEN, requires_grad=True)
        tokens = torch.empty(ROWS, t.LENGTH, dtype=torch.int64)
        logits = torch.empty(ROWS, t.LENGTH, t.VOCAB, requires_grad=True)
        make = STAGES.get(self.bug, pp.PipelineStage)
        return make(
            self.stages[k],
            k,
            self.last + 1,
            torch.device("cpu"),
            input_args=hidden if k else tokens,
            output_args=hidden if k < self.last else logits,
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

    def loss_of_batch(self, z: Any, labels: Any) -> Any:
        loss = t.every(z, labels)
        if self.bug == "scaled twice":
            return loss / BATCHES  # planted: scaled twice
        if self.bug == "sum over tokens":
            return loss * labels.numel()  # planted: sum over tokens
        return loss

    def step(self, optimizer: Any, tokens: Any, labels: Any) -> Any:
        losses: list[Any] = []
        given = (tokens,) if 0 in self.mine else ()
        if self.bug == "labels of the next micro-batch":
            labels = torch.roll(labels, -ROWS, 0)  # planted: labels of the next micro-batch
        if self.last in self.mine:
            # carries: labels of the next micro-batch, gradients not scaled
            self.schedule().step(*given, target=labels, losses=losses)
        else:
            self.schedule().step(*given)  # carries: gradients not scaled, gradients swapped
        optimizer.step()
        if not losses:
            return None
        if self.bug == "losses added up":
            return torch.stack(losses).sum()  # planted: losses added up
        return torch.stack(losses).mean()


def pipeline(kind: Any, plan: Any, owners: Any, bug: str) -> Spec:
    """SGD; ``owners`` lists the stages of every rank."""
    return Spec(
        sequential=t.EveryLabel,
        distributed=lambda mesh, rank: Pipeline(plan, kind, mesh.get_group(), owners[rank], bug),
        mesh=Mesh(pp=len(owners)),
        inputs=t.batch(rows=BATCHES * ROWS),
        step=c.own_step,
        optimizer=c.sgd,
    )


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
    "residual twice", "scaled between stages", "gradients not scaled", "scaled twice",
    "sum over tokens", "labels of the next micro-batch", "losses added up",
)  # fmt: skip

CASES = [
    Case("pipelining GPipe", gpipe, twins(gpipe, "gradients swapped", *FAULTS)),
    Case("pipelining 1F1B", one_forward_one_backward, twins(one_forward_one_backward, *FAULTS)),
    Case("pipelining interleaved 1F1B", interleaved, twins(interleaved, *FAULTS[::2])),
    Case("pipelining zero bubble", zero_bubble, twins(zero_bubble, *FAULTS[1::2])),
    Case("pipelining zero bubble V", zero_bubble_v, twins(zero_bubble_v, *FAULTS[::2])),
    Case("pipelining dual pipe V", dual_pipe_v, twins(dual_pipe_v, *FAULTS[1::2])),
]
