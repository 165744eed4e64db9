"""Where a value became a part of a sum: back along the operands that hold a part of the same."""

from __future__ import annotations

from shardproof.diagnose.facts import is_partial
from shardproof.diagnose.trace import Place, Tracer
from shardproof.infer.blocks import Label
from shardproof.infer.terms import innermost

MAX_VISITED = 400
# The phases that the capture gives to operators that autograd runs.
BACKWARD = "backward"


class Partials:
    """Ways of parts of sums in one inference."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer

    def label(self, place: Place) -> Label | None:
        """The sum of which a value holds a part."""
        v = self.tracer.meaning(place)
        for c in v.cells if v is not None else ():
            for t, _ in c.lin:
                if is_partial(t):
                    return innermost(t.restr[0][0])
        return None

    def origins(self, start: Place) -> set[Place]:
        """All places where a sum that is not complete began to be a part of one."""
        out: set[Place] = set()
        seen: set[Place] = set()
        todo = [start] if self.label(start) is not None else []
        while todo and len(seen) < MAX_VISITED:
            place = todo.pop()
            if place in seen:
                continue
            seen.add(place)
            above = self._above(place)
            todo += above
            if not above:
                out.add(place)
        return out

    def entry(self, start: Place) -> Place | None:
        """The earliest value of the backward pass through which all of ``start`` that is a part of
        a sum has come, where that is another: a gradient that flows on to other values, which are
        then parts as well. It is summed once, there, or in all that is made of it."""
        place, seen = start, {start}
        while len(seen) < MAX_VISITED:
            above = self._above(place)
            if len(above) != 1 or above[0] in seen or not self.backward(above[0]):
                break
            place = above[0]
            seen.add(place)
        passed_on = self.tracer.carriers(start)
        return place if place not in passed_on else None

    def backward(self, place: Place) -> bool:
        """Whether autograd runs the operator that makes a value."""
        node = self.tracer.node(place)
        return node is not None and node.origin.phase == BACKWARD

    def _above(self, place: Place) -> list[Place]:
        operands = dict.fromkeys(self.tracer.operands(place))
        return [p for p in operands if p[0] == place[0] and self.label(p) is not None]
