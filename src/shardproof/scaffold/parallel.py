"""Which class of a repository is the program of one rank, and how it learns its ranks."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from shardproof.scaffold.facts import Argument, Model, Seen, Use

GROUPS = frozenset("group process_group tp_group pg tp_pg parallel_group".split())
MESHES = frozenset("mesh device_mesh tp_mesh dp_mesh".split())
RANKS = frozenset("rank tp_rank local_rank".split())
SIZES = frozenset("world_size tp_size tp_world_size num_ranks n_ranks tp_degree".split())
MAKES = ("collective", "tensor parallel plan", "FSDP2")
"""Calls by which a class communicates, or makes itself parallel."""
_WORDS = re.compile(r"tensor|parallel|distributed|sharded|tp|dist", re.IGNORECASE)
_ALIKE = 0.6


def from_mesh(a: Argument, axis: str) -> str:
    """What a rank passes for an argument that tells it about its ranks; empty for others."""
    if a.name in GROUPS or "ProcessGroup" in a.annotation:
        return f'mesh.get_group("{axis}")'
    if a.name in MESHES or "DeviceMesh" in a.annotation:
        return f'mesh["{axis}"]'
    if a.name in RANKS:
        return f'mesh.get_local_rank("{axis}")'
    return f'mesh["{axis}"].size()' if _is_size(a) else ""


def _is_size(a: Argument) -> bool:
    tensor = "tensor" in a.name or a.name.startswith("tp_")
    return a.name in SIZES or (tensor and a.name.endswith("size"))


def on_one_rank(a: Argument) -> str:
    """The same where there is one rank only; torch takes no group for that of all ranks."""
    return f"{a.name}={'0' if a.name in RANKS else '1' if _is_size(a) else 'None'}"


def told(m: Model, *, must: bool = False) -> list[Argument]:
    """The arguments by which a class is told its ranks; with ``must`` those without a default."""
    return [a for a in m.init if from_mesh(a, "") and not (must and a.default is not None)]


def makes_groups(seen: Seen) -> Use | None:
    """The function of the repository's that makes process groups, where there is one."""
    found = [u for u in seen.of("groups") if u.function not in (None, "main") and not u.inside]
    names = {(u.path, u.function) for u in found}
    return found[0] if len(names) == 1 else None


def inside_class(seen: Seen, use: Use) -> bool:
    """Whether a call is made by the code of a model."""
    return any(m.name == use.inside for m in seen.models)


def communicating(seen: Seen) -> set[str]:
    """Names of functions and classes whose code communicates, directly or by each other's."""
    found = {u.inside or u.function or "" for u in seen.of(*MAKES)} - {""}
    before = -1
    while before != len(found):
        before = len(found)
        found |= {name for name, calls in seen.calls.items() if calls & found}
    return found


def counterpart(m: Model, others: Iterable[Model]) -> Model | None:
    """The class that is to do the same as ``m``: of the same inputs, by its name among several,
    or of a name that differs by a word such as *Parallel* only."""
    fitting = [o for o in others if _inputs(o) == _inputs(m) or _plain(o) == _plain(m)]
    ranked = sorted(fitting, key=lambda o: (-_alike(o, m), o.path, o.line))
    if len(ranked) > 1 and _alike(ranked[0], m) < _ALIKE:
        return None
    return ranked[0] if ranked else None


def _inputs(m: Model) -> list[str]:
    return [a.name for a in m.forward if a.default is None]


def _plain(m: Model) -> str:
    return _WORDS.sub("", m.name).lower()


def _alike(a: Model, b: Model) -> float:
    return difflib.SequenceMatcher(a=_plain(a), b=_plain(b)).ratio()
