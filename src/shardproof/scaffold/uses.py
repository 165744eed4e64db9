"""Which arguments of ``forward`` are whole numbers, by what is done with them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_TARGET, _INPUT, _INDEX = (1, "target"), (0, "input"), (2, "index")
IDS_AT = dict.fromkeys("embedding Embedding EmbeddingBag one_hot".split(), _INPUT)
"""Where functions, and modules, take the numbers of rows: the place and the keyword."""
WHOLES_AT = {
    **dict.fromkeys("cross_entropy nll_loss CrossEntropyLoss NLLLoss".split(), _TARGET),
    "gather": _INDEX,
    "index_select": _INDEX,
    "take_along_dim": (1, "indices"),
}
REALS_AT = dict.fromkeys(
    """mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy
    binary_cross_entropy_with_logits MSELoss L1Loss SmoothL1Loss HuberLoss BCELoss
    BCEWithLogitsLoss""".split(),
    _TARGET,
)
METHODS = frozenset({"gather", "index_select", "take_along_dim"})
"""Of these the ones that tensors have too."""
SAME = frozenset("view reshape flatten contiguous to long int squeeze unsqueeze clone".split())
"""Methods whose result is about the same numbers."""


def uses(cls: ast.ClassDef) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The arguments of ``forward`` that are numbers of rows, other whole numbers, and real ones, as
    far as a function tells that they are given to; through views and other names for them."""
    methods = {f.name: f for f in cls.body if isinstance(f, ast.FunctionDef)}
    forward = methods.get("forward")
    if forward is None:
        return frozenset(), frozenset(), frozenset()
    made, means = _made(methods.get("__init__")), _aliases(forward)
    calls = [n for n in ast.walk(forward) if isinstance(n, ast.Call)]
    own = {a.arg for a in (*forward.args.posonlyargs, *forward.args.args, *forward.args.kwonlyargs)}

    def given(places: dict[str, tuple[int, str]]) -> frozenset[str]:
        named = ((c, _called(c, made)) for c in calls)
        found = [_base(x) for c, name in named if name in places for x in _given(c, *places[name])]
        return frozenset(means.get(n, n) for n in found) & own

    return given(IDS_AT), given(WHOLES_AT), given(REALS_AT)


def _made(init: ast.FunctionDef | None) -> dict[str, str]:
    """The class of each module that ``__init__`` keeps in an attribute of ``self``."""
    out = {}
    for node in ast.walk(init) if init is not None else ():
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            for target in node.targets:
                if isinstance(target, ast.Attribute):
                    out[target.attr] = _last(node.value.func)
    return out


def _called(call: ast.Call, made: dict[str, str]) -> str:
    """What is called: a module of ``self`` by its class."""
    f = call.func
    own = isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name) and f.value.id == "self"
    return made.get(_last(f), "") if own else _last(f)


def _given(call: ast.Call, place: int, keyword: str) -> Iterator[ast.expr]:
    """The argument at a place, or by its keyword; a method has its object in front."""
    f = call.func
    functions = ("torch", "F", "functional")
    if isinstance(f, ast.Attribute) and f.attr in METHODS and _last(f.value) not in functions:
        place -= 1
    yield from call.args[place : place + 1]
    yield from (k.value for k in call.keywords if k.arg == keyword)


def _aliases(forward: ast.FunctionDef) -> dict[str, str]:
    """Names inside that stand for a view of another."""
    out: dict[str, str] = {}
    for node in ast.walk(forward):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, base = node.targets[0], _base(node.value)
            if isinstance(target, ast.Name) and base:
                out.setdefault(target.id, out.get(base, base))
    return out


def _base(node: ast.expr) -> str:
    """The name that an expression is a view of; empty for others."""
    while True:
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr not in SAME:
                return ""
            node = node.func.value
        else:
            return ""


def _last(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
