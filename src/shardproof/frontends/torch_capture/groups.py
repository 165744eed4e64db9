"""Process groups are created by all ranks of the world together, in one order.

A rank that does not call ``new_group``, or calls it for other ranks, leaves the others waiting.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist

from shardproof.errors import InputError


class Groups:
    """The groups that every rank of one program creates."""

    def __init__(self) -> None:
        self._created: dict[int, list[tuple[int, ...]]] = {}
        self._rank = 0

    def start(self, rank: int) -> None:
        """The rank is captured, possibly again."""
        self._rank, self._created[rank] = rank, []

    def created(self, ranks: Sequence[int] | None, by_members: bool) -> None:
        """A group is created, by its members alone or by all ranks."""
        if not by_members:
            everyone = range(dist.get_world_size())
            self._created[self._rank].append(tuple(sorted(everyone if ranks is None else ranks)))

    def compare(self) -> None:
        """Whether all ranks create the same ones.

        Raises:
            InputError: they do not.
        """
        first = self._created[0]
        for rank, mine in self._created.items():
            if mine != first:
                k = next((i for i, (a, b) in enumerate(zip(first, mine, strict=False)) if a != b),
                         min(len(first), len(mine)))  # fmt: skip
                told = [f"rank {r} " + (f"that of ranks {list(g[k])}" if k < len(g) else "none")
                        for r, g in ((0, first), (rank, mine))]  # fmt: skip
                raise InputError(
                    "the ranks do not create the same process groups: as group "
                    f"{k + 1}, {told[0]} and {told[1]}",
                    where="torch.distributed.new_group",
                    expected="the same calls of new_group, in the same order, on every rank, "
                    "whether it is a member or not",
                    next_step="create the groups of all ranks on every rank, or pass "
                    "use_local_synchronization=True",
                )
