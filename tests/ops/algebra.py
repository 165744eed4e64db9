"""Checks a declared algebra against the reference evaluation, from the declaration alone."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.ops.samples import Call, Rng

from shardproof.ops import base
from shardproof.ops.base import ONE, Algebra, Array

TOLERANCE = 1e-9
Run = Callable[[tuple[Array, ...]], Array]


class Rejected(AssertionError):
    """The declaration and the evaluation disagree."""


def same(got: Array, expected: Array, what: str) -> None:
    """Require equality up to rounding, infinities and not-a-number included."""
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape:
        raise Rejected(f"{what}: shape {got.shape}, expected {expected.shape}")
    a, b = got.astype(float), expected.astype(float)
    if not np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
        raise Rejected(f"{what}: {a} is not {b}")


def check(call: Call, declared: tuple[Algebra, ...], rng: Rng) -> None:
    """Reject any declared algebra that does not hold for this call."""
    for k, algebra in enumerate(declared):
        check_output(call, k, algebra, rng)


def check_output(call: Call, k: int, algebra: Algebra, rng: Rng) -> None:
    """Reject the algebra of output ``k`` if it does not hold for this call."""

    def run(arrays: tuple[Array, ...]) -> Array:
        return call.run(arrays)[k]

    CHECKS[type(algebra)](algebra, call.arrays, run, rng)


def _number(x: Any) -> float:
    return float(x)


# ------------------------------------------------------------------------------ formulas


def _formula(fn: Callable[..., Array]) -> Callable[[Any, tuple[Array, ...], Run, Rng], None]:
    """A check that compares with a formula of the operands."""

    def checker(algebra: Any, arrays: tuple[Array, ...], run: Run, rng: Rng) -> None:
        same(run(arrays), fn(algebra, *arrays), type(algebra).__name__)

    return checker


def _linear(a: base.Linear, *arrays: Array) -> Array:
    if len(a.coefs) != len(arrays):
        raise Rejected("Linear: one coefficient an operand")
    terms = (_number(c) * x.astype(float) for c, x in zip(a.coefs, arrays, strict=True))
    return sum(terms, start=np.asarray(_number(a.constant)))


def _monomial(a: base.Monomial, *arrays: Array) -> Array:
    if len(a.exponents) != len(arrays):
        raise Rejected("Monomial: one exponent an operand")
    powers = (x.astype(float) ** _number(e) for x, e in zip(arrays, a.exponents, strict=True))
    return functools.reduce(np.multiply, powers)


def _contract(a: base.Contract, *arrays: Array) -> Array:
    sizes = extents(a.operands, arrays)
    letters = dict(zip(sizes, "abcdefghijklmnopqrstuvwxyz", strict=False))
    plain = [_drop_ones(x, names) for x, names in zip(arrays, a.operands, strict=True)]
    words = ["".join(letters[n] for n in names if n != ONE) for names in a.operands]
    out = "".join(letters[n] for n in a.output if n != ONE)
    total = np.einsum(",".join(words) + "->" + out, *plain)
    if a.scale_by_count:
        summed = [n for name, n in sizes.items() if name not in a.output]
        total = total / np.prod(summed, dtype=float)
    return np.asarray(total)[tuple(None if n == ONE else slice(None) for n in a.output)]


def _drop_ones(x: Array, names: tuple[str, ...]) -> Array:
    return np.asarray(x[tuple(0 if n == ONE else slice(None) for n in names)])


def _extremum(a: base.Extremum, x: Array) -> Array:
    fn = {"max": np.maximum, "min": np.minimum}[a.kind]
    out = x
    for d in sorted(a.dims, reverse=True):
        out = functools.reduce(fn, np.split(out, out.shape[d], axis=d))
    return out if a.keepdim else out.squeeze(a.dims)


def _compare(a: base.Compare, x: Array, y: Array | None = None) -> Array:
    difference = x - (y if y is not None else _number(a.value))
    table = {
        "lt": difference < 0, "le": difference <= 0, "gt": difference > 0,
        "ge": difference >= 0, "eq": difference == 0, "ne": difference != 0,
    }  # fmt: skip
    return table[a.kind]


def _logic(a: base.Logic, *arrays: Array) -> Array:
    x, *rest = (b.astype(int) for b in arrays)
    if a.kind == "not":
        return 1 - x
    (y,) = rest
    return {"and": x * y, "or": x + y - x * y, "xor": x + y - 2 * x * y}[a.kind]


def _select(a: base.Select, *arrays: Array) -> Array:
    if len(arrays) != (3 if a.other is None else 2):
        raise Rejected(f"Select with {len(arrays)} operands")
    if a.other is None:
        condition, yes, no = arrays
    else:
        no, condition = arrays
        yes = np.asarray(_number(a.other))
    out = np.broadcast_arrays(condition, yes, no)
    return np.array(
        [y if c else n for c, y, n in zip(*(o.flat for o in out), strict=True)], dtype=float
    ).reshape(out[0].shape)


def _one_hot(ids: Array, size: int) -> Array:
    return (ids[..., None] == np.arange(size)).astype(float)


def _put_along(a: base.PutAlong, x: Array, ids: Array, v: Array) -> Array:
    hot = _one_hot(ids, x.shape[-1])
    return (1 - hot) * x + hot * v[..., None]


def _add_rows(a: base.AddRows, g: Array, ids: Array) -> Array:
    rows = int(_number(a.rows))
    flat = g.reshape(ids.size, *g.shape[ids.ndim :])
    return np.tensordot(_one_hot(ids.reshape(-1), rows), flat, axes=(0, 0))


def _slice(a: base.Slice, x: Array) -> Array:
    return np.take(x, np.arange(int(_number(a.start)), int(_number(a.stop))), axis=a.dim)


def _iota(a: base.Iota, got: Array) -> None:
    same(got, np.array([a.start + i * a.step for i in range(got.size)], dtype=int), "Iota")


def _no_operands(
    fn: Callable[[Any, Array], None],
) -> Callable[[Any, tuple[Array, ...], Run, Rng], None]:
    return lambda algebra, arrays, run, rng: fn(algebra, run(arrays))


# ------------------------------------------------------------------------------ properties


def extents(operands: tuple[tuple[str, ...], ...], arrays: tuple[Array, ...]) -> dict[str, int]:
    """The extent of every label; rejects labels that do not fit the operands."""
    sizes: dict[str, int] = {}
    for names, x in zip(operands, arrays, strict=True):
        if len(names) != x.ndim:
            raise Rejected(f"labels {names} for an operand with {x.ndim} dims")
        inner = [n for n in names if n != ONE]
        if len(set(inner)) != len(inner):
            raise Rejected(f"labels {names} repeat")
        for name, n in zip(names, x.shape, strict=True):
            if n != (1 if name == ONE else sizes.setdefault(name, n)):
                raise Rejected(f"label {name} has extents {n} and {sizes.get(name)}")
    return sizes


def _pointwise(a: base.Pointwise, arrays: tuple[Array, ...], run: Run, rng: Rng) -> None:
    out = run(arrays)
    flat = [np.broadcast_to(x, out.shape).reshape(-1) for x in arrays]
    picked = rng.integers(0, max(out.size, 1), size=min(out.size, 5))
    same(run(tuple(f[picked] for f in flat)), out.reshape(-1)[picked], f"{a.fn} elementwise")
    _check_linear(a.linear, arrays, run, rng, a.fn)
    if a.commutative:
        same(run(arrays[::-1]), out, f"{a.fn} commutative")


def _check_linear(
    operands: tuple[int, ...], arrays: tuple[Array, ...], run: Run, rng: Rng, what: str
) -> None:
    for k in operands:
        other, c = rng.uniform(-2, 2, size=arrays[k].shape), rng.uniform(-2, 2)
        mixed = [*arrays]
        mixed[k] = arrays[k] + c * other
        second = [*arrays]
        second[k] = other
        expected = run(arrays) + c * run(tuple(second))
        same(run(tuple(mixed)), expected, f"{what} linear in operand {k}")


def _signature(a: base.Signature, arrays: tuple[Array, ...], run: Run, rng: Rng) -> None:
    sizes = extents(a.operands, arrays)
    out = run(arrays)
    fresh = [n for n in a.output if n != ONE and n not in sizes]
    dropped = [n for n in sizes if n not in a.output]
    if not {*fresh, *dropped} <= set(a.whole) <= {*sizes, *fresh}:
        raise Rejected(f"{a.fn}: labels that come or go must be whole: {fresh}, {dropped}")
    for name in (n for n in sizes if n not in a.whole):
        picked = rng.integers(0, sizes[name], size=rng.integers(1, 5))
        moved = tuple(
            _take(x, names, name, picked) for x, names in zip(arrays, a.operands, strict=True)
        )
        same(run(moved), _take(out, a.output, name, picked), f"{a.fn} along {name}")
    _check_linear(a.linear, arrays, run, rng, a.fn)
    for k in a.unused:
        other = [*arrays]
        other[k] = rng.uniform(-2, 2, size=arrays[k].shape)
        same(run(tuple(other)), out, f"{a.fn} does not use operand {k}")


def _take(x: Array, names: tuple[str, ...], name: str, picked: Array) -> Array:
    return np.take(x, picked, axis=names.index(name)) if name in names else x


CHECKS: dict[type, Callable[[Any, tuple[Array, ...], Run, Rng], None]] = {
    base.Identity: _formula(lambda a, x: x),
    base.Linear: _formula(_linear),
    base.Monomial: _formula(_monomial),
    base.Contract: _formula(_contract),
    base.Extremum: _formula(_extremum),
    base.Compare: _formula(_compare),
    base.Logic: _formula(_logic),
    base.Select: _formula(_select),
    base.Reshape: _formula(lambda a, x: np.array(list(x.flat)).reshape(a.shape)),
    base.Permute: _formula(lambda a, x: np.einsum(x, range(x.ndim), a.perm)),
    base.Slice: _formula(_slice),
    base.Concat: _formula(
        lambda a, *xs: np.moveaxis(
            np.array(list(itertools.chain(*(np.moveaxis(x, a.dim, 0) for x in xs)))).reshape(
                -1, *np.moveaxis(xs[0], a.dim, 0).shape[1:]
            ),
            0,
            a.dim,
        )
    ),
    base.Expand: _formula(lambda a, x: x + np.zeros(a.shape)),
    base.TakeRows: _formula(lambda a, t, ids: np.tensordot(_one_hot(ids, len(t)), t, axes=1)),
    base.TakeAlong: _formula(lambda a, x, ids: (_one_hot(ids, x.shape[-1]) * x).sum(-1)),
    base.AddRows: _formula(_add_rows),
    base.PutAlong: _formula(_put_along),
    base.Constant: _no_operands(
        lambda a, got: same(got, np.full(got.shape, _number(a.value)), "Constant")
    ),
    base.Iota: _no_operands(_iota),
    base.Undefined: _no_operands(lambda a, got: None),
    base.Pointwise: _pointwise,
    base.Signature: _signature,
}
