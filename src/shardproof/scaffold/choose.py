"""What a first check is to be about: the model, how it is made parallel, on how many ranks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from shardproof.scaffold.extents import extents
from shardproof.scaffold.facts import Argument, Model, Seen, Use
from shardproof.scaffold.parallel import (
    communicating,
    counterpart,
    inside_class,
    makes_groups,
    told,
)

LABELS = frozenset("labels label targets target".split())
_IDS = re.compile(r"(?!num_|n_)(.*_)?(ids|idx|tokens|indices)")
AXES = {"DDP": "dp", "FSDP1": "dp", "FSDP2": "dp", "tensor parallel plan": "tp", "pipeline": "pp"}
WAYS = (("tensor parallel plan",), ("FSDP2", "FSDP1", "DDP"))
"""Ways to make a model parallel, in the order in which they are applied; of one kind the first."""

DATA_PARALLEL = ("DDP", "FSDP1", "FSDP2")


@dataclass(frozen=True, slots=True)
class Choice:
    """The subject of a first check. ``how`` are the calls that make it parallel; ``by_hand`` is
    the class whose own code communicates, if there are none: of another name, or the same;
    ``groups`` the function that makes its groups."""

    model: Model | None
    others: tuple[Model, ...]
    how: tuple[Use, ...]
    by_hand: Model | None
    groups: Use | None
    axes: dict[str, int]
    trains: bool
    counted: str = ""
    """Where the extents of the axes are from, or what else is launched."""


def choose(seen: Seen) -> Choice:
    """The most likely subject; everything else is named in the file."""
    models = [m for m in seen.models if not _is_test(m.path, seen.root)] or seen.models
    ranked = sorted(models, key=lambda m: (-_weight(m, models), m.path, m.line))
    how = _ways(seen)
    model, by_hand = _pair(seen, ranked)
    by_hand = None if how else by_hand
    reached = _reached(model, models) + _reached(by_hand, models)
    groups = makes_groups(seen) if by_hand is not None and not told(by_hand) else None
    others = [m for m in ranked if m not in reached and m.forward]
    axes, counted = extents(seen, _axes(how, by_hand))
    return Choice(
        model, tuple(others[:3]), how, by_hand, groups, axes,
        bool(seen.of("optimizer")) and (model is not None and model.returns_loss), counted,
    )  # fmt: skip


def _pair(seen: Seen, ranked: list[Model]) -> tuple[Model | None, Model | None]:
    """The sequential class, and the one whose code communicates: its counterpart of another name
    where there is one, else the same class."""
    names = communicating(seen)
    parallel = [m for m in ranked if m.name in names or told(m)]
    if not ranked:
        return None, None
    first = ranked[0]
    if first not in parallel:
        return first, counterpart(first, parallel)
    return counterpart(first, [m for m in ranked if m not in parallel]) or first, first


def _ways(seen: Seen) -> tuple[Use, ...]:
    """One use a way; one inside a function before one at the top of a script. What a model does
    to itself is no way to make it parallel from outside."""
    out = []
    for kinds in WAYS:
        found = [u for u in seen.of(*kinds) if not _is_test(u.path, seen.root)]
        found = [u for u in found if not inside_class(seen, u)]
        found.sort(
            key=lambda u: (kinds.index(u.what), u.function in (None, "main"), u.path, u.line)
        )
        out += found[:1]
    return tuple(out)


def _weight(model: Model, models: list[Model]) -> int:
    """How much of the repository's model a class is: nothing makes it, and it makes many."""
    made = any(model.name in m.calls for m in models if m is not model)
    score = len(_reached(model, models)) + 2 * model.returns_loss + bool(model.forward)
    return score - (100 if made else 0)


def _reached(model: Model | None, models: list[Model]) -> list[Model]:
    """The model with the classes that it makes, directly or not."""
    if model is None:
        return []
    by_name = {m.name: m for m in models}
    found, todo = {model.name: model}, [model]
    while todo:
        for name in sorted(todo.pop().calls):
            if name in by_name and name not in found:
                found[name] = by_name[name]
                todo.append(by_name[name])
    return list(found.values())


def _axes(how: tuple[Use, ...], by_hand: Model | None) -> list[str]:
    """The mesh axes of what makes the model parallel."""
    axes = [AXES[u.what] for u in how]
    if by_hand is not None or not axes:
        axes.append("tp")
    return sorted(set(axes))


def is_ids(a: Argument, m: Model) -> bool:
    """Whether an argument of ``forward`` is the rows of a table, by its name or its use."""
    first = bool(m.forward) and a == m.forward[0]
    named = bool(_IDS.fullmatch(a.name)) or (first and "Embedding" in m.calls)
    return named or a.name in m.ids


def is_whole(a: Argument, m: Model) -> bool:
    """Whether an argument of ``forward`` has whole numbers."""
    named = a.name in LABELS and a.name not in m.reals
    return is_ids(a, m) or named or a.name in m.wholes or "LongTensor" in a.annotation


def wanted(arguments: tuple[Argument, ...]) -> list[Argument]:
    """Arguments that must be given."""
    return [a for a in arguments if a.default is None]


def import_root(path: Path, root: Path) -> tuple[Path, str]:
    """The folder from which a file is imported, and its module name."""
    folder, parts = path.parent, [path.stem]
    while folder != root and (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    return folder, ".".join(parts)


def _is_test(path: Path, root: Path) -> bool:
    parts = path.relative_to(root).parts
    return any(p in ("test", "tests", "testing") for p in parts) or path.name.startswith("test_")
