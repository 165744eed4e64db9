"""Sizes: integers, or polynomials with integer coefficients over named symbols.

A *size symbol* stands for any integer >= 1. A *rank symbol* carries its extent ``n`` and stands
for any integer in ``[0, n)``; the extent may itself be a size. Every question about order is
answered for all values of the symbols or not at all: an undecidable question raises
:class:`Undecided`, which callers must read as "not proved".

Example: with ``N = symbol("N")`` and ``r = rank_symbol("r", N)`` the shard ``[4*r, 4*r + 4)``
lies inside ``[0, 4*N)``: ``le(4 * r + 4, 4 * N)`` is true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Union


class Undecided(Exception):
    """The order or divisibility of two symbolic sizes could not be decided for all values."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A named integer unknown; ``extent`` is set for rank symbols (``0 <= value < extent``)."""

    name: str
    extent: Size | None = None

    def __lt__(self, other: Symbol) -> bool:
        return self.name < other.name


Monomial = tuple[Symbol, ...]


class Poly:
    """A polynomial that is not a plain integer; build with arithmetic on :func:`symbol`."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms: dict[Monomial, int] = dict(terms)
        self._hash: int | None = None

    def __add__(self, other: Size) -> Size:
        out = dict(self.terms)
        for mono, coef in _terms(other).items():
            out[mono] = out.get(mono, 0) + coef
        return _make(out)

    __radd__ = __add__

    def __neg__(self) -> Size:
        return _make({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Size) -> Size:
        return self + (-other)

    def __rsub__(self, other: Size) -> Size:
        return (-self) + other

    def __mul__(self, other: Size) -> Size:
        out: dict[Monomial, int] = {}
        for ma, ca in self.terms.items():
            for mb, cb in _terms(other).items():
                mono = tuple(sorted(ma + mb))
                out[mono] = out.get(mono, 0) + ca * cb
        return _make(out)

    __rmul__ = __mul__

    def __floordiv__(self, other: Size) -> Size:
        return div_mod(self, other)[0]

    def __rfloordiv__(self, other: Size) -> Size:
        return div_mod(other, self)[0]

    def __mod__(self, other: Size) -> Size:
        return div_mod(self, other)[1]

    def __rmod__(self, other: Size) -> Size:
        return div_mod(other, self)[1]

    def __lt__(self, other: Size) -> bool:
        return lt(self, other)

    def __le__(self, other: Size) -> bool:
        return le(self, other)

    def __gt__(self, other: Size) -> bool:
        return lt(other, self)

    def __ge__(self, other: Size) -> bool:
        return le(other, self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and self.terms == other.terms

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __repr__(self) -> str:
        return format_size(self)


Size = Union[int, Poly]  # noqa: UP007 - used at run time in Symbol's annotation


def symbol(name: str) -> Poly:
    """A size symbol: any integer >= 1."""
    return Poly({(Symbol(name),): 1})


def rank_symbol(name: str, extent: Size) -> Poly:
    """A rank symbol: any integer in ``[0, extent)``."""
    return Poly({(Symbol(name, extent),): 1})


def only_symbol(size: Size) -> Symbol:
    """The symbol of a size that is exactly one symbol."""
    if isinstance(size, Poly) and len(size.terms) == 1:
        ((mono, coef),) = size.terms.items()
        if len(mono) == 1 and coef == 1:
            return mono[0]
    raise ValueError(f"{size} is not a single symbol")


def _terms(x: Size) -> dict[Monomial, int]:
    return x.terms if isinstance(x, Poly) else ({(): x} if x else {})


def _make(terms: Mapping[Monomial, int]) -> Size:
    kept = {m: c for m, c in terms.items() if c}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        return kept[()]
    return Poly(kept)


def symbols(size: Size) -> set[Symbol]:
    """All symbols that occur in ``size``."""
    return {s for mono in _terms(size) for s in mono}


def substitute(size: Size, values: Mapping[Symbol, Size]) -> Size:
    """Replace symbols by sizes."""
    if isinstance(size, int):
        return size
    out: Size = 0
    for mono, coef in size.terms.items():
        term: Size = coef
        for s in mono:
            term = term * (values[s] if s in values else Poly({(s,): 1}))
        out = out + term
    return out


def linear_in(size: Size, sym: Symbol) -> tuple[Size, Size]:
    """``(a, b)`` with ``size == a + b * sym`` and ``sym`` in neither.

    Raises:
        Undecided: ``size`` is not linear in ``sym``.
    """
    if isinstance(size, int):
        return size, 0
    rest: dict[Monomial, int] = {}
    slope: dict[Monomial, int] = {}
    for mono, coef in size.terms.items():
        k = mono.count(sym)
        if k > 1:
            raise Undecided(f"{size} is not linear in {sym.name}")
        if k:
            left = list(mono)
            left.remove(sym)
            slope[tuple(left)] = coef
        else:
            rest[mono] = coef
    return _make(rest), _make(slope)


def at_least(x: Size, bound: Size) -> bool:
    """Whether ``x >= bound`` for all symbol values; False means "not shown", not "false"."""
    if isinstance(x, int) and isinstance(bound, int):
        return x >= bound
    return _nonnegative(x - bound)


def _nonnegative(x: Size) -> bool:
    if isinstance(x, int):
        return x >= 0
    for s in sorted(symbols(x)):
        if s.extent is None:
            continue
        if any(m.count(s) > 1 for m in x.terms):
            return False
        # A linear function of the rank is smallest at one of the two ends of its range.
        return _nonnegative(substitute(x, {s: 0})) and _nonnegative(
            substitute(x, {s: s.extent - 1})
        )
    # Write every size symbol as 1 + s' with s' >= 0; non-negative coefficients then suffice.
    shifted = substitute(x, {s: Poly({(s,): 1}) + 1 for s in symbols(x)})
    return all(c >= 0 for c in _terms(shifted).values())


def lt(a: Size, b: Size) -> bool:
    """Decide ``a < b`` for all symbol values, or raise :class:`Undecided`."""
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    if at_least(b - a, 1):
        return True
    if at_least(a - b, 0):
        return False
    raise Undecided(f"cannot order {a} and {b}")


def le(a: Size, b: Size) -> bool:
    """Decide ``a <= b`` for all symbol values, or raise :class:`Undecided`."""
    if isinstance(a, int) and isinstance(b, int):
        return a <= b
    if at_least(b - a, 0):
        return True
    if at_least(a - b, 1):
        return False
    raise Undecided(f"cannot order {a} and {b}")


def smax(a: Size, b: Size) -> Size:
    """The larger of two sizes, if that is the same one for all symbol values."""
    if isinstance(a, int) and isinstance(b, int):
        return a if a >= b else b
    return a if _ordered_ge(a, b) else b


def smin(a: Size, b: Size) -> Size:
    """The smaller of two sizes, if that is the same one for all symbol values."""
    if isinstance(a, int) and isinstance(b, int):
        return a if a <= b else b
    return b if _ordered_ge(a, b) else a


def _ordered_ge(a: Size, b: Size) -> bool:
    if at_least(a - b, 0):
        return True
    if at_least(b - a, 0):
        return False
    raise Undecided(f"cannot order {a} and {b}")


def div_mod(a: Size, b: Size) -> tuple[Size, Size]:
    """``(q, rem)`` with ``a == q*b + rem`` and ``0 <= rem < b`` for all symbol values.

    Raises:
        Undecided: no such polynomial quotient was found.
    """
    if isinstance(a, int) and isinstance(b, int):
        return divmod(a, b)
    if a == b:
        return 1, 0
    if b == 1:
        return a, 0
    div = _terms(b)
    if not div:
        raise ZeroDivisionError("size division by zero")
    lead = max(div, key=lambda m: (len(m), m))
    lead_coef = div[lead]
    quotient: dict[Monomial, int] = {}
    rest, rem = dict(_terms(a)), {}
    while rest:
        mono = max(rest, key=lambda m: (len(m), m))
        coef = rest.pop(mono)
        left = _cancel(mono, lead)
        if left is None or (coef % lead_coef and lead != ()):
            rem[mono] = coef
            continue
        q, r = divmod(coef, lead_coef)
        if r:
            rem[mono] = r
        if q:
            quotient[left] = quotient.get(left, 0) + q
            for m2, c2 in div.items():
                if m2 == lead:
                    continue
                m3 = tuple(sorted(left + m2))
                rest[m3] = rest.get(m3, 0) - q * c2
                if rest[m3] == 0:
                    del rest[m3]
    q_out, r_out = _make(quotient), _make(rem)
    if r_out != 0 and not (at_least(r_out, 0) and at_least(b - r_out, 1)):
        raise Undecided(f"cannot divide {a} by {b}")
    return q_out, r_out


def _cancel(mono: Monomial, lead: Monomial) -> Monomial | None:
    left = list(mono)
    for s in lead:
        if s not in left:
            return None
        left.remove(s)
    return tuple(left)


def divides(b: Size, a: Size) -> bool:
    """Whether ``b`` divides ``a`` for all symbol values (False where that was not shown)."""
    try:
        return div_mod(a, b)[1] == 0
    except Undecided:
        return False


def product(sizes: Iterable[Size]) -> Size:
    """The product of sizes; 1 when there are none."""
    out: Size = 1
    for s in sizes:
        out = out * s
    return out


def format_size(size: Size) -> str:
    """Text such as ``4*N*h + 1``; parsed back by :func:`shardproof.ir.text.parse_size`."""
    if isinstance(size, int):
        return str(size)
    parts = []
    for mono, coef in sorted(size.terms.items(), key=lambda kv: (-len(kv[0]), kv[0])):
        names = [s.name for s in mono]
        body = "*".join(([str(abs(coef))] if abs(coef) != 1 or not names else []) + names)
        parts.append(("-" if coef < 0 else "+", body))
    text = ("-" if parts[0][0] == "-" else "") + parts[0][1]
    return text + "".join(f" {sign} {body}" for sign, body in parts[1:])
