"""How a distributed tensor lies on the ranks, in the words that users know.

A placement says what one rank holds of a whole tensor along one mesh axis. On a mesh with several
axes it is a mapping from axis name to placement; the first axis of the mesh cuts first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from shardproof.errors import InputError
from shardproof.ir.graph import Mesh
from shardproof.ir.sizes import Size
from shardproof.spec.arguments import size_tuple, whole


@dataclass(frozen=True, slots=True)
class Replicate:
    """Every rank of the axis holds the whole tensor."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True, slots=True, repr=False)
class Shard:
    """The ranks of the axis hold consecutive slices along ``dim``: equal ones, or of the given
    ``sizes``, one a rank."""

    dim: int
    sizes: Sequence[Size] | None = None

    def __post_init__(self) -> None:
        whole(self.dim, "Shard", "dim")
        if self.sizes is not None:
            object.__setattr__(self, "sizes", size_tuple(self.sizes, "Shard", "sizes"))

    def __str__(self) -> str:
        sizes = f", sizes={list(self.sizes)}" if self.sizes is not None else ""
        return f"S({self.dim}{sizes})"

    def __repr__(self) -> str:
        return f"Shard{str(self)[1:]}"


@dataclass(frozen=True, slots=True)
class Partial:
    """The sum over the ranks of the axis is the tensor. For outputs only: an input so declared
    would not be a function of the sequential input."""

    def __str__(self) -> str:
        return "P(sum)"


@dataclass(frozen=True, slots=True, repr=False)
class Parts:
    """The tensor is made of parts of the given ``sizes`` along ``dim`` (query, key and value of
    one fused weight); each rank holds its slice of every part, side by side."""

    dim: int
    sizes: Sequence[Size]

    def __post_init__(self) -> None:
        whole(self.dim, "Parts", "dim")
        object.__setattr__(self, "sizes", size_tuple(self.sizes, "Parts", "sizes"))

    def __str__(self) -> str:
        return f"Parts({self.dim}, sizes={list(self.sizes)})"

    def __repr__(self) -> str:
        return str(self)


Placement = Replicate | Shard | Partial | Parts
PLACEMENTS = (Replicate, Shard, Partial, Parts)
AxisPlacements = Mapping[str, Placement]


def is_placement(value: object) -> TypeGuard[Placement | AxisPlacements]:
    """Whether a user's value is one placement or a mapping of axes to placements."""
    return isinstance(value, PLACEMENTS) or (
        isinstance(value, Mapping) and all(isinstance(p, PLACEMENTS) for p in value.values())
    )


def by_axis(placement: Placement | AxisPlacements, mesh: Mesh, where: str) -> dict[str, Placement]:
    """The placement along each mesh axis that cuts or adds, in mesh order."""
    if isinstance(placement, Mapping):
        for axis in placement:
            if axis not in dict(mesh.axes):
                raise _unknown_axis(axis, mesh, where)
        kept = {axis: placement[axis] for axis, _ in mesh.axes if axis in placement}
        return {axis: p for axis, p in kept.items() if not isinstance(p, Replicate)}
    if isinstance(placement, Replicate):
        return {}
    wide = [axis for axis, n in mesh.axes if n != 1]
    if not mesh.axes and not isinstance(placement, Replicate):
        raise InputError(
            f"{placement} without a mesh",
            where=where,
            expected="a mesh, as in Mesh(tp=2) or in a mesh line of the graph",
            next_step="name the mesh, or say Replicate()",
        )
    if len(wide) <= 1:
        axes = wide or [axis for axis, _ in mesh.axes][:1]
        return dict.fromkeys(axes, placement)
    raise InputError(
        f"{placement} does not say which mesh axis it is about",
        where=where,
        expected=f"a mapping from mesh axes ({', '.join(wide)}) to placements",
        next_step=f'write {{"{wide[-1]}": {placement!r}}}',
    )


def describe(placements: AxisPlacements, mesh: Mesh) -> str:
    """Text such as ``S(0)``, or ``dp: R, tp: S(0)`` on a mesh with several axes."""
    if len(mesh.axes) <= 1:
        return next((str(p) for p in placements.values()), "R")
    return ", ".join(f"{axis}: {placements.get(axis, Replicate())}" for axis, _ in mesh.axes)


def _unknown_axis(axis: object, mesh: Mesh, where: str) -> InputError:
    known = ", ".join(name for name, _ in mesh.axes)
    return InputError(
        f"{axis!r} is not a mesh axis",
        where=where,
        expected=f"one of {known}" if known else "no axis: the mesh has none",
        next_step="use an axis of the mesh, or add the axis to Mesh(...)",
    )
