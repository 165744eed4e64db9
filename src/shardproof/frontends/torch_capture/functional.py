"""The functional twin of an operator that writes into its arguments."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

_SPECIAL = {
    "aten.fill_.Tensor": "aten.fill.Tensor",
    "aten.bernoulli_.float": "aten.bernoulli.p",
    "aten.uniform_.default": "aten.uniform.default",
    "aten.normal_.default": "aten.normal_functional.default",
    "aten.random_.default": "aten.randint_like.default",
}


@cache
def written(func: Any) -> tuple[str, ...]:
    """Names of the arguments that ``func`` writes, in schema order."""
    return tuple(
        a.name for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write
    )


@cache
def twin(func: Any) -> tuple[str, bool]:
    """``(target, drop)``: the functional operator that computes what ``func`` writes, and
    whether the written arguments must be left out (``out=``). The target is empty if there is
    none.
    """
    name = str(func)
    if name in _SPECIAL:
        return _SPECIAL[name], False
    space, base, overload = name.split(".")
    names = written(func)
    if base.endswith("_") and not base.startswith("__") and names[:1] == _first(func):
        return f"{space}.{base[:-1]}.{overload}", False
    if set(names) <= {a.name for a in func._schema.arguments if a.kwarg_only}:
        return _without_out(func, names), True
    return "", False


def _first(func: Any) -> tuple[str, ...]:
    return tuple(a.name for a in func._schema.arguments[:1])


def _without_out(func: Any, names: tuple[str, ...]) -> str:
    """The overload that takes the same arguments but ``out``."""
    packet = func.overloadpacket
    wanted = [(a.name, str(a.type)) for a in func._schema.arguments if a.name not in names]
    for overload in packet.overloads():
        other = getattr(packet, overload)
        if written(other):
            continue
        given = [(a.name, str(a.type)) for a in other._schema.arguments]
        if given[: len(wanted)] == wanted or wanted == [g for g in given if g in wanted]:
            return str(other)
    return ""


@cache
def is_composite(func: Any) -> bool:
    """Whether an operator exists by decomposition alone (it arrives whole below autograd)."""
    if not isinstance(func, torch._ops.OpOverload) or func.namespace != "aten":
        return False
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    kernels = ("CPU", "Meta", "CompositeExplicitAutograd")
    return bool(has(func.name(), "CompositeImplicitAutograd")) and not any(
        has(func.name(), key) for key in kernels
    )
