"""A loss over tokens that count, on ranks with different numbers of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from shardproof import Input, Mesh, Shard, Spec
from shardproof.errors import InputError
from shardproof.replay.again import instance_of, output_values
from shardproof.report.diagnostic import Verdict

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    def __init__(self, reduction: str = "mean", times: float = 1.0) -> None:
        super().__init__()
        self.reduction, self.times = reduction, times
        self.embed = nn.Embedding(12, 8)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 12, bias=False)

    def forward(self, idx: Any, targets: Any) -> Any:
        x = self.head(self.norm(self.embed(idx)))
        y = nn.functional.cross_entropy(
            x.flatten(0, 1), targets.flatten(), reduction=self.reduction
        )
        y = y / targets.numel() if self.reduction == "sum" else y
        return y if self.times == 1 else y * self.times


def averaged(net: Any, optimizer: Any, **inputs: Any) -> Any:
    """A step that reports the mean of the ranks' losses."""
    loss = net(**inputs)
    loss.backward()
    if isinstance(net, DistributedDataParallel):
        loss = loss.detach().clone()
        dist.all_reduce(loss, op=dist.ReduceOp.AVG)
    return loss


def spec(
    reduction: str = "mean", below: int | None = None, times: float = 1.0, step: Any = "backward"
) -> Spec:
    outputs = {"loss": None} if step == "backward" else None
    return Spec(
        sequential=lambda: Net(reduction),
        distributed=lambda mesh, rank: DistributedDataParallel(Net(reduction, times)),
        mesh=Mesh(dp=2),
        inputs={
            "idx": Input((4, 6), "i64", Shard(0)),
            "targets": Input((4, 6), "i64", Shard(0), below=below),
        },
        outputs=outputs,
        step=step,
        uneven=False,
    )


def check(reduction: str) -> Verdict:
    return spec(reduction).check()


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


@pytest.mark.parametrize("step", ["backward", averaged])
def test_the_finding_says_that_labels_may_be_ignored(step: Any) -> None:
    verdict = spec(step=step).check()
    assert [f.code for f in verdict.findings] == ["SP123"]
    (note,) = (n for n in verdict.findings[0].notes if "may be -100" in n)
    assert note.startswith("some of %targets")
    assert "below=12 (of its Input" in note


@pytest.mark.parametrize("step", ["backward", averaged])
def test_where_no_label_is_ignored_the_mean_of_means_is_the_mean(step: Any) -> None:
    verdict = spec(below=12, step=step).check()
    assert verdict.status == "refines"
    assert verdict.certificate == "certificate checked"
    assert verdict.replay.startswith("replayed at")
    facts = [text for kind, text in verdict.assumptions if kind == "fact"]
    assert facts == ["targets: every value is at least 0 and below 12, as the Spec says"]
    ranges = [text for kind, text in verdict.assumptions if kind == "range"]
    assert any(text.startswith("0 <= targets < 12") for text in ranges)
    assert not any("-100" in text for text in ranges)


def test_a_bound_proves_nothing_wrong_and_its_counterexample_can_be_seen() -> None:
    wrong = spec(below=12, times=2.0)
    verdict = wrong.check(fixes=False)
    assert verdict.status == "refuted"
    assert {f.code for f in verdict.findings} == {"SP111"}
    assert not any("-100" in n for f in verdict.findings for n in f.notes)
    c = verdict.findings[0].counterexample
    assert c is not None
    assert output_values(instance_of(wrong.resolve(), c), c.seed, {}, c.output)


def test_a_bound_that_is_too_wide_for_the_table_proves_nothing() -> None:
    assert spec(below=13).check(fixes=False).status != "refines"


@pytest.mark.parametrize(("dtype", "below"), [("i64", 0), ("i64", True), ("f32", 4)])
def test_a_bound_of_no_use_is_refused(dtype: str, below: int) -> None:
    with pytest.raises(InputError, match="below"):
        Input((4,), dtype, below=below)
