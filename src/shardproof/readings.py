"""Which reading of a problem's operators shows most.

Operators may be taken as they are, with products of sums multiplied out, or with fused operators
opened. Every reading proves only what holds, so the order is a question of time, and which of them
is kept where none proves everything a question of what it tells about the cause.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from shardproof.diagnose.findings import only_unreduced
from shardproof.infer.passes import on_both_sides, spelled_out
from shardproof.infer.run import Inference, infer
from shardproof.replay.compare import replay_problem
from shardproof.replay.errors import NotReplayable
from shardproof.replay.instantiate import is_concrete
from shardproof.replay.resize import resize
from shardproof.replay.search import differing_as_given, instantiate_small
from shardproof.spec.problem import Problem

TOLERANCE = 1e-9


@dataclass(slots=True)
class Readings:
    """The readings of one problem; each is inferred at most once, and the problem is run at most
    once at its own sizes.

    ``lap`` is told after every inference, for the time it took, and ``proved`` of every output that
    one of the readings proves, when it does.
    """

    problem: Problem
    fixed: dict[str, float] | None
    replay: bool
    say: Callable[[str], None]
    lap: Callable[[], None]
    proved: Callable[[str], object]
    _deep: Inference | None = None
    _wrong: set[str] | None = field(default=None)

    def best(self) -> Inference:
        """The reading that is kept. Where closed operators will hardly prove anything, opened
        ones come before them: those first that only one of the programs has. A cause is told
        from all of them opened, unless that proves less."""
        if not spelled_out(self.problem):
            return self._closed_first()
        some = self._some_opened()
        if some is not None and (some.holds or protocol_error(some)):
            return some
        deep = self._opened()
        best = some if some is not None and _proved(some) > _proved(deep) else deep
        if self._settled(best):
            return best
        inf = self._closed_first()
        return inf if _proved(inf) > _proved(best) else best

    def _some_opened(self) -> Inference | None:
        both = on_both_sides(self.problem)
        if not both:
            return None
        self.say("fused operators of one program by their definitions")
        return self._read(deep=True, closed=both)

    def _settled(self, inf: Inference) -> bool:
        """Whether other readings will hardly show more."""
        if inf.holds or protocol_error(inf):
            return True
        if not self.replay:
            return False
        wrong = self.wrong()
        return bool(wrong and not _promises(inf, wrong)) or self._open_ones_differ(inf)

    def wrong(self) -> set[str]:
        """Outputs that differ in a run at the problem's own sizes, see
        :func:`~shardproof.replay.search.differing_as_given`."""
        if self._wrong is None:
            self._wrong = differing_as_given(self.problem, self.fixed)
        return self._wrong

    def _closed_first(self) -> Inference:
        """Operators as they are and, where that does not prove everything, with products of sums
        multiplied out, and with fused operators opened, unless a run shows that there is nothing
        more to prove. What only lacks a reduction is told from the products."""
        inf = plain = self._read()
        if plain.holds or protocol_error(plain):
            return plain
        if _leaves_sums(plain):
            self.say("products of sums, multiplied out")
            other = self._read(multiplied=True)
            if other.holds:
                return other
            inf = other if _proved(other) > _proved(plain) and only_unreduced(other) else plain
        wrong = self.wrong() if self.replay else set()
        if wrong and not _promises(inf, wrong):
            return inf
        deep = self._opened()
        return deep if deep.holds or (wrong and _proved(deep) > _proved(inf)) else inf

    def _opened(self) -> Inference:
        if self._deep is None:
            self.say("fused operators by their definitions")
            self._deep = self._read(deep=True)
        return self._deep

    def _read(self, **reading: Any) -> Inference:
        problem, proved = self.problem, self.proved
        inf = infer(problem, fixed=self.fixed, progress=self.say, proved=proved, **reading)
        self.lap()
        return inf

    def _open_ones_differ(self, inf: Inference) -> bool:
        """Whether all outputs that are not shown differ in a run at small sizes: another reading
        of the operators will then hardly show them."""
        given = inf.problem
        try:
            small = resize(given if is_concrete(given) else instantiate_small(given, {}))
            result = replay_problem(small, 0, self.fixed)
        except NotReplayable:
            return False
        differ = {c.obligation.seq_output for c in result.comparisons if c.error > TOLERANCE}
        return result.fault is not None or inf.failed <= differ


def protocol_error(inf: Inference) -> bool:
    """Whether the calls of the ranks do not fit together, so that no value has a meaning."""
    return any(e.kind != "unsupported" for e in inf.schedule.errors)


def _promises(inf: Inference, wrong: set[str]) -> bool:
    """Whether a good part of the outputs that are not proved agree in a run all the same: these may
    be proved, and the cause of the others is then told more exactly."""
    failed = inf.failed
    return 15 * len(failed - wrong) > len(failed)


def _leaves_sums(inf: Inference) -> bool:
    """Whether an output that is not proved came out as a sum of several values."""
    return any(len(c.lin) > 1 for j in inf.judged if not j.holds and j.found for c in j.found.cells)


def _proved(inf: Inference) -> int:
    return sum(j.holds for j in inf.judged)
