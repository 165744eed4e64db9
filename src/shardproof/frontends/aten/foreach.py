"""Operators on lists of tensors: the same operator on each element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardproof.frontends.aten import elementwise as el
from shardproof.frontends.aten.context import LowerContext, Unsupported
from shardproof.frontends.aten.reduce import norm
from shardproof.frontends.aten.registry import find, lowers
from shardproof.ir.graph import Value

Rule = Callable[..., Any]


def _each(rule: Rule) -> Rule:
    """Apply ``rule`` element by element; lists go in step, everything else is repeated."""

    def lowered(ctx: LowerContext, self: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        def pick(a: Any, k: int) -> Any:
            return a[k] if isinstance(a, tuple) else a

        return tuple(
            rule(ctx, x, *(pick(a, k) for a in args), **{n: pick(a, k) for n, a in kwargs.items()})
            for k, x in enumerate(self)
        )

    return lowered


_LISTS: tuple[tuple[str, Rule, str], ...] = (
    ("add", el.add, "Scalar List ScalarList Tensor"),
    ("sub", el.sub, "Scalar List ScalarList"),
    ("mul", el.mul, "Scalar List ScalarList Tensor"),
    ("div", el.div, "Scalar List ScalarList Tensor"),
    ("addcmul", el.addcmul, "Scalar ScalarList"),
    ("addcdiv", el.addcdiv, "Scalar ScalarList"),
    ("lerp", el.lerp, "Scalar List ScalarList"),
)
_UNARY = "neg abs sqrt rsqrt reciprocal exp log sign floor ceil round trunc sigmoid tanh"
_BOUNDS = {
    "maximum": "maximum", "clamp_min": "maximum", "minimum": "minimum", "clamp_max": "minimum",
}  # fmt: skip


def _bound(op: str) -> Rule:
    def rule(ctx: LowerContext, self: Value, other: Any) -> Value:
        return ctx.emit(op, self, ctx.value(other, self))

    return rule


def _declare() -> None:
    for name, rule, overloads in _LISTS:
        for overload in overloads.split():
            lowers(f"aten._foreach_{name}.{overload}")(_each(rule))
    for name in _UNARY.split():
        found = find(f"aten.{name}")
        assert found is not None
        lowers(f"aten._foreach_{name}.default")(_each(found))
    for name, op in _BOUNDS.items():
        for overload in ("Scalar", "List", "ScalarList"):
            lowers(f"aten._foreach_{name}.{overload}")(_each(_bound(op)))


_declare()


@lowers("aten._foreach_pow.Scalar", "aten._foreach_pow.List", "aten._foreach_pow.ScalarList")
def _foreach_pow(ctx: LowerContext, self: Any, exponent: Any) -> tuple[Any, ...]:
    def rule(ctx: LowerContext, x: Value, e: Any) -> Any:
        found = find("aten.pow.Tensor_Tensor" if isinstance(e, Value) else "aten.pow.Tensor_Scalar")
        assert found is not None
        return found(ctx, x, e)

    return _each(rule)(ctx, self, exponent)  # type: ignore[no-any-return]


@lowers("aten._foreach_norm.Scalar")
def _foreach_norm(
    ctx: LowerContext, self: Any, ord: Any = 2, dtype: str | None = None
) -> tuple[Value, ...]:
    return tuple(norm(ctx, x if dtype is None else ctx.cast(x, dtype), ord, None, False)
                 for x in self)  # fmt: skip


@lowers("aten._foreach_zero.default")
def _foreach_zero(ctx: LowerContext, self: Any) -> tuple[Value, ...]:
    return tuple(ctx.full(0, x.shape, x.dtype) for x in self)


@lowers("aten._foreach_copy.default")
def _foreach_copy(ctx: LowerContext, self: Any, src: Any, non_blocking: bool = False) -> Any:
    copy = find("aten.copy")
    assert copy is not None
    return _each(copy)(ctx, self, src)


@lowers("aten._fused_adamw.default", "aten._fused_adam.default", "aten._fused_sgd.default")
def _fused_optimizer(ctx: LowerContext, *_: Any, **__: Any) -> Any:
    raise Unsupported("a fused optimizer step; capture the model with foreach=True instead")
