"""The server's state machine without processes: order of events that real runs rarely produce."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from shardproof.elastic.errors import Evicted, InvalidInput, RunOver
from shardproof.elastic.policies import make_policy
from shardproof.elastic.train.config import Faults, TrainConfig
from shardproof.elastic.train.coordinator import Coordinator, Member
from shardproof.elastic.train.ledger import (
    Ledger,
    effective,
    last_checkpoint,
    read_ledger,
)

Make = Callable[..., Coordinator]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    ledgers: list[Ledger] = []

    def coordinator(**values: Any) -> Coordinator:
        config = TrainConfig(str(tmp_path), policy="bsp", **{"iterations": 4, **values})
        ledgers.append(Ledger(tmp_path / "ledger.jsonl"))
        return Coordinator(config, make_policy("bsp"), ledgers[-1])

    yield coordinator
    for ledger in ledgers:
        ledger.close()


def join(core: Coordinator) -> Member:
    return core.join(lambda: False, lambda: None)


def superstep(core: Coordinator, member: Member) -> None:
    """One member alone: a ticket, its iteration, and the barrier."""
    core.issue(member)
    core.report(member, 0.1)
    attempt = core.arrive(member)
    assert core.vote(member, attempt.number, yes=True) == "commit"


def first_barrier(core: Coordinator, member: Member) -> None:
    attempt = core.arrive(member)
    assert attempt.source is None
    assert core.vote(member, attempt.number, yes=True) == "commit"
    assert core.version == 0


def test_late_comer_does_not_start_a_finished_run_again(tmp_path: Path, make: Make) -> None:
    core = make(iterations=2)
    member = join(core)
    first_barrier(core, member)
    superstep(core, member)
    superstep(core, member)
    assert core.finished
    core.leave(member, "finished")
    with pytest.raises(RunOver, match="ended before worker 1"):
        core.arrive(join(core))
    assert not any(r["kind"] == "resume" for r in read_ledger(tmp_path / "ledger.jsonl"))


def test_losing_everybody_goes_back_to_the_checkpoint(tmp_path: Path, make: Make) -> None:
    core = make(iterations=9)
    member = join(core)
    first_barrier(core, member)
    for _ in range(3):
        superstep(core, member)
        if core.version == 2:
            core.checkpointed(member, 2, "two")
    core.leave(member, "killed")
    heir = join(core)
    attempt = core.arrive(heir)
    assert (attempt.source, core.restore_name, core.version) == (None, "two", 2)
    records = read_ledger(tmp_path / "ledger.jsonl")
    assert records[-1]["kind"] == "resume"
    assert records[-1]["lost"] == 1
    assert core.vote(heir, attempt.number, yes=True) == "commit"
    assert core.issue(heir) == 2  # the ticket of the lost superstep goes out again
    assert [r["version"] for r in effective(read_ledger(tmp_path / "ledger.jsonl"))] == [1, 2]


def test_a_no_vote_voids_the_attempt_and_changes_nothing(tmp_path: Path, make: Make) -> None:
    core = make()
    member = join(core)
    first_barrier(core, member)
    core.issue(member)
    core.report(member, 0.1)
    first = core.arrive(member)
    assert core.vote(member, first.number, yes=False) == "abort"
    assert (core.version, member.tickets) == (0, [0])
    second = core.arrive(member)
    assert second.number == first.number + 1
    assert second.group != first.group, "connections of a failed attempt must not be used again"
    assert core.vote(member, first.number, yes=True) == "abort", "vote on an old attempt"
    assert core.vote(member, second.number, yes=True) == "commit"
    third = _attempt_after_one_more(core, member)
    assert third.group == second.group, "same members after a commit keep their connections"


def _attempt_after_one_more(core: Coordinator, member: Member) -> Any:
    core.issue(member)
    core.report(member, 0.1)
    return core.arrive(member)


def test_leaving_voids_the_open_attempt_of_the_others(tmp_path: Path, make: Make) -> None:
    core = make(workers=2)
    members = [join(core), join(core)]
    outcome: list[str] = []

    def first() -> None:
        attempt = core.arrive(members[0])
        outcome.append(core.vote(members[0], attempt.number, yes=True))

    thread = threading.Thread(target=first)
    thread.start()
    core.arrive(members[1])
    core.leave(members[1], "killed")
    thread.join(5)
    assert outcome == ["abort"]


def test_removed_worker_is_refused(tmp_path: Path, make: Make) -> None:
    core = make()
    member = join(core)
    first_barrier(core, member)
    ticket = core.issue(member)
    core.leave(member, "hung")
    for call in (
        lambda: core.issue(member),
        lambda: core.report(member, 1.0),
        lambda: core.checkpointed(member, 1, "late"),
    ):
        with pytest.raises(Evicted, match="was removed"):
            call()
    assert ticket not in core.tickets.issued
    assert last_checkpoint(read_ledger(tmp_path / "ledger.jsonl")) == (0, "")


def test_ledger_survives_a_cut_line(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    ledger.write("push", version=1, ticket=0)
    ledger.close()
    with path.open("a") as file:
        file.write('{"kind": "push", "ver')
    with pytest.raises(InvalidInput, match=r"ledger\.jsonl:2"):
        read_ledger(path)
    again = Ledger(path)
    again.write("push", version=2, ticket=1)
    again.close()
    assert [r["version"] for r in read_ledger(path)] == [1, 2]


def test_timeouts_must_be_ordered(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="collective < round"):
        TrainConfig(str(tmp_path), faults=Faults(collective=5.0, round=2.0))
