"""A fix is checked on the captured graph; these carry that of SP118 over to the source."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from shardproof import Input, Mesh, Shard, Spec
from shardproof.examples.bugs.parts import Enter as Shared  # a parameter used in parts
from shardproof.examples.bugs.parts import Leave as Sum
from shardproof.report.diagnostic import Verdict

pytestmark = pytest.mark.filterwarnings("ignore")


class Down(nn.Module):
    """A row-parallel layer, the bias added in the way ``how``."""

    def __init__(self, how: str = "", group: Any = None) -> None:
        super().__init__()
        self.how, self.group = how, group
        ranks = dist.get_world_size(group) if group is not None else 1
        self.weight = nn.Parameter(torch.empty(16 // ranks, 8))
        self.bias = nn.Parameter(torch.empty(8))

    def forward(self, x: Any) -> Any:
        y = x @ self.weight
        if self.group is None:
            return y + self.bias
        bias = Shared.apply(self.bias, self.group) if "summed" in self.how else self.bias
        if "detached" in self.how:
            bias = bias.detach()
        if "after" in self.how:
            return Sum.apply(y, self.group) + bias
        if "part" in self.how:
            bias = bias / dist.get_world_size(self.group)
        mine = "one" not in self.how or dist.get_rank(self.group) == 0
        if "not" in self.how:
            return Sum.apply(y + bias if mine else y, self.group)
        return Sum.apply(y + bias if mine else y + 0 * bias, self.group)


def check(how: str, step: str) -> Verdict:
    return Spec(
        sequential=Down,
        distributed=lambda mesh, rank: Down(how, mesh.get_group("tp")),
        mesh=Mesh(tp=2),
        inputs={"x": Input((4, 16), "f32", Shard(1))},
        loss=lambda output, x: output.square().sum(),
        step=step,
    ).check()


def test_what_was_checked_is_said() -> None:
    (finding,) = check("every rank", "forward").findings
    assert finding.code == "SP118"
    assert finding.fix.startswith("add %bias after the reduction (its gradient is then whole)")
    assert "or 1/2 of it on each rank (its gradient then needs an all_reduce)" in finding.fix
    assert finding.fix_checked == (
        "with 1/2 of it on each rank the captured graph refines; check again after the change of "
        "the source"
    )


def test_a_captured_backward_pass_is_not_derived_anew() -> None:
    (finding,) = check("every rank", "backward").findings
    assert finding.code == "SP118"
    assert "refines, its backward pass left as captured; check again" in finding.fix_checked


@pytest.mark.parametrize("how", ["after", "part, summed", "one, summed"])
def test_the_ways_that_the_fix_names_hold_in_the_source(how: str) -> None:
    assert check(how, "backward").status == "refines"


@pytest.mark.parametrize("how", ["part", "one"])
def test_without_the_sum_that_the_fix_names_the_gradient_is_wrong(how: str) -> None:
    assert check(how, "forward").status == "refines"
    verdict = check(how, "backward")
    assert verdict.status == "refuted"
    assert {o.seq_output for o in verdict.outputs if o.status != "proved"} == {"grad.bias"}


def test_a_change_of_the_backward_pass_itself_leaves_nothing_underived() -> None:
    verdict = check("part", "backward")
    said = [f.fix_checked for f in verdict.findings if f.fix]
    assert said
    assert not any("as captured" in text for text in said)


def test_a_gradient_that_one_rank_does_not_make_has_the_line_of_another() -> None:
    verdict = check("one, not", "backward")
    (finding,) = verdict.findings
    assert finding.affected == ["grad.bias"]
    assert finding.ranks == [1]
    assert finding.primary is not None
    assert finding.primary.code.startswith("return Sum.apply(y + bias if mine")
    assert finding.primary.label == "rank 0 makes it here"
    assert finding.secondary is not None
    assert finding.secondary.code == "return y + self.bias"
    assert finding.fix == "all_reduce (sum) over tp what is returned: grad.bias"
    assert finding.fix_checked.startswith("with this change the captured graph refines; check")


def test_a_gradient_that_no_rank_makes_has_the_sequential_line() -> None:
    verdict = check("after, detached", "backward")
    assert verdict.status == "refuted"
    (finding,) = verdict.findings
    assert finding.affected == ["grad.bias"]
    assert finding.secondary is not None
    assert finding.secondary.code == "return y + self.bias"
    assert finding.fix == ""


class Rows(nn.Module):
    """Row-parallel layers of one line, over a batch of sequences; ``wrong`` is how many of them
    add the bias on every rank."""

    def __init__(self, wrong: int = 0, group: Any = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Row(k < wrong, group) for k in range(2))

    def forward(self, x: Any) -> Any:
        return self.layers[0](x) * self.layers[1](x)


class Row(nn.Module):
    def __init__(self, wrong: bool, group: Any) -> None:
        super().__init__()
        self.wrong, self.group = wrong, group
        self.linear = nn.Linear(16 // (dist.get_world_size(group) if group is not None else 1), 8)

    def forward(self, x: Any) -> Any:
        bias = self.linear.bias
        part = bias if self.wrong or self.group is None else 0.5 * bias
        y = nn.functional.linear(x, self.linear.weight, part)
        return Sum.apply(y, self.group) if self.group is not None else y


def rows(wrong: int) -> Verdict:
    return Spec(
        sequential=Rows,
        distributed=lambda mesh, rank: Rows(wrong, mesh.get_group("tp")),
        mesh=Mesh(tp=2),
        inputs={"x": Input((2, 4, 16), "f32", Shard(2))},
    ).check()


def test_a_bias_that_a_view_passes_on_to_the_reduction_is_one() -> None:
    assert rows(0).status == "refines"
    (finding,) = rows(1).findings
    assert finding.code == "SP118"
    assert finding.primary is not None
    assert finding.primary.code == "y = nn.functional.linear(x, self.linear.weight, part)"
    assert "or 1/2 of it on each rank" in finding.fix
    assert "calls" not in finding.fix


def test_what_is_wrong_in_every_layer_is_changed_in_every_layer() -> None:
    finding, *others = rows(2).findings
    assert finding.code == "SP118"
    assert not others
    assert "or 1/2 of it on each rank" in finding.fix
    assert finding.fix.endswith(", in each of its 2 calls")
    assert finding.fix_checked.startswith("with 1/2 of it on each rank the captured graph refines")


class Twice(nn.Module):
    """Two blocks that call one function, which scales what it returns."""

    def __init__(self, scale: float, group: Any) -> None:
        super().__init__()
        self.scale, self.group = scale, group
        ranks = dist.get_world_size(group) if group is not None else 1
        self.ups = nn.ModuleList(nn.Linear(8, 16 // ranks) for _ in range(2))
        self.downs = nn.ModuleList(nn.Linear(16 // ranks, 8, bias=False) for _ in range(2))

    def whole(self, x: Any) -> Any:
        return Sum.apply(x, self.group) * self.scale if self.group is not None else x

    def forward(self, x: Any) -> Any:
        for up, down in zip(self.ups, self.downs, strict=True):
            x = x + self.whole(down(torch.relu(up(x))))
        return x


def test_what_one_module_calls_twice_is_changed_at_both_calls() -> None:
    verdict = Spec(
        sequential=lambda: Twice(1.0, None),
        distributed=lambda mesh, rank: Twice(3.0, mesh.get_group("tp")),
        mesh=Mesh(tp=2),
        inputs={"x": Input((4, 8))},
    ).check()
    assert verdict.status == "refuted"
    (finding,) = verdict.findings
    assert finding.code == "SP111"
    assert finding.fix.startswith("multiply %mul by 1/3 ")
    assert finding.fix.endswith(", in each of its 2 calls")
    assert finding.fix_checked.startswith("with this change the captured graph refines")
