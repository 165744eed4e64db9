"""Specs for the tests of the command line, named as ``targets.py:function``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardproof import Mesh, Replicate, Shard, Spec
from shardproof.report.diagnostic import Verdict

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.report import verdicts
from tests.spec import programs


@dataclass(frozen=True)
class Known(Spec):
    """A Spec whose verdict is known beforehand."""

    verdict: Any = None

    def check(self, **_: Any) -> Verdict:
        if isinstance(self.verdict, BaseException):
            raise self.verdict
        return self.verdict


def _spec(verdict: Any = None, **more: Any) -> Spec:
    arguments: dict[str, Any] = {
        "sequential": programs.SEQUENTIAL,
        "distributed": programs.RANKS,
        "mesh": Mesh(tp=2),
        "inputs": {"x": Shard(0), "w": Replicate()},
    }
    made = Spec.from_graphs(**(arguments | more))
    fields = {name: getattr(made, name) for name in made.__dataclass_fields__}
    return Known(**fields, verdict=verdict)


def refines() -> Spec:
    return _spec(verdicts.refines())


def refuted() -> Spec:
    return _spec(verdicts.refuted())


def unproved() -> Spec:
    return _spec(verdicts.unproved())


def broken() -> Spec:
    return _spec(RuntimeError("broken inside"))


def interrupted() -> Spec:
    return _spec(KeyboardInterrupt())


def of_extents(tp: int) -> Spec:
    return _spec(verdicts.refines() if tp == 1 else verdicts.refuted())


def wrong_graph() -> Spec:
    return _spec(sequential="graph g\n%x = input f3[2]")


def spmd() -> Spec:
    return _spec(
        sequential=programs.SYMBOLIC_SEQUENTIAL,
        distributed=programs.SPMD,
        mesh=None,
        inputs={"x": Replicate(), "w1": Shard(1), "w2": Shard(0)},
    )


def raises() -> Spec:
    return {}["missing"]


def no_spec() -> int:
    return 3


def needs_an_argument(ranks: int) -> Spec:
    return _spec()


a_spec = _spec(verdicts.refines())
not_a_function = 3
