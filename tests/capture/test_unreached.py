"""Gradients that do not arrive: one finding, at a line of the user's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule, fully_shard

from shardproof import Input, Mesh, Shard, Spec
from shardproof.report.diagnostic import Verdict

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x).relu()
        return x.square().mean()


def built(mesh: Any, sync: bool = True) -> Any:
    net = Net()
    fully_shard(net, mesh=mesh["dp"])
    if not sync:
        net.set_requires_gradient_sync(False)
    return net


def unsynchronised(net: Any, optimizer: Any, x: Any) -> Any:
    if isinstance(net, FSDPModule):
        net.set_requires_gradient_sync(False)
    loss = net(x)
    loss.backward()
    optimizer.step()
    return loss


def check(build: Callable[..., Any], step: Any) -> Verdict:
    return Spec(
        sequential=Net,
        distributed=lambda mesh, rank: build(mesh),
        mesh=Mesh(dp=2),
        inputs={"x": Input((4, 8), "f32", Shard(0))},
        outputs={"loss": None},
        step=step,
        optimizer=lambda params: torch.optim.Adam(params, lr=1e-3),
    ).check()


def test_a_step_without_synchronisation_is_shown_where_it_runs_autograd() -> None:
    verdict = check(built, unsynchronised)
    assert verdict.status == "refuted"
    (finding,) = verdict.findings
    assert finding.code == "SP127"
    assert "no gradient arrives there" in finding.message
    assert finding.primary is not None
    assert finding.primary.code == "loss.backward()"
    # What is not updated follows from it, and is told under it.
    names = [name for name, _ in Net().named_parameters()]
    assert {f"{kind}.{n}" for n in names for kind in ("grad", "new")} <= set(finding.affected)
    (told,) = (n for n in finding.notes if n.startswith("follows from this"))
    assert "as it was given: nothing changes it" in told


def test_without_a_line_for_it_the_first_use_of_the_parameter_is_shown() -> None:
    (finding,) = check(lambda mesh: built(mesh, sync=False), "train").findings
    assert finding.code == "SP127"
    assert finding.primary is not None
    assert (finding.primary.code, finding.primary.label) == (
        "x = layer(x).relu()",
        "first used here",
    )


def test_a_parameter_that_is_not_updated_does_not_follow_from_the_gradient_of_another() -> None:
    def step(net: Any, optimizer: Any, x: Any) -> Any:
        sharded = isinstance(net, FSDPModule)
        loss = net(x)
        loss.backward()
        first, last = (layer.weight for layer in net.layers)
        if sharded:
            first.grad = None  # its gradient is lost after the update
        with torch.no_grad():
            for p in net.parameters():
                if p is not last or not sharded:
                    p.sub_(1.0 if p.grad is None else p.grad)
        return loss

    findings = check(built, step).findings
    unchanged = [f for f in findings if "as it was given" in f.message]
    assert [f.affected for f in unchanged] == [["new.layers.1.weight"]]
    assert any(f.affected[:1] == ["grad.layers.0.weight"] for f in findings)
