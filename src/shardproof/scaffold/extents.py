"""The mesh of a first check: the axes and extents that the repository names, where it does."""

from __future__ import annotations

import ast
from math import prod

from shardproof.scaffold.facts import Launch, Seen

FIRST_RANKS = 2
MOST_RANKS = 8
"""As many ranks as are captured in seconds; a launch on more is named in a comment only."""


def extents(seen: Seen, axes: list[str]) -> tuple[dict[str, int], str]:
    """The extents of the mesh axes, those of the repository's own mesh where it names them, and a
    comment on where the numbers are from."""
    named: list[int | None] = []
    place = ""
    for use in seen.of("mesh"):
        found = _mesh(use.text)
        if found:
            axes, named, place = (
                list(found),
                list(found.values()),
                f"{seen.shown(use.path)}:{use.line}",
            )
            break
    sizes = [n for n in named if n is not None]
    if named and len(sizes) == len(axes) and prod(sizes) <= MOST_RANKS:
        return dict(zip(axes, sizes, strict=True)), f"the extents of {place}"
    launch = next((x for x in seen.launches if (x.ranks or 0) > 1), None)
    small = dict.fromkeys(axes, FIRST_RANKS)
    if launch is None:
        return small, ""
    return _launched(small, launch, f"{seen.shown(launch.path)}:{launch.line}")


def _launched(small: dict[str, int], launch: Launch, place: str) -> tuple[dict[str, int], str]:
    """The ranks of a launch are those of the only axis; how several share them is not known."""
    n = launch.ranks or 0
    if len(small) == 1 and n <= MOST_RANKS:
        return dict.fromkeys(small, n), f"the {n} ranks that {place} starts"
    if n == prod(small.values()):
        return small, f"as many ranks as {place} starts; how the axes share them is a guess"
    return small, f"{place} starts {n} ranks; few are enough for a first check"


def _mesh(text: str) -> dict[str, int | None]:
    """The literal ``mesh_dim_names`` of an ``init_device_mesh`` call, and the extents where they
    are literal too."""
    try:
        call = ast.parse(text, mode="eval").body
    except SyntaxError:
        return {}
    if not isinstance(call, ast.Call):
        return {}
    given = {k.arg: k.value for k in call.keywords}
    names = _literal(given.get("mesh_dim_names"))
    shape = given.get("mesh_shape", call.args[1] if len(call.args) > 1 else None)
    parts = shape.elts if isinstance(shape, ast.Tuple | ast.List) else []
    sizes = [_literal(x) for x in parts]
    if not isinstance(names, list | tuple):
        return {}
    known = sizes if len(sizes) == len(names) else [None] * len(names)
    return {
        name: n if isinstance(n, int) and n > 0 else None
        for name, n in zip(names, known, strict=True)
        if isinstance(name, str) and name.isidentifier()
    }


def _literal(node: ast.expr | None) -> object:
    if node is None:
        return None
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None
