"""Tensor and sequence parallelism by DTensor: plans of `parallelize_module`, loss parallel.

The faults are in what a user writes: the plan, the loss, what is done to gradients by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from benchmarks.live import common as c
from benchmarks.live import transformer as t
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

from shardproof import Mesh, Spec
from shardproof.testing.cases import Case, twins

Plan = dict[str, Any]
L = "layers.*."


def tensor_plan(bug: str = "") -> Plan:
    """Activations are whole on every rank."""
    plan: Plan = {L + f"attention.{n}": ColwiseParallel() for n in ("q", "k", "v")}
    plan[L + "attention.out"] = RowwiseParallel()
    plan[L + "mlp.up"] = ColwiseParallel()
    plan[L + "mlp.down"] = RowwiseParallel()
    plan["embed"] = RowwiseParallel(input_layouts=Replicate())
    plan["head"] = ColwiseParallel(output_layouts=Replicate())
    if bug == "no sum after down":
        plan[L + "mlp.down"] = RowwiseParallel(
            output_layouts=Partial()
        )  # planted: no sum after down
    return plan


# carries in live/transformer.py: no sum after down: self.down(F.gelu(self.up(x)))
# carries in live/transformer.py: no sum after down: x + self.mlp(self.norm2(x))
# carries in live/transformer.py: partial as whole: x + self.attention(self.norm1(x))


def sequence_plan(bug: str = "") -> Plan:
    """Activations between attention and MLP are cut along the sequence."""
    cut = Shard(1)
    whole = PrepareModuleInput(input_layouts=(cut,), desired_input_layouts=(Replicate(),))
    plan = tensor_plan()
    for n in ("attention.out", "mlp.down"):
        plan[L + n] = RowwiseParallel(output_layouts=cut)
    for n in (L + "norm1", L + "norm2", "norm"):
        plan[n] = SequenceParallel(use_local_output=True)
    plan[L + "attention"] = plan[L + "mlp"] = whole
    if bug == "no PrepareModuleInput":
        del plan[L + "attention"]  # planted: no PrepareModuleInput
    rows = Shard(0) if bug == "cut along the batch" else cut  # planted: cut along the batch
    plan["embed"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=rows)
    plan["head"] = ColwiseParallel(input_layouts=cut, output_layouts=Replicate())
    return plan


# carries in live/transformer.py: no PrepareModuleInput: layer(x).view(batch, length, -1, HEAD)
# carries in live/transformer.py: no PrepareModuleInput: F.scaled_dot_product_attention
# carries in live/transformer.py: cut along the batch: x = self.embed(tokens)
# Before the attention every operator works token by token.
# carries in live/transformer.py: cut along the batch: F.scaled_dot_product_attention


class PartialAsWhole(t.Attention):
    """The sum of the output projection is written by hand, and is not there."""

    def forward(self, x: Any) -> Any:
        y = DTensor.from_local(self.context(x), self.mesh, [Shard(-1)])
        part = (y @ self.out.weight.T).to_local()
        whole = DTensor.from_local(part, self.mesh, [Replicate()])  # planted: partial as whole
        return whole.to_local() + self.out.bias.to_local()  # carries: partial as whole


def built(plan: Callable[[str], Plan], loss: Any, bug: str = "") -> Callable[..., Any]:
    def build(mesh: Any, rank: int) -> Any:
        net = t.Transformer()
        net.loss = loss
        tp = mesh["tp"]
        parallelize_module(net, tp, plan(bug))
        if bug == "partial as whole":
            for layer in net.layers:
                layer.attention.__class__, layer.attention.mesh = PartialAsWhole, tp
                layer.attention.out._forward_pre_hooks.clear()
                layer.attention.out._forward_hooks.clear()
        return net

    return build


def spec(sequential: Any, build: Any, ranks: int, step: Any, optimizer: Any = c.sgd) -> Spec:
    return Spec(
        sequential=sequential,
        distributed=build,
        mesh=Mesh(tp=ranks),
        inputs=t.batch(),
        step=step,
        optimizer=optimizer,
    )


# ------------------------------------------------------------------ tensor parallel


def step_of(bug: str) -> Callable[..., Any]:
    def step(net: Any, optimizer: Any, tokens: Any, labels: Any) -> Any:
        ranks = dist.get_world_size()
        loss = net(tokens, labels)
        if bug == "mean over ranks":
            loss = loss / ranks  # planted: mean over ranks
        loss.backward()
        if bug == "norms summed again":
            for name, p in net.named_parameters():
                if "norm" in name and ranks > 1:
                    dist.all_reduce(p.grad)  # planted: norms summed again
        optimizer.step()
        return loss

    return step


def tensor(bug: str = "", ranks: int = 2) -> Spec:
    build = built(tensor_plan, t.every, bug)
    return spec(t.EveryLabel, build, ranks, step_of(bug), c.adamw)


def tensor_on_four(bug: str = "") -> Spec:
    return tensor(bug, 4)


# ------------------------------------------------------------------ sequence parallel


def by_hand(bug: str) -> Callable[..., Any]:
    """A step with an optimizer of the user's, on the rank's own tensors."""

    def step(net: Any, optimizer: Any, tokens: Any, labels: Any) -> Any:
        loss = net(tokens, labels)
        if bug == "divided by the ranks":
            loss = loss / dist.get_world_size()  # planted: divided by the ranks
        loss.backward()
        with torch.no_grad():
            for name, p in net.named_parameters():
                part, grad = p, p.grad
                if isinstance(p, DTensor):
                    # The gradients of the norms are parts of a sum.
                    if bug != "norms of one rank" or "norm" not in name:
                        grad = grad.redistribute(placements=p.placements)
                    part, grad = p.to_local(), grad.to_local()
                if bug == "norms updated again" and "norm" in name and isinstance(p, DTensor):
                    part.sub_(0.1 * grad)  # planted: norms updated again
                # carries: norms updated again
                part.sub_(0.1 * grad)  # planted: norms of one rank
        return loss

    return step


def sequence(bug: str = "", ranks: int = 2) -> Spec:
    build = built(sequence_plan, t.counted, bug)
    return spec(t.Transformer, build, ranks, by_hand(bug), None)


def sequence_on_four(bug: str = "") -> Spec:
    return sequence(bug, 4)


# ------------------------------------------------------------------ loss parallel


def cut_logits(plan: Callable[[str], Plan], bug: str) -> Callable[..., Any]:
    """The logits stay cut over the vocabulary; the loss is that of `loss_parallel`."""

    def changed(_: str) -> Plan:
        new = plan("")
        local = bug == "loss of local logits"
        source = Shard(1) if plan is sequence_plan else Replicate()
        new["head"] = ColwiseParallel(
            input_layouts=source, output_layouts=Shard(-1), use_local_output=local
        )  # planted: loss of local logits
        return new

    return built(changed, t.counted)


# carries in live/transformer.py: loss of local logits: F.cross_entropy


def with_loss_parallel(bug: str) -> Callable[..., Any]:
    def step(net: Any, optimizer: Any, tokens: Any, labels: Any) -> Any:
        ranks = dist.get_world_size()
        with loss_parallel() if ranks > 1 else nullcontext():
            loss = net(tokens, labels)
            if bug == "loss summed again":
                total = loss.to_local() if isinstance(loss, DTensor) else loss
                total = total.clone()
                dist.all_reduce(total)  # planted: loss summed again
                total.backward()
                loss = total
            else:
                loss.backward()
        if bug == "divided by hand":
            for p in net.parameters():
                p.grad.div_(ranks)  # planted: divided by hand
        optimizer.step()
        return loss

    return step


def losses(bug: str = "", ranks: int = 2, plan: Any = tensor_plan) -> Spec:
    return spec(t.Transformer, cut_logits(plan, bug), ranks, with_loss_parallel(bug))


def losses_on_four(bug: str = "") -> Spec:
    return losses(bug, 4)


def losses_and_sequence(bug: str = "") -> Spec:
    return losses(bug, 2, sequence_plan)


TENSOR = ("no sum after down", "partial as whole", "mean over ranks", "norms summed again")
SEQUENCE = ("no PrepareModuleInput", "norms of one rank", "norms updated again")
LOSSES = ("loss of local logits", "loss summed again", "divided by hand")

CASES = [
    Case("dtensor tp", tensor, twins(tensor, *TENSOR), long=True),
    Case("dtensor tp over four", tensor_on_four, twins(tensor_on_four, *TENSOR), long=True),
    Case("dtensor tp and sp", sequence, twins(sequence, *SEQUENCE, "cut along the batch")),
    Case(
        "dtensor tp and sp over four",
        sequence_on_four,
        twins(sequence_on_four, *SEQUENCE[1:], "divided by the ranks"),
        long=True,
    ),
    Case("dtensor loss parallel", losses, twins(losses, *LOSSES)),
    Case(
        "dtensor loss parallel over four",
        losses_on_four,
        twins(losses_on_four, *LOSSES),
        long=True,
    ),
    Case(
        "dtensor loss parallel, sp",
        losses_and_sequence,
        twins(losses_and_sequence, *LOSSES),
        long=True,
    ),
]
