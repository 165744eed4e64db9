"""Products and sums of products in canonical form.

A product is a list of factors (a term and an exponent). Products of products are flattened, equal
factors are combined, factors that a sum does not touch are pulled out of it, exponentials are
joined, and guards are worked out (:mod:`shardproof.infer.guards`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import prod
from typing import Any

from shardproof.infer.blocks import Box, Lin, Term, Unsupported
from shardproof.infer.coef import ONE, Coef, from_size
from shardproof.infer.guards import Factor, index_range
from shardproof.infer.known import Known
from shardproof.infer.naming import IOTA, UNIT, Completion, Def, Instance, Table
from shardproof.infer.roots import open_factors
from shardproof.infer.simplify import Simplifier
from shardproof.infer.terms import (
    completed,
    compose,
    exponent,
    innermost,
    lincomb,
    unit_term,
)
from shardproof.infer.totals import note_total
from shardproof.ir.sizes import Size
from shardproof.lemmas import names as lemmas

MAX_TERMS = 160
MAX_SINGLE = 6
# Products made by multiplying out, in one inference. A late reduction needs a few hundred; in a
# program that is wrong near its start every later value becomes a sum of ever more products.
MAX_MULTIPLIED = 2000


class Products(Simplifier):
    """Product algebra over a naming table."""

    def __init__(
        self, table: Table, fired: dict[str, int], *, deep: bool = False, multiplied: bool = False
    ) -> None:
        super().__init__(table)
        self.fired, self.deep, self.multiplied = fired, deep, multiplied
        table.fired = fired
        self._multiplied_out = 0
        self.known = Known(table)

    # ---- products of linear combinations

    def multiply(self, lo: Box, hi: Box, operands: Sequence[tuple[Lin, Fraction]]) -> Lin:
        """``prod_i operand_i ** exponent_i`` over one box, as a linear combination."""
        return lincomb(self.table, self.expand(lo, hi, operands))

    def expand(
        self,
        lo: Box,
        hi: Box,
        operands: Sequence[tuple[Lin, Fraction]],
        bound: Sequence[int] = (),
        summing: bool = False,
    ) -> list[tuple[Term, Coef]]:
        """All products of one term an operand, each contracted over the ``bound`` axes."""
        if any(not lin for lin, _ in operands):
            self._divides(operands)
        combos: list[tuple[Coef, list[Factor]]] = [(ONE, [])]
        for lin, power in self._opened(operands, lo, hi):
            if power == 1:
                choices = [(c, [(t, ONE)]) for t, c in lin]
            else:
                choices = [self._powered(lo, hi, lin, power)]
            combos = [(a * b, f + g) for a, f in combos for b, g in choices]
            if len(combos) > MAX_TERMS:
                raise Unsupported("a product of sums with too many terms")
        out = []
        for coef, factors in combos:
            scale, opened_factors = open_factors(self.table, factors)
            done = self.contract(lo, hi, opened_factors, bound, summing)
            if done is not None:
                out.append((done[0], done[1] * coef * scale))
        return out

    def _opened(
        self, operands: Sequence[tuple[Lin, Fraction]], lo: Box, hi: Box
    ) -> list[tuple[Lin, Fraction]]:
        """Where a guard takes part, look into named sums that hold guards, so that they meet.
        Where products are multiplied out look into all: partial sums of several summands have no
        common name, and meet those of a named sum only term by term."""
        guarded = any(self._is_indicator(t.atom) for lin, _ in operands for t, _ in lin)
        if not guarded and not self.multiplied:
            return list(operands)
        opener = self._summands if self.multiplied else self.open_guards
        opened = [(opener(lin) if e == 1 else lin, e) for lin, e in operands]
        if guarded:
            return opened
        made = prod(len(lin) for lin, _ in opened)
        if made > MAX_TERMS or self._multiplied_out > MAX_MULTIPLIED:
            return list(operands)
        self._multiplied_out += made
        return opened

    def _summands(self, lin: Lin, depth: int = 4) -> Lin:
        """The combination with named sums replaced by their summands."""
        out: list[tuple[Term, Coef]] = []
        for t, c in lin:
            d = None if t.atom in self.table.closed or t.restr else self.table.definition(t.atom)
            if not depth or d is None or d.fn != "lin":
                out.append((t, c))
            else:
                inner = tuple((compose(u, t, d.n_free), k * c) for u, k in d.operands[0])
                out.extend(self._summands(inner, depth - 1))
        return lincomb(self.table, out)

    def _is_indicator(self, atom: int) -> bool:
        a = self.table.atoms[atom]
        return a.guard and a.boolean

    def open_guards(self, lin: Lin, depth: int = 4) -> Lin:
        """Replace named sums that hold guards by their summands; in deep evaluation also those
        with a summand that is constant along an axis of the sum, which a guard lets go of (the
        log-sum-exp of a row). Opening every sum would take a deep residual stream apart."""
        out: list[tuple[Term, Coef]] = []
        changed = False
        for t, c in lin:
            d = None if t.atom in self.table.closed else self.table.definition(t.atom)
            if depth and d is not None and d.fn == "lin" and self._opens(t, d):
                changed = True
                inner = tuple((compose(u, t, d.n_free), k * c) for u, k in d.operands[0])
                out.extend(self.open_guards(inner, depth - 1))
            else:
                out.append((t, c))
        return lincomb(self.table, out) if changed else lin

    def _opens(self, t: Term, d: Def) -> bool:
        if t.restr:
            return False
        if self.table.atoms[t.atom].guard:
            return True
        return self.deep and any(sum(w is not None for w in u.ax) < d.n_free
                                 for u, _ in d.operands[0])  # fmt: skip

    def _powered(self, lo: Box, hi: Box, lin: Lin, e: Fraction) -> tuple[Coef, list[Factor]]:
        """One operand raised to a power other than 1, as a coefficient and one factor."""
        if not lin:
            if e > 0:
                return Fraction(0), []
            raise Unsupported("division by zero")
        if e.denominator != 1:
            inst = Instance("power", (e,), lo, hi, (lin,))
            return ONE, [(self.name(inst), ONE)]
        lead = lin[0][1]
        if lead != 1:
            self.fire(lemmas.POWER_OF_MULTIPLE)
        if e < 0:
            self.assume_divisor(lead)
        if len(lin) == 1:
            base = lin[0][0]
        else:
            base = self.named_sum(lo, hi, tuple((t, c / lead) for t, c in lin))
        scale: Coef = ONE
        for _ in range(abs(e.numerator)):
            scale = scale * lead if e > 0 else scale / lead
        return scale, [(base, e)]

    def threshold(self, lo: Box, hi: Box, t: Term, k: Size) -> Lin:
        """``[t >= k]``, as the threshold that stands for it among the values that ``t`` has."""
        if t.atom == IOTA:
            t, k = t._replace(off=(t.off[0] - k,)), 0
        least = self.known.threshold(t.atom, k)
        if least is False:
            return ()
        if least is True:
            return ((unit_term(len(lo)), ONE),)
        if least != k:
            self.fire(lemmas.THRESHOLD_MOVED)
        return ((self.name(Instance("ge", (least,), lo, hi, (((t, ONE),),))), ONE),)

    def named_sum(self, lo: Box, hi: Box, lin: Lin) -> Term:
        """One term for a sum whose leading coefficient is 1."""
        return self.name(Instance("lin", (), lo, hi, (lin,)))

    # ---- one product

    def contract(
        self,
        lo: Box,
        hi: Box,
        factors: list[Factor],
        bound: Sequence[int],
        summing: bool = False,
    ) -> tuple[Term, Coef] | None:
        """The sum over the ``bound`` axes of a product of factors; None when it is zero. The
        bound axes stay in the result as axes that nothing walks. ``summing`` says that there are
        summed axes, if only of extent 1."""
        simple = self.simplify(lo, hi, factors)
        if simple is None:
            return None
        if summing and all(hi[j] - lo[j] == 1 for j in bound):
            single = self._single_summand(lo, hi, simple)
            if single is not None:
                return single, ONE
        if not bound:
            return self.product_term(lo, hi, simple), ONE
        outside: list[Factor] = []
        coef: Coef = ONE
        groups, unused = _components(simple, bound)
        for axes, members in groups:
            if not axes:
                outside.extend(members)
                self.fire(lemmas.FACTOR_OUT)
                continue
            t, c = self._sum_atom(lo, hi, members, axes)
            coef = coef * c
            outside.append((t, ONE))
        for j in unused:
            coef = coef * from_size(hi[j] - lo[j])
            self.fire(lemmas.CONSTANT_SUM)
        if len(outside) > 1:
            again = self.simplify(lo, hi, outside)
            if again is None:
                return None
            outside = again
        return self.product_term(lo, hi, outside), coef

    def _single_summand(self, lo: Box, hi: Box, factors: list[Factor]) -> Term | None:
        """One summand as a part of a named sum: a shard of width 1 holds no sum, but what it
        holds is a partial sum over one index. Factors that the named sum lets go of are taken
        out; which ones, the table tells."""
        if self.table.defining or len(factors) > MAX_SINGLE:
            return None
        for size in range(len(factors), 0, -1):
            for inside in combinations(factors, size):
                t = self._find_single(lo, hi, list(inside))
                if t is None:
                    continue
                rest = [f for f in factors if f not in inside]
                again = self.simplify(lo, hi, [*rest, (t, ONE)]) if rest else [(t, ONE)]
                if again is not None:
                    self.fire(lemmas.SINGLE_SUMMAND)
                    return self.product_term(lo, hi, again)
        return None

    def _find_single(self, lo: Box, hi: Box, factors: list[Factor]) -> Term | None:
        parts = _places(factors)
        inst = Instance("sum", (), lo, hi, _operands(parts), single=True)
        named = self.table.find(replace(inst, commutative=_may_swap(parts)))
        if named is None and len(factors) == 1 and factors[0][1] == 1:
            return self._find_single_nested(lo, hi, factors[0][0])
        return None if named is None else _carry(named, parts)

    def _find_single_nested(self, lo: Box, hi: Box, t: Term) -> Term | None:
        """A sum at one index as a part of a named sum of sums, which is one over all indices."""
        nested = self._open_nested(lo, hi, t, [])
        if nested is None:
            return None
        inner_lo, inner_hi, inner, axes = nested
        inst = Instance("sum", (), inner_lo, inner_hi, (((inner, ONE),),), tuple(axes))
        # What is no part would be the inner sum by itself.
        named = self.table.find(inst, partial=True)
        if named is None:
            return None
        self.fire(lemmas.SUM_OF_SUMS)
        return named._replace(ax=named.ax[: len(lo)])

    def _sum_atom(
        self, lo: Box, hi: Box, factors: list[Factor], axes: list[int]
    ) -> tuple[Term, Coef]:
        if len(factors) == 1 and factors[0][1] == 1:
            note_total(self, lo, hi, factors[0][0], axes)
            nested = self._open_nested(lo, hi, factors[0][0], axes)
            if nested is not None:
                self.fire(lemmas.SUM_OF_SUMS)
                lo, hi, t, axes2 = nested
                inner, c = self._sum_atom(lo, hi, [(t, ONE)], axes2)
                return inner._replace(ax=inner.ax[: len(inner.ax) - (len(axes2) - len(axes))]), c
        return self._named(Instance("sum", (), lo, hi, (), tuple(axes)), factors), ONE

    def _open_nested(
        self, lo: Box, hi: Box, t: Term, axes: list[int]
    ) -> tuple[Box, Box, Term, list[int]] | None:
        """A sum of a plain sum is one sum over all its indices (the order does not matter)."""
        d = self.table.definition(t.atom)
        if d is None or d.fn != "sum" or len(d.operands) != 1 or d.operands[0][0][1] != 1:
            return None
        n = len(lo)
        new = list(range(n, n + len(d.lo) - d.n_free))
        ranges = {}
        for label, a, b in t.restr:
            if label[0] != "sum" or label[1] != t.atom:
                return None
            ranges[label[2]] = (a, b)
        spans = [ranges.get(p, (d.lo[p], d.hi[p])) for p in range(d.n_free, len(d.lo))]
        inner = compose(d.operands[0][0][0], t, d.n_free, new)
        return (
            lo + tuple(a for a, _ in spans),
            hi + tuple(b for _, b in spans),
            inner,
            axes + new,
        )

    def product_term(self, lo: Box, hi: Box, factors: list[Factor]) -> Term:
        """One term for a simplified product."""
        if not factors:
            return unit_term(len(lo))
        if len(factors) == 1 and factors[0][1] == 1:
            return factors[0][0]
        return self._named(Instance("prod", (), lo, hi, ()), factors)

    def _named(self, inst: Instance, factors: list[Factor]) -> Term:
        """Name a product or a sum of products. A factor to the first power is a linear place:
        its own partial sums are carried out of the name, labelled by the place."""
        parts = _places(factors)
        named = self.name(replace(inst, operands=_operands(parts), commutative=_may_swap(parts)))
        if inst.fn == "prod" and any(t.atom in self.table.complete for t, _, _ in parts):
            self._note_product(named.atom)
        elif inst.fn == "prod" and _repeats(parts):
            self._note_power(named.atom)
        return _carry(named, parts)

    def _note_power(self, atom: int) -> None:
        """What a part of a value times that value is once the parts have joined: a power."""
        d = self.table.definition(atom)
        if d is not None and self.table.is_foreign(atom) and atom not in self.table.complete:
            factors = [(op[0][0], exponent(op[0][1])) for op in d.operands]
            self._note_guarded(atom, d, factors)

    def _note_product(self, atom: int) -> None:
        """What a product is, complete, where some of its factors are known when complete."""
        d = self.table.definition(atom)
        if d is None or atom in self.table.complete:
            return
        known = self.table.complete
        kept = [p for p, op in enumerate(d.operands) if op[0][0].atom not in known]
        factors: list[Factor] = [(d.operands[p][0][0], exponent(d.operands[p][0][1])) for p in kept]
        done = [
            (completed(self.table, op[0][0]), exponent(op[0][1]))
            for op in d.operands
            if op[0][0].atom in known
        ]
        if any(t is None or t.atom != UNIT for t, _ in done):
            self._note_guarded(atom, d, [*factors, *((t, e) for t, e in done if t is not None)])
            return
        if len({(d.operands[p][0][0].atom, d.operands[p][0][1]) for p in kept}) < len(kept):
            return  # two factors of one value: which place is which would be a guess
        rest = self.product_term(d.lo, d.hi, factors)
        if len(kept) == 1:
            places: dict[int, int | None] = {kept[0]: None}
        else:
            # The rest is sorted as the whole was, so places keep their order.
            places = dict(zip(kept, range(len(kept)), strict=True))
        self.table.complete[atom] = Completion(rest, places)

    def _note_guarded(self, atom: int, d: Def, factors: list[Factor]) -> None:
        """The same where what is known of a factor is a guard. Which place of the product is
        which then is lost, so that only the complete product is known."""
        if len(factors) != len(d.operands):
            return
        simple = self.simplify(d.lo, d.hi, factors)
        if simple is not None:
            self.table.complete[atom] = Completion(self.product_term(d.lo, d.hi, simple), {})


# ------------------------------------------------------------------ helpers


Part = tuple[Term, Fraction, tuple[Any, ...]]  # factor, exponent, partial sums carried out


def _places(factors: list[Factor]) -> list[Part]:
    """Factors in canonical order, without the partial sums that a linear place carries out."""
    parts = []
    for t, e in factors:
        carried = t.restr if e == 1 else ()
        parts.append((t._replace(restr=()) if e == 1 else t, e, carried))
    parts.sort(key=lambda p: (p[0].atom, str(p[1]), str(p[0].restr), str(p[2]), str(p[0].off)))
    return parts


def _repeats(parts: list[Part]) -> bool:
    """Whether two factors are one value but for the partial sums that they carry."""
    return len({t for t, _, _ in parts}) < len(parts)


def _operands(parts: list[Part]) -> tuple[Lin, ...]:
    return tuple(((t, e),) for t, e, _ in parts)


def _may_swap(parts: list[Part]) -> bool:
    """A label names a place, so factors that carry one may not change places."""
    return not any(carried for _, _, carried in parts)


def _carry(named: Term, parts: list[Part]) -> Term:
    extra = tuple(
        (("in", named.atom, p, label), a, b)
        for p, (_, _, carried) in enumerate(parts)
        for label, a, b in carried
    )
    return named._replace(restr=named.restr + extra) if extra else named


def _components(
    factors: list[Factor], bound: Sequence[int]
) -> tuple[list[tuple[list[int], list[Factor]]], list[int]]:
    """Factors grouped by the bound axes they share, and the bound axes that none walks."""
    groups: list[tuple[set[int], list[Factor]]] = []
    free: list[Factor] = []
    for f in factors:
        mine = {j for j in bound if f[0].ax[j] is not None}
        if not mine:
            free.append(f)
            continue
        members = [f]
        for g in [g for g in groups if g[0] & mine]:
            groups.remove(g)
            mine |= g[0]
            members = g[1] + members
        groups.append((mine, members))
    seen = {j for axes, _ in groups for j in axes}
    out = [(sorted(axes), members) for axes, members in groups]
    if free:
        out.append(([], free))
    return out, [j for j in bound if j not in seen]


__all__ = ["Factor", "Products", "compose", "index_range", "innermost"]
