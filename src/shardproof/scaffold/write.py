"""Writes a first check file: what was found is filled in, the rest are holes with their names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from shardproof.errors import HOLE
from shardproof.scaffold.choose import (
    DATA_PARALLEL,
    LABELS,
    Choice,
    import_root,
    is_ids,
    is_whole,
    wanted,
)
from shardproof.scaffold.facts import Argument, Made, Model, Seen, Use
from shardproof.scaffold.look import WRITTEN
from shardproof.scaffold.parallel import from_mesh, on_one_rank, told

FUNCTION = "first"
CONFIGS = ("config", "cfg", "args")

_HOLE = f'''\
def {HOLE}(what):
    """A hole that is still to be filled in."""
    raise NotImplementedError(f"fill in {{what}}")
'''

_GRAPHS = f'''\
"""A first check of printed graphs, {WRITTEN}, which found no model here.

Print the graph of the model on one rank and that of every rank (TORCH_LOGS=aot_graphs, or
print_readable()), then fill in the holes: every {HOLE} is one.
"""

from shardproof import Mesh, Replicate, Shard, Spec


{_HOLE}

def first():
    return Spec.from_graphs(
        sequential={HOLE}('the path of the graph on one rank, such as "one_rank.txt"'),
        distributed={HOLE}('one path a rank, such as ["rank0.txt", "rank1.txt"]'),
        mesh=Mesh(tp=2),
        inputs={HOLE}('how the ranks hold it, such as {{"weight": Shard(0), "*": Replicate()}}'),
    )
'''


def write(seen: Seen, choice: Choice) -> str:
    """The text of the check file."""
    if choice.model is None:
        return _GRAPHS
    body = [*_model(seen, choice), "", "", *_distributed(seen, choice), "", "", *_spec(choice)]
    hole = [*_HOLE.splitlines(), "", ""] if any(f"{HOLE}(" in line for line in body) else []
    lines = [
        f'"""A first check of {choice.model.name}, {WRITTEN}.',
        "",
        *([f"Every {HOLE} is a hole: fill it in, or delete what does not apply."] if hole else []),
        "The weights are never allocated, so any size will do; small ones are replayed faster and",
        "read well in a report.",
        '"""',
        "",
        *_imports(seen, choice),
        "",
        "",
        *hole,
        *body,
    ]
    return "\n".join(lines) + "\n"


def _imported(seen: Seen, choice: Choice) -> dict[Path, list[str]]:
    """The names that the file needs of the repository's files."""
    assert choice.model is not None
    paths = {choice.model.path: [choice.model.name]}
    if choice.by_hand is not None:
        paths.setdefault(choice.by_hand.path, []).append(choice.by_hand.name)
    for use in _callable(choice):
        paths.setdefault(use.path, []).append(str(use.function))
    if choice.groups is not None:
        paths.setdefault(choice.groups.path, []).append(str(choice.groups.function))
    for a in _asked(choice):
        made = _made(seen, a)
        if made is not None:
            paths.setdefault(made.path, []).append(made.name)
    return paths


def _imports(seen: Seen, choice: Choice) -> Iterator[str]:
    paths = _imported(seen, choice)
    folders = {import_root(p, seen.root)[0] for p in paths} - {seen.root}
    if folders:
        yield "import sys"
        yield "from pathlib import Path"
        yield ""
    if any(u.what == "DDP" for u in choice.how if u not in _callable(choice)):
        yield "from torch.nn.parallel import DistributedDataParallel"
        yield ""
    yield f"from shardproof import Input, Mesh, {'Shard, ' if divided(choice) else ''}Spec"
    for folder in sorted(folders):
        shown = os.path.relpath(folder, seen.root)
        yield f'sys.path.insert(0, str(Path(__file__).parent / "{shown}"))'
    yield ""
    for path, names in paths.items():
        if path in seen.runs_on_import:
            yield f"# Importing {seen.shown(path)} runs code outside of functions; if that is the"
            yield '# training itself, put it under `if __name__ == "__main__":` first.'
        module = import_root(path, seen.root)[1]
        yield f"from {module} import {', '.join(sorted(set(names)))}"


def _callable(choice: Choice) -> list[Use]:
    """Uses inside a function of the repository's that takes the model: it can be called."""
    return [
        u
        for u in choice.how
        if u.function not in (None, "main") and not u.inside and len(u.arguments) >= 1
    ]


