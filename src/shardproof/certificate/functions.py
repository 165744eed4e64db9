"""Results that are named functions: scalar functions, functions of whole axes, powers.

The claimed term names an atom; its definition is compared with the operands at hand, so nothing
is looked for. A place in which a function is linear is expanded first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product as choices

from shardproof.certificate.algebra import Algebra
from shardproof.certificate.claims import INTERNAL
from shardproof.certificate.domains import Domains
from shardproof.certificate.exact import (
    Aff,
    Coef,
    NotChecked,
    Quotient,
    Rational,
    coef_times,
    const,
    same_attrs,
    total,
    variable,
)
from shardproof.certificate.products import Exp, Factor, Product, Read, Sum
from shardproof.certificate.region import Region, digits, fresh
from shardproof.certificate.rules import Source, label_sizes, scaled, spread, times, unit
from shardproof.ir.sizes import Size, product
from shardproof.ops import base as alg

MAX_SPREAD = 512
MAX_PIECES = 64
"""A whole axis in more pieces than this is left unchecked."""
SCALAR = "scalar"
Matcher = Callable[[Read, Sequence[Sum]], bool]


def external(fn: str) -> str:
    """The name of an operator's function; never one with a meaning of its own here."""
    return f"{fn} operator" if fn in INTERNAL else fn


