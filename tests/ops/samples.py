"""Random calls of every operator: operands, element types and attributes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from shardproof.ir.graph import AttrValue, TensorType
from shardproof.ops.base import Array, OpDef, lookup

Rng = np.random.Generator


@dataclass(frozen=True)
class Call:
    """One application of an operator to concrete operands."""

    op: str
    arrays: tuple[Array, ...]
    attrs: dict[str, AttrValue]

    @property
    def definition(self) -> OpDef:
        return lookup(self.op)

    @property
    def types(self) -> tuple[TensorType, ...]:
        return tuple(TensorType(_DTYPE[a.dtype.kind], a.shape) for a in self.arrays)

    def run(self, arrays: tuple[Array, ...] | None = None) -> tuple[Array, ...]:
        assert self.definition.evaluate is not None
        return self.definition.evaluate(self.arrays if arrays is None else arrays, self.attrs)


_DTYPE = {"f": "f64", "i": "i64", "b": "b8"}


def calls(op: str, count: int, seed: int = 0) -> list[Call]:
    """``count`` random calls of one operator, the same ones every time."""
    rng = np.random.default_rng([seed, *op.encode()])
    return [SAMPLERS[op](op, rng) for _ in range(count)]


# ------------------------------------------------------------------------------ operands


def shape(rng: Rng, low: int = 0, high: int = 3) -> tuple[int, ...]:
    """Up to ``high`` small extents; 1 occurs often, since broadcasting hides mistakes there."""
    return tuple(int(n) for n in rng.choice([1, 2, 3, 4], size=rng.integers(low, high + 1)))


def narrowed(rng: Rng, full: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to ``full``."""
    cut = full[int(rng.integers(0, len(full) + 1)) if rng.random() < 0.3 else 0 :]
    return tuple(1 if rng.random() < 0.3 else n for n in cut)


def real(rng: Rng, dims: tuple[int, ...], low: float = -2.0, high: float = 2.0) -> Array:
    return rng.uniform(low, high, size=dims)


def whole(rng: Rng, dims: tuple[int, ...], low: int = -4, high: int = 5) -> Array:
    return rng.integers(low, high, size=dims)


def truth(rng: Rng, dims: tuple[int, ...]) -> Array:
    return rng.random(size=dims) < 0.5


def number(rng: Rng) -> Fraction:
    return Fraction(int(rng.integers(-6, 7)), int(rng.integers(1, 5)))


def flag(rng: Rng) -> bool:
    return bool(rng.random() < 0.5)


def some_dims(rng: Rng, rank: int) -> tuple[int, ...]:
    return tuple(int(d) for d in rng.permutation(rank)[: rng.integers(1, rank + 1)])


# ------------------------------------------------------------------------------ elementwise

Sampler = Callable[[str, Rng], Call]
SAMPLERS: dict[str, Sampler] = {}
POSITIVE = "log log2 log10 log1p sqrt rsqrt reciprocal".split()
UNIT = "asin acos".split()
KEEPS_INTEGERS = "abs sign relu floor ceil round trunc neg maximum minimum add sub mul".split()
DIVIDES = "div remainder fmod floor_divide".split()


def _operand(op: str, rng: Rng, dims: tuple[int, ...], integer: bool) -> Array:
    if op in POSITIVE or op == "pow":
        return real(rng, dims, 0.1, 3.0)
    if op in UNIT:
        return real(rng, dims, -0.95, 0.95)
    return whole(rng, dims) if integer else real(rng, dims, -3.0, 3.0)


def _unary(op: str, rng: Rng, **attrs: AttrValue) -> Call:
    integer = rng.random() < 0.3
    return Call(op, (_operand(op, rng, shape(rng), integer),), attrs)


def _binary(op: str, rng: Rng, **attrs: AttrValue) -> Call:
    full, integer = shape(rng), op in (*KEEPS_INTEGERS, *DIVIDES) and rng.random() < 0.3
    a = _operand(op, rng, narrowed(rng, full), integer)
    b = _operand(op, rng, narrowed(rng, full), integer)
    if op in DIVIDES:
        b = np.where(np.abs(b) < 0.5, 1, b)
    return Call(op, (a, b), attrs)


def _bounds(rng: Rng) -> dict[str, AttrValue]:
    out: dict[str, AttrValue] = {"min": Fraction(-1), "max": Fraction(3, 2)}
    if rng.random() < 0.5:
        out[("min", "max")[rng.integers(2)]] = None
    return out


def _each(names: str, sampler: Sampler) -> None:
    for name in names.split():
        SAMPLERS[name] = sampler


