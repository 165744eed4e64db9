"""Indices that a program writes out: ``x[:, [-1]]`` takes the last position of each sequence."""

from __future__ import annotations

from typing import Any

import pytest

from shardproof import Input, Mesh, Spec

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")


class Last(torch.nn.Module):
    """A head that is read at some positions only."""

    def __init__(self, ranks: int, at: list[int]) -> None:
        super().__init__()
        self.head, self.at = torch.nn.Linear(8, 12 // ranks, bias=False), at

    def forward(self, x: Any) -> Any:
        return self.head(x)[:, self.at, :]


class LastOfColumns(Last):
    def __init__(self, group: Any, at: list[int]) -> None:
        super().__init__(dist.get_world_size(group), at)
        self.group = group

    def forward(self, x: Any) -> Any:
        y = super().forward(x).contiguous()
        parts = [torch.empty_like(y) for _ in range(dist.get_world_size(self.group))]
        dist.all_gather(parts, y, group=self.group)
        return torch.cat(parts, -1)


def spec(at: list[int], theirs: list[int]) -> Spec:
    return Spec(
        sequential=lambda: Last(1, at),
        distributed=lambda mesh, rank: LastOfColumns(mesh.get_group("tp"), theirs),
        mesh=Mesh(tp=2),
        inputs={"x": Input((2, 5, 8), "f32")},
        step="forward",
    )


@pytest.mark.parametrize("at", [[-1], [0, -1], [3, 3]], ids=str)
def test_the_same_positions(at: list[int]) -> None:
    verdict = spec(at, at).check()
    assert verdict.status == "refines"
    assert verdict.certificate == "certificate checked"


@pytest.mark.parametrize("theirs", [[1, -1], [0, 3], [-1, 0]], ids=str)
def test_other_positions(theirs: list[int]) -> None:
    assert spec([0, -1], theirs).check(fixes=False).status == "refuted"


def test_counted_from_the_end_or_the_start() -> None:
    assert spec([-1], [4]).check().status == "refines"
