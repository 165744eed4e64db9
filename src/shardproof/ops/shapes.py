"""Rules that many shape rules share: broadcasting, promotion of element types, reductions."""

from __future__ import annotations

from collections.abc import Iterable

from shardproof.ir.graph import TensorType, is_bool, is_float, is_integer
from shardproof.ir.sizes import Size
from shardproof.ops.base import ONE, ShapeError

_INTEGERS = ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64")
_FLOATS = ("f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64")
_MIXED = {("u8", "i8"): "i16", ("u16", "i16"): "i32", ("f16", "bf16"): "f32"}


def text(shape: Iterable[Size]) -> str:
    """A shape as text."""
    return "[" + ", ".join(map(str, shape)) + "]"


def broadcast(*shapes: tuple[Size, ...]) -> tuple[Size, ...]:
    """The shape that NumPy broadcasting gives.

    Sizes are equal only if they are the same polynomial: two different symbols might have
    different values, and then the program would not run.
    """
    rank = max(map(len, shapes), default=0)
    out: list[Size] = [1] * rank
    for shape in shapes:
        for k, n in enumerate(shape, start=rank - len(shape)):
            if n == 1 or n == out[k]:
                continue
            if out[k] != 1:
                raise ShapeError(
                    f"cannot broadcast {' and '.join(map(text, shapes))}: "
                    f"{out[k]} and {n} are not shown to be equal"
                )
            out[k] = n
    return tuple(out)


def expands(shape: tuple[Size, ...], to: tuple[Size, ...]) -> bool:
    """Whether NumPy broadcasting turns ``shape`` into ``to``."""
    skip = len(to) - len(shape)
    return skip >= 0 and all(n in (1, m) for n, m in zip(shape, to[skip:], strict=True))


def promote(inputs: Iterable[TensorType]) -> str:
    """The element type of a mixed elementwise operation.

    The highest kind (boolean, integer, float, complex) wins; within it the widest type of the
    operands that have dims, or of the scalars if there are no others.
    """
    types = list(inputs)
    top = max(_kind(t.dtype) for t in types)
    same = [t for t in types if _kind(t.dtype) == top]
    out = ""
    for t in [t for t in same if t.rank] or same:
        out = _wider(out, t.dtype) if out else t.dtype
    return out


def _kind(dtype: str) -> int:
    return 0 if is_bool(dtype) else 1 if is_integer(dtype) else 2 if is_float(dtype) else 3


def _wider(a: str, b: str) -> str:
    for order in (_INTEGERS, _FLOATS, ("c64", "c128"), ("b8",)):
        if a in order and b in order:
            a, b = sorted((a, b), key=order.index)
            return _MIXED.get((a, b), b)
    raise ShapeError(f"cannot promote {a} and {b}")


def floating(dtype: str) -> str:
    """The element type of a real function of a tensor: that of the tensor, f32 of integers."""
    return dtype if _kind(dtype) >= 2 else "f32"


def integral(dtype: str) -> bool:
    """Whether elements are integers or booleans."""
    return _kind(dtype) < 2


def same_shape(*named: tuple[str, TensorType]) -> tuple[Size, ...]:
    """The shape that all given operands have."""
    (first, t0), *rest = named
    for name, t in rest:
        if t.shape != t0.shape:
            raise ShapeError(
                f"{name} must have the shape {text(t0.shape)} of {first}, got {text(t.shape)}"
            )
    return t0.shape


def need_shape(name: str, t: TensorType, shape: tuple[Size, ...]) -> None:
    """Refuse an operand that has not exactly this shape."""
    if t.shape != shape:
        raise ShapeError(f"{name} must have shape {text(shape)}, got {text(t.shape)}")


def need_bool(name: str, t: TensorType) -> None:
    """Refuse an operand that is not boolean."""
    if not is_bool(t.dtype):
        raise ShapeError(f"{name} must be boolean (b8), got {t}")


def need_integer(name: str, t: TensorType) -> None:
    """Refuse an operand that is not an integer tensor."""
    if not is_integer(t.dtype):
        raise ShapeError(f"{name} must be an integer tensor, got {t}")


def reduced(shape: tuple[Size, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[Size, ...]:
    """The shape after reducing ``dims``."""
    if keepdim:
        return tuple(1 if k in dims else n for k, n in enumerate(shape))
    return tuple(n for k, n in enumerate(shape) if k not in dims)


# ------------------------------------------------------------------------------ labels


def labels(rank: int, letter: str = "i") -> tuple[str, ...]:
    """Labels ``i0, i1, ...`` for the dims of a tensor."""
    return tuple(f"{letter}{k}" for k in range(rank))


def reduced_labels(names: tuple[str, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[str, ...]:
    """Output labels after reducing ``dims``: the label ONE for a dim that is kept."""
    if keepdim:
        return tuple(ONE if k in dims else n for k, n in enumerate(names))
    return tuple(n for k, n in enumerate(names) if k not in dims)


def broadcast_labels(
    shape: tuple[Size, ...], out: tuple[Size, ...], names: tuple[str, ...]
) -> tuple[str, ...]:
    """Labels of an operand that broadcasts to dims ``out`` with labels ``names``: ONE where it
    has extent 1 and the result has not."""
    skip = len(out) - len(shape)
    return tuple(
        name if n == m else ONE for n, m, name in zip(shape, out[skip:], names[skip:], strict=True)
    )