_each("wait", _unary)
_each("exp exp2 log log2 log10 log1p expm1 abs sign sin cos tan asin acos atan sinh cosh", _unary)
_each("tanh sigmoid silu relu erf erfc floor ceil round trunc softplus logsigmoid", _unary)
_each("mish hardsigmoid hardswish neg sqrt rsqrt reciprocal", _unary)
_each("add sub mul div maximum minimum atan2 pow remainder fmod floor_divide", _binary)
_each("silu_grad tanh_grad sigmoid_grad softplus_grad logsigmoid_grad", _binary)
_each("hardsigmoid_grad hardswish_grad", _binary)
for _name, _attribute in (("leaky_relu", "slope"), ("elu", "alpha")):
    SAMPLERS[_name] = lambda op, rng, a=_attribute: _unary(op, rng, **{a: abs(number(rng))})
    SAMPLERS[_name + "_grad"] = lambda op, rng, a=_attribute: _binary(
        op, rng, **{a: abs(number(rng))}
    )
SAMPLERS["gelu"] = lambda op, rng: _unary(op, rng, approximate=str(rng.choice(["none", "tanh"])))
SAMPLERS["gelu_grad"] = lambda op, rng: _binary(
    op, rng, approximate=str(rng.choice(["none", "tanh"]))
)
SAMPLERS["relu_grad"] = lambda op, rng: _binary(op, rng, threshold=abs(number(rng)))
SAMPLERS["clamp"] = lambda op, rng: Call(op, (real(rng, shape(rng)),), _bounds(rng))
SAMPLERS["clamp_grad"] = lambda op, rng: _binary(op, rng, **_bounds(rng))


def _numbered(attribute: str) -> Sampler:
    def sampler(op: str, rng: Rng) -> Call:
        x = whole(rng, shape(rng)) if rng.random() < 0.3 else real(rng, shape(rng))
        return Call(op, (x,), {attribute: number(rng)})

    return sampler


SAMPLERS["scale"] = _numbered("by")
SAMPLERS["shift"] = _numbered("by")
SAMPLERS["power"] = lambda op, rng: Call(
    op, (real(rng, shape(rng), 0.2, 2.0),), {"exponent": number(rng)}
)


def _cast(op: str, rng: Rng) -> Call:
    dims = shape(rng)
    x = (real(rng, dims, -400, 400), whole(rng, dims, -400, 400), truth(rng, dims))[rng.integers(3)]
    return Call(op, (x,), {"dtype": str(rng.choice("f64 f32 bf16 i64 i32 i16 i8 b8".split()))})


SAMPLERS["cast"] = _cast

# ------------------------------------------------------------------------------ contraction


def _matmul(op: str, rng: Rng) -> Call:
    batch, (m, k, n) = shape(rng, 0, 2), rng.integers(1, 5, size=3)
    a = real(rng, (*narrowed(rng, batch), m, k))
    b = real(rng, (*narrowed(rng, batch), k, n))
    a = real(rng, (k,)) if rng.random() < 0.2 else a
    b = real(rng, (k,)) if rng.random() < 0.2 else b
    return Call(op, (a, b), {})


def _reduction(op: str, rng: Rng) -> Call:
    dims = shape(rng, 1, 3)
    x = whole(rng, dims) if rng.random() < 0.2 and op not in ("logsumexp",) else real(rng, dims)
    attrs: dict[str, AttrValue] = {"dims": some_dims(rng, x.ndim)}
    if flag(rng):
        attrs["keepdim"] = flag(rng)
    return Call(op, (x,), attrs)


def _one_dim(count: int, extra: Callable[[Rng], dict[str, AttrValue]]) -> Sampler:
    def sampler(op: str, rng: Rng) -> Call:
        dims = shape(rng, 1, 3)
        arrays = tuple(real(rng, dims) for _ in range(count))
        return Call(op, arrays, {"dim": int(rng.integers(len(dims))), **extra(rng)})

    return sampler


SAMPLERS["matmul"] = _matmul
_each("sum mean max min prod logsumexp", _reduction)
_each("softmax log_softmax cumsum", _one_dim(1, lambda rng: {}))
_each("softmax_grad log_softmax_grad", _one_dim(2, lambda rng: {}))
_each("argmax argmin", _one_dim(1, lambda rng: {"keepdim": flag(rng)}))
_each("sort", _one_dim(1, lambda rng: {"descending": flag(rng)}))


