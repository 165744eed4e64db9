"""Event-driven simulation of a policy on a source of iteration times.

One heap of future events; the policy object is the one the trainer uses. Communication inside an
iteration is part of its duration; a barrier costs a constant.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from shardproof.elastic.errors import InvalidInput, TooFewWorkers
from shardproof.elastic.events import Event, Kind
from shardproof.elastic.policies import Action, Policy

from .result import Result, Superstep
from .stragglers import Draw, IterationTimes


@dataclass(frozen=True)
class Fault:
    """A worker leaves (or joins, if ``joins``) at ``time`` seconds."""

    time: float
    worker: int
    joins: bool = False


class _Event(Enum):
    END = 0
    FAULT = 1
    BEGIN = 2


class _State(Enum):
    RUNNING = 0
    ARRIVED = 1
    HELD = 2


_NOTHING = Draw(0.0)


@dataclass
class _Worker:
    state: _State
    since: float
    draw: Draw = _NOTHING
    life: int = 0
    pulled: int = 0
    steps: int = 0
    stall: float = 0.0


def simulate(
    policy: Policy,
    times: IterationTimes,
    *,
    seconds: float,
    barrier_cost: float = 0.0,
    faults: Iterable[Fault] = (),
    record: bool = False,
) -> Result:
    """Run ``policy`` for ``seconds`` of simulated time and return the totals.

    barrier_cost: seconds between the last arrival and the start of the next superstep. record: keep
    the events for the timeline. Raises InvalidInput for bad arguments and TooFewWorkers if all
    workers have left and none will join.
    """
    if not seconds > 0 or not barrier_cost >= 0:
        raise InvalidInput("seconds must be > 0 and barrier_cost >= 0")
    return _Simulation(policy, times, seconds, barrier_cost, record).run(list(faults))


class _Simulation:
    def __init__(
        self, policy: Policy, times: IterationTimes, seconds: float, cost: float, record: bool
    ) -> None:
        self.policy, self.times, self.seconds, self.cost = policy, times, seconds, cost
        self.record = record
        self.heap: list[tuple[float, int, _Event, int, int]] = []
        self.order = itertools.count()
        self.lives = itertools.count(1)
        self.members: dict[int, _Worker] = {}
        self.joining: list[int] = []
        self.applied = 0
        self.start = 0.0
        self.between = False
        self.result = Result(policy.name, seconds, times.workers)

    def run(self, faults: list[Fault]) -> Result:
        known: dict[int, Fault] = {}
        late = {f.worker for f in faults if f.joins} - {f.worker for f in faults if not f.joins}
        for index, fault in enumerate(faults):
            if not 0 <= fault.worker < self.times.workers:
                raise InvalidInput(f"fault names worker {fault.worker}, which does not exist")
            known[index] = fault
            self._push(fault.time, _Event.FAULT, index, 0)
        self.joining = [w for w in range(self.times.workers) if w not in late]
        self._begin(0.0)
        while self.heap and self.heap[0][0] <= self.seconds:
            now, _, event, subject, life = heapq.heappop(self.heap)
            if event is _Event.END:
                self._ended(now, subject, life)
            elif event is _Event.FAULT:
                self._fault(now, known[subject])
            else:
                self._begin(now)
        self._cut_off()
        return self.result

    # -- events --------------------------------------------------------------------------------

    def _ended(self, now: float, worker: int, life: int) -> None:
        member = self.members.get(worker)
        if member is None or member.life != life:
            return  # the worker died after this event was scheduled
        self._add(self.result.compute, worker, now - member.since)
        self._log("iteration", worker, member.since, now)
        self.result.iterations[worker] = self.result.iterations.get(worker, 0) + 1
        member.steps += 1
        member.stall += member.draw.stall
        self._measure_staleness(member)
        action = self.policy.finished(worker, now, max(now - member.since, 1e-12))
        member.since = now
        if action is Action.RUN:
            self._start(worker, now)
        else:
            member.state = _State.ARRIVED if action is Action.ARRIVE else _State.HELD
        self._after(now)

    def _fault(self, now: float, fault: Fault) -> None:
        if fault.joins:
            self._join(fault.worker, now)
            return
        member = self.members.pop(fault.worker, None)
        if fault.worker in self.joining:
            self.joining.remove(fault.worker)
        if member is None:
            return
        spent = self.result.lost if member.state is _State.RUNNING else self.result.waiting
        if not self.between:
            self._add(spent, fault.worker, now - member.since)
            self.policy.leave(fault.worker, now)
        self._log("leave", fault.worker, now, now)
        if not self.members and not self.joining and not self._more_joins():
            raise TooFewWorkers(f"all workers have left at {now:.3f} s and none will join")
        self._after(now)

    def _join(self, worker: int, now: float) -> None:
        if worker in self.members or worker in self.joining:
            return
        self._log("join", worker, now, now)
        if self.policy.barriers or not self.members:
            self.joining.append(worker)
            if not self.members and not self.between:
                self._begin(now)
        else:
            self._admit(worker, now)
            self.policy.join(worker, now)
            self._start(worker, now)

    def _begin(self, now: float) -> None:
        self.between = False
        for worker in self.joining:
            self._admit(worker, now)
        self.joining = []
        if not self.members:
            return
        self.start = now
        self.policy.begin(list(self.members), now)
        for worker, member in self.members.items():
            member.steps, member.stall = 0, 0.0
            self._start(worker, now)

    # -- helpers -------------------------------------------------------------------------------

    def _admit(self, worker: int, now: float) -> None:
        self.members[worker] = _Worker(_State.RUNNING, now)

    def _start(self, worker: int, now: float) -> None:
        member = self.members[worker]
        member.state, member.since, member.life = _State.RUNNING, now, next(self.lives)
        member.draw = self.times.draw(worker, now)
        member.pulled = self.applied
        self._push(now + member.draw.seconds, _Event.END, worker, member.life)

    def _after(self, now: float) -> None:
        for worker in self.policy.released() if self.members else []:
            self._add(self.result.waiting, worker, now - self.members[worker].since)
            self._log("hold", worker, self.members[worker].since, now)
            self._start(worker, now)
        if self.between or not self.policy.barriers:
            return
        if self.members and all(m.state is _State.ARRIVED for m in self.members.values()):
            self._close(now)

    def _close(self, now: float) -> None:
        last = max(self.members, key=lambda w: self.members[w].since)
        waits = {w: now - m.since for w, m in self.members.items()}
        for worker, wait in waits.items():
            self._add(self.result.waiting, worker, wait)
            self._add(self.result.barrier, worker, min(self.cost, max(self.seconds - now, 0.0)))
            self._log("wait", worker, self.members[worker].since, now)
            self._log("barrier", worker, now, now + self.cost)
        steps = [m.steps for m in self.members.values()]
        stall = self.members[last].stall
        self.result.supersteps.append(
            Superstep(self.start, now, min(steps), max(steps), sum(waits.values()), last, stall)
        )
        self.result.difference_max = max(self.result.difference_max, max(steps) - min(steps))
        self.policy.barrier_took(self.cost)
        self.between = True
        self._push(now + self.cost, _Event.BEGIN, 0, 0)

    def _measure_staleness(self, member: _Worker) -> None:
        if self.policy.barriers:
            stale = float(member.steps - 1)
        else:
            stale = (self.applied - member.pulled) / max(len(self.members) - 1, 1)
            done = [p.done for p in self.policy.workers.values()]
            lead = max(done) - min(done)
            self.result.difference_max = max(self.result.difference_max, lead)
        self.applied += 1
        self.result.staleness_sum += stale
        self.result.staleness_max = max(self.result.staleness_max, stale)
        self.result.counted += 1

    def _cut_off(self) -> None:
        """Account for what was under way when the simulated time ran out."""
        if self.between:
            return
        for worker, member in self.members.items():
            busy = member.state is _State.RUNNING
            target = self.result.compute if busy else self.result.waiting
            self._add(target, worker, self.seconds - member.since)

    def _more_joins(self) -> bool:
        return any(event is _Event.FAULT for _, _, event, _, _ in self.heap)

    def _push(self, time: float, event: _Event, subject: int, life: int) -> None:
        heapq.heappush(self.heap, (time, next(self.order), event, subject, life))

    @staticmethod
    def _add(totals: dict[int, float], worker: int, seconds: float) -> None:
        totals[worker] = totals.get(worker, 0.0) + seconds

    def _log(self, kind: Kind, worker: int, start: float, end: float) -> None:
        if self.record:
            step = len(self.result.supersteps)
            self.result.events.append(Event(kind, worker, start, end, step))
