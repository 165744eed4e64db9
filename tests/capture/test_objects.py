"""Python objects that ranks pass each other are those that the others do pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch.distributed as dist
from tests.capture import sums
from tests.capture.sums import gathered

from shardproof.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore")


def from_rank(root: int, mine: Any) -> Any:
    out = [mine]
    dist.broadcast_object_list(out, src=root)
    return out[0]


RIGHT: list[Callable[[int], Any]] = [
    lambda rank: sum(gathered(rank + 1)) / 6,
    lambda rank: gathered({"rank": rank})[2]["rank"] / 2,
    lambda rank: from_rank(0, None if rank else 1.0),
    lambda rank: from_rank(2, rank) / 2,
    lambda rank: gathered(gathered(rank)[2] + rank)[0] / 2,
]
WRONG: list[Callable[[int], Any]] = [
    lambda rank: sum(gathered(rank + 1)) / (3 * (rank + 1)),
    lambda rank: gathered(rank)[2] / 1,
    lambda rank: from_rank(2, rank + 1) / (rank + 1),
]


def check(weight: Callable[[int], Any]) -> Any:
    """The sums, each rank's weighted by numbers that ``weight`` makes of objects."""
    return sums.check(lambda y, rank: sums.reduced(y * weight(rank)), ranks=3)


@pytest.mark.parametrize("weight", RIGHT)
def test_every_rank_has_what_the_others_pass(weight: Callable[[int], Any]) -> None:
    assert check(weight).status == "refines"


@pytest.mark.parametrize("weight", WRONG)
def test_ranks_do_not_pass_their_own_object_for_all(weight: Callable[[int], Any]) -> None:
    assert check(weight).status == "refuted"


def test_calls_that_some_ranks_do_not_make() -> None:
    with pytest.raises(InputError, match="different calls that pass Python objects"):
        check(lambda rank: 1.0 if rank == 1 else sum(gathered(1)) / 3)


def test_objects_that_change_with_every_capture() -> None:
    state = iter(range(100))
    with pytest.raises(InputError, match="each time they are captured"):
        check(lambda rank: gathered(next(state))[0])