def _topk(op: str, rng: Rng) -> Call:
    call = _one_dim(1, lambda r: {"largest": flag(r)})(op, rng)
    k = int(rng.integers(0, call.arrays[0].shape[int(call.attrs["dim"])] + 1))  # type: ignore[call-overload]
    return Call(op, call.arrays, {**call.attrs, "k": k})


SAMPLERS["topk"] = _topk

# ------------------------------------------------------------------------------ norms, attention


def _norm(most: int) -> Sampler:
    def sampler(op: str, rng: Rng) -> Call:
        outer, inner = shape(rng, 0, 2), tuple(rng.integers(2, 5, size=rng.integers(1, 3)))
        weights = [real(rng, inner) for _ in range(rng.integers(0, most + 1))]
        attrs: dict[str, AttrValue] = {"naxes": len(inner), "eps": Fraction(1, 10**5)}
        return Call(op, (real(rng, (*outer, *inner)), *weights), attrs)

    return sampler


def _norm_grad(statistics: int) -> Sampler:
    def sampler(op: str, rng: Rng) -> Call:
        outer, inner = shape(rng, 0, 2), tuple(rng.integers(2, 5, size=rng.integers(1, 3)))
        saved = [real(rng, outer, 0.2, 1.0) for _ in range(statistics)]
        weights = [real(rng, inner)] if flag(rng) else []
        both = real(rng, (2, *outer, *inner))
        return Call(op, (both[0], both[1], *saved, *weights), {"naxes": len(inner)})

    return sampler


def _attention_operands(rng: Rng) -> tuple[list[Array], list[Array], dict[str, AttrValue]]:
    b, h, t, s, d, e = (int(n) for n in rng.integers(1, 5, size=6))
    operands = [real(rng, (b, h, t, d)), real(rng, (b, h, s, d)), real(rng, (b, h, s, e))]
    mask = []
    if flag(rng):
        dims = narrowed(rng, (b, h, t, s))
        mask = [real(rng, dims)]
        if flag(rng):
            seen = truth(rng, dims)
            if seen.ndim and s > 0:
                seen[..., 0] = True
            mask = [seen if seen.ndim else np.asarray(True)]
    return operands, mask, {"causal": flag(rng), "scale": Fraction(int(rng.integers(1, 5)), 3)}


def _attention(op: str, rng: Rng) -> Call:
    operands, mask, attrs = _attention_operands(rng)
    return Call(op, (*operands, *mask), attrs)


def _attention_grad(op: str, rng: Rng) -> Call:
    operands, mask, attrs = _attention_operands(rng)
    q, _, v = operands
    out = (*q.shape[:3], v.shape[3])
    # Not the outputs of a forward pass on purpose: a block of keys gets them from all blocks.
    dout, saved, lse = real(rng, out), real(rng, out), real(rng, q.shape[:3])
    return Call(op, (dout, *operands, saved, lse, *mask), attrs)


SAMPLERS["layer_norm"] = _norm(0)
SAMPLERS["layer_norm_affine"] = _norm(2)
SAMPLERS["rms_norm"] = _norm(1)
SAMPLERS["layer_norm_grad"] = _norm_grad(2)
SAMPLERS["rms_norm_grad"] = _norm_grad(1)
SAMPLERS["attention"] = _attention
SAMPLERS["attention_grad"] = _attention_grad

# ------------------------------------------------------------------------------ views, creation


