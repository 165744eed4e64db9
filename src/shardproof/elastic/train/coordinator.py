"""Membership, tickets and barriers of a run: the server's state machine, without any tensor.

Every public method may block and is called by the thread that serves one worker; one lock guards
everything. Two-phase barrier of the local-update mode: when all live members have arrived, an
*attempt* fixes who takes part; all take the collectives and vote; if all say yes the superstep is
committed (ledger first, then the answers), otherwise the attempt is void, nobody has changed
anything, and those who are left arrive again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from shardproof.elastic.errors import Evicted, RunOver, TooFewWorkers
from shardproof.elastic.policies import Action, Policy

from .config import TrainConfig
from .ledger import Ledger, effective, last_checkpoint, read_ledger, tickets_in
from .tickets import Tickets
from .weights import weights_of

_POLL = 0.1
_RESUME_GRACE = 3.0
"""Seconds a restarted server waits for workers to reconnect before it goes on without them."""


@dataclass
class Member:
    """A connected worker. ``tickets`` are out: running, or done but not committed."""

    worker: int
    gone: Callable[[], bool]
    close: Callable[[], None]
    current: bool = False
    tickets: list[int] = field(default_factory=list)
    arrived: bool = False
    pulled: int = 0
    busy_since: float | None = None


@dataclass
class Attempt:
    """One try to close a barrier.

    group: names the process group. It is that of the previous attempt, whose connections then still
    stand, if that one was committed with the same workers; otherwise a new one.
    """

    number: int
    ranks: dict[int, int]
    source: int | None
    parts: list[dict[str, Any]]
    deadline: float
    group: int = 0
    joiners: int = 0
    votes: set[int] = field(default_factory=set)
    outcome: str | None = None


class Coordinator:
    """State of a run. ``version``: supersteps committed (immediate mode: pushes applied)."""

    def __init__(self, config: TrainConfig, policy: Policy, ledger: Ledger) -> None:
        self.config, self.policy, self.ledger = config, policy, ledger
        self.tickets = Tickets()
        self.version = self.superstep = self.restore = 0
        self.restore_name = ""
        self.members: dict[int, Member] = {}
        self.changed = threading.Condition()
        self.attempt: Attempt | None = None
        self.attempts = 0
        self.started = False
        self.failure: str | None = None
        self._next_worker = 0
        self._short_since: float | None = None
        self._barrier_at = 0.0
        self._opened = time.time()
        if read_ledger(ledger.path):
            self.roll_back("the server was started again")

    # -- membership ----------------------------------------------------------------------------

    def join(self, gone: Callable[[], bool], close: Callable[[], None]) -> Member:
        """Register a worker; it becomes a member of the superstep at the next barrier."""
        with self.changed:
            member = Member(self._next_worker, gone, close, busy_since=time.time())
            self._next_worker += 1
            self.members[member.worker] = member
            self.ledger.write("join", worker=member.worker, time=time.time())
            self.changed.notify_all()
            return member

    def leave(self, member: Member, cause: str) -> None:
        """Forget a worker: its tickets go back, an open attempt it takes part in is void."""
        with self.changed:
            if self.members.pop(member.worker, None) is None:
                return
            self.tickets.give_back(member.tickets)
            self.ledger.write("leave", worker=member.worker, cause=cause, time=time.time())
            attempt = self.attempt
            if attempt and attempt.outcome is None and member.worker in attempt.ranks:
                self._void(attempt)
            if member.worker in self.policy.workers:
                self.policy.leave(member.worker, time.time())
            self._check_enough()
            self.changed.notify_all()
        member.close()

    def supervise(self) -> None:
        """Remove hung workers and overdue attempts; called periodically."""
        now = time.time()
        with self.changed:
            overdue = [m for m in self.members.values() if self._hung(m, now)]
            attempt = self.attempt
            if attempt and attempt.outcome is None and now > attempt.deadline:
                silent = [w for w in attempt.ranks if w not in attempt.votes]
                overdue += [self.members[w] for w in silent if w in self.members]
                self._void(attempt)
            self._check_enough()
        for member in overdue:
            self.leave(member, "hung")

    def _hung(self, member: Member, now: float) -> bool:
        if member.busy_since is None:
            return False
        known = self.policy.estimate(member.worker)
        patience = self.config.faults.hang
        if known is not None:
            patience = max(patience, 10 * known.mean)
        return now - member.busy_since > patience

    def _check_enough(self) -> None:
        short = self.started and len(self.members) < self.config.faults.min_workers
        if not short or self.finished:
            self._short_since = None
            return
        now = time.time()
        self._short_since = self._short_since or now
        if now - self._short_since >= self.config.faults.wait_for_workers:
            self.failure = (
                f"{len(self.members)} live worker(s) left, the run needs at least "
                f"{self.config.faults.min_workers}; last committed version: {self.version}"
            )
            self.changed.notify_all()

    @property
    def finished(self) -> bool:
        """Whether the run has committed all iterations asked for."""
        return len(self.tickets.committed) >= self.config.iterations

    # -- iterations ----------------------------------------------------------------------------

    def report(self, member: Member, seconds: float) -> Action:
        """Local mode: an iteration has ended; say what the worker does next."""
        with self.changed:
            self._alive(member)
            now = time.time()
            action = self.policy.finished(member.worker, now, max(seconds, 1e-9))
            member.busy_since = now
            return action

    def issue(self, member: Member) -> int:
        """Hand out a ticket."""
        with self.changed:
            self._alive(member)
            ticket = self.tickets.issue()
            member.tickets.append(ticket)
            member.busy_since = time.time()
            return ticket

    # -- barrier, local-update mode ------------------------------------------------------------

    def arrive(self, member: Member) -> Attempt:
        """Wait until a barrier attempt with this worker starts."""
        with self.changed:
            self._alive(member)
            seen = self.attempts
            member.arrived, member.busy_since = True, None
            self._open_attempt()
            self.changed.notify_all()
            self._wait(member, lambda: self._my_attempt(member, seen))
            assert self.attempt is not None
            return self.attempt

    def _my_attempt(self, member: Member, seen: int) -> bool:
        if self.finished and not any(m.current for m in self.members.values()):
            # Without this a late comer would find nobody with weights, and start the end again
            # from the last checkpoint.
            raise RunOver(f"the run ended before worker {member.worker} joined")
        self._open_attempt()
        attempt = self.attempt
        return attempt is not None and attempt.number >= seen and member.worker in attempt.ranks

    def _open_attempt(self) -> None:
        """Start an attempt if every live member of the superstep has arrived."""
        if self.finished:
            return
        if self.attempt is not None and self.attempt.outcome is None:
            return
        current = [m for m in self.members.values() if m.current]
        ready = [m for m in self.members.values() if m.arrived]
        if any(not m.arrived for m in current) or not ready:
            return
        if not self._complete(len(ready)):
            return
        if not current and self.version > self.restore:
            self.roll_back("all workers with the current weights are gone")
        workers = sorted(m.worker for m in ready)
        steps = [len(self.members[w].tickets) for w in workers]
        shares = weights_of(steps, self.config.weighting)
        ranks = {w: r for r, w in enumerate(workers)}
        last = self.attempt
        again = last is not None and last.outcome == "commit" and last.ranks == ranks
        self.attempt = Attempt(
            number=self.attempts,
            ranks=ranks,
            group=last.group if again and last is not None else self.attempts,
            source=min((m.worker for m in current), default=None),
            parts=[
                {"worker": w, "tickets": list(self.members[w].tickets), "weight": share}
                for w, share in zip(workers, shares, strict=True)
            ],
            deadline=time.time() + self.config.faults.round,
            joiners=len(ready) - len(current),
        )
        self.attempts += 1
        self._barrier_at = time.time()
        self.changed.notify_all()

    def _complete(self, ready: int) -> bool:
        """Whether enough workers are here; the first barrier waits for all, but not for ever."""
        if ready < self.config.faults.min_workers:
            return False
        patience = _RESUME_GRACE if self.restore else self.config.faults.reconnect
        return self.started or ready >= self.config.workers or time.time() > self._opened + patience

    def roll_back(self, cause: str) -> None:
        """Go back to the last checkpoint; the ledger states what that loses."""
        records = read_ledger(self.ledger.path)
        version, self.restore_name = last_checkpoint(records)
        done = effective(records)
        kept = [r for r in done if r["version"] <= version]
        lost = len(list(tickets_in(done))) - len(list(tickets_in(kept)))
        self.ledger.write("resume", version=version, lost=lost, cause=cause, time=time.time())
        self.version = self.restore = version
        self.tickets = Tickets(tickets_in(kept))

    def _void(self, attempt: Attempt) -> None:
        attempt.outcome = "abort"
        for worker in attempt.ranks:
            if worker in self.members:
                self.members[worker].arrived = False
                # It may still be in a collective, which ends with the timeout at the latest.
                self.members[worker].busy_since = time.time() + self.config.faults.collective
        self.changed.notify_all()

    def vote(self, member: Member, number: int, *, yes: bool) -> str:
        """Vote on an attempt and wait for its outcome: ``commit`` or ``abort``."""
        with self.changed:
            self._alive(member)
            attempt = self.attempt
            if attempt is None or attempt.number != number:
                return "abort"
            if attempt.outcome is None and not yes:
                self._void(attempt)
            elif attempt.outcome is None:
                attempt.votes.add(member.worker)
                if attempt.votes == set(attempt.ranks):
                    self._commit(attempt)
            self._wait(member, lambda: attempt.outcome is not None)
            return str(attempt.outcome)

    def _commit(self, attempt: Attempt) -> None:
        parts = [part for part in attempt.parts if part["tickets"]]
        if parts:
            self.tickets.commit(t for part in parts for t in part["tickets"])
            self.version += 1
            self.ledger.write("commit", version=self.version, parts=parts, time=time.time())
        attempt.outcome = "commit"
        for worker in attempt.ranks:
            member = self.members[worker]
            member.tickets, member.arrived, member.current = [], False, True
        self.begin_superstep()

    def begin_superstep(self) -> None:
        """All current members start a new superstep."""
        now = time.time()
        if self.started:
            self.superstep += 1
            self.policy.barrier_took(max(now - self._barrier_at, 1e-9))
        self.started = True
        members = [m for m in self.members.values() if m.current]
        self.policy.begin([m.worker for m in members], now)
        for member in members:
            member.busy_since = now
        self.changed.notify_all()

    def checkpointed(self, member: Member | None, version: int, name: str) -> None:
        """A complete checkpoint of this version exists; refused from a worker removed meanwhile."""
        with self.changed:
            if member is not None:
                self._alive(member)
            self.ledger.write("checkpoint", version=version, name=name)

    # -- waiting -------------------------------------------------------------------------------

    def _alive(self, member: Member) -> None:
        if self.failure is not None:
            raise TooFewWorkers(self.failure)
        if member.worker not in self.members:
            raise Evicted(f"worker {member.worker} was removed from the run; join again")

    def _wait(self, member: Member, done: Callable[[], bool]) -> None:
        """Block until ``done``; notices the worker's death meanwhile. Caller holds the lock."""
        while True:
            self._alive(member)
            if done():
                return
            self.changed.wait(_POLL)
            if member.gone():
                raise Evicted(f"worker {member.worker} disconnected at the barrier")
