"""``auto_functionalized``: operators that mutate arguments, made functional by PyTorch.

The result of the node is a tuple: the operator's own result, then the new value of each mutated
argument in schema order (v1) or of each base tensor (v2, where the arguments are views of bases).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardproof.frontends.aten.context import Functionalized, LowerContext, Unsupported
from shardproof.frontends.aten.helpers import dim_of
from shardproof.frontends.aten.shape import put_slice
from shardproof.frontends.aten.views import strided_slice
from shardproof.ir.graph import Value

Kernel = Callable[..., Any]
_BASE = "_base_index"


def mutations(out: Any) -> tuple[Any, tuple[Any, ...]]:
    """``(result, mutated)`` of what a kernel returned."""
    if isinstance(out, Functionalized):
        return out.result, tuple(out.mutated)
    return None, out if isinstance(out, tuple) else (out,)


def version_1(ctx: LowerContext, kernel: Kernel, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """``auto_functionalized(op, **kwargs)``."""
    result, mutated = mutations(kernel(ctx, **kwargs))
    return (result, *mutated)


def version_2(ctx: LowerContext, kernel: Kernel, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """``auto_functionalized_v2(op, **kwargs)``: mutated arguments are ``_all_bases[index]``, or
    a view of it that is described beside the index."""
    bases = list(kwargs.pop("_all_bases", ()))
    mutable = [k[1 : -len(_BASE)] for k in kwargs if k.startswith("_") and k.endswith(_BASE)]
    plain = {k: v for k, v in kwargs.items() if not _describes(k, mutable)}
    given = {name: _argument(ctx, name, kwargs, bases) for name in mutable}
    result, new = mutations(kernel(ctx, **plain, **given))
    changed = [name for name in mutable if given[name] is not None]
    if len(new) != len(changed):
        raise Unsupported(
            f"the kernel returned {len(new)} new values for {len(changed)} mutated arguments"
        )
    for name, value in zip(changed, new, strict=True):
        _write(ctx, name, kwargs, bases, value)
    return (result, *bases)


def _describes(key: str, mutable: list[str]) -> bool:
    return key.startswith("_") and any(key[1:].startswith(name + "_") for name in mutable)


def _argument(
    ctx: LowerContext, name: str, kwargs: dict[str, Any], bases: list[Any]
) -> Value | None:
    index = kwargs[f"_{name}{_BASE}"]
    if index is None:
        return None
    base: Value = bases[index]
    if f"_{name}_slice_dim" in kwargs:
        dim, start, end = (kwargs[f"_{name}_slice_{part}"] for part in ("dim", "start", "end"))
        return strided_slice(ctx, base, dim, start, end, 1)
    size = kwargs.get(f"_{name}_size")
    if size is not None and tuple(size) != base.shape:
        raise Unsupported(f"the mutated argument {name!r} is a strided view of its base")
    return base


def _write(
    ctx: LowerContext, name: str, kwargs: dict[str, Any], bases: list[Any], value: Value
) -> None:
    index = kwargs[f"_{name}{_BASE}"]
    base: Value = bases[index]
    if f"_{name}_slice_dim" not in kwargs:
        bases[index] = value
        return
    dim, start, end = (kwargs[f"_{name}_slice_{part}"] for part in ("dim", "start", "end"))
    bases[index] = put_slice(ctx, base, value, dim_of(base, dim), start, end)
