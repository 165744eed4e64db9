"""Turns placements and expressions into relation graphs, for one rank or for all at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from shardproof.errors import InputError
from shardproof.ir.builder import Builder
from shardproof.ir.graph import AttrValue, Graph, Mesh, TensorType, Value, is_float, is_integer
from shardproof.ir.sizes import Size, Undecided, div_mod, product
from shardproof.ops.base import ShapeError, infer_types
from shardproof.spec.expression import (
    Bound,
    Expr,
    Indexed,
    Joined,
    Permuted,
    Placed,
    Reshaped,
    Source,
)
from shardproof.spec.placement import (
    AxisPlacements,
    Parts,
    Placement,
    Shard,
    by_axis,
    is_placement,
)

Sources = Callable[[str, str], TensorType]
"""Type of the sequential tensor of a name; the second argument is the place for messages."""


class Lowering:
    """Builds one relation graph.

    ``coordinates`` holds the rank's index along each mesh axis: a number, or the axis symbol in a
    program that is one graph for all ranks. ``rank`` is the argument of per-rank callables.
    """

    def __init__(
        self,
        name: str,
        mesh: Mesh,
        sources: Sources,
        coordinates: Mapping[str, Size],
        rank: Size | None,
    ) -> None:
        self.graph = Graph(name)
        self.mesh = mesh
        self.rank = rank
        self._sources = sources
        self._coordinates = coordinates
        self._builder = Builder(self.graph, infer_types)
        self._inputs: dict[str, Value] = {}
        self._where = ""

    def define(self, name: str, rule: object, source: str, where: str) -> Value:
        """The value that ``rule`` (placement, expression or per-rank callable) stands for.

        ``source`` is the sequential tensor that a bare placement is about.
        """
        self._where = where
        if callable(rule) and not isinstance(rule, Expr):
            rule = self._call(rule)
        expr = rule if isinstance(rule, Expr) else Placed(Source(source), _placement(rule, where))
        try:
            return self._lower(expr)
        except (ShapeError, Undecided) as error:
            raise self._error(
                f"{expr} cannot be formed: {error}",
                "a slice, permutation, reshape or concatenation that fits the shapes",
            ) from error

    def returns(self, name: str, value: Value, wanted: TensorType, where: str) -> None:
        """Make ``value`` the output ``name``, which has the type ``wanted`` in the program."""
        if value.shape != wanted.shape:
            raise InputError(
                f"the relation gives {value.type} for {name!r}, the program has {wanted}",
                where=where,
                expected=f"a relation of shape {list(map(str, wanted.shape))}".replace("'", ""),
                next_step="correct the placement or the expression for this tensor",
            )
        if value.dtype != wanted.dtype:
            value = self._cast(name, value, wanted, where)
        self.graph.outputs.append(value)
        self.graph.output_names.append(name)

    def constant(self, name: str, value: AttrValue, wanted: TensorType) -> None:
        """Make a constant tensor the output ``name``."""
        full = self._builder.emit(
            "full", name=name, value=value, shape=wanted.shape, dtype=wanted.dtype
        )
        self.graph.outputs.append(full)
        self.graph.output_names.append(name)

    # ---------------------------------------------------------------- expressions

    def _call(self, rule: Callable[..., object]) -> object:
        if self.rank is None:
            raise self._error(
                "a per-rank function on a symbolic mesh with several axes has no rank number",
                "an expression with .shard(dim, axis=...)",
            )
        try:
            return rule(self.rank)
        except InputError:
            raise
        except Exception as error:
            raise self._error(
                f"the per-rank function failed for rank {self.rank}: "
                f"{type(error).__name__}: {error}",
                "a function of the rank that returns an expression or a placement",
            ) from error

    def _lower(self, expr: Expr) -> Value:
        match expr:
            case Source(name):
                return self._source(name)
            case Indexed(base, bounds):
                return self._index(self._lower(base), bounds)
            case Placed(base, placement):
                placements = by_axis(placement, self.mesh, self._where)
                return self.place(self._lower(base), placements)
            case Permuted(base, perm):
                return self._emit("permute", self._lower(base), perm=perm)
            case Reshaped(base, shape):
                return self._reshape(self._lower(base), shape)
            case Joined(parts, dim):
                values = [self._lower(p) for p in parts]
                if not values:
                    raise ShapeError("there is nothing to concatenate")
                return self._emit("concat", *values, dim=self._dim(dim, values[0]))
        raise self._error(f"{expr!r} is no expression", "an expression made by seq() or concat()")

    def place(self, value: Value, placements: Mapping[str, Placement]) -> Value:
        """This rank's part of ``value``; the first axis cuts first. Partials are left whole."""
        for axis, placement in placements.items():
            index, extent = self._coordinates[axis], self.mesh.extent(axis)
            if isinstance(placement, Shard):
                value = self._shard(value, placement, index, extent, axis)
            elif isinstance(placement, Parts):
                value = self._parts(value, placement, index, extent, axis)
        return value

    def _shard(self, value: Value, shard: Shard, index: Size, extent: Size, axis: str) -> Value:
        dim = self._dim(shard.dim, value)
        if shard.sizes is not None:
            return self._uneven(value, dim, shard.sizes, index, extent)
        n, rest = div_mod(value.shape[dim], extent)
        if rest != 0:
            raise ShapeError(
                f"{axis}={extent} does not divide dim {dim} of {value.type}; "
                f"give Shard({shard.dim}, sizes=[...]) for uneven shards"
            )
        return self._slice(value, dim, index * n, (index + 1) * n)

    def _uneven(
        self, value: Value, dim: int, sizes: Sequence[Size], index: Size, extent: Size
    ) -> Value:
        if not isinstance(index, int):
            raise ShapeError("uneven shards need one graph a rank")
        if len(sizes) != extent or sum(sizes) != value.shape[dim]:
            raise ShapeError(
                f"sizes {list(sizes)} should be {extent} numbers with sum {value.shape[dim]}"
            )
        start: Size = sum(sizes[:index])
        return self._slice(value, dim, start, start + sizes[index])

    def _parts(self, value: Value, parts: Parts, index: Size, extent: Size, axis: str) -> Value:
        dim = self._dim(parts.dim, value)
        if sum(parts.sizes) != value.shape[dim]:
            raise ShapeError(
                f"the parts {list(parts.sizes)} sum to {sum(parts.sizes)}, "
                f"dim {dim} has {value.shape[dim]}"
            )
        pieces: list[Value] = []
        start: Size = 0
        for size in parts.sizes:
            n, rest = div_mod(size, extent)
            if rest != 0:
                raise ShapeError(
                    f"{axis}={extent} does not divide the part of size {size} in dim {dim}"
                )
            begin = start + index * n
            pieces.append(self._slice(value, dim, begin, begin + n))
            start = start + size
        return self._emit("concat", *pieces, dim=dim)

    def _index(self, value: Value, bounds: Sequence[tuple[Bound, Bound]]) -> Value:
        if len(bounds) > len(value.shape):
            raise ShapeError(f"{len(bounds)} slices of a tensor with {len(value.shape)} dims")
        for dim, (start, stop) in enumerate(bounds):
            n = value.shape[dim]
            low = _bound(start, 0, n)
            high = _bound(stop, n, n)
            value = self._slice(value, dim, low, high)
        return value

    def _slice(self, value: Value, dim: int, start: Size, stop: Size) -> Value:
        if start == 0 and stop == value.shape[dim]:
            return value
        return self._emit("slice", value, dim=dim, start=start, stop=stop)

    def _reshape(self, value: Value, shape: tuple[Size, ...]) -> Value:
        if shape.count(-1) == 1:
            rest = product(s for s in shape if s != -1)
            n, left = div_mod(value.type.numel, rest) if rest != 0 else (0, 1)
            if left != 0:
                raise ShapeError(f"{value.type} has no reshape to {list(shape)}")
            shape = tuple(n if s == -1 else s for s in shape)
        return self._emit("reshape", value, shape=shape)

    def _cast(self, name: str, value: Value, wanted: TensorType, where: str) -> Value:
        same_kind = (is_float(value.dtype) and is_float(wanted.dtype)) or (
            is_integer(value.dtype) and is_integer(wanted.dtype)
        )
        if not same_kind:
            raise InputError(
                f"the relation gives {value.type} for {name!r}, the program has {wanted}",
                where=where,
                expected=f"a tensor of a type like {wanted.dtype}",
                next_step="relate this input to a sequential tensor of the same kind",
            )
        return self._emit("cast", value, dtype=wanted.dtype)

    # ---------------------------------------------------------------- parts

    def _source(self, name: str) -> Value:
        if name not in self._inputs:
            type_ = self._sources(name, self._where)
            self._inputs[name] = self._builder.input(name, type_.dtype, type_.shape)
        return self._inputs[name]

    def _emit(self, op: str, *values: Value, **attrs: AttrValue) -> Value:
        return self._builder.emit(op, *values, name="", **attrs)

    def _dim(self, dim: int, value: Value) -> int:
        rank = len(value.shape)
        if not -rank <= dim < rank:
            raise ShapeError(f"dim {dim} of a tensor with {rank} dims")
        return dim % rank

    def _error(self, what: str, expected: str) -> InputError:
        return InputError(
            what,
            where=self._where,
            expected=expected,
            next_step="correct this entry of the Spec",
        )


def _bound(bound: Bound, default: Size, n: Size) -> Size:
    if bound is None:
        return default
    return n + bound if isinstance(bound, int) and bound < 0 else bound


def _placement(rule: object, where: str) -> Placement | AxisPlacements:
    if is_placement(rule):
        return rule
    raise InputError(
        f"{rule!r} says nothing about a tensor",
        where=where,
        expected="a placement such as Shard(0), a mapping of mesh axes to placements, an "
        "expression such as seq(name)[0:4], or a function of the rank",
        next_step="correct this entry of the Spec",
    )
