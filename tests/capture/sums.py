"""A program whose ranks add up what each makes of its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch import nn

from shardproof import Input, Mesh, Shard, Spec

Program = Callable[[Any, int], Any]


class Sums(nn.Module):
    """The sums of the columns, over all ranks; ``program`` is given those of a rank's rows."""

    def __init__(self, program: Program | None = None, rank: int = 0) -> None:
        super().__init__()
        self.program, self.rank = program, rank

    def forward(self, x: Any) -> Any:
        y = x.sum(0)
        return y if self.program is None else self.program(y, self.rank)


def check(program: Program, ranks: int = 2) -> Any:
    return Spec(
        sequential=Sums,
        distributed=lambda mesh, rank: Sums(program, rank),
        mesh=Mesh(dp=ranks),
        inputs={"x": Input((4 * ranks, 3), "f32", {"dp": Shard(0)})},
    ).check(fixes=False)


def reduced(y: Any) -> Any:
    dist.all_reduce(y)
    return y


def gathered(mine: Any) -> list[Any]:
    """The objects that the ranks pass."""
    out: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(out, mine)
    return out
