"""A loss over tokens that count, on ranks with different numbers of them."""

from __future__ import annotations

from typing import Any

import pytest
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from shardproof import Input, Mesh, Shard, Spec
from shardproof.report.diagnostic import Verdict

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction
        self.embed = nn.Embedding(12, 8)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 12, bias=False)

    def forward(self, idx: Any, targets: Any) -> Any:
        x = self.head(self.norm(self.embed(idx)))
        y = nn.functional.cross_entropy(
            x.flatten(0, 1), targets.flatten(), reduction=self.reduction
        )
        return y / targets.numel() if self.reduction == "sum" else y


def check(reduction: str) -> Verdict:
    return Spec(
        sequential=lambda: Net(reduction),
        distributed=lambda mesh, rank: DistributedDataParallel(Net(reduction)),
        mesh=Mesh(dp=2),
        inputs={name: Input((4, 6), "i64", Shard(0)) for name in ("idx", "targets")},
        outputs={"loss": None},
        step="backward",
    ).check()


def test_a_mean_over_tokens_that_count_is_a_mean_of_means_on_the_ranks() -> None:
    verdict = check("mean")
    assert verdict.status == "refuted"
    finding, *others = verdict.findings
    assert not others
    assert finding.code == "SP123"
    assert finding.message.startswith("a mean of means: the sum is divided by")
    assert len(finding.affected) == 4
    assert finding.primary is not None
    assert finding.primary.code.startswith("y = nn.functional.cross_entropy")


def test_a_sum_divided_by_a_constant_is_none() -> None:
    assert check("sum").status == "refines"
