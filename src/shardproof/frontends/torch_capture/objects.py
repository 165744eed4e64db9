"""Python objects that ranks pass each other (``all_gather_object``, ``broadcast_object_list``).

Ranks are captured one after another, so a rank is given what the others passed when they were
captured last, or what it passes itself where that is not known yet. Once a pass over all ranks gave
every rank what the others do pass in it, the capture is that of a real run.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_leaves

from shardproof.errors import InputError

PASSES = 4


@dataclass(frozen=True, slots=True)
class Passed:
    """What a rank passed in one call on a group; ``root`` is the source of a broadcast."""

    root: int | None
    value: bytes


@dataclass(frozen=True, slots=True)
class Given:
    """What a rank was given as the value that ``member`` passed in its ``number``-th call."""

    group: str
    number: int
    member: int
    value: bytes


class Objects:
    """The objects of all ranks of one program. ``called`` is told of every call, with its group: it
    blocks until all members have come."""

    def __init__(self) -> None:
        self.called: Callable[[Any, str], None] = lambda group, how: None
        self._passed: dict[int, dict[str, list[Passed]]] = {}
        self._given: dict[int, list[Given]] = {}
        self._members: dict[str, tuple[int, ...]] = {}
        self._mine: dict[str, list[Passed]] = {}
        self._rank = 0

    def start(self, rank: int) -> None:
        """The rank is captured, possibly again."""
        self._rank, self._mine, self._given[rank] = rank, {}, []

    def finish(self) -> None:
        """The rank was captured."""
        self._passed[self._rank] = self._mine

    def gather(self, object_list: list[Any], obj: Any, group: Any = None) -> None:
        """In place of ``torch.distributed.all_gather_object``."""
        name, ranks = self._call(group, Passed(None, _sent(obj)), "all_gather_object")
        object_list[:] = [self._from(r, name) for r in ranks]

    def broadcast(
        self, object_list: list[Any], src: int | None = None, group: Any = None,
        device: Any = None, group_src: int | None = None,
    ) -> None:  # fmt: skip
        """In place of ``torch.distributed.broadcast_object_list``."""
        ranks = dist.get_process_group_ranks(group)
        root = ranks[group_src] if group_src is not None else src or 0
        how = f"broadcast_object_list from member {ranks.index(root)}"
        name, _ = self._call(group, Passed(root, _sent(list(object_list))), how)
        object_list[:] = self._from(root, name)

    def _call(self, group: Any, passed: Passed, how: str) -> tuple[str, tuple[int, ...]]:
        named: Any = group or dist.group.WORLD
        name = str(named.group_name)
        self._members[name] = tuple(dist.get_process_group_ranks(group))
        self._mine.setdefault(name, []).append(passed)
        self.called(named, how)
        return name, self._members[name]

    def _from(self, member: int, group: str) -> Any:
        number = len(self._mine[group]) - 1
        value = self._mine[group][number].value
        known = self._passed.get(member, {}).get(group, [])
        if member != self._rank and number < len(known):
            value = known[number].value
        self._given[self._rank].append(Given(group, number, member, value))
        return pickle.loads(value)

    def settled(self) -> bool:
        """Whether every rank was given what the others passed in this pass.

        Raises:
            InputError: the ranks do not make the same calls.
        """
        for group, members in self._members.items():
            calls = {r: [p.root for p in self._passed[r].get(group, [])] for r in members}
            odd = next((r for r in members if calls[r] != calls[members[0]]), None)
            if odd is not None:
                raise _unlike(members[0], odd)
        return all(
            _same(g.value, self._passed[g.member][g.group][g.number].value)
            for given in self._given.values()
            for g in given
        )


def _sent(value: Any) -> bytes:
    """What goes over the wire; it comes from the captured program and stays in this process.

    Raises:
        InputError: tensors, of which there are no contents here; or no form to send.
    """
    if any(isinstance(x, torch.Tensor) for x in tree_leaves(value)):
        raise _not_sent("tensors are passed as Python objects", "numbers, texts and the like")
    try:
        return pickle.dumps(value)
    except Exception as e:
        raise _not_sent(f"{type(value).__name__} cannot be pickled: {e}", "what can be") from e


def _not_sent(what: str, expected: str) -> InputError:
    return InputError(
        what,
        where="all_gather_object, broadcast_object_list",
        expected=expected,
        next_step="pass tensors by all_gather or broadcast",
    )


def _same(a: bytes, b: bytes) -> bool:
    return a == b or bool(pickle.loads(a) == pickle.loads(b))


def _unlike(first: int, other: int) -> InputError:
    return InputError(
        f"ranks {first} and {other} make different calls that pass Python objects",
        where="all_gather_object, broadcast_object_list",
        expected="the same calls, from the same source, on every rank of a group",
        next_step="call them on every rank of the group",
    )


def unsettled() -> InputError:
    """The error for objects that change each time the ranks are captured."""
    return InputError(
        "the objects that the ranks pass each other are other ones each time they are captured",
        where="all_gather_object, broadcast_object_list",
        expected=f"objects that are the same after {PASSES} captures of all ranks",
        next_step="pass objects that depend on the rank and the configuration only",
    )
