"""Where two meanings part: the innermost operands that a wrong value and the right one do not
share.

A wrong value often has no sequential meaning only because something deep inside it is wrong: a
term of the sum below a root, the count that a sum is divided by. Both definitions are walked in
step, named sums opened, until what is left over is no longer one operator on one operator. This
explains a verdict that has been reached, so it may be generous about indices.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from shardproof.infer.blocks import Lin, Term, Val
from shardproof.infer.coef import Coef
from shardproof.infer.evaluate import Evaluator
from shardproof.infer.naming import IOTA, Def

MAX_DEPTH = 40
# Sums are compared once a finding, so they may be opened far.
MAX_OPENED = 60
MAX_PAIRS = 9
# Pairs of operators that are looked into for one value.
MAX_LOOKS = 120
Kind = Literal["sum", "factor"]


@dataclass(frozen=True, slots=True)
class Inside:
    """One operator on the way in: its function, the factors beside the one that was entered, and
    the power of that one."""

    fn: str
    beside: tuple[Term, ...]
    power: Coef | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """``found`` and ``expected`` are all terms of a sum (factors of a product, with their powers);
    ``extra`` and ``missing`` are those that only one of the two has."""

    kind: Kind
    way: tuple[Inside, ...]
    found: Lin
    expected: Lin
    extra: Lin
    missing: Lin


class Differences:
    """Compares meanings of one inference."""

    def __init__(self, ev: Evaluator) -> None:
        self.ev, self.table = ev, ev.table
        self._looked: set[tuple[int, int]] = set()

    def of(self, found: Val, expected: Val) -> Difference | None:
        """The first difference of two values; None where no operand differs (the same values,
        other parts of them), or none was found soon."""
        self._looked = set()
        for k, c in enumerate(found.cells):
            if not expected.cells:
                return None
            other = expected.cells[min(k, len(expected.cells) - 1)]
            d = self._sums(c.lin, other.lin, ())
            if d is not None:
                return d
        return None

    def opened(self, lin: Lin) -> Lin:
        """A sum with the named sums in it opened."""
        return self.ev.folder.flatten(lin, MAX_OPENED) or lin

    def _sums(self, found: Lin, expected: Lin, way: tuple[Inside, ...]) -> Difference | None:
        found, expected = self.opened(found), self.opened(expected)
        extra, missing = _rest(found, expected), _rest(expected, found)
        if not extra and not missing:
            return None
        inner = self._inner(extra, missing, way)
        return inner or Difference("sum", way, found, expected, extra, missing)

    def _inner(self, extra: Lin, missing: Lin, way: tuple[Inside, ...]) -> Difference | None:
        """The smallest difference inside one operator and another of its kind."""
        if len(way) > MAX_DEPTH:
            return None
        pairs = [(a, b) for b, _ in missing for a, _ in extra][:MAX_PAIRS]
        found = [d for a, b in pairs if (d := self._inside(a.atom, b.atom, way)) is not None]
        return min(found, key=lambda d: len(d.extra) + len(d.missing), default=None)

    def _inside(self, found: int, expected: int, way: tuple[Inside, ...]) -> Difference | None:
        wrong, right = self.table.definition(found), self.table.definition(expected)
        if wrong is None or right is None or wrong.fn != right.fn:
            return None
        seen = (found, expected) in self._looked or len(self._looked) == MAX_LOOKS
        if seen or not self.table.is_foreign(found):
            return None
        self._looked.add((found, expected))
        if right.fn in ("prod", "sum"):
            return self._factors(wrong, right, way)
        if wrong.attrs != right.attrs or len(wrong.operands) != len(right.operands):
            return None
        step = (*way, Inside(right.fn, ()))
        pairs = zip(wrong.operands, right.operands, strict=True)
        return next((d for a, b in pairs if (d := self._sums(a, b, step)) is not None), None)

    def _factors(self, wrong: Def, right: Def, way: tuple[Inside, ...]) -> Difference | None:
        found = tuple(x for lin in wrong.operands for x in lin)
        expected = tuple(x for lin in right.operands for x in lin)
        extra, missing = _rest(found, expected), _rest(expected, found)
        if not extra and not missing:
            return None
        if len(extra) == len(missing) == 1 and extra[0][1] == missing[0][1]:
            beside = tuple(t for t, k in found if (t, k) != extra[0])
            step = (*way, Inside(right.fn, beside, extra[0][1]))
            inner = self._inner(extra, missing, step)
            return inner or Difference("factor", step, found, expected, extra, missing)
        return Difference("factor", way, found, expected, extra, missing)

    def name(self, t: Term) -> str:
        """A value by its name, and by the input that it is made of where that is only one."""
        atoms = self.table.atoms
        inputs = [a for a in self.leaves(t) if a > IOTA and atoms[a].definition is None]
        of = f" of %{atoms[inputs[0]].name}" if len(inputs) == 1 and inputs[0] != t.atom else ""
        return f"%{atoms[t.atom].name}{of}"

    def leaves(self, t: Term) -> set[int]:
        """All values that a value is made of, itself included."""
        seen: set[int] = set()
        todo = [t.atom]
        while todo:
            a = todo.pop()
            if a in seen:
                continue
            seen.add(a)
            d = self.table.definition(a)
            if d is not None:
                todo += [u.atom for lin in d.operands for u, _ in lin]
        return seen


def _rest(a: Lin, b: Lin) -> Lin:
    """The terms of ``a`` that ``b`` has not, wherever they are read."""
    left = Counter(_key(t, k) for t, k in b)
    out = []
    for t, k in a:
        if left[_key(t, k)]:
            left[_key(t, k)] -= 1
        else:
            out.append((t, k))
    return tuple(out)


def _key(t: Term, k: Coef) -> tuple[object, ...]:
    return t.atom, t.restr, k
