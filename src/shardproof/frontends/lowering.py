"""Turns the statements of a printed FX graph into core operators, one after another."""

from __future__ import annotations

from typing import Any

from shardproof.errors import InputError, shorten
from shardproof.frontends.aten import complex_pairs, functionalized, registry
from shardproof.frontends.aten.complex_pairs import REAL_OF, Complex
from shardproof.frontends.aten.context import (
    Attribute,
    Facts,
    NoValue,
    Unsupported,
)
from shardproof.frontends.fx_lexer import Dotted, Item, Ref
from shardproof.frontends.fx_text import FxGraph, FxStatement
from shardproof.frontends.scope import Scope
from shardproof.ir.graph import NO_ORIGIN, Graph, Value, is_bool, is_float, is_integer
from shardproof.ir.sizes import Poly, Undecided, symbols
from shardproof.ops.base import ShapeError

_MEANINGLESS = frozenset("layout device pin_memory memory_format non_blocking generator".split())
_FUNCTIONALIZED = "higher_order.auto_functionalized"


class Lowering(Scope):
    """One import of one graph."""

    def __init__(self, fx: FxGraph, facts: Facts) -> None:
        super().__init__(fx, facts)
        self.unnamed: set[Value] = set()
        self.inputs: set[str] = set()
        self.updated: dict[str, Any] = {}

    def run(self) -> Graph:
        """Lower all statements and set the graph's outputs."""
        self._read_ahead()
        kinds = {
            "input": self._input,
            "call": self._call,
            "getitem": self._getitem,
            "attr": self._attribute,
            "value": self._value,
        }
        for s in self.fx.statements:
            self.ctx.begin(s)
            kinds[s.kind](s)
        self._returns()
        self._assume_sizes()
        return self.graph

    def _assume_sizes(self) -> None:
        """A size that depends on the data (``u0``), or a quotient, might be 0; symbols are at
        least 1."""
        shapes = [v.shape for v in self.graph.values()]
        found = {s.name for shape in shapes for n in shape if isinstance(n, Poly)
                 for s in symbols(n)}  # fmt: skip
        for name in sorted(found):
            if not (name[0] == "s" and name[1:].isdigit()):
                self.record.assume("condition", f"the size {name} is at least 1")

    def _read_ahead(self) -> None:
        """Annotations by name, and which elements of each tuple are read, with their types."""
        items = self.ctx.items
        for s in self.fx.statements:
            if s.type is not None:
                self.ctx.types[s.name] = s.type
            if s.kind == "getitem" and isinstance(s.args[0], int):
                items.setdefault(s.target, {})[s.args[0]] = s.type
        for out in self.fx.outputs:
            if isinstance(out, Item) and isinstance(out.base, Ref) and isinstance(out.index, int):
                items.setdefault(out.base.name, {})[out.index] = None

    # -- statements

    def _input(self, s: FxStatement) -> None:
        if s.type is None:
            raise self.error(s, "an input without annotation", "a type for every input")
        if not s.type.is_tensor:
            self.env[s.name] = s.type.scalar
            return
        if s.type.dtype in REAL_OF:
            shape = (*s.type.shape, 2)
            pairs = self.ctx.builder.input(s.name, REAL_OF[s.type.dtype], shape)
            self.env[s.name] = complex_pairs.unpack(self.ctx, pairs)
            return
        value = self.ctx.builder.input(s.name, s.type.dtype, s.type.shape)
        self.inputs.add(s.name)
        fact = self.constant(s.name)
        self.env[s.name] = value if fact is None else self.fixed(s.name, fact, s.type)

    def _attribute(self, s: FxStatement) -> None:
        if s.type is not None and s.type.is_tensor:
            self.env[s.name] = self.materialise(Attribute(s.target), s.type)
        else:
            self.env[s.name] = Attribute(s.target)

    def _value(self, s: FxStatement) -> None:
        self.env[s.name] = self.resolve(s.args[0], s)

    def _getitem(self, s: FxStatement) -> None:
        base, index = self.resolve(Ref(s.target), s), s.args[0]
        if isinstance(base, tuple) and isinstance(index, int):
            if not -len(base) <= index < len(base):
                raise self.error(
                    s, f"element {index} of {s.target!r}, which has {len(base)}",
                    "an index within the result",
                )  # fmt: skip
            item = base[index]
            self._define(s, NoValue(f"element {index} of {s.target}") if item is None else item)
        elif isinstance(base, NoValue):
            self.env[s.name] = base
        elif isinstance(base, Value) and isinstance(index, int):
            self._apply(s, "aten.select.int", (base, 0, index), {})
        else:
            self._define(s, self._opaque(s, "getitem", (base,), {}, "indexing of this kind"))

    def _call(self, s: FxStatement) -> None:
        args = tuple([self.resolve(a, s) for a in s.args])
        kwargs = {k: self.resolve(v, s) for k, v in s.kwargs.items()} if s.kwargs else {}
        if s.target.startswith(_FUNCTIONALIZED) and s.args and isinstance(s.args[0], Dotted):
            self._functionalized(s, s.args[0].path.removeprefix("torch.ops."), kwargs)
        else:
            self._apply(s, s.target, args, kwargs)

    def _functionalized(self, s: FxStatement, inner: str, kwargs: dict[str, Any]) -> None:
        kernel = self.user_kernel(inner) or registry.find(inner)
        if kernel is None:
            self._define(s, self._opaque(s, inner, (), kwargs, ""))
            return
        version = functionalized.version_1
        if s.target.startswith(_FUNCTIONALIZED + "_v2"):
            version = functionalized.version_2
        # The context is the first argument of every rule.
        self._guarded(s, inner, lambda: version(self.ctx, kernel, dict(kwargs)), (), kwargs)

    def _apply(
        self, s: FxStatement, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        user = self.user_kernel(target)
        if user is not None:
            self._guarded(s, target, lambda: user(self.ctx, *args, **kwargs), args, kwargs)
            return
        if args and isinstance(args[0], NoValue) and "wait_tensor" in target:
            self.env[s.name] = args[0]
            return
        if _in_place(target):
            self._mutate(s, target, args)
            return
        rule = registry.find(target)
        if rule is None and not complex_pairs.holds_complex(args):
            self._define(s, self._opaque(s, target, args, kwargs, ""))
            return
        for a in args:
            if type(a) is NoValue:
                self._define(s, self._opaque(s, target, args, kwargs, a.why))
                return
            if type(a) is Attribute and target.startswith(("aten.", "prims.")):
                raise self.untyped(s, a)
        if not _MEANINGLESS.isdisjoint(kwargs):
            kwargs = {k: v for k, v in kwargs.items() if k not in _MEANINGLESS}
        if complex_pairs.holds_complex(args):
            whole = target if "." in target.partition(".")[2] else target + ".default"
            self._guarded(
                s, target, lambda: complex_pairs.lower(self.ctx, whole, args, kwargs), args, kwargs
            )
            return
        self._guarded(s, target, lambda: rule(self.ctx, *args, **kwargs), args, kwargs)  # type: ignore[misc]

    def _mutate(self, s: FxStatement, target: str, args: tuple[Any, ...]) -> None:
        """``copy_`` into a graph input, the one mutation that PyTorch leaves in a functional
        graph: the input's new value is one more output."""
        name = s.args[0].name if s.args and isinstance(s.args[0], Ref) else ""
        if target != "aten.copy_.default" or name not in self.inputs:
            raise InputError(
                f"{shorten(target, 60)} changes its argument in place: the graph is not functional",
                self.fx.where(s.line),
                "a graph in which operators return new tensors",
                "print the graph after AOTAutograd (TORCH_LOGS=aot_graphs), or apply "
                "torch.func.functionalize before tracing",
            )
        self._apply(s, "aten.copy.default", args[:2], {})
        # Whoever reads the input from here on reads what was written.
        self.env[name] = self.updated[name] = self.env[s.name]

    def _guarded(
        self, s: FxStatement, target: str, apply: Any, args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:  # fmt: skip
        """Run a rule; arguments it cannot take are a fault of the input, said as such."""
        mark = len(self.graph.nodes), len(self.graph.inputs)
        try:
            result = apply()
        except Unsupported as e:
            self._give_up(mark)
            result = self._opaque(s, target, args, kwargs, str(e))
        except (InputError, KeyboardInterrupt, MemoryError):
            raise
        except Exception as e:  # a rule on hostile arguments may fail in any way
            if _symbolic(e, (args, kwargs)):
                self._give_up(mark)
                self._define(s, self._opaque(s, target, args, kwargs, _reason(e)))
                return
            what = f"the arguments of {target} do not fit: {_reason(e)}"
            if self.user_kernel(target):
                what = f"your kernel for {target} failed: {type(e).__name__}: {_reason(e)}"
            raise InputError(
                what,
                self.fx.where(s.line),
                f"arguments that {target} takes (node {shorten(s.name, 60)!r})",
                "check that the dump was not altered; if it was not, please report this line",
            ) from e
        self._define(s, result)

    def _give_up(self, mark: tuple[int, int]) -> None:
        """Drop the nodes that a rule emitted before it gave up: they would be dead."""
        del self.graph.nodes[mark[0] :]
        del self.graph.inputs[mark[1] :]
        self.ctx.created = []

    # -- results

    def _define(self, s: FxStatement, result: Any) -> None:
        """Bind the result of a statement: check it against the annotation and name it."""
        if isinstance(result, list):
            result = tuple(result)
        if isinstance(result, Value):
            result = self._checked(s, result)
            if result in self.ctx.created or result in self.unnamed:
                result.name = s.name
                self.unnamed.discard(result)
        elif isinstance(result, Complex):
            self._check_complex(s, result)
        elif isinstance(result, tuple):
            made = set(self.ctx.created)
            self.unnamed.update(x for x in result if isinstance(x, Value) and x in made)
        elif result is None:
            result = NoValue(f"{s.target or s.name} has no tensor result")
        self.env[s.name] = result

    def _check_complex(self, s: FxStatement, value: Complex) -> None:
        t = s.type
        if t is not None and t.is_tensor and (t.dtype[0], t.shape) != ("c", value.shape):
            raise self._disagrees(s, f"a complex tensor of shape {value.shape}")

    def _checked(self, s: FxStatement, value: Value) -> Value:
        t = s.type
        if t is None or not t.is_tensor:
            return value
        if t.shape == value.shape:
            if t.dtype == value.dtype:
                return value
            if _kind(t.dtype) == _kind(value.dtype):
                # Another width of the same kind of number: PyTorch's promotion, spelled out.
                return self.ctx.cast(value, t.dtype)
        raise self._disagrees(s, str(value.type))

    def _disagrees(self, s: FxStatement, found: str) -> InputError:
        return InputError(
            f"{shorten(s.name, 60)} = {s.target or 'element'} gives "
            f"{shorten(found, 80)}, its annotation says {shorten(str(s.type), 80)}",
            self.fx.where(s.line),
            "an annotation that agrees with the operator's shape rule",
            "check that the dump was not altered; a kernel of yours must return this type",
        )

    def _opaque(
        self, s: FxStatement, target: str, args: tuple[Any, ...], kwargs: dict[str, Any],
        reason: str,
    ) -> Any:  # fmt: skip
        """A stand-in with the annotated types for an operator without meaning."""
        name = target.removesuffix(".default")
        if s.type is not None and not s.type.is_tensor:
            # The annotation names the number, whatever computes it.
            return s.type.scalar
        self.record.unknown[name] = self.record.unknown.get(name, 0) + 1
        if reason:
            self.record.reasons[name] = reason
        operands = _values((args, kwargs))
        label = f"{name} ({reason})" if reason else name
        if s.type is not None:
            return self.ctx.emit(
                "opaque", *operands, target=label, shape=s.type.shape, dtype=s.type.dtype
            )
        items = self.ctx.items.get(s.name, {})
        typed = {k: t for k, t in sorted(items.items()) if t is not None and t.is_tensor}
        out: list[Any] = [
            items[k].scalar if k in items and items[k] is not None else  # type: ignore[union-attr]
            NoValue(f"{name} has no declared meaning")
            for k in range(max(items, default=-1) + 1)
        ]  # fmt: skip
        if typed:
            made = self.ctx.emit_all(
                "opaque", *operands, target=label,
                shapes=tuple(t.shape for t in typed.values()),
                dtypes=tuple(t.dtype for t in typed.values()),
            )  # fmt: skip
            for k, value in zip(typed, made, strict=True):
                out[k] = value
        return tuple(out) if out else NoValue(f"{name} has no declared meaning")

    def _stand_in(self, name: str, nothing: NoValue) -> Value | None:
        """What stands for a returned tensor that has no meaning (a seed, a kernel's workspace)."""
        t = self.ctx.types.get(name)
        if t is None or not t.is_tensor:
            return None
        value = self.ctx.emit("opaque", target=nothing.why, shape=t.shape, dtype=t.dtype)
        value.name = name
        return value

    def _returns(self) -> None:
        values: list[Value | None] = []
        names: list[str] = []
        end = FxStatement("return", "value", None, "", (), {}, NO_ORIGIN, self.fx.return_line)
        self.ctx.begin(end)
        for k, out in enumerate(self.fx.outputs):
            value = self.resolve(out, end)
            if isinstance(value, Attribute):
                value = self.materialise(value, None)
            if isinstance(value, Complex):
                value = complex_pairs.pack(self.ctx, value)
            if isinstance(value, NoValue) and isinstance(out, Ref):
                value = self._stand_in(out.name, value)
            values.append(value if isinstance(value, Value) else None)
            names.append(out.name if isinstance(out, Ref) else f"none{k}")
        for name, new in self.updated.items():
            values.append(new if isinstance(new, Value) else None)
            names.append(f"{name}_updated")
        self.ctx.builder.returns(*values, names=tuple(names))


def _in_place(target: str) -> bool:
    """Whether an operator mutates its argument, as PyTorch's trailing underscore says."""
    space, _, rest = target.partition(".")
    base = rest.partition(".")[0]
    known = space in ("aten", "prims", "c10d", "_c10d_functional", "c10d_functional")
    return known and base.endswith("_") and not base.endswith("__")


def _kind(dtype: str) -> str:
    if is_bool(dtype):
        return "boolean"
    return "integer" if is_integer(dtype) else "float" if is_float(dtype) else "complex"


def _symbolic(e: Exception, operands: Any) -> bool:
    """Whether a shape rule failed on symbols: that is no fault of the input."""
    return isinstance(e, ShapeError | Undecided) and any(
        isinstance(n, Poly) for v in _values(operands) for n in v.shape
    )


def _values(x: Any) -> list[Value]:
    """All tensors in nested arguments, in order."""
    if isinstance(x, Value):
        return [x]
    if isinstance(x, Complex):
        return [x.re, x.im]
    if isinstance(x, dict):
        return [v for y in x.values() for v in _values(y)]
    if isinstance(x, tuple):
        return [v for y in x for v in _values(y)]
    return []


def _reason(e: Exception) -> str:
    return shorten(f"{e}" if str(e) else type(e).__name__, 160)
