"""Evaluate one operator in the block normal form, from its declared algebra alone.

The same evaluator runs the sequential program (which names instances) and every distributed one
(which looks them up). It dispatches on the class of the algebra; it has never heard of an
operator's name. Where a step cannot be expressed the result is an *opaque* atom that is equal
only to the same operator on equal operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from shardproof.infer import blocks, gaps, integers, views
from shardproof.infer.blocks import Box, Cell, Lin, Term, Unsupported, Val
from shardproof.infer.coef import ONE, Coef, from_size, ratio
from shardproof.infer.discrete import Discrete
from shardproof.infer.extrema import as_parts
from shardproof.infer.factors import align_all
from shardproof.infer.fold import Folder
from shardproof.infer.infinite import Infinities
from shardproof.infer.integers import Guards
from shardproof.infer.labels import bring_together, project
from shardproof.infer.lookups import Lookups, OutOfTable
from shardproof.infer.naming import IOTA, Instance, Table
from shardproof.infer.products import Products
from shardproof.infer.rows import Rows
from shardproof.infer.terms import constant, lincomb
from shardproof.infer.whole import joined
from shardproof.ir.graph import TensorType
from shardproof.ir.sizes import Poly, Size, Undecided, product, smax, smin, symbols
from shardproof.lemmas import names as lemmas
from shardproof.ops import base as alg

MAX_SPREAD = 144


class Evaluator:
    """Meaning of operators over one naming table."""

    def __init__(
        self,
        *,
        deep: bool = False,
        multiplied: bool = False,
        closed: frozenset[str] = frozenset(),
    ) -> None:
        self.table = Table()
        self.fired: dict[str, int] = {}
        self.deep, self.closed = deep, closed
        self.products = Products(self.table, self.fired, deep=deep, multiplied=multiplied)
        self.known = self.products.known
        self.guards = Guards(self.products)
        self.folder = Folder(self.table, self.products)
        self.rows = Rows(self.products, self.folder)
        self.infinite = Infinities(self.table)
        self.lookups = Lookups(self.table, self.products, self.guards, self.folder)
        self.discrete = Discrete(self)
        self.reasons: dict[int, str] = {}
        self.undefined: set[int] = set()
        self.opaque_values: dict[Any, int] = {}
        self.layers: dict[int, Any] = {}
        self.copied_layers = 0
        self.opaque_calls = 0
        self.types: Sequence[TensorType] = ()
        self._rules: dict[type, Callable[..., Val]] = {
            alg.Identity: lambda a, v, t: v[0],
            alg.Linear: self._linear,
            alg.Monomial: self.monomial,
            alg.Pointwise: self.pointwise,
            alg.Contract: self._contract,
            alg.Extremum: self._extremum,
            alg.Signature: self._signature,
            alg.Reshape: lambda a, v, t: view(v[0], lambda x: views.reshape(x, a.shape)),
            alg.Permute: lambda a, v, t: view(v[0], lambda x: views.permute(x, a.perm)),
            alg.Slice: lambda a, v, t: view(
                v[0], lambda x: views.slice_dim(x, a.dim, a.start, a.stop)
            ),
            alg.Expand: lambda a, v, t: view(v[0], lambda x: views.expand(x, a.shape)),
            alg.Concat: lambda a, v, t: views.concat(v, a.dim),
            alg.Constant: self._constant,
            alg.Iota: self._iota,
            alg.Undefined: self._undefined,
            alg.Compare: self.discrete.compare,
            alg.Logic: self.discrete.logic,
            alg.Select: self.discrete.select,
            alg.TakeRows: lambda a, v, t: self.lookups.take_rows(v[0], v[1]),
            alg.TakeAlong: lambda a, v, t: self.lookups.take_along(v[0], v[1]),
            alg.AddRows: lambda a, v, t: self.lookups.add_rows(v[0], v[1], a.rows),
            alg.PutAlong: lambda a, v, t: self.lookups.put_along(v[0], v[1], v[2]),
        }

    def apply(
        self,
        algebra: alg.Algebra,
        operands: Sequence[Val],
        types: Sequence[TensorType],
        out: TensorType,
    ) -> Val:
        """The value of one output of an operator."""
        self.types = types
        before = len(self.table.atoms)
        try:
            if isinstance(algebra, alg.Opaque):
                raise Unsupported(algebra.reason)
            rule = self._rules.get(type(algebra))
            if rule is None:
                raise Unsupported(f"{type(algebra).__name__} outside a program")
            result: Val = rule(algebra, list(operands), out)
        except (Unsupported, Undecided, ZeroDivisionError) as e:
            result = self.opaque(algebra, operands, out, str(e))
            if isinstance(e, OutOfTable) or alg.is_partial(algebra):
                self._stops(result)
            if isinstance(algebra, alg.Constant) and isinstance(algebra.value, float):
                self.infinite.literal(result, algebra.value)
        if self.infinite.lost(algebra, operands, result):
            result = self._no_value(out, "an infinity vanishes: 0 * inf, or inf - inf")
        if self.undefined and not isinstance(algebra, VIEWS):
            return self._keep_undefined(operands, result, out, before)
        return result

    def _stops(self, v: Val) -> None:
        """A distributed lookup outside of its table, or a function outside of its domain, has no
        value, even if it is masked or cancels later. Where the sequential program does the same,
        it is said to be inside."""
        self.undefined.update(t.atom for t in _terms(v) if self.table.is_foreign(t.atom))

    def _keep_undefined(
        self, operands: Sequence[Val], result: Val, out: TensorType, before: int
    ) -> Val:
        """What is computed from undefined contents is undefined: they need not cancel (``u - u``
        is no zero where ``u`` holds no number). ``before``: atoms made since."""
        if not self._reads_undefined(t.atom for v in operands for t in _terms(v)):
            return result
        for atom in range(before, len(self.table.atoms)):
            d = self.table.atoms[atom].definition
            if d is None or self._reads_undefined(t.atom for op in d.operands for t, _ in op):
                self.undefined.add(atom)
        if self._reads_undefined(t.atom for t in _terms(result)):
            return result
        why = next(t.atom for v in operands for t in _terms(v) if t.atom in self.undefined)
        return self._no_value(out, self.reasons.get(why, ""))

    def keep_undefined(self, operands: Sequence[Val], results: Sequence[Val]) -> None:
        """Mark unknowns that a collective made of undefined contents."""
        if self._reads_undefined(t.atom for v in operands for t in _terms(v)):
            self.undefined.update(t.atom for v in results for t in _terms(v))

    def _reads_undefined(self, atoms: Iterable[int]) -> bool:
        return any(a in self.undefined for a in atoms)

    def opaque(self, algebra: Any, operands: Sequence[Val], out: TensorType, reason: str) -> Val:
        """A value known only to be a function of the operands."""
        self.opaque_calls += 1
        key = (algebra, out.shape, tuple(v.key() for v in operands))
        atom = self.opaque_values.get(key)
        if atom is None:
            atom = self.table.fresh(self.table.name or "opaque")
            self.opaque_values[key] = atom
            self.reasons[atom] = reason
            self.table.atoms[atom].rank_symbols = frozenset(self._ranks_of(algebra, operands))
        return blocks.atom_val(atom, out.shape)

    def _ranks_of(self, algebra: Any, operands: Sequence[Val]) -> set[Any]:
        out = set(_rank_symbols(getattr(algebra, "__dict__", None) or _fields(algebra)))
        for v in operands:
            out |= set(_rank_symbols(v.key()))
            for c in v.cells:
                for t, _ in c.lin:
                    out |= self.table.atoms[t.atom].rank_symbols
        return out

    # ---- elementwise

    def overlay(self, vals: Sequence[Val], shape: Sequence[Size]) -> tuple[blocks.Dims, Any]:
        spread = align_all([views.expand(v, shape) for v in vals])
        if any(not v.cells for v in spread):
            return spread[0].dims, []
        return spread[0].dims, views.overlay(spread)

    def _linear(self, a: alg.Linear, vals: list[Val], out: TensorType) -> Val:
        index = self.discrete.linear_index(a, vals, out)
        if index is not None:
            return self.discrete.from_index(index)
        coefs = [_coefficient(c) for c in a.coefs]
        if len(vals) == 1 and a.constant == 0:
            return scale_val(vals[0], coefs[0])
        return self.linear(vals, coefs, out.shape, a.constant)

    def linear(
        self,
        vals: Sequence[Val],
        coefs: Sequence[Coef],
        shape: Sequence[Size],
        const: Any = Fraction(0),
    ) -> Val:
        """``sum_i coefs[i] * vals[i] + const``, named if the sequential program names it."""
        dims, boxes = self.overlay(vals, shape)
        cells = []
        for lo, hi, lins in boxes:
            pairs = [(t, c * k) for lin, k in zip(lins, coefs, strict=True) for t, c in lin]
            if const != 0:
                pairs.extend(constant(const, len(lo)))
            cells.append(Cell(lo, hi, lincomb(self.table, pairs)))
        return self.folder.value(blocks.normalise(dims, cells))

    def monomial(self, a: alg.Monomial, vals: list[Val], out: TensorType) -> Val:
        if len(vals) == 2 and all(e == 1 for e in a.exponents):
            index = self.discrete.joint_index(vals, integers.times, out.shape)
            if index is not None:
                return self.discrete.from_index(index)
        dims, boxes = self.overlay(vals, out.shape)
        cells = []
        for lo, hi, lins in boxes:
            lin = self.products.multiply(lo, hi, list(zip(lins, a.exponents, strict=True)))
            cells.append(Cell(lo, hi, lin))
        return self.folder.value(blocks.normalise(dims, cells))

    def pointwise(self, a: alg.Pointwise, vals: list[Val], out: TensorType) -> Val:
        dims, boxes = self.overlay(vals, out.shape)
        cells = []
        if self.deep and a.fn in (alg.EXP, alg.LOG):
            rule = self.rows.exp if a.fn == alg.EXP else self.rows.log
            cells = [Cell(lo, hi, rule(lo, hi, lin)) for lo, hi, (lin,) in boxes]
            return self.folder.value(blocks.normalise(dims, cells))
        for lo, hi, lins in boxes:
            pairs = self.instance(
                Instance(external(a.fn), a.attrs, lo, hi, tuple(lins), commutative=a.commutative),
                a.linear,
            )
            cells.append(Cell(lo, hi, lincomb(self.table, pairs)))
        return blocks.normalise(dims, cells)

    def instance(self, inst: Instance, linear: Sequence[int]) -> list[tuple[Term, Coef]]:
        """Name an instance; operands in linear places are expanded term by term, and their
        partial sums are carried to the result."""
        combos: list[tuple[Coef, list[Lin]]] = [(ONE, [])]
        for p, lin in enumerate(inst.operands):
            if p in linear:
                combos = [(k * c, [*ops, ((t, ONE),)]) for k, ops in combos for t, c in lin]
            else:
                combos = [(k, [*ops, lin]) for k, ops in combos]
            if len(combos) > MAX_SPREAD:
                raise Unsupported("too many terms")
        return [(self._one(inst, ops, linear), k) for k, ops in combos]

    def _one(self, inst: Instance, operands: list[Lin], linear: Sequence[int]) -> Term:
        carried: list[tuple[int, Any]] = []
        bare: list[Lin] = []
        for p, lin in enumerate(operands):
            if p in linear:
                t, c = lin[0]
                carried.extend((p, r) for r in t.restr)
                lin = ((t._replace(restr=()), c),)
            bare.append(lin)
        for j in inst.whole:
            if all(t.ax[j] is None for lin in bare for t, _ in lin):
                # Its length would be lost: a scan of a constant is no constant.
                raise Unsupported("a whole axis is constant")
        if inst.commutative:
            bare.sort(key=lambda lin: [(t.atom, str(c), str(t.restr)) for t, c in lin])
        named = self.products.name(
            Instance(
                inst.fn,
                inst.attrs,
                inst.lo,
                inst.hi,
                tuple(bare),
                inst.bound,
                inst.whole,
                inst.commutative,
            )
        )
        extra = tuple((("in", named.atom, p, r[0]), r[1], r[2]) for p, r in carried)
        return named._replace(restr=named.restr + extra) if extra else named

    # ---- reductions

    def _contract(self, a: alg.Contract, vals: list[Val], out: TensorType) -> Val:
        together = bring_together(vals, a.operands, a.output)
        summed = [x for x in together.labels if x not in a.output]
        bound = [j for x in summed for j in together.axes(x)]
        parts = []
        for lo, hi, lins in together.cells:
            factors = [(lin, ONE) for lin in lins]
            pairs = gaps.summed(self.products, lo, hi, factors, bound, bool(summed))
            parts.append((lo, hi, pairs))
        value = project(self.table, together, a.output, parts)
        if bound and len(parts) > len(value.cells):
            self.table.fire(lemmas.SPLIT_CONTRACTION)
        if a.scale_by_count:
            self.table.fire(lemmas.MEAN)
            count = product(product(together.dims[together.labels.index(x)]) for x in summed)
            self.products.assume_divisor(from_size(count))
            value = scale_val(value, ratio(1, count))
        value = self._zero_where_empty(value, out)
        return self.folder.value(value)

    def _zero_where_empty(self, v: Val, out: TensorType) -> Val:
        """A sum over nothing is zero."""
        if v.cells or any(s == 0 for s in out.shape):
            return v
        return blocks.filled(out.shape, lambda n: ())

    def _extremum(self, a: alg.Extremum, vals: list[Val], out: TensorType) -> Val:
        v = vals[0]
        names = [f"d{k}" for k in range(len(v.dims))]
        dims = [d % len(v.dims) for d in a.dims]
        output = [
            ("1" if k in dims else x) for k, x in enumerate(names) if a.keepdim or k not in dims
        ]
        together = bring_together([v], [tuple(names)], [x for x in output if x != "1"])
        bound = [j for d in dims for j in together.axes(names[d])]
        found: dict[Any, list[Term]] = {}
        for lo, hi, (lin,) in together.cells:
            used = tuple(j for j in bound if any(t.ax[j] is not None for t, _ in lin))
            if len(used) < len(bound):
                self.table.fire(lemmas.EXTREMUM_OF_CONSTANT)
            t = self._extreme(Instance(a.kind, (), lo, hi, (lin,), used), bound)
            keep = [j for j in range(len(lo)) if j not in bound]
            box = (tuple(lo[j] for j in keep), tuple(hi[j] for j in keep))
            found.setdefault(box, []).append(t._replace(ax=tuple(t.ax[j] for j in keep)))
        cells = []
        for (lo, hi), terms in found.items():
            cells.append(Cell(lo, hi, ((self.join_extrema(a.kind, terms), ONE),)))
        self._check_disjoint(cells)
        odims = tuple(() if x == "1" else together.dims[together.labels.index(x)] for x in output)
        return blocks.normalise(odims, cells)

    def _extreme(self, inst: Instance, bound: Sequence[int]) -> Term:
        """The extremum of one cell. Of a single element it is that element, or the part of a
        named extremum over one index."""
        if inst.bound or any(inst.hi[j] - inst.lo[j] != 1 for j in bound):
            return self.products.name(inst)
        if not self.table.defining:
            found = self.table.find(replace(inst, single=True))
            if found is not None:
                self.table.fire(lemmas.SINGLE_SUMMAND)
                return found
        (lin,) = inst.operands
        if len(lin) == 1 and lin[0][1] == 1:
            return lin[0][0]
        return self.products.name(inst)

    @staticmethod
    def _check_disjoint(cells: list[Cell]) -> None:
        if len(cells) > 256:
            raise Unsupported("too many pieces")
        for i, a in enumerate(cells):
            for b in cells[:i]:
                if views.meet(a.lo, a.hi, b.lo, b.hi) is not None:
                    raise Unsupported("an extremum over pieces that overlap in part")

    def join_extrema(self, kind: str, terms: Sequence[Term]) -> Term:
        """Maximum of maxima (minimum of minima) over parts of one reduction: the parts must cover
        an interval; overlap does no harm. A maximum inside another function does not join."""
        if all(t == terms[0] for t in terms[1:]):
            return terms[0]
        terms = as_parts(self.table, kind, terms)
        first = terms[0]
        if len(first.restr) != 1 or first.restr[0][0][0] != kind:
            raise Unsupported("an extremum over unlike pieces")
        label = first.restr[0][0]
        spans: list[tuple[Size, Size]] = []
        for t in terms:
            if t._replace(restr=()) != first._replace(restr=()) or len(t.restr) != 1:
                raise Unsupported("an extremum over unlike pieces")
            if t.restr[0][0] != label:
                raise Unsupported("an extremum over unlike pieces")
            spans.append(t.restr[0][1:])
        lo, hi = cover(spans)
        self.table.fire(lemmas.EXTREMA)
        mid = () if self.table.full(label) == (lo, hi) else ((label, lo, hi),)
        return first._replace(restr=mid)

    def _signature(self, a: alg.Signature, vals: list[Val], out: TensorType) -> Val:
        used = [p for p in range(len(vals)) if p not in a.unused]
        together = bring_together([vals[p] for p in used], [a.operands[p] for p in used], a.output)
        bound = [j for x in together.labels if x not in a.output for j in together.axes(x)]
        whole = [j for x in a.whole if x in together.labels for j in together.axes(x)]
        linear = [used.index(p) for p in a.linear if p in used]
        parts = []
        for lo, hi, lins in joined(self.guards, together.dims, together.cells, whole):
            for j in whole:
                if all(t.ax[j] is None for lin in lins for t, _ in lin):
                    raise Unsupported("a whole axis is constant")
            inst = Instance(
                external(a.fn), a.attrs, lo, hi, tuple(lins), tuple(bound), tuple(whole)
            )
            parts.append((lo, hi, self.instance(inst, linear)))
        return project(self.table, together, a.output, parts)

    # ---- creation

    def _constant(self, a: alg.Constant, vals: list[Val], out: TensorType) -> Val:
        if isinstance(a.value, float):
            raise Unsupported(f"the constant {a.value}")
        return blocks.filled(out.shape, lambda n: constant(a.value, n))

    def _iota(self, a: alg.Iota, vals: list[Val], out: TensorType) -> Val:
        def lin(n: int) -> Lin:
            ax: tuple[blocks.Walk, ...] = ((0, a.step),) * n
            return ((Term(IOTA, ax, (a.start,)), ONE),)

        return blocks.filled(out.shape, lin)

    def _undefined(self, a: alg.Undefined, vals: list[Val], out: TensorType) -> Val:
        return self._no_value(out, "contents are not defined")

    def _no_value(self, out: TensorType, reason: str) -> Val:
        """A tensor that holds no numbers that are known to be any."""
        atom = self.table.fresh(self.table.name or "undefined")
        self.undefined.add(atom)
        self.reasons[atom] = reason
        return blocks.atom_val(atom, out.shape)

    # ---- integers and booleans


# ------------------------------------------------------------------ helpers


VIEWS = (alg.Identity, alg.Reshape, alg.Permute, alg.Slice, alg.Concat, alg.Expand)


def _terms(v: Val) -> Iterable[Term]:
    return (t for c in v.cells for t, _ in c.lin)


INTERNAL = frozenset(("lin", "sum", "prod", "power", "ge", "eq", "max", "min"))


def external(fn: str) -> str:
    """The name of an operator's function; never one that inference gives a meaning of its own."""
    return f"{fn} operator" if fn in INTERNAL else fn