def _model(seen: Seen, choice: Choice) -> Iterator[str]:
    m = choice.model
    assert m is not None
    yield "def model():"
    yield f'    """The sequential model: {m.name} of {seen.shown(m.path)}:{m.line}."""'
    for other in choice.others:
        yield f"    # also found: {other.name} of {seen.shown(other.path)}:{other.line}"
    if choice.by_hand is m:
        yield "    # No class for one process was found: this one, on one rank."
        yield from _groups(seen, choice, "")
    given = [on_one_rank(a) for a in told(m, must=True)]
    yield f"    return {m.name}({', '.join([*_holes(seen, m), *given])})"


def _asked(choice: Choice) -> Iterator[Argument]:
    """The arguments that the file gives to classes and functions of the repository."""
    for m in {m.name: m for m in (choice.model, choice.by_hand) if m is not None}.values():
        yield from (a for a in wanted(m.init) if a not in told(m))
    for use in _callable(choice):
        yield from wanted(use.arguments)


def _made(seen: Seen, a: Argument) -> Made | None:
    """The class of an argument, where it is made without arguments: the one of its annotation, else
    the only configuration for an argument that is called one."""
    name = a.annotation.strip("'\"").rpartition(".")[2]
    found = [c for c in seen.plain if c.name == name]
    if not name and a.name in CONFIGS:
        found = [c for c in seen.plain if c.name.lower().endswith(CONFIGS)]
    return found[0] if len(found) == 1 else None


def _holes(seen: Seen, m: Model) -> list[str]:
    ranks = told(m)
    return [f"{a.name}={_hole(seen, a)}" for a in wanted(m.init) if a not in ranks]


def _hole(seen: Seen, a: Argument) -> str:
    made = _made(seen, a)
    if made is not None:
        return f"{made.name}()"
    kind = f": {a.annotation}" if a.annotation else ""
    return f'{HOLE}("{a.name}{kind}")'.replace("\\", "")


def _distributed(seen: Seen, choice: Choice) -> Iterator[str]:
    yield "def distributed(mesh, rank):"
    yield '    """The model of one rank. `mesh` is a DeviceMesh; a process group exists already."""'
    if choice.by_hand is not None:
        yield from _by_hand(seen, choice.by_hand, choice)
    elif not choice.how:
        yield "    # No call was found that makes a model parallel, and no class that communicates."
        yield f'    return {HOLE}("the model of this rank")'
    else:
        # A function that builds the model of a rank needs none from before.
        makes = [k for k, u in enumerate(choice.how) if u in _callable(choice) and _builds(u)]
        if not makes:
            yield "    built = model()"
        for use in choice.how[makes[-1] if makes else 0 :]:
            yield from _applied(seen, use, use in _callable(choice))
        yield "    return built"


def _by_hand(seen: Seen, m: Model, choice: Choice) -> Iterator[str]:
    axis = "tp" if "tp" in choice.axes else next(iter(choice.axes))
    given = [f"{a.name}={from_mesh(a, axis)}" for a in told(m)]
    how = f"is told its ranks by {', '.join(a.name for a in told(m))}" if given else "communicates"
    yield from _groups(seen, choice, axis)
    yield f"    # {m.name} of {seen.shown(m.path)}:{m.line} {how}."
    yield f"    return {m.name}({', '.join([*_holes(seen, m), *given])})"


def _groups(seen: Seen, choice: Choice, axis: str) -> Iterator[str]:
    """The call that makes the process groups of one rank, or of the only one."""
    use = choice.groups
    if use is None:
        return
    asked = [a for a in use.arguments if a.default is None or from_mesh(a, axis)]
    ranks = {a.name: f"{a.name}={from_mesh(a, axis)}" if axis else on_one_rank(a)
             for a in asked if from_mesh(a, axis)}  # fmt: skip
    given = [ranks.get(a.name) or f"{a.name}={_hole(seen, a)}" for a in asked]
    yield f"    # It makes process groups: {seen.shown(use.path)}:{use.line}."
    yield f"    {use.function}({', '.join(given)})"


