"""A gradient that is a part where a tensor-parallel region is entered without a backward sum, and
notes on the gradients of inputs."""

from __future__ import annotations

from typing import Any

import pytest
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from shardproof import Input, Mesh, Spec
from shardproof.examples.bugs.parts import Enter, Leave
from shardproof.report.diagnostic import Verdict

pytestmark = pytest.mark.filterwarnings("ignore")
HIDDEN = 8


class WithoutSum(Enter):
    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, None


class Block(nn.Module):
    """``gated`` has two ways into the region: their gradients are added before the norm's."""

    def __init__(self, group: Any, enter: Any, gated: bool) -> None:
        super().__init__()
        self.group, self.enter = group, enter
        wide = 4 * HIDDEN // (1 if group is None else dist.get_world_size(group))
        self.norm = nn.LayerNorm(HIDDEN)
        self.up = nn.Linear(HIDDEN, wide)
        self.gate = nn.Linear(HIDDEN, wide) if gated else None
        self.down = nn.Linear(wide, HIDDEN, bias=False)

    def forward(self, x: Any) -> Any:
        h = self.norm(x)
        if self.group is not None:
            h = self.enter.apply(h, self.group)
        if self.gate is not None:
            y = self.down(F.silu(self.up(h) + self.gate(h)))
        else:
            y = self.down(F.silu(self.up(h)))
        return x + (y if self.group is None else Leave.apply(y, self.group))


class Net(nn.Module):
    def __init__(self, enters: tuple[Any, ...], gated: bool, group: Any = None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(group, e, gated) for e in enters)

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


def check(*enters: Any, step: str = "backward", gated: bool = False, **options: Any) -> Verdict:
    return Spec(
        sequential=lambda: Net(enters, gated),
        distributed=lambda mesh, rank: Net(enters, gated, mesh.get_group("tp")),
        mesh=Mesh(tp=2),
        inputs={"x": Input((4, HIDDEN), **options)},
        step=step,
    ).check()


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("enters", [(WithoutSum,), (WithoutSum, Enter), (WithoutSum, WithoutSum)])
def test_the_sum_belongs_where_the_region_is_entered(enters: tuple[Any, ...], gated: bool) -> None:
    (finding,) = check(*enters, gated=gated).findings
    assert finding.code == ("SP110" if gated else "SP121")
    assert finding.primary is not None
    assert finding.primary.code == "h = self.norm(x)"
    # The first fix sums the gradient that the norm receives, not those that the norm makes.
    entered = "y = self.down(F.silu(self.up(h)" + (" + self.gate(h)))" if gated else "))")
    line = next(k for k, text in enumerate(source(), 1) if text.strip().startswith(entered))
    assert finding.fix.startswith("all_reduce %")
    assert f"test_parallel_region.py:{line})" in finding.fix
    assert (
        f"of the backward pass of tests/capture/test_parallel_region.py:{line}" in finding.message
    )
    assert "the identity forward and this all_reduce backward" in finding.notes[0]
    assert finding.fix.split(" (sum)")[0] not in finding.other_fixes


def source() -> list[str]:
    with open(__file__, encoding="utf-8") as f:
        return f.read().splitlines()


class OwnTokens(nn.Module):
    """A norm on this rank's rows: its gradients become parts in the norm's own backward."""

    def __init__(self, group: Any = None) -> None:
        super().__init__()
        self.group, self.norm = group, nn.LayerNorm(HIDDEN)

    def forward(self, x: Any) -> Any:
        if self.group is not None:
            x = x.chunk(dist.get_world_size(self.group))[dist.get_rank(self.group)]
        total = self.norm(x).square().sum()
        return total if self.group is None else Leave.apply(total, self.group)


def test_gradients_that_become_parts_themselves_are_summed_themselves() -> None:
    (finding,) = (
        Spec(
            sequential=OwnTokens,
            distributed=lambda mesh, rank: OwnTokens(mesh.get_group("tp")),
            mesh=Mesh(tp=2),
            inputs={"x": Input((4, HIDDEN))},
            step="backward",
        )
        .check()
        .findings
    )
    assert finding.code == "SP121"
    assert "a later reduction over the ranks" in finding.message
    assert finding.fix.startswith("all_reduce (sum) over tp: grad.norm.weight, grad.norm.bias")


@pytest.mark.parametrize(
    ("step", "options", "noted"),
    [
        ("backward", {}, True),
        ("backward", {"grad": True}, False),
        ("forward", {}, False),
    ],
)
def test_a_proof_says_that_the_gradient_of_an_input_was_not_checked(
    step: str, options: dict[str, Any], noted: bool
) -> None:
    verdict = check(Enter, step=step, **options)
    assert verdict.status == "refines"
    note = "the gradient of x was not checked; grad=True of its Input asks for it"
    assert (note in verdict.notes) == noted