class Functions:
    """Compares claimed function values with their operands. ``axes`` remembers, for every atom of
    a function of whole axes, the extents of these and which of them the result has."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra, self.atoms = algebra, algebra.atoms
        self.domains = Domains(algebra)
        self.axes: dict[int, tuple[tuple[Size, bool], ...] | str] = {}

    # ---- scalar functions

    def pointwise(
        self, a: alg.Pointwise, sources: Sequence[Source], shape: tuple[Size, ...],
        region: Region, at: Sequence[Aff], claimed: Sum,
    ) -> bool:  # fmt: skip
        """Whether the claimed sum is the function of the operands."""
        args = [spread(s, shape).read(region, at) for s in sources]
        if a.fn == alg.EXP:
            found = self._exponential(args[0])
            if found is not None and self.algebra.equal(found, claimed, region):
                return True
        if a.fn == alg.LOG and len(args[0]) == 1:
            found = self._logarithm(args[0], region, claimed)
            if found is not None:
                return self.algebra.equal(found, claimed, region)
        return self.algebra.equal(self.scalar(a, args, region, claimed), claimed, region)

    @staticmethod
    def _exponential(x: Sum) -> Sum | None:
        """``exp`` of a sum, as a product."""
        factors: list[Factor] = []
        for p, c in x:
            if p.ranges or len(p.factors) != 1 or p.factors[0][1] != 1:
                return None
            t = p.factors[0][0]
            if not isinstance(t, Read) or isinstance(c, Quotient):
                return None
            factors.append((Exp(t), c))
        return [(Product((), tuple(factors)), 1)]

    def _logarithm(self, x: Sum, region: Region, claimed: Sum) -> Sum | None:
        """``log`` of a product of positive factors, as a sum."""
        ((p, c),) = x
        if p.ranges or isinstance(c, Quotient) or c <= 0:
            return None
        flat = self._factors(p)
        if not all(isinstance(b, Exp) or (isinstance(b, Read) and self.algebra.positive(b))
                   for b, _ in flat):  # fmt: skip
            return None
        out: Sum = []
        parts: list[tuple[Sum, Rational]] = [(unit(c), 1)] if c != 1 else []
        for b, e in flat:
            if isinstance(b, Exp):
                out.append((Product((), ((b.inner, 1),)), e))
            else:
                parts.append(([(Product((), ((b, 1),)), 1)], e))
        for arg, e in parts:
            name = self._find(claimed, alg.LOG, lambda r, y=arg: self._argument(r, y, region))  # type: ignore[misc]
            self._note(name, frozenset())
            out.append((Product((), ((name, 1),)), e))
        return out

    def _factors(self, p: Product) -> list[Factor]:
        """The factors of a product, with named products opened."""
        while True:
            p = self.algebra.combined(p)
            for k, (b, e) in enumerate(p.factors):
                named = isinstance(b, Read) and self.atoms[b.atom].fn == "prod"
                if named and self.algebra.opens(b, e):
                    ((p, _),) = self.algebra.opened(p, k)
                    break
            else:
                return list(p.factors)

    def scalar(self, a: alg.Pointwise, args: Sequence[Sum], region: Region, claimed: Sum) -> Sum:
        """The function of the operands, spelled with the names of the claimed value."""

        def match(r: Read, mine: Sequence[Sum]) -> bool:
            d = self.atoms[r.atom]
            if d.whole or self.axes.setdefault(r.atom, SCALAR) != SCALAR:
                return False
            named = [self.algebra.operand_sum(r, k, r.at) for k in range(len(mine))]
            orders = [named, named[::-1]] if a.commutative and len(named) == 2 else [named]
            return any(self._same(mine, o, region) for o in orders)

        return self._expanded(external(a.fn), a.attrs, args, a.linear, claimed, match)

    def _same(self, mine: Sequence[Sum], named: Sequence[Sum], region: Region) -> bool:
        return all(self.algebra.equal(x, y, region) for x, y in zip(mine, named, strict=True))

    def _expanded(
        self, fn: str, attrs: Sequence[object], args: Sequence[Sum], linear: Sequence[int],
        claimed: Sum, match: Matcher,
    ) -> Sum:  # fmt: skip
        """The function with operands in linear places expanded term by term, each replaced by the
        claimed term that it is."""
        wide: list[list[tuple[Sum, Coef]]]
        wide = [[([(p, 1)], c) for p, c in x] if k in linear else [(x, 1)]
                for k, x in enumerate(args)]  # fmt: skip
        found: Sum = []
        names = [r for r in self._inside(claimed, 3) if self._is(r, fn, attrs, len(args))]
        if product(len(x) for x in wide) > MAX_SPREAD:
            raise NotChecked("a function of sums with too many terms")
        for combo in choices(*wide):
            c: Coef = 1
            for _, k in combo:
                c = coef_times(c, k)
            mine = [x for x, _ in combo]
            name = next((r for r in names if match(r, mine)), None)
            if name is None:
                raise NotChecked(f"the claimed value is no {fn} of the operands")
            self._note(name, frozenset(linear))
            found.append((Product((), ((name, 1),)), c))
        return found

    def _is(self, r: Read, fn: str, attrs: Sequence[object], n: int) -> bool:
        d = self.atoms[r.atom]
        return d.fn == fn and same_attrs(d.attrs, tuple(attrs)) and len(d.operands) == n

    def _note(self, r: Read, places: frozenset[int]) -> None:
        """A node applies the function that ``r`` is, which is linear in ``places``."""
        if self.algebra.linear.setdefault(r.atom, places) != places:
            raise NotChecked("one function with two declarations")
        self.domains.applied(r)

    # ---- functions of whole axes

    def signature(
        self, a: alg.Signature, sources: Sequence[Source],
        region: Region, at: Sequence[Aff], claimed: Sum,
    ) -> bool:  # fmt: skip
        """Whether the claimed sum is the function of whole axes of the operands."""
        used = [p for p in range(len(sources)) if p not in a.unused]
        labels = [a.operands[p] for p in used]
        mine = [sources[p] for p in used]
        sizes = label_sizes(labels, mine)
        outer = [x for x in a.output if x != alg.ONE]
        if any(x not in sizes for x in outer):
            raise NotChecked("an axis that the operator makes")
        order = outer + [x for x in sizes if x not in outer]
        whole = [x for x in order if x in a.whole or x not in outer]
        linear = [used.index(p) for p in a.linear if p in used]
        names = [fresh() for _ in whole]
        ranges = {v: (0, sizes[x]) for v, x in zip(names, whole, strict=True)}
        inner = Region.of({**region.ranges, **ranges}, tuple(map(variable, names)))

        def look(part: Region) -> Sum:
            here = dict(zip(a.output, at, strict=True))
            inside = here | dict(zip(whole, part.index, strict=True)) | {alg.ONE: const(0)}
            args = [
                s.read(part, [inside[x] for x in ls]) for s, ls in zip(mine, labels, strict=True)
            ]
            axes = [(x, sizes[x], inside[x], here.get(x)) for x in whole]
            match = self._whole(part, axes)
            return self._expanded(external(a.fn), a.attrs, args, linear, claimed, match)

        # Where operands are in pieces along the whole axes, the same names must hold on each.
        parts = inner.visit(look, MAX_PIECES, "a whole axis", region.ranges)
        found = [sum_ for _, sum_ in parts]
        if any(x != found[0] for x in found):
            raise NotChecked("a whole axis in pieces of which each is another function")
        return self.algebra.equal(found[0], claimed, region)

    def _whole(self, inner: Region, axes: Sequence[tuple[str, Size, Aff, Aff | None]]) -> Matcher:
        def match(r: Read, mine: Sequence[Sum]) -> bool:
            values = self._variables(r, inner, axes)
            if values is None:
                return False
            named = [self.algebra.operand_sum(r, k, values) for k in range(len(mine))]
            if not self._same(mine, named, inner):
                return False
            look = tuple((n, at is not None) for _, n, _, at in axes)
            return self.axes.setdefault(r.atom, look) == look

        return match

    def _variables(
        self, r: Read, inner: Region, axes: Sequence[tuple[str, Size, Aff, Aff | None]]
    ) -> list[Aff] | None:
        """The variables of a definition where its whole axes run as those at hand do, and
        whether the claimed term reads the result at the place at hand."""
        d = self.atoms[r.atom]
        todo = sorted(d.whole)
        values = [*r.at, *(const(0) for _ in d.bound)]
        for _, n, index, at in axes:
            group: list[int] = []
            while todo and product(d.hi[q] - d.lo[q] for q in group) != n:
                group.append(todo.pop(0))
            if product(d.hi[q] - d.lo[q] for q in group) != n:
                return None
            if any((q < d.n_free) != (at is not None) for q in group):
                return None
            widths = [d.hi[q] - d.lo[q] for q in group]
            place = const(0)
            for q, w in zip(group, widths, strict=True):
                place = total(((place, w), (r.at[q], 1)), -d.lo[q]) if at is not None else place
            if at is not None and place != (at if group else const(0)):
                return None
            for q, x in zip(group, digits(inner, index, widths), strict=True):
                values[q] = total(((x, 1),), d.lo[q])
        return None if todo else values

    # ---- powers

    def monomial(
        self, a: alg.Monomial, sources: Sequence[Source], shape: tuple[Size, ...],
        region: Region, at: Sequence[Aff], claimed: Sum,
    ) -> bool:  # fmt: skip
        """Whether the claimed sum is the product of powers of the operands."""
        factors = []
        for s, e in zip(sources, a.exponents, strict=True):
            x = spread(s, shape).read(region, at)
            if e < 0:
                self._divided_by(x, claimed, rooted=e.denominator != 1)
            factors.append(x if e == 1 else self._power(x, e, region, claimed))
        return self.algebra.equal(times(factors), claimed, region)

    def _divided_by(self, x: Sum, claimed: Sum, rooted: bool) -> None:
        """Note that the program divides by a value, or by a root of it, so that it is not zero
        where both programs are defined."""
        for p, _ in x if len(x) == 1 and not x[0][0].ranges else []:
            for b, e in self._factors(p):
                if isinstance(b, Read) and e > 0:
                    self.domains.divided(b, self._inside(claimed, 3), rooted)

    def _power(self, x: Sum, e: Rational, region: Region, claimed: Sum) -> Sum:
        if not x:
            if e > 0:
                return []
            raise NotChecked("a division by zero")
        if e.denominator != 1:
            name = self._find(claimed, "power", lambda r: self.atoms[r.atom].attrs == (e,) and
                              self._argument(r, x, region))  # fmt: skip
            self.domains.root(name, e)
            return [(Product((), ((name, 1),)), 1)]
        lead = x[0][1]
        if len(x) == 1 and not x[0][0].ranges:
            factors = tuple((b, k * e) for b, k in x[0][0].factors)
            return [(Product((), factors), self.algebra.raised(lead, e))]
        unit = scaled(x, self.algebra.raised(lead, -1))
        name = self._find(claimed, "lin", lambda r: self.algebra.equal(
            unit, [(Product((), ((r, 1),)), 1)], region))  # fmt: skip
        if e < 0:
            self.domains.divided(name, self._inside(claimed, 3))
        return [(Product((), ((name, e),)), self.algebra.raised(lead, e))]

    def _argument(self, r: Read, x: Sum, region: Region) -> bool:
        return self.algebra.equal(x, self.algebra.operand_sum(r, 0, r.at), region)

    def _find(self, claimed: Sum, fn: str, fits: Callable[[Read], bool]) -> Read:
        """The term with that function in the claimed value, or in a product that it names."""
        for r in self._inside(claimed, 3):
            if self.atoms[r.atom].fn == fn and fits(r):
                return r
        raise NotChecked(f"the claimed value has no {fn} of the operand")

    def _inside(self, terms: Sum, depth: int) -> Iterator[Read]:
        for p, _ in terms:
            for k, (b, e) in enumerate(p.factors):
                if not isinstance(b, Read):
                    continue
                yield b
                fn = self.atoms[b.atom].fn
                if depth and fn in ("prod", "lin") and (fn == "prod" or e == 1) and not b.restr:
                    alone = Product(p.ranges, (p.factors[k],)) if fn == "prod" else p
                    yield from self._inside(
                        self.algebra.opened(alone, 0 if fn == "prod" else k), depth - 1
                    )
