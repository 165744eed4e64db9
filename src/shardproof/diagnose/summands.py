"""Sums of several alike values, such as the gradients of micro-batches: which of them are missing,
counted more than once, or on another rank."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from shardproof.diagnose.difference import Difference, Differences
from shardproof.infer.blocks import Lin, Term
from shardproof.infer.coef import Coef, format_coef
from shardproof.infer.naming import UNIT
from shardproof.infer.run import Inference, Judged


class Summands:
    """What happened to the summands of the sequential sums of one inference."""

    def __init__(self, inf: Inference, differences: Differences) -> None:
        self.inf, self.differences = inf, differences
        self.table = inf.evaluator.table

    def told(self, judged: Judged, d: Difference, repeats: bool = True) -> tuple[str, str] | None:
        """Code and message, where summands that belong together do not count alike; without
        ``repeats`` one that counts less often has a factor, and the others are right."""
        for group in self._groups(d.expected):
            weights = {t.atom: _weight(d.found, t, k) for t, k in group}
            if None in weights.values() or len(set(weights.values())) == 1:
                continue
            lost = self._lost(judged, group, weights)
            return lost or (self._uneven(group, weights) if repeats else None)
        return self._stale(d)

    def _groups(self, lin: Lin) -> list[list[tuple[Term, Coef]]]:
        """The summands that have one weight and are made in one way."""
        groups: dict[object, list[tuple[Term, Coef]]] = {}
        for t, k in lin:
            d = self.table.definition(t.atom)
            if t.atom != UNIT and not t.restr:
                groups.setdefault((k, d and (d.fn, d.attrs, d.lo, d.hi)), []).append((t, k))
        return [g for g in groups.values() if len(g) > 1]

    def _lost(
        self, judged: Judged, group: list[tuple[Term, Coef]], weights: dict[int, Coef | None]
    ) -> tuple[str, str] | None:
        """Some summands are not there: left on other ranks, or nowhere."""
        lost = [t for t, _ in group if weights[t.atom] == 0]
        kept = {w for w in weights.values() if w != 0}
        if not lost or len(kept) != 1:
            return None
        held = [t for t, _ in group if weights[t.atom] != 0]
        names = join([self._name(t) for t in lost])
        elsewhere = {t.atom: self._rank_with(judged, t, held) for t in lost}
        if all(r is not None for r in elsewhere.values()):
            where = join([f"{self._name(t)} on rank {elsewhere[t.atom]}" for t in lost])
            return "SP126", (
                f"the terms of one sum are left on different ranks: rank {judged.graph} has "
                f"{join([self._name(t) for t in held])}, and not {where}; the sequential program "
                "adds them up"
            )
        return "SP125", (
            f"{len(lost)} of {len(group)} summands missing: {names} "
            f"{'is' if len(lost) == 1 else 'are'} not in the sum; "
            f"{join([self._name(t) for t in held])} {'is' if len(held) == 1 else 'are'}"
        )

    def _rank_with(self, judged: Judged, wanted: Term, held: Sequence[Term]) -> int | None:
        """A rank whose result has ``wanted`` and lacks one of ``held``."""
        for other in self.inf.judged:
            if other.obligation is not judged.obligation or other.found is None:
                continue
            atoms = {t.atom for c in other.found.cells for t, _ in self.differences.opened(c.lin)}
            if wanted.atom in atoms and any(t.atom not in atoms for t in held):
                return other.graph
        return None

    def _uneven(
        self, group: list[tuple[Term, Coef]], weights: dict[int, Coef | None]
    ) -> tuple[str, str] | None:
        """Some summands count more often than others."""
        numbers = [w for w in weights.values() if isinstance(w, Fraction | int) and w]
        least = min(numbers, default=None)
        if least is None or len(numbers) < len(weights):
            return None
        if least < 1 and 1 in numbers:
            return None  # a share of one of them, not the others several times
        ratios = {a: Fraction(w) / Fraction(least) for a, w in weights.items() if w is not None}  # type: ignore[arg-type]
        if any(r.denominator != 1 for r in ratios.values()):
            return None
        often = [f"{self._name(t)} {ratios[t.atom]} times" for t, _ in group if ratios[t.atom] > 1]
        once = [self._name(t) for t, _ in group if ratios[t.atom] == 1]
        return "SP125", f"summands repeated: {join(often)}, against once for {join(once)}"

    def _stale(self, d: Difference) -> tuple[str, str] | None:
        """A value counts otherwise although two or more alike summands beside it are right."""
        right = [g for g in self._groups(d.expected)
                 if all(_weight(d.found, t, k) == 1 for t, k in g)]  # fmt: skip
        if not right or any(self.table.is_foreign(t.atom) or t.restr for t, _ in d.extra):
            return None
        if len(d.extra) != 1 or len(d.missing) > 1:
            return None
        t, k = d.extra[0]
        if any(u.atom != t.atom for u, _ in d.missing):
            return None
        more = k - (d.missing[0][1] if d.missing else Fraction(0))
        return "SP125", (
            f"the sum holds {format_coef(more)}*{self._name(t)} beside the summands that belong "
            f"there ({join([self._name(u) for u, _ in right[0]])}): what was in the buffer before"
        )

    def _name(self, t: Term) -> str:
        return self.differences.name(t)


def _weight(found: Lin, t: Term, k: Coef) -> Coef | None:
    """How often a summand is in a sum, 1 for as often as it should be; None where only a part of
    it, or another piece, is."""
    mine = [(u, c) for u, c in found if u.atom == t.atom]
    if not mine:
        return Fraction(0)
    if len(mine) > 1 or mine[0][0].restr != t.restr:
        return None
    return mine[0][1] / k


def join(words: Sequence[str], most: int = 4) -> str:
    """``a, b and c``; of many the first ones and how many more."""
    words = list(dict.fromkeys(words))
    if len(words) > most:
        words = [*words[:most], f"{len(words) - most} more"]
    return " and ".join(x for x in (", ".join(words[:-1]), words[-1] if words else "") if x)
