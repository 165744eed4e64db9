"""What is left of a check that was stopped before its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from shardproof.report.diagnostic import OutputRelation, Verdict
from shardproof.report.relation import expression
from shardproof.spec.problem import Problem


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a check; ``verdict`` is what was found until then, and never *refines*."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__("interrupted")
        self.verdict = verdict


class Watched:
    """Remembers the stage of a check, and its verdict as far as there is one."""

    def __init__(self, problem: Problem, progress: Callable[[str], None] | None) -> None:
        self._progress = progress
        self.stage = "starting"
        self.verdict = Verdict(problem.name, "unproved")
        self.verdict.outputs = [
            OutputRelation(ob.seq_output, expression(ob, problem), "open", ob.placement)
            for ob in problem.obligations
        ]

    def proved(self, output: str) -> None:
        """Note an output that inference has proved; the whole is no proof before its end."""
        for relation in self.verdict.outputs:
            if relation.seq_output == output:
                relation.status = "proved"

    def say(self, stage: str) -> None:
        """Note the stage, and pass it on to who watches."""
        self.stage = stage
        if self._progress is not None:
            self._progress(stage)


@contextmanager
def interruptible(watched: Watched) -> Iterator[None]:
    """Turn Ctrl-C inside into :class:`Interrupted`. A counterexample or a broken protocol that was
    found stays *refuted*; a proof whose checks did not end is none."""
    try:
        yield
    except KeyboardInterrupt as stop:
        verdict = watched.verdict
        if verdict.status == "refines":
            verdict.status = "unproved"
        verdict.interrupted = watched.stage
        raise Interrupted(verdict) from stop
