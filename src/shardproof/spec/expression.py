"""A small language for what a distributed tensor is, written over sequential tensors.

    seq("arg3_1")[4:8]                                   rows 4 to 7
    concat(seq("w")[0:4], seq("w")[8:12], dim=0)         two pieces side by side
    seq("w").reshape(8, 3, 64).shard(0).reshape(-1, 64)  each rank's part after a reshape
    lambda r: seq("w")[4 * r : 4 * r + 4]                an expression for each rank

Only rearrangements can be written, so that the expression is a function of the sequential tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shardproof.ir.sizes import Size
from shardproof.spec.arguments import argument_error, size_tuple, whole
from shardproof.spec.placement import AxisPlacements, Placement, Replicate, Shard

Bound = Size | None


class Expr:
    """An expression over sequential tensors. Made by :func:`seq` and :func:`concat`."""

    __slots__ = ()

    def __getitem__(self, index: slice | tuple[slice, ...]) -> Expr:
        """Slices with unit step, one a dim from the first on."""
        parts = index if isinstance(index, tuple) else (index,)
        for part in parts:
            if not isinstance(part, slice) or part.step not in (None, 1):
                raise argument_error(f"the index {part!r}", str(self), "slices such as [4:8]")
            bounds = [b for b in (part.start, part.stop) if b is not None]
            size_tuple(bounds, f"{self}[...]", "the slice", least=-(2**62))
        return Indexed(self, tuple((p.start, p.stop) for p in parts))

    def shard(self, dim: int, *, axis: str = "", sizes: Sequence[Size] | None = None) -> Expr:
        """This rank's slice along ``dim``; ``axis`` is needed on a mesh with several axes."""
        shard = Shard(dim, sizes)
        return Placed(self, {axis: shard} if axis else shard)

    def place(self, placement: Placement | AxisPlacements) -> Expr:
        """What this rank holds of the tensor under ``placement``."""
        return Placed(self, placement)

    def permute(self, *perm: int) -> Expr:
        """The dims in another order."""
        for dim in perm:
            whole(dim, f"{self}.permute", "a dim")
        return Permuted(self, perm)

    def reshape(self, *shape: Size) -> Expr:
        """The same elements in another shape; one size may be -1."""
        return Reshaped(self, size_tuple(shape, f"{self}.reshape", "the shape", least=-1))


@dataclass(frozen=True, slots=True)
class Source(Expr):
    """A sequential tensor by name."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Indexed(Expr):
    """``base[start:stop, ...]``."""

    base: Expr
    bounds: tuple[tuple[Bound, Bound], ...]

    def __str__(self) -> str:
        parts = (f"{'' if a is None else a}:{'' if b is None else b}" for a, b in self.bounds)
        return f"{self.base}[{', '.join(parts)}]"


@dataclass(frozen=True, slots=True)
class Placed(Expr):
    """This rank's part of ``base``."""

    base: Expr
    placement: Placement | AxisPlacements = field(default_factory=Replicate)

    def __str__(self) -> str:
        if isinstance(self.placement, Mapping):
            text = ", ".join(f"{axis}: {p}" for axis, p in self.placement.items())
        else:
            text = str(self.placement)
        return f"{self.base}.place({text})"


@dataclass(frozen=True, slots=True)
class Permuted(Expr):
    """``base`` with its dims in another order."""

    base: Expr
    perm: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.base}.permute{self.perm}"


@dataclass(frozen=True, slots=True)
class Reshaped(Expr):
    """``base`` in another shape."""

    base: Expr
    shape: tuple[Size, ...]

    def __str__(self) -> str:
        return f"{self.base}.reshape({', '.join(map(str, self.shape))})"


@dataclass(frozen=True, slots=True)
class Joined(Expr):
    """``parts`` one after another along ``dim``."""

    parts: tuple[Expr, ...]
    dim: int

    def __str__(self) -> str:
        return f"concat({', '.join(map(str, self.parts))}, dim={self.dim})"


def seq(name: str) -> Expr:
    """The sequential input (or, in ``outputs``, the sequential output) called ``name``."""
    if not isinstance(name, str):
        raise argument_error(f"seq({name!r})", "seq", "the name of a sequential tensor")
    return Source(name)


def concat(*parts: Expr, dim: int) -> Expr:
    """Expressions one after another along ``dim``."""
    for part in parts:
        if not isinstance(part, Expr):
            raise argument_error(f"{part!r} is no expression", "concat", "seq(...) and the like")
    return Joined(parts, whole(dim, "concat", "dim"))
