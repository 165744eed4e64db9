"""Match an operator instance against a named one by solving for the affine substitution.

A named instance (an atom) is a scalar function ``a[v_0, v_1, ...]`` of its *free* variables, with
operands that read other atoms at affine functions of those and of *bound* variables (reduction
indices). An instance at hand reads the same atoms at affine functions of its own axes. They are
one function iff some affine substitution of the named variables makes every operand read equal.
:func:`solve` finds a candidate axis by axis; :func:`verify` then checks every equation, so only
the check has to be right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from shardproof.infer.blocks import Box, Term
from shardproof.ir.sizes import Size, Undecided, at_least, div_mod, divides


@dataclass(slots=True)
class Affine:
    """``const + sum_x slope[x] * x`` over the axes of the instance at hand."""

    const: Size
    slope: dict[int, Size] = field(default_factory=dict)


Solution = dict[int, Affine]
Pairs = Sequence[tuple[Term, Term]]  # (operand of the named instance, operand at hand)


def _read(t: Term, q: int) -> tuple[Size, dict[int, Size]]:
    """Offset and slopes by variable of atom axis ``q`` of a term."""
    return t.off[q], {j: w[1] for j, w in enumerate(t.ax) if w is not None and w[0] == q}


def solve(pairs: Pairs, lo: Box, hi: Box, var_lo: Box, var_hi: Box) -> Solution | None:
    """A substitution for the variables of the named instance (ranges ``[var_lo, var_hi)``), or
    None. ``lo, hi`` is the box of the instance at hand."""
    found: Solution = {}
    todo = [(td, ti, q) for td, ti in pairs for q in range(len(td.off))]
    while todo:
        later = []
        progress = False
        for td, ti, q in todo:
            off, slopes = _read(td, q)
            unknown = [v for v in slopes if v not in found]
            if len(unknown) > 1:
                later.append((td, ti, q))
                continue
            progress = True
            if unknown and not _solve_one(found, unknown[0], off, slopes, ti, q):
                return None
        if not progress:
            td, ti, q = later[0]
            if not _solve_digits(found, td, ti, q, lo, hi, var_lo, var_hi):
                return None
        todo = later
    return found if verify(pairs, found) else None


def _residual(
    found: Solution, off: Size, slopes: dict[int, Size], ti: Term, q: int
) -> tuple[Size, dict[int, Size]]:
    """What the still unknown variables must contribute on atom axis ``q``."""
    const, rest = _read(ti, q)
    const = const - off
    for v, s in slopes.items():
        if v in found:
            const = const - s * found[v].const
            for x, k in found[v].slope.items():
                rest[x] = rest.get(x, 0) - s * k
    return const, {x: k for x, k in rest.items() if k != 0}


def _solve_one(
    found: Solution, v: int, off: Size, slopes: dict[int, Size], ti: Term, q: int
) -> bool:
    const, rest = _residual(found, off, slopes, ti, q)
    s = slopes[v]
    if s == 1:
        found[v] = Affine(const, rest)
        return True
    if not divides(s, const) or not all(divides(s, k) for k in rest.values()):
        return False
    found[v] = Affine(div_mod(const, s)[0], {x: div_mod(k, s)[0] for x, k in rest.items()})
    return True


def _solve_digits(
    found: Solution, td: Term, ti: Term, q: int, lo: Box, hi: Box, var_lo: Box, var_hi: Box
) -> bool:
    """Several unknown variables walk one atom axis: read them off as mixed-radix digits, largest
    stride first, so that each digit starts inside its variable's range."""
    off, slopes = _read(td, q)
    const, rest = _residual(found, off, slopes, ti, q)
    unknown = [v for v in slopes if v not in found]
    try:
        order = _by_stride(unknown, slopes)
        for k, v in enumerate(order):
            s = slopes[v]
            if k == len(order) - 1:
                mine = dict(rest)
            else:
                mine = {x: c for x, c in rest.items() if divides(s, c)}
            rest = {x: c for x, c in rest.items() if x not in mine}
            low = const
            for x, c in rest.items():
                low = low + c * lo[x]
            base = _lower_digits(order[k + 1 :], slopes, var_lo)
            digit, rem = div_mod(low - base, s)
            if k == len(order) - 1 and rem != 0:
                return False
            if not all(divides(s, c) for c in mine.values()):
                return False
            found[v] = Affine(digit, {x: div_mod(c, s)[0] for x, c in mine.items()})
            const = const - digit * s
    except Undecided:
        return False
    return True


def _lower_digits(order: Sequence[int], slopes: dict[int, Size], var_lo: Box) -> Size:
    low: Size = 0
    for v in order:
        low = low + slopes[v] * var_lo[v]
    return low


def _by_stride(unknown: list[int], slopes: dict[int, Size]) -> list[int]:
    order: list[int] = []
    for v in unknown:
        pos = 0
        while pos < len(order) and at_least(slopes[order[pos]], slopes[v]):
            pos += 1
        if pos < len(order) and not at_least(slopes[v], slopes[order[pos]]):
            raise Undecided("cannot order strides")
        order.insert(pos, v)
    return order


def verify(pairs: Pairs, found: Solution) -> bool:
    """Whether the substitution makes every operand read of the named instance the read at hand.
    Soundness of naming rests on this function."""
    for td, ti in pairs:
        if td.atom != ti.atom or td.restr != ti.restr:
            return False
        for q in range(len(td.off)):
            off, slopes = _read(td, q)
            for v in slopes:
                if v not in found:
                    return False
            const, rest = _residual(found, off, slopes, ti, q)
            if const != 0 or rest:
                return False
    return True
