"""Shorthands for building core nodes: what NumPy users expect, without needless nodes."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from shardproof.ir.graph import AttrValue, Value, is_bool, is_float, is_integer
from shardproof.ir.sizes import Poly, Size, Undecided, at_least, div_mod, product, smin
from shardproof.ops.base import Scalar, ShapeError
from shardproof.ops.shapes import broadcast, promote

INT_MAX = 9223372036854775807


class Helpers:
    """Mixed into :class:`~shardproof.frontends.aten.context.LowerContext`."""

    known: dict[Value, Scalar]
    aranges: dict[Value, int]

    def emit(self, op: str, /, *inputs: Value, **attrs: AttrValue) -> Value:
        raise NotImplementedError

    def number(self, x: Any) -> Scalar:
        raise NotImplementedError

    # -- creation

    def full(self, value: Any, shape: Sequence[Size], dtype: str) -> Value:
        """A constant tensor; its value is remembered, so that idioms can be recognised."""
        v = self.number(value)
        if is_bool(dtype):
            v = Fraction(int(v != 0))
        elif is_integer(dtype) and isinstance(v, Fraction):
            v = Fraction(int(v))
        out = self.emit("full", value=v, shape=tuple(shape), dtype=dtype)
        self.known[out] = v
        return out

    def iota(self, n: Size, start: Size = 0, step: int = 1, dtype: str = "i64") -> Value:
        """``start + i * step`` for i in [0, n)."""
        out = self.emit("iota", size=n, start=start, step=step, dtype=dtype)
        if (start, step) == (0, 1):
            self.aranges[out] = 0
        return out

    def constant_of(self, x: Value) -> Scalar | None:
        """The number that every element of ``x`` is known to be."""
        return self.known.get(x)

    # -- identity and views

    def cast(self, x: Value, dtype: str) -> Value:
        """``x`` as another element type; nothing where it has it already."""
        if x.dtype == dtype:
            return x
        if x in self.known:
            return self.full(self.known[x], x.shape, dtype)
        out = self.emit("cast", x, dtype=dtype)
        if x in self.aranges:
            self.aranges[out] = self.aranges[x]
        return out

    def reshape(self, x: Value, shape: Sequence[Size]) -> Value:
        """``x`` in another shape; one size may be -1."""
        target = resolve_shape(x.shape, shape)
        if target == x.shape:
            return x
        if x in self.known and product(target) == x.type.numel:
            return self.full(self.known[x], target, x.dtype)
        out = self.emit("reshape", x, shape=target)
        if x in self.aranges:
            kept = [k for k, n in enumerate(target) if n != 1]
            if len(kept) == 1 and target[kept[0]] == x.type.numel:
                self.aranges[out] = len(target) - 1 - kept[0]
        return out

    def permute(self, x: Value, perm: Sequence[int]) -> Value:
        """Dim k of the result is dim ``perm[k]`` of ``x``."""
        if tuple(perm) == tuple(range(len(perm))) and len(perm) == len(x.shape):
            return x
        return self.emit("permute", x, perm=tuple(perm))

    def move(self, x: Value, source: int, target: int) -> Value:
        """``x`` with one dim moved to another place."""
        perm = [k for k in range(len(x.shape)) if k != source]
        perm.insert(target, source)
        return self.permute(x, perm)

    def slice(self, x: Value, dim: int, start: Size, stop: Size) -> Value:
        """Elements [start, stop) along ``dim``."""
        if start == 0 and stop == x.shape[dim]:
            return x
        return self.emit("slice", x, dim=dim, start=start, stop=stop)

    def concat(self, xs: Sequence[Value], dim: int) -> Value:
        """``xs`` one after another along ``dim``; empty parts are left out."""
        parts = [x for x in xs if x.shape[dim] != 0] or [xs[0]]
        dtype = promote(x.type for x in xs)
        if len(parts) == 1:
            return self.cast(parts[0], dtype)
        return self.emit("concat", *parts, dim=dim)

    def expand(self, x: Value, shape: Sequence[Size]) -> Value:
        """``x`` broadcast to ``shape``."""
        target = tuple(shape)
        if target == x.shape:
            return x
        if x in self.known and broadcast(x.shape, target) == target:
            return self.full(self.known[x], target, x.dtype)
        return self.emit("expand", x, shape=target)

    def unsqueeze(self, x: Value, dim: int) -> Value:
        """A new dim of extent 1 before ``dim`` (after the last for ``dim == rank``)."""
        return self.reshape(x, (*x.shape[:dim], 1, *x.shape[dim:]))

    def drop(self, x: Value, dim: int) -> Value:
        """``x`` without its dim ``dim``, which has extent 1."""
        return self.reshape(x, (*x.shape[:dim], *x.shape[dim + 1 :]))

    # -- arithmetic; operands may be numbers

    def value(self, x: Any, like: Value) -> Value:
        """A number as a scalar tensor, of the kind that it takes beside ``like``."""
        if isinstance(x, Value):
            return x
        return self.full(x, (), scalar_dtype(x, like))

    def scale(self, x: Value, by: Any) -> Value:
        """``x`` times a number. A node even for 1: the graphs of all ranks keep one form."""
        n = self.number(by)
        if isinstance(n, Fraction):
            return self.emit("scale", self.widen(x, by), by=n)
        return self.emit("mul", x, self.value(by, x))

    def shift(self, x: Value, by: Any) -> Value:
        """``x`` plus a number. A node even for 0, as the first rank's offset often is."""
        n = self.number(by)
        if isinstance(n, float):
            return self.emit("add", x, self.value(by, x))
        out = self.emit("shift", self.widen(x, by), by=n)
        if n == 0 and x in self.aranges:
            self.aranges[out] = self.aranges[x]
        return out

    def widen(self, x: Value, number: Any) -> Value:
        """``x`` as f32 where it is an integer tensor that meets a float number."""
        if isinstance(number, float) and not is_float(x.dtype) and x.dtype[0] != "c":
            return self.cast(x, "f32")
        return x

    def add(self, a: Value, b: Value) -> Value:
        """``a + b``."""
        return self.emit("add", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        """``a - b``."""
        return self.emit("sub", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        """``a * b``."""
        return self.emit("mul", a, b)

    def div(self, a: Value, b: Value) -> Value:
        """``a / b``."""
        return self.emit("div", a, b)

    def matmul(self, a: Value, b: Value) -> Value:
        """Matrix product by NumPy's rules."""
        return self.emit("matmul", a, b)

    def sum(self, x: Value, dims: Sequence[int], keepdim: bool = False) -> Value:
        """Sum over ``dims``; nothing where there are none."""
        if not dims:
            return x
        return self.emit("sum", x, dims=tuple(sorted(dims)), keepdim=keepdim)

    def floating(self, x: Value) -> Value:
        """``x`` as a float tensor."""
        return x if is_float(x.dtype) or x.dtype[0] == "c" else self.cast(x, "f32")

    def compare(self, kind: str, a: Value, b: Any) -> Value:
        """Elementwise comparison with a tensor or a number."""
        if isinstance(b, Value):
            known = self.known.get(b)
            if known is None or b.shape:
                return self.emit("compare", a, b, kind=kind)
            b = known
        return self.emit("compare", a, kind=kind, value=self.number(b))

    def truth(self, x: Value) -> Value:
        """``x != 0`` as a boolean tensor."""
        return x if is_bool(x.dtype) else self.compare("ne", x, 0)

    def logic(self, kind: str, *xs: Value) -> Value:
        """and, or, xor, not of boolean tensors."""
        return self.emit("logic", *xs, kind=kind)

    def where(self, c: Value, a: Value, b: Value) -> Value:
        """``a if c else b``; a masked fill where ``a`` is a known number."""
        known = self.known.get(a)
        dtype = promote((a.type, b.type))
        if known is not None and b not in self.known and not isinstance(known, Poly):
            shape = broadcast(c.shape, a.shape, b.shape)
            return self.masked_fill(self.expand(self.cast(b, dtype), shape), c, known)
        return self.emit("where", c, self.cast(a, dtype), self.cast(b, dtype))

    def masked_fill(self, x: Value, mask: Value, value: Any) -> Value:
        """``value if mask else x``; ``mask`` broadcasts to ``x``."""
        return self.emit("masked_fill", x, mask, value=self.number(value))


# ------------------------------------------------------------------------------ shapes


def dim_of(x: Value | int, dim: int, extra: int = 0) -> int:
    """A dim counted from the front; ``extra`` more are allowed (for a dim to insert)."""
    rank = (x if isinstance(x, int) else len(x.shape)) + extra
    limit = max(rank, 1)
    if not isinstance(dim, int) or not -limit <= dim < limit:
        raise ShapeError(f"dim {dim} of a tensor with {rank} dims")
    return dim % limit


def dims_of(x: Value, dims: Any) -> tuple[int, ...]:
    """Dims counted from the front, in order; None or () stands for all."""
    if dims is None or dims == ():
        return tuple(range(len(x.shape)))
    if isinstance(dims, int):
        dims = (dims,)
    if not x.shape:
        return ()
    return tuple(sorted({dim_of(x, d) for d in dims}))


def resolve_shape(old: Sequence[Size], new: Sequence[Size]) -> tuple[Size, ...]:
    """``new`` with a size -1 replaced by what the number of elements gives."""
    target = tuple(new)
    if -1 not in target:
        return target
    k = target.index(-1)
    rest = product(target[:k] + target[k + 1 :])
    if rest == 0:
        raise ShapeError("cannot infer a size of an empty tensor")
    quotient, left = div_mod(product(old), rest)
    if left != 0:
        raise ShapeError(f"shape {tuple(map(str, new))} does not fit {product(old)} elements")
    return (*target[:k], quotient, *target[k + 1 :])


def clip(index: Size | None, n: Size, default: Size) -> Size:
    """A slice bound as PyTorch reads it: from the end where negative, then within [0, n]."""
    if index is None:
        return default
    if isinstance(index, int) and index >= INT_MAX:
        return n
    if isinstance(index, int) and index < 0:
        index = n + index
        if isinstance(index, int):
            return max(index, 0)
    if isinstance(index, int) and isinstance(n, int):
        return min(index, n)
    try:
        return smin(index, n)
    except Undecided as e:
        raise ShapeError(f"slice bound {index} of a dim of size {n}") from e


def is_one(size: Size) -> bool:
    """Whether a size is 1 (a symbol is not)."""
    return isinstance(size, int) and size == 1


def nonnegative(index: Size, n: Size) -> Size:
    """An element index counted from the front."""
    if isinstance(index, int) and index < 0:
        return n + index
    if not at_least(index, 0):
        raise ShapeError(f"index {index} is not shown to be >= 0")
    return index


def scalar_dtype(x: Any, like: Value) -> str:
    """Element type of a number beside a tensor: the tensor's, unless the number is of a higher
    kind."""
    if isinstance(x, bool):
        return "b8"
    if isinstance(x, int | Poly) or (isinstance(x, Fraction) and x.denominator == 1):
        return "i64" if is_bool(like.dtype) else like.dtype
    return like.dtype if is_float(like.dtype) else "f32"
