"""The mesh as users write it."""

from __future__ import annotations

from shardproof.errors import InputError
from shardproof.ir.graph import Mesh as GraphMesh
from shardproof.ir.sizes import Size, symbol


class Mesh(GraphMesh):
    """Named mesh axes: ``Mesh(dp=2, tp=4)`` has 8 ranks, the last axis varies fastest.

    An axis size may be a name, ``Mesh(tp="N")``: then the check is for every number of ranks.
    """

    def __init__(self, **axes: Size | str) -> None:
        super().__init__(tuple((axis, _extent(axis, n)) for axis, n in axes.items()))


def _extent(axis: str, n: Size | str) -> Size:
    if isinstance(n, str):
        if n.isidentifier():
            return symbol(n)
    elif not isinstance(n, bool | float) and (not isinstance(n, int) or n >= 1):
        return n
    raise InputError(
        f"the mesh axis {axis!r} has size {n!r}",
        where=f"Mesh({axis}={n!r})",
        expected="a whole number of at least 1, or a name for any such number",
        next_step=f'write Mesh({axis}=4), or Mesh({axis}="N")',
    )