def view(v: Val, f: Callable[[Val], Val]) -> Val:
    """Apply a rearrangement to a value and to the tensor it is a function of."""
    out = f(v)
    index = v.index.map_base(f) if v.index is not None else None
    return Val(out.dims, out.cells, index)


def scale_val(v: Val, by: Coef) -> Val:
    if by == 1:
        return v
    cells = tuple(
        Cell(c.lo, c.hi, tuple((t, k * by) for t, k in c.lin) if by != 0 else ()) for c in v.cells
    )
    return Val(v.dims, cells)


def cover(spans: Sequence[tuple[Size, Size]]) -> tuple[Size, Size]:
    """The interval that intervals cover without a gap.

    Raises:
        Unsupported: there is a gap.
    """
    left = list(spans)
    lo, hi = left.pop(0)
    while left:
        for k, (a, b) in enumerate(left):
            if _ge(hi, a) and _ge(b, lo):
                lo, hi = smin(lo, a), smax(hi, b)
                del left[k]
                break
        else:
            raise Unsupported("maxima that do not cover one interval")
    return lo, hi


def _coefficient(c: Fraction | Poly) -> Coef:
    """A factor of an operator. Symbolic ones must be positive: a coefficient is never 0 for some
    values of the symbols only."""
    if isinstance(c, Fraction):
        return c
    if not _ge(c, 1):
        raise Unsupported(f"the factor {c} may be 0")
    return from_size(c)


def _ge(a: Size, b: Size) -> bool:
    from shardproof.ir.sizes import at_least

    return at_least(a, b)


def _fields(x: Any) -> tuple[Any, ...]:
    return tuple(getattr(x, f) for f in getattr(x, "__slots__", ()))


def _rank_symbols(x: Any) -> set[Any]:
    if isinstance(x, Poly):
        return {s for s in symbols(x) if s.extent is not None}
    if isinstance(x, tuple | list):
        return {s for y in x for s in _rank_symbols(y)}
    if isinstance(x, dict):
        return {s for y in x.values() for s in _rank_symbols(y)}
    if hasattr(x, "num"):
        return _rank_symbols((x.num, x.den))
    return set()


__all__ = ["Box", "Evaluator", "from_size", "scale_val", "view"]
