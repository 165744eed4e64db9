"""The stand-in for operators that nobody has declared."""

from __future__ import annotations

from shardproof.ir.graph import Attrs, TensorType
from shardproof.ops import attributes as at
from shardproof.ops.base import Algebra, Opaque, ShapeError
from shardproof.ops.declare import declare


def _outputs(attrs: Attrs) -> tuple[TensorType, ...]:
    if "shapes" not in attrs:
        return (TensorType(at.dtype(attrs), at.sizes(attrs, "shape")),)
    shapes, dtypes = attrs["shapes"], attrs.get("dtypes")
    if not isinstance(shapes, tuple) or not isinstance(dtypes, tuple):
        raise ShapeError("attributes 'shapes' and 'dtypes' must be tuples")
    if len(shapes) != len(dtypes):
        raise ShapeError(f"{len(shapes)} shapes and {len(dtypes)} dtypes were given")
    return tuple(
        TensorType(at.dtype({"dtypes": d}, "dtypes"), at.sizes({"shapes": s}, "shapes"))
        for s, d in zip(shapes, dtypes, strict=True)
    )


def _algebra(inputs: tuple[TensorType, ...], attrs: Attrs) -> tuple[Algebra, ...]:
    reason = f"operator {attrs['target']} has no declaration"
    return tuple(Opaque(reason) for _ in _outputs(attrs))


declare(
    "opaque", "*", "target *",
    doc="""An operator of the user's program that has no declaration. `target` is its name there,
    `shape` and `dtype` describe its output (`shapes` and `dtypes`, tuples, where it has several).
    What depends on it is unproved, and it cannot be evaluated.""",
    types=lambda inputs, attrs: _outputs(attrs),
    algebra=_algebra,
    evaluate=None,
)  # fmt: skip