def _applied(seen: Seen, use: Use, can_call: bool) -> Iterator[str]:
    yield f"    # {use.what}: {seen.shown(use.path)}:{use.line}: {use.text}"
    axis = {"tensor parallel plan": "tp"}.get(use.what, "dp")
    if can_call and _builds(use):
        yield f"    built = {use.function}({', '.join(_given(seen, use, axis))})"
    elif can_call:
        got = "built = " if use.returns else ""
        yield f"    {got}{use.function}({', '.join(_given(seen, use, axis))})"
    elif use.what == "DDP":
        yield "    built = DistributedDataParallel(built)"
    else:
        yield f'    {HOLE}("make `built` parallel as {seen.shown(use.path)}:{use.line} does")'


def _builds(use: Use) -> bool:
    """Whether a function makes the model of a rank by itself."""
    return use.returns and bool(use.arguments) and "mesh" in use.arguments[0].name


def _given(seen: Seen, use: Use, axis: str) -> Iterator[str]:
    """Arguments for a function of the repository's: the model, the mesh, and holes."""
    for k, a in enumerate(use.arguments):
        if a.default is not None:
            continue
        if "mesh" in a.name:
            yield f'mesh["{axis}"]' if a.name != "world_mesh" and not _builds(use) else "mesh"
        elif a.name == "rank":
            yield "rank"
        elif k == 0 or a.name in ("model", "module", "net"):
            yield "built"
        else:
            yield f"{a.name}={_hole(seen, a)}"


def _spec(choice: Choice) -> Iterator[str]:
    m = choice.model
    assert m is not None
    mesh = ", ".join(f"{axis}={n}" for axis, n in choice.axes.items())
    yield f"def {FUNCTION}():"
    yield "    return Spec("
    yield "        sequential=model,"
    yield "        distributed=distributed,"
    if choice.counted:
        yield f"        # {choice.counted}"
    yield f"        mesh=Mesh({mesh}),"
    yield "        # shapes of the sequential inputs; a third argument says how the ranks hold them"
    if divided(choice):
        yield "        # (the ranks of dp have different parts of the batch)"
    yield "        inputs={"
    for a in m.forward:
        line = _input(a, m, choice)
        if line:
            yield f"            {line},"
    yield "        },"
    if choice.trains or m.returns_loss:
        if m.loss_at >= 0:
            yield f"        loss=lambda output, **inputs: output[{m.loss_at}],"
        if divided(choice):
            yield '        outputs={"loss": None},  # that of a rank is about its own samples'
        yield '        step="backward",  # or "train", with optimizer=lambda params: ...'
    else:
        yield '        # forward only: no gradient is checked; use step="backward" with a loss, as'
        yield '        # loss=lambda output, **inputs: output.square().mean(), or step="train" with'
        yield "        # an optimizer=lambda params: ... as well"
        yield '        step="forward",'
    yield "    )"


def divided(choice: Choice) -> bool:
    """Whether the ranks of an axis have different samples."""
    return "dp" in choice.axes and any(u.what in DATA_PARALLEL for u in choice.how)


def _batch(choice: Choice) -> str:
    """How the ranks hold an input, as an argument; empty where all have all of it."""
    if not divided(choice):
        return ""
    return ", Shard(0)" if len(choice.axes) == 1 else ', {"dp": Shard(0)}'


def _input(a: Argument, m: Model, choice: Choice) -> str:
    """The example for one argument of ``forward``; none for one that has a default. Labels are of
    the shape of the ids where there are some."""
    batch = _batch(choice)
    whole = is_whole(a, m)
    labels = a.name in LABELS and m.returns_loss
    if a.default is not None and not (labels or is_ids(a, m)):
        return ""
    kind = "i64" if whole else "f32"
    if whole and any(is_ids(x, m) for x in m.forward):
        return f'"{a.name}": Input(({_rows(choice)}, 16), "{kind}"{batch})'
    more = f', "{kind}"{batch}' if batch or whole else ""
    such = f"({_rows(choice)},)" if whole else "(8, 64)"
    return f'"{a.name}": Input({HOLE}("the shape of {a.name}, such as {such}"){more})'


def _rows(choice: Choice) -> int:
    """The size of a batch that the ranks of dp can share."""
    ranks = choice.axes.get("dp", 1) if divided(choice) else 1
    return 4 if 4 % ranks == 0 else 2 * ranks
