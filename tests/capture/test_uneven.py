"""Live programs are tried with unequal counts on the ranks too: what is right for equal shards
alone is said to be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from shardproof import Input, Mesh, Replicate, Shard, Spec
from shardproof.errors import InputError
from shardproof.report.json import from_json, to_json
from shardproof.report.text import plain

pytestmark = pytest.mark.filterwarnings("ignore")


class Classifier(nn.Module):
    """Cross entropy, by the mean over a rank's labels or by the labels of all ranks."""

    def __init__(self, way: str = "") -> None:
        super().__init__()
        self.way = way
        self.head = nn.Linear(8, 16)

    def forward(self, x: Any, y: Any) -> Any:
        z = self.head(x)
        if self.way != "sum over all":
            return F.cross_entropy(z, y)
        used = (y != -100).sum().to(z.dtype)
        dist.all_reduce(used)
        return F.cross_entropy(z, y, reduction="sum") / used


class Regression(nn.Module):
    """A squared error, by the mean over a rank's rows or weighted by them."""

    def __init__(self, way: str = "") -> None:
        super().__init__()
        self.way = way
        self.head = nn.Linear(8, 16)

    def forward(self, x: Any, y: Any) -> Any:
        loss = F.mse_loss(self.head(x), y)
        if self.way != "sum over all":
            return loss
        rows = torch.full((), x.shape[0], dtype=x.dtype)
        total = rows.clone()
        dist.all_reduce(total)
        return loss * rows / total


def step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
    loss = model(x, y)
    loss.backward()
    if model.way:
        op = dist.ReduceOp.SUM if model.way == "sum over all" else dist.ReduceOp.AVG
        for p in model.parameters():
            dist.all_reduce(p.grad, op)
        loss = loss.detach().clone()
        dist.all_reduce(loss, op)
    optimizer.step()
    return loss


def sgd(params: Any) -> Any:
    return torch.optim.SGD(params, lr=0.1)


def spec(model: type[nn.Module], way: str, rows: int = 8, **more: Any) -> Spec:
    labels = Input((rows,), "i64", {"dp": Shard(0)})
    values = Input((rows, 16), "f32", {"dp": Shard(0)})
    return Spec(
        name=f"{model.__name__}, {way}",
        sequential=model,
        distributed=lambda mesh, rank: model(way),
        mesh=Mesh(dp=2),
        inputs={
            "x": Input((rows, 8), "f32", {"dp": Shard(0)}),
            "y": labels if model is Classifier else values,
        },
        step=step,
        optimizer=sgd,
        **more,
    )


@pytest.mark.parametrize("model", [Classifier, Regression])
def test_the_right_normalisation_holds_for_unequal_counts(model: type[nn.Module]) -> None:
    verdict = spec(model, "sum over all").check()
    assert (verdict.status, verdict.exit_code) == ("refines", 0)
    assert verdict.uneven is not None
    assert (verdict.uneven.status, verdict.uneven.counts) == (
        "refines",
        "x: 5 + 3, y: 5 + 3 over dp",
    )
    assert "also with unequal counts (x: 5 + 3, y: 5 + 3 over dp): refines" in plain(
        verdict, width=100
    )


def test_a_mean_of_means_is_noted() -> None:
    """It refines for the sizes that it was given with, and the verdict says that it does not for
    others."""
    verdict = spec(Regression, "mean of means").check()
    assert (verdict.status, verdict.exit_code) == ("refines", 0)
    assert verdict.uneven is not None
    assert verdict.uneven.status == "refuted"
    assert "SP123" in verdict.uneven.message
    assert "but not with unequal counts" in plain(verdict)
    assert from_json(to_json(verdict)) == verdict


def test_a_mean_of_means_is_refuted_where_unequal_counts_are_asked_for() -> None:
    verdict = spec(Regression, "mean of means", uneven=True).check()
    assert (verdict.status, verdict.exit_code) == ("refuted", 1)
    assert verdict.findings
    assert any("unequal counts" in n for f in verdict.findings for n in f.notes)


def test_the_right_normalisation_where_unequal_counts_are_asked_for() -> None:
    verdict = spec(Regression, "sum over all", uneven=True).check()
    assert verdict.status == "refines"


@pytest.mark.parametrize("more", [{}, {"uneven": False}], ids=["default", "off"])
def test_ignored_labels_are_unequal_by_themselves(more: dict[str, Any]) -> None:
    """As many labels a rank, of which some are ignored."""
    assert spec(Classifier, "mean of means", **more).check().status == "refuted"


def test_it_can_be_switched_off() -> None:
    verdict = spec(Regression, "mean of means", uneven=False).check()
    assert (verdict.status, verdict.uneven) == ("refines", None)


def test_one_row_a_rank_is_not_tried() -> None:
    assert spec(Regression, "mean of means", rows=2).check().uneven is None
    with pytest.raises(InputError, match="two rows a rank"):
        spec(Regression, "mean of means", rows=2, uneven=True).check()


def test_a_large_program_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardproof.spec.uneven.CHEAP", 10)
    assert spec(Regression, "mean of means").check().uneven is None
    assert spec(Regression, "mean of means", uneven=True).check().status == "refuted"


class Rows(nn.Module):
    """Logits of the rows of a rank, or of all rows."""

    def __init__(self, gather: bool = False) -> None:
        super().__init__()
        self.gather = gather
        self.head = nn.Linear(8, 16)

    def forward(self, x: Any) -> Any:
        z = self.head(x)
        if not self.gather:
            return z
        out = z.new_empty(2 * z.shape[0], 16)
        dist.all_gather_into_tensor(out, z)
        return out


@pytest.mark.parametrize("outputs", [None, {"*": {"dp": Shard(0)}}, {"*": Shard(-2)}])
def test_outputs_made_of_the_rows(outputs: Any) -> None:
    verdict = Spec(
        sequential=Rows,
        distributed=lambda mesh, rank: Rows(),
        mesh=Mesh(dp=4),
        inputs={"x": Input((8, 8), "f32", {"dp": Shard(0)})},
        outputs=outputs,
    ).check()
    assert verdict.status == "refines"
    assert verdict.uneven is not None
    assert (verdict.uneven.status, verdict.uneven.counts) == ("refines", "x: 3 + 2 + 2 + 1 over dp")


def test_a_program_that_needs_equal_shards() -> None:
    verdict = Spec(
        sequential=Rows,
        distributed=lambda mesh, rank: Rows(gather=True),
        mesh=Mesh(dp=2),
        inputs={"x": Input((8, 8), "f32", {"dp": Shard(0)})},
        outputs={"*": Replicate()},
    ).check()
    assert verdict.status == "refines"
    assert verdict.uneven is not None
    assert verdict.uneven.status in ("refuted", "not tried")
