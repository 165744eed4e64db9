"""Wrong factors in a training step are told from the values that have them first, not from what an
optimizer makes of these."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import Partial
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from shardproof import Input, Mesh, Replicate, Shard, Spec
from shardproof.report.diagnostic import Finding

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    """``share`` is how much of the last bias is added."""

    def __init__(self, share: float = 1.0) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
        self.bias, self.share = nn.Parameter(torch.empty(8)), share

    def forward(self, x: Any) -> Any:
        bias = self.bias if self.share == 1 else self.bias * self.share
        return (x + self.down(self.up(x).relu()) + bias).square().mean()


def step(net: Any, optimizer: Any, x: Any) -> Any:
    loss = net(x)
    loss.backward()
    if dist.get_world_size() > 1 and net.share == 2:
        for p in net.parameters():
            dist.all_reduce(p.grad)
            p.grad.div_(2)
            p.grad.mul_(0.5)
    optimizer.step()
    return loss


def finding(build: Any, axis: str = "tp", run: Any = "train", **options: Any) -> Finding:
    (found,) = (
        Spec(
            sequential=Net,
            distributed=lambda mesh, rank: build(mesh),
            mesh=Mesh(**{axis: 2}),
            inputs={"x": Input((4, 8), "f32", Shard(0) if axis == "dp" else Replicate())},
            step=run,
            optimizer=lambda params: torch.optim.AdamW(params, lr=1e-3),
            **options,
        )
        .check()
        .findings
    )
    return found


def test_a_missing_sum_beside_shares_of_a_bias_is_no_wrong_factor() -> None:
    """DTensor adds half of the bias on each of two ranks, and sums where it is asked to."""

    def build(mesh: Any) -> Any:
        plan = {"up": ColwiseParallel(), "down": RowwiseParallel(output_layouts=Partial())}
        return parallelize_module(Net(), mesh["tp"], plan)

    found = finding(build)
    assert found.code == "SP110"
    assert found.message.startswith("%addmm_1 is only a partial sum here")
    assert found.fix.startswith("all_reduce %addmm_1 (sum) over tp")


def test_a_factor_in_the_forward_pass_is_not_compared_with_the_weight_decay() -> None:
    found = finding(lambda mesh: Net(share=0.5))
    assert found.code == "SP112"
    assert "is twice too small: it holds 1/2*bias" in found.message


class Undivided(Net):
    """Its step divides the sum of the gradients once more than it should."""

    def __init__(self) -> None:
        super().__init__()
        self.share = 2

    def forward(self, x: Any) -> Any:
        return (x + self.down(self.up(x).relu()) + self.bias).square().mean()


def test_a_factor_of_gradients_is_not_told_from_the_optimizer() -> None:
    found = finding(lambda mesh: Undivided(), "dp", step, outputs={"loss": None})
    assert found.code == "SP112"
    assert "is twice too small" in found.message
    assert found.primary is not None
    assert found.primary.code == "p.grad.mul_(0.5)"
    assert len(found.affected) == 5 * 4  # gradients, new values, two states
    assert not any("lerp" in text or "addcmul" in text for text in found.notes)
