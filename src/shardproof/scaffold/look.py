"""Reads the Python files and launch scripts of a repository; nothing is imported or run."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

from shardproof.scaffold.facts import Argument, Launch, Made, Model, Seen, Use
from shardproof.scaffold.files import python_files, read, scripts
from shardproof.scaffold.uses import uses

KINDS = {
    "parallelize_module": "tensor parallel plan",
    "fully_shard": "FSDP2",
    "FullyShardedDataParallel": "FSDP1",
    "FSDP": "FSDP1",
    "DistributedDataParallel": "DDP",
    "DDP": "DDP",
    "init_device_mesh": "mesh",
    "from_pretrained": "pretrained",
    "PipelineStage": "pipeline",
    "new_group": "groups",
}
OPTIMIZERS = frozenset("SGD Adam AdamW Adagrad Adafactor RMSprop Lion Muon".split())
COLLECTIVES = frozenset(
    """all_reduce all_gather all_gather_into_tensor reduce_scatter reduce_scatter_tensor broadcast
    all_to_all all_to_all_single send recv isend irecv batch_isend_irecv reduce scatter
    gather""".split()
)
WRITTEN = "written by `shardproof init`"
"""Stands in the first lines of a check file, which is no part of what it is to check."""
MOST_HEAD = 300
_LOSSES = ("loss", "cross_entropy")
_LAUNCHER = re.compile(
    r"torchrun|torch\.distributed\.(?:run|launch)|accelerate launch|mpirun|srun|deepspeed"
)
_RANKS = re.compile(
    r"(?:--nproc[-_]per[-_]node|--num_processes|--num_gpus|--ntasks|-np|-n)[= ]+"
    r"(?P<n>\d+|\$\{?\w+\}?|gpu|auto)"
)
_NODES = re.compile(r"--(?:nnodes|num_machines|nodes)[= ]+(?P<n>[^\s`]+)")


def look(root: Path) -> Seen:
    """Everything that is seen below ``root``."""
    seen = Seen(root)
    for path in python_files(root):
        if WRITTEN in read(path)[:MOST_HEAD]:
            continue
        seen.files += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about the user's escapes and literals
                tree = ast.parse(read(path))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            seen.unreadable.append(path)
            continue
        _File(path, seen).visit(tree)
        if _runs(tree):
            seen.runs_on_import.add(path)
    _keep_modules(seen)
    for path in scripts(root):
        seen.launches += _launches(path)
    return seen


class _File(ast.NodeVisitor):
    """Collects classes and calls of one file."""

    def __init__(self, path: Path, seen: Seen) -> None:
        self.path, self.seen = path, seen
        self.classes: list[str] = []
        self.functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        self.distributed: set[str] = {"dist"}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module == "torch.distributed":
            self.distributed |= {a.asname or a.name for a in node.names}

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        model = _model(node, self.path)
        self.seen.models.append(model)
        self.seen.calls.setdefault(node.name, set()).update(model.calls, model.bases)
        if not self.classes and not self.functions and _needs_nothing(node):
            self.seen.plain.append(Made(node.name, self.path))
        self.classes.append(node.name)
        self.generic_visit(node)
        self.classes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if not self.classes:
            self.seen.calls.setdefault(node.name, set()).update(_called(node))
        self.functions.append(node)
        self.generic_visit(node)
        self.functions.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Call(self, node: ast.Call) -> None:
        name = _last(node.func)
        what = KINDS.get(name)
        if name in OPTIMIZERS:
            what = "optimizer"
        elif _is_collective(node, self.distributed):
            what = "collective"
        around = self.functions[0] if self.functions else None
        # A check says how the program is made parallel, but is none.
        if what is not None and not (around is not None and "Spec" in _called(around)):
            self.seen.uses.append(
                Use(
                    what, self.path, node.lineno, _text(node),
                    around.name if around is not None else None,
                    _arguments(around) if around is not None else (),
                    self.classes[-1] if self.classes else "",
                    around is not None and _returns(around),
                )
            )  # fmt: skip
        self.generic_visit(node)


def _model(node: ast.ClassDef, path: Path) -> Model:
    methods = {f.name: f for f in node.body if isinstance(f, ast.FunctionDef)}
    forward = methods.get("forward")
    return Model(
        node.name, path, node.lineno, _own(methods.get("__init__")), _own(forward),
        tuple(_last(b) for b in node.bases), _called(node),
        forward is not None and any(w in ast.unparse(forward).lower() for w in _LOSSES),
        _loss_at(forward), *uses(node),
    )  # fmt: skip


def _needs_nothing(node: ast.ClassDef) -> bool:
    """Whether a class of no other can be made without arguments: its ``__init__`` has defaults for
    all of them, or it is a dataclass whose fields have."""
    methods = {f.name: f for f in node.body if isinstance(f, ast.FunctionDef)}
    if node.bases:
        return False
    if "__init__" in methods:
        return all(a.default is not None for a in _own(methods["__init__"]))
    decorators = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    fields = [f for f in node.body if isinstance(f, ast.AnnAssign)]
    return any(_last(d) == "dataclass" for d in decorators) and all(f.value for f in fields)


def _called(node: ast.AST) -> frozenset[str]:
    """The parts of the names of what is called inside, but for the methods of ``self``."""
    parts = [_parts(c.func) for c in ast.walk(node) if isinstance(c, ast.Call)]
    return frozenset(name for p in parts if "self" not in p for name in p) - {""}


def _parts(node: ast.AST) -> list[str]:
    """The parts of a dotted name."""
    return [_last(node), *(_parts(node.value) if isinstance(node, ast.Attribute) else [])]


def _loss_at(forward: ast.FunctionDef | None) -> int:
    """Where the loss stands in the tuple that is returned, -1 where there is none."""
    for node in ast.walk(forward) if forward is not None else ():
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            names = [_last(x) for x in node.value.elts]
            if "loss" in names:
                return names.index("loss")
    return -1


def _keep_modules(seen: Seen) -> None:
    """Leave the classes that are modules: by their bases, also through each other."""
    found = {"Module", "PreTrainedModel", "LightningModule"}
    before = -1
    while before != len(found):
        before = len(found)
        found |= {m.name for m in seen.models if found & set(m.bases)}
    seen.models = [m for m in seen.models if found & set(m.bases)]


def _own(function: ast.FunctionDef | None) -> tuple[Argument, ...]:
    """The arguments of a method without ``self``."""
    return _arguments(function)[1:] if function is not None else ()


def _arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[Argument, ...]:
    a = function.args
    plain = [*a.posonlyargs, *a.args]
    defaults = [None] * (len(plain) - len(a.defaults)) + list(a.defaults)
    pairs = [*zip(plain, defaults, strict=True), *zip(a.kwonlyargs, a.kw_defaults, strict=True)]
    return tuple(
        Argument(
            x.arg,
            ast.unparse(x.annotation) if x.annotation else "",
            ast.unparse(d) if d is not None else None,
        )
        for x, d in pairs
    )


def _is_collective(call: ast.Call, distributed: set[str]) -> bool:
    f = call.func
    if isinstance(f, ast.Name):
        return f.id in COLLECTIVES and f.id in distributed
    if not isinstance(f, ast.Attribute) or f.attr not in COLLECTIVES:
        return False
    return _last(f.value) in ({"distributed", "funcol", "ft_c"} | distributed)


def _last(node: ast.AST) -> str:
    """The last part of a dotted name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.AST, limit: int = 160) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _returns(function: ast.AST) -> bool:
    return any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(function))


def _runs(tree: ast.Module) -> bool:
    """Whether importing the file runs more than definitions: loops, calls, ``with``."""
    quiet = (
        ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef,
        ast.Assign, ast.AnnAssign, ast.If, ast.Try,
    )  # fmt: skip
    for node in tree.body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not docstring and not isinstance(node, quiet):
            return True
    return False


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with what follows a backslash at their end, and their numbers."""
    start = 1
    parts: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        start = start if parts else number
        parts.append(line.removesuffix("\\"))
        if not line.endswith("\\"):
            yield start, " ".join(parts)
            parts = []


def _launches(path: Path) -> list[Launch]:
    out = []
    for number, line in _logical_lines(read(path)):
        if not _LAUNCHER.search(line):
            continue
        ranks, nodes = _RANKS.search(line), _NODES.search(line)
        n, times = (m["n"] if m else "" for m in (ranks, nodes))
        command = " ".join(line.split()).strip("`$ ")
        if ranks:
            known = n.isdigit() and (times.isdigit() or nodes is None)
            count = int(n) * int(times or 1) if known else None
            out.append(Launch(path, number, command[:160], count))
    return out
