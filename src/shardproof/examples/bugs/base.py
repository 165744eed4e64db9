"""What a bug of the corpus is: a right program, and the faulty one that was reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from shardproof.spec.spec import Spec
from shardproof.testing.cases import Case, twins

Kind = Literal["Y", "Y-bwd", "Y-opt", "P", "control"]


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug that people met.

    ``id`` as in the list of reports; ``kind`` is what shows it: the forward graph (Y), the
    backward graph (Y-bwd), the optimizer's step (Y-opt), or more than one step graph (P); a
    "control" looks wrong and is right, and has no faults. ``make("")`` is the right program,
    ``make(fault)`` a faulty one; ``faults`` are the names, by default the id alone.
    """

    id: str
    kind: Kind
    title: str
    make: Callable[[str], Spec]
    faults: tuple[str, ...] | None = None

    def case(self) -> Case:
        """The bug as a case with twins."""
        names = self.faults if self.faults is not None else (self.id,)
        names = () if self.kind == "control" else names
        return Case(self.id, partial(self.make, ""), twins(self.make, *names))
