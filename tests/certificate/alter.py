"""Random changes of one number, text or entry of a certificate."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

Path = tuple[Any, ...]
AREAS = (
    "atoms", "terms", "meanings", "sequential", "distributed", "opened", "templates", "copies",
)  # fmt: skip


def altered(data: dict[str, Any], rng: Random, area: str) -> tuple[dict[str, Any], str] | None:
    """A copy with one thing in ``area`` of its proof changed, and what was."""
    out = copy.deepcopy(data)
    leaves = list(_leaves(out["proof"].get(area, []), ("proof", area)))
    if not leaves:
        return None
    path = rng.choice(leaves)
    parent, key = _at(out, path[:-1]), path[-1]
    old = copy.deepcopy(parent[key])
    new = _changed(old, rng, leaves, out)
    if new == old and type(new) is type(old):
        return None
    if new is _DROP:
        del parent[key]
    else:
        parent[key] = new
    return out, f"{'/'.join(map(str, path))}: {str(old)[:60]} -> {str(new)[:60]}"


class _Drop:
    def __repr__(self) -> str:
        return "dropped"


_DROP = _Drop()


def _leaves(x: Any, path: Path) -> list[Path]:
    out = [] if len(path) < 3 else [path]
    if isinstance(x, list):
        for k, y in enumerate(x):
            out += _leaves(y, (*path, k))
    return out


def _at(x: Any, path: Path) -> Any:
    for k in path:
        x = x[k]
    return x


def _changed(old: Any, rng: Random, leaves: list[Path], out: dict[str, Any]) -> Any:
    """Another value of the same kind, or one from elsewhere, or nothing."""
    what = rng.random()
    if what < 0.15:
        return _DROP
    if what < 0.35:
        return copy.deepcopy(_at(out, rng.choice(leaves)))
    if isinstance(old, int):
        return rng.choice([old + 1, old - 1, 2 * old, -old, 0, old + 7])
    if isinstance(old, str):
        return rng.choice([old + " + 1", f"2*{old}", "1/2", "0", "sum", "prod", "max", old[:-1]])
    if old is None:
        return rng.choice([0, 1, [0, 1]])
    if isinstance(old, list) and old:
        new = copy.deepcopy(old)
        k = rng.randrange(len(new))
        kind = rng.random()
        if kind < 0.4:
            del new[k]
        elif kind < 0.6:
            new.insert(k, copy.deepcopy(new[k]))
        else:
            j = rng.randrange(len(new))
            new[k], new[j] = new[j], new[k]
        return new
    return [0]
