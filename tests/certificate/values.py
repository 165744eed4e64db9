"""What a certificate says in numbers: every claimed meaning evaluated at random inputs.

An altered certificate alters no meaning if all its claims have the values that the claims of the
right one have. Functions of operators are replaced by random ones of their operands, so equal
values are equal for any function. Sizes and ranks of a symbolic problem are small numbers.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from shardproof.certificate.check import check
from shardproof.certificate.claims import INTERNAL, IOTA, UNIT, Atom, Claims, Lin, Meaning, Term
from shardproof.certificate.document import Document, claims, decode, problems
from shardproof.certificate.exact import Quotient
from shardproof.ir.graph import is_integer
from shardproof.ir.sizes import Poly, Size, Symbol, substitute, symbols

Values = dict[Any, list[float]]
SIZES = (2, 3, 2, 3)
TOLERANCE = 1e-9


def values(certificate: bytes) -> list[Values]:
    """The claims of a certificate that can be read, in numbers; once for every rank."""
    doc = decode(certificate)
    original, evaluated = problems(doc)
    read = claims(doc.proof, evaluated)
    check(original, evaluated, read, doc.fixed)  # makes the claims about copies
    limits = _limits(doc)
    integers = {v.name for v in evaluated.sequential.inputs if is_integer(v.dtype)}
    found = sorted({s for x in _sizes(read) for s in symbols(x)} | _extents(read))
    sizes: dict[Symbol, Size] = {}
    plain = [s for s in found if s.extent is None]
    sizes.update(zip(plain, itertools.cycle(SIZES)))  # type: ignore[arg-type]
    ranks = [s for s in found if s.extent is not None]
    counts = [substitute(s.extent, sizes) for s in ranks if s.extent is not None]
    out = []
    for place in itertools.product(*(range(int(str(n))) for n in counts)):
        at = {**sizes, **dict(zip(ranks, place, strict=True))}
        out.append(_Numbers(read, at, integers, limits).all())
    return out


def same(a: list[Values], b: list[Values]) -> bool:
    """Whether what both claim is equal."""
    if len(a) != len(b):
        return False
    return all(
        len(x[k]) == len(y[k]) and all(map(_close, x[k], y[k]))
        for x, y in zip(a, b, strict=True)
        for k in x.keys() & y.keys()
    )


def _close(x: float, y: float) -> bool:
    if math.isnan(x) or math.isnan(y):
        return math.isnan(x) == math.isnan(y)
    return x == y or abs(x - y) <= TOLERANCE * max(1.0, abs(x), abs(y))


def _limits(doc: Document) -> dict[str, str]:
    """The upper bounds of ids that the proof assumes."""
    rows = (a.split(" (it indexes")[0] for a in doc.assumed if a.startswith("0 <= "))
    return {r.split()[2]: " ".join(r.split()[4:]) for r in rows}


def _extents(c: Claims) -> set[Symbol]:
    ranks = [s for x in _sizes(c) for s in symbols(x) if s.extent is not None]
    return {t for s in ranks if s.extent is not None for t in symbols(s.extent)}


def _sizes(c: Claims) -> Iterator[Poly]:
    todo: list[Any] = [
        (a.lo, a.hi, a.attrs, *((t.ax, t.off, t.restr) for x in a.operands for t, _ in x))
        for a in c.atoms
    ]
    for table in (c.sequential, *c.distributed):
        for m in table.values():
            if not isinstance(m, Meaning):
                continue
            todo += [m.dims, *((x.lo, x.hi) for x in m.cells)]
            todo += [(t.ax, t.off, t.restr) for x in m.cells for t, _ in x.lin]
    while todo:
        x = todo.pop()
        if isinstance(x, tuple):
            todo += x
        elif isinstance(x, Poly):
            yield x


class _Numbers:
    def __init__(
        self, c: Claims, at: Mapping[Symbol, Size], integers: set[str], limits: dict[str, str]
    ) -> None:
        self.claims, self.at = c, at
        self.integers, self.limits = integers, limits
        self.known: dict[Any, float] = {}

    def all(self) -> Values:
        out: Values = {}
        for k, table in enumerate((self.claims.sequential, *self.claims.distributed)):
            for v in {**table, **table.later}:
                m = table[v]
                if isinstance(m, Meaning):
                    out[k, v.name] = self.meaning(m)
        for k, rows in enumerate(self.claims.opened.values()):
            self.inner(out, (k,), rows)
        return out

    def inner(self, out: Values, where: tuple[Any, ...], rows: Any) -> None:
        for k, row in enumerate(rows or ()):
            for j, m in enumerate(row.results):
                if m is not None:
                    out[("inner", *where, k, j)] = self.meaning(m)
            self.inner(out, (*where, k), row.inner)

    def size(self, x: Size) -> int:
        found = substitute(x, self.at)
        assert isinstance(found, int)
        return found

    def coef(self, c: Any) -> float:
        if isinstance(c, Quotient):
            return self.size(c.num) / self.size(c.den)
        return float(c)

    def meaning(self, m: Meaning) -> list[float]:
        spans = [range(self.size(f)) for d in m.dims for f in d]
        out = []
        for at in itertools.product(*spans):
            lin = next(
                (c.lin for c in m.cells
                 if all(self.size(a) <= x < self.size(b)
                        for a, x, b in zip(c.lo, at, c.hi, strict=True))),
                None,
            )  # fmt: skip
            out.append(math.nan if lin is None else self.lin(lin, at))
        if m.base is not None:
            out += self.meaning(m.base)
            for p in m.pieces:
                out += [math.inf if x is None else self.size(x) for x in (p.lo, p.hi, p.a, p.c)]
        return out

    def lin(self, lin: Lin, at: Sequence[int]) -> float:
        return sum((self.coef(c) * self.term(t, at) for t, c in lin), 0.0)

    def term(self, t: Term, at: Sequence[int], more: tuple[Any, ...] = ()) -> float:
        index = [self.size(o) for o in t.off]
        for w, x in zip(t.ax, at, strict=True):
            if w is not None:
                index[w[0]] += self.size(w[1]) * x
        return self.atom(t.atom, tuple(index), (*t.restr, *more))

    def atom(self, k: int, at: tuple[int, ...], restr: tuple[Any, ...]) -> float:
        if k == UNIT:
            return 1.0
        if k == IOTA:
            return float(at[0])
        key = (k, at, restr)
        if key not in self.known:
            a = self.claims.atoms[k]
            try:
                self.known[key] = self.defined(a, at, restr) if a.fn else self.unknown(k, a, at)
            except (ZeroDivisionError, OverflowError, ValueError):
                self.known[key] = math.nan
        return self.known[key]

    def unknown(self, k: int, a: Atom, at: tuple[int, ...]) -> float:
        x = _random(k, at)
        if a.name not in self.integers:
            return x + 0.5
        limit = self.limits.get(a.name, "5")
        names = {s.name: n for s, n in self.at.items()}
        product = math.prod(int(str(names.get(f, f))) for f in limit.split("*"))
        return float(int(x * product))

    def defined(self, a: Atom, at: tuple[int, ...], restr: tuple[Any, ...]) -> float:
        spans = {q: (self.size(a.lo[q]), self.size(a.hi[q])) for q in range(len(a.lo))}
        for label, lo, hi in restr:
            if label[0] != "in":
                spans[label[2]] = (self.size(lo), self.size(hi))
        bound = list(itertools.product(*(range(*spans[q]) for q in a.bound)))
        if a.fn == "sum" or a.fn == "prod":
            return sum((math.prod(self.powers(a, (*at, *b), restr)) for b in bound), 0.0)
        if a.fn in ("max", "min"):
            found = [self.operand(a, 0, (*at, *b), restr) for b in bound]
            return max(found) if a.fn == "max" else min(found)
        if a.whole:
            rows: list[Any] = []
            for whole in itertools.product(*(range(*spans[q]) for q in a.whole)):
                here = [*at, *(0 for _ in a.bound)]
                for q, x in zip(a.whole, whole, strict=True):
                    here[q] = x
                rows.append([self.operand(a, p, here, restr) for p in range(len(a.operands))])
            mine = tuple(at[q] for q in a.whole if q < a.n_free)
            return self.function((a.fn, repr(a.attrs), mine), itertools.chain(*rows))
        return self.scalar(a, [self.operand(a, p, at, restr) for p in range(len(a.operands))])

    def scalar(self, a: Atom, x: list[float]) -> float:
        match a.fn:
            case "lin":
                return x[0]
            case "power":
                e: Any = a.attrs[0]
                return math.nan if x[0] < 0 else float(x[0] ** float(e))
            case "ge":
                least: Any = a.attrs[0]
                return float(x[0] >= self.size(least))
            case "eq":
                return float(x[0] == x[1])
            case "exp":
                return math.exp(x[0])
            case "log":
                return math.log(x[0])
        assert a.fn not in INTERNAL
        return self.function((a.fn, repr(a.attrs)), x)

    def powers(self, a: Atom, at: Sequence[int], restr: tuple[Any, ...]) -> Iterator[float]:
        for p, op in enumerate(a.operands):
            ((t, c),) = op
            e = float(c) if isinstance(c, int | Fraction) else math.nan
            yield self.term(t, at, _inside(restr, p)) ** e

    def operand(self, a: Atom, p: int, at: Sequence[int], restr: tuple[Any, ...]) -> float:
        more = _inside(restr, p)
        return sum((self.coef(c) * self.term(t, at, more) for t, c in a.operands[p]), 0.0)

    @staticmethod
    def function(key: Any, x: Any) -> float:
        """A function that a name picks at random."""
        start = _random(key)
        return math.sin(start + sum(v * (0.5 + _random(key, k)) for k, v in enumerate(x)))


def _inside(restr: tuple[Any, ...], place: int) -> tuple[Any, ...]:
    return tuple((n[3], a, b) for n, a, b in restr if n[0] == "in" and n[2] == place)


def _random(*key: Any) -> float:
    """A number in [0, 1) that a key picks."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