def _reshape(op: str, rng: Rng) -> Call:
    dims = shape(rng, 0, 3)
    n = int(np.prod(dims, dtype=int))
    options: list[tuple[int, ...]] = [(n,), (1, n), (n, 1), dims[::-1], (*dims, 1)]
    options += [(d, n // d) for d in (2, 3) if n % d == 0]
    return Call(op, (real(rng, dims),), {"shape": options[rng.integers(len(options))]})


def _permute(op: str, rng: Rng) -> Call:
    dims = shape(rng, 0, 4)
    return Call(op, (real(rng, dims),), {"perm": tuple(map(int, rng.permutation(len(dims))))})


def _slice(op: str, rng: Rng) -> Call:
    dims = shape(rng, 1, 3)
    dim = int(rng.integers(len(dims)))
    start, stop = sorted(int(n) for n in rng.integers(0, dims[dim] + 1, size=2))
    return Call(op, (real(rng, dims),), {"dim": dim, "start": start, "stop": stop})


def _concat(op: str, rng: Rng) -> Call:
    dims = list(shape(rng, 1, 3))
    dim = int(rng.integers(len(dims)))
    parts = [
        real(rng, (*dims[:dim], int(rng.integers(0, 4)), *dims[dim + 1 :]))
        for _ in range(rng.integers(1, 4))
    ]
    return Call(op, tuple(parts), {"dim": dim})


def _expand(op: str, rng: Rng) -> Call:
    full = shape(rng)
    return Call(op, (real(rng, narrowed(rng, full)),), {"shape": full})


def _full(op: str, rng: Rng) -> Call:
    value, dtype = ((number(rng), "f32"), (int(whole(rng, ())), "i64"), (True, "b8"))[
        rng.integers(3)
    ]
    return Call(op, (), {"value": value, "shape": shape(rng), "dtype": dtype})


def _iota(op: str, rng: Rng) -> Call:
    size, start, step = int(rng.integers(0, 5)), int(whole(rng, ())), int(whole(rng, ()))
    return Call(op, (), {"size": size, "start": start, "step": step, "dtype": "i64"})


SAMPLERS["reshape"] = _reshape
SAMPLERS["permute"] = _permute
SAMPLERS["slice"] = _slice
SAMPLERS["concat"] = _concat
SAMPLERS["expand"] = _expand
SAMPLERS["full"] = _full
SAMPLERS["iota"] = _iota
SAMPLERS["undefined"] = lambda op, rng: Call(
    op, (), {"shape": shape(rng), "dtype": str(rng.choice(["f32", "i64", "b8"]))}
)

# ------------------------------------------------------------------------------ integer, lookup


def _compare(op: str, rng: Rng) -> Call:
    kind = str(rng.choice("lt le gt ge eq ne".split()))
    full = shape(rng)
    a = whole(rng, narrowed(rng, full))
    if flag(rng):
        return Call(op, (a,), {"kind": kind, "value": int(whole(rng, ()))})
    return Call(op, (a, whole(rng, narrowed(rng, full))), {"kind": kind})


def _logic(op: str, rng: Rng) -> Call:
    kind, full = str(rng.choice("and or xor not".split())), shape(rng)
    count = 1 if kind == "not" else 2
    arrays = tuple(truth(rng, narrowed(rng, full)) for _ in range(count))
    return Call(op, tuple(np.asarray(a) for a in arrays), {"kind": kind})


def _where(op: str, rng: Rng) -> Call:
    full = shape(rng)
    c = np.asarray(truth(rng, narrowed(rng, full)))
    return Call(op, (c, real(rng, narrowed(rng, full)), real(rng, narrowed(rng, full))), {})


def _masked_fill(op: str, rng: Rng) -> Call:
    full = shape(rng)
    value: Any = -np.inf if rng.random() < 0.2 else number(rng)
    x, mask = real(rng, narrowed(rng, full)), np.asarray(truth(rng, narrowed(rng, full)))
    return Call(op, (x, mask), {"value": value})


def _lookup(op: str, rng: Rng) -> Call:
    rows, outer, inner = int(rng.integers(1, 5)), shape(rng, 0, 2), shape(rng, 0, 2)
    ids = np.asarray(whole(rng, outer, 0, rows))
    if op == "take_rows":
        return Call(op, (real(rng, (rows, *inner)), ids), {})
    if op == "add_rows":
        return Call(op, (real(rng, (*outer, *inner)), ids), {"rows": rows})
    x = real(rng, (*outer, rows))
    return Call(op, (x, ids, real(rng, outer)) if op == "put_along" else (x, ids), {})


SAMPLERS["compare"] = _compare
SAMPLERS["logic"] = _logic
SAMPLERS["where"] = _where
SAMPLERS["masked_fill"] = _masked_fill
_each("take_rows take_along add_rows put_along", _lookup)

# ------------------------------------------------------------------------------ declared calls


def _signature_call(op: str, rng: Rng) -> Call:
    rows, columns, depth = (int(n) for n in rng.integers(1, 4, size=3))
    text, shapes = [
        ("i k! -> i k", [(rows, columns)]),
        ("i k!, k! -> i k", [(rows, columns), (columns,)]),
        ("i k! -> i", [(rows, columns)]),
        ("i j, j -> j i", [(rows, columns), (columns,)]),
        ("t! g d!, s! g d! -> t g d", [(rows, columns, depth), (2, columns, depth)]),
    ][rng.integers(5)]
    arrays = tuple(real(rng, dims) for dims in shapes)
    attrs: dict[str, AttrValue] = {"target": "kernel", "signature": text}
    if flag(rng):
        attrs["parameters"] = (int(rng.integers(3)),)
    if flag(rng):
        attrs["linear"] = (0,)
    return Call(op, arrays, attrs)


SAMPLERS["signature_call"] = _signature_call
