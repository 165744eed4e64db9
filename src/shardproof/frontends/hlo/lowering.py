"""Lowers a module to the core graph of one rank: calls are inlined, counted loops unrolled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardproof.collectives.match import is_collective
from shardproof.errors import InputError, shorten
from shardproof.frontends.hlo import (  # noqa: F401 - the rules
    communicate,
    elementwise,
    indexing,
    lookups,
    order,
    rearrange,
    reduce,
    regions,
)
from shardproof.frontends.hlo.context import Absent, Facts, Held, HloContext, Unsupported
from shardproof.frontends.hlo.known import Known
from shardproof.frontends.hlo.module import Computation, Instruction, Module
from shardproof.frontends.hlo.registry import Rule, find
from shardproof.frontends.hlo.shapes import Array, HloSyntaxError, Shape
from shardproof.ir.graph import Graph, Value
from shardproof.ir.sizes import Undecided
from shardproof.ops.base import ShapeError

MAX_STEPS = 300_000
"""Instructions that one rank may execute, loops included."""
MAX_TRIPS = 4096
MAX_DEPTH = 100
_CONTROL = frozenset(("parameter", "tuple", "get-tuple-element", "call", "fusion", "while",
                      "conditional", "custom-call", "async-start", "async-done", "async-update",
                      "after-all"))  # fmt: skip
_BORDERS: dict[str, Rule] = {
    "xla.sdy.GlobalToLocalShape": regions.global_to_local,
    "xla.sdy.LocalToGlobalShape": regions.local_to_global,
    "SPMDFullToShardShape": regions.full_to_shard,
    "SPMDShardToFullShape": regions.shard_to_full,
    "Sharding": lambda ctx, xs: xs[0],
    "xla.sdy.FuncResultSharding": lambda ctx, xs: xs[0],
}
_SEVERAL = frozenset(("optimization-barrier", "opt-barrier"))


class Lowering:
    """One import of one module for one rank."""

    def __init__(self, module: Module, facts: Facts) -> None:
        self.module = module
        self.ctx = HloContext(module, facts)
        self.steps = 0
        self.depth = 0

    def run(self) -> Graph:
        """The graph; what it rests on is then in ``ctx.record``.

        Raises:
            InputError: the module does not fit together.
        """
        entry = self.module.entry
        parameters = entry.parameters()
        arguments = [
            self._input(i, name)
            for i, name in zip(parameters, input_names(parameters), strict=True)
        ]
        result = self._computation(entry, arguments, "")
        outs = result if isinstance(result, tuple) else (result,)
        values = [self._returned(x) for x in outs]
        graph = self.ctx.builder.returns(*values, names=tuple(f"out{k}" for k in range(len(outs))))
        prune(graph)
        return graph

    def _input(self, i: Instruction, name: str) -> Held:
        return self._argument(i.shape, name)

    def _argument(self, shape: Shape, name: str) -> Held:
        if isinstance(shape, tuple):
            return tuple(self._argument(s, f"{name}.{k}") for k, s in enumerate(shape))
        if isinstance(shape, Array):
            return self.ctx.builder.input(name, shape.dtype, shape.dims)
        return Absent(shape.name)

    def _returned(self, x: Held) -> Value | None:
        if isinstance(x, tuple | Absent):
            return None
        return self.ctx.value(x)

    # ---------------------------------------------------------------- computations

    def _computation(self, c: Computation, arguments: Sequence[Held], path: str) -> Held:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._error(c.instructions[0], "computations that call each other too deeply")
        try:
            return self._body_of(c, arguments, path)
        finally:
            self.depth -= 1

    def _body_of(self, c: Computation, arguments: Sequence[Held], path: str) -> Held:
        env: dict[str, Held] = {}
        made: dict[str, Instruction] = {}
        for i in c.instructions:
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise self._too_long(i)
            missing = next((x for x in i.operands if x not in env), None)
            if missing is not None:
                raise self._error(i, f"{shorten(missing, 60)!r} is not defined before it is used")
            self.ctx.begin(i, tuple([made[x] for x in i.operands]), path)
            if i.opcode == "parameter":
                env[i.name] = self._parameter(i, arguments)
            else:
                env[i.name] = self._instruction(i, [env[x] for x in i.operands], path)
            made[i.name] = i
        assert c.root is not None
        return env[c.root.name]

    def _parameter(self, i: Instruction, arguments: Sequence[Held]) -> Held:
        if int(i.literal) >= len(arguments):
            raise self._error(i, f"parameter {i.literal} of a call with {len(arguments)} operands")
        return arguments[int(i.literal)]

    def _instruction(self, i: Instruction, xs: list[Held], path: str) -> Held:
        mark = len(self.ctx.graph.nodes)
        try:
            if i.opcode in _CONTROL:
                return self._control(i, xs, path)
            rule = find(i.opcode)
            if rule is None:
                return self._opaque(i, xs, i.opcode, "")
            if len(xs) > 1 and i.opcode in _SEVERAL:
                return tuple(xs)
            return self._fits(i, rule(self.ctx, xs))
        except Unsupported as e:
            self.ctx.rollback(mark)
            return self._opaque(i, xs, i.opcode, str(e))
        except InputError:
            raise
        except (HloSyntaxError, ShapeError, Undecided) as e:
            raise self._error(i, f"the operands of {i.opcode} do not fit: {e}") from e
        except (ArithmeticError, AssertionError, IndexError, KeyError, TypeError, ValueError) as e:
            raise self._error(i, f"the attributes of {i.opcode} do not fit it") from e

    def _fits(self, i: Instruction, result: Held) -> Held:
        """The result with the type that the instruction prints."""
        if isinstance(result, Value) and not i.opcode.endswith("-start"):
            return self.ctx.checked(result)
        for x, want in _paired(result, i.shape):
            shape = x.shape if isinstance(x, Value | Known) else None
            if isinstance(want, Array) and shape is not None and shape != want.dims:
                raise self._error(i, f"{i.opcode} gives {shape}, the module prints {want}")
        return result

    # ---------------------------------------------------------------- control

    def _control(self, i: Instruction, xs: list[Held], path: str) -> Held:
        op = i.opcode
        if op == "tuple":
            return tuple(xs)
        if op == "get-tuple-element":
            return self._element(i, xs[0])
        if op in ("call", "fusion", "async-start"):
            key = "to_apply" if op == "call" else "calls"
            return self._called(i, key, xs, path)
        if op == "while":
            return self._while(i, xs[0], path)
        if op == "conditional":
            return self._conditional(i, xs, path)
        if op == "custom-call":
            return self._custom(i, xs)
        return xs[0] if xs and op != "after-all" else Absent("a token")

    def _element(self, i: Instruction, x: Held) -> Held:
        k = i.ints("index")[0]
        if isinstance(x, Absent):
            return x
        if not isinstance(x, tuple) or not 0 <= k < len(x):
            raise self._error(i, f"element {k} of a tuple that has no such element")
        return x[k]

    def _body(self, i: Instruction, key: str) -> Computation:
        name = i.computation(key)
        if name not in self.module.computations:
            raise self._error(i, f"the computation {shorten(name, 60)!r} is not in the text")
        return self.module.computations[name]

    def _called(self, i: Instruction, key: str, xs: Sequence[Held], path: str) -> Held:
        body = self._body(i, key)
        return self._computation(body, xs, path)

    def _while(self, i: Instruction, state: Held, path: str) -> Held:
        """A loop whose condition is known at every step, as that of a scan is."""
        condition, body = self._body(i, "condition"), self._body(i, "body")
        mark = len(self.ctx.graph.nodes)
        for trip in range(MAX_TRIPS):
            here = f"{path}{i.name}[{trip}]/"
            going = self._computation(condition, [state], here)
            if not isinstance(going, Known) or going.number is None:
                self.ctx.rollback(mark)
                return self._opaque(i, [state], "while", "its number of steps is not known")
            if not going.number:
                return state
            state = self._computation(body, [state], here)
        raise self._too_long(i)

    def _conditional(self, i: Instruction, xs: list[Held], path: str) -> Held:
        listed = i.attrs.get("branch_computations", "")
        names = [x.strip().lstrip("%") for x in listed.strip("{}").split(",") if x.strip()]
        chosen = xs[0].number if isinstance(xs[0], Known) else None
        if chosen is None:
            return self._opaque(i, xs, "conditional", "its branch depends on the data")
        if names:
            k = int(chosen) if 0 <= chosen < len(names) else len(names) - 1
            body = self.module.computations[names[k]]
        else:
            k = 0 if chosen else 1
            body = self._body(i, "true_computation" if chosen else "false_computation")
        return self._computation(body, [xs[k + 1]], path)

    # ---------------------------------------------------------------- custom calls

    def _custom(self, i: Instruction, xs: list[Held]) -> Held:
        target = i.attrs.get("custom_call_target", "").strip('"')
        kernel = self.ctx.facts.kernels.get(target)
        if kernel is not None:
            self.ctx.record.assume("kernel", f"{target} means what its kernel says")
            return self._kernel(i, target, kernel, xs)
        border = _BORDERS.get(target)
        if border is not None:
            return self._fits(i, border(self.ctx, xs))
        if target == "TopK" and isinstance(i.shape, tuple) and isinstance(i.shape[0], Array):
            x = self.ctx.value(xs[0])
            k = i.shape[0].dims[-1]
            values, places = self.ctx.emit_all("topk", x, k=k, dim=len(x.shape) - 1, largest=True)
            return values, self.ctx.cast(places, "i32")
        return self._opaque(i, xs, target or "custom-call", "")

    def _kernel(self, i: Instruction, target: str, kernel: Any, xs: list[Held]) -> Held:
        """A user's kernel: scalars that are known come as numbers, attributes by name."""
        arguments = [
            x.number if isinstance(x, Known) and not x.shape and x.number is not None
            else self.ctx.value(x)
            for x in xs
        ]  # fmt: skip
        try:
            result = kernel(self.ctx, *arguments)
        except (InputError, Unsupported):
            raise
        except Exception as e:
            raise InputError(
                f"your kernel for {target} failed: {type(e).__name__}: {shorten(str(e), 200)}",
                self.module.where(i.line),
                f"a function of the context and {len(arguments)} operand(s)",
                "correct the function in kernels={...}",
            ) from e
        if isinstance(result, Value):
            return self.ctx.checked(result)
        return tuple(result) if isinstance(result, list) else result

    # ---------------------------------------------------------------- what has no meaning

    def _opaque(self, i: Instruction, xs: Sequence[Held], target: str, reason: str) -> Held:
        record = self.ctx.record
        record.unknown[target] = record.unknown.get(target, 0) + 1
        if reason:
            record.reasons[target] = reason
        label = f"{target} ({reason})" if reason else target
        operands = self.ctx.listed(_arrays(xs))
        leaves = [s for s in _leaves(i.shape) if isinstance(s, Array)]
        if not leaves:
            return Absent(label)
        made = self.ctx.emit_all(
            "opaque", *operands, target=label,
            shapes=tuple(s.dims for s in leaves), dtypes=tuple(s.dtype for s in leaves),
        )  # fmt: skip
        parts = iter(made)
        return _filled(i.shape, parts)

    def _error(self, i: Instruction, what: str) -> InputError:
        return InputError(
            f"{shorten(i.name, 60)}: {what}",
            self.module.where(i.line),
            "an HLO module as it was printed",
            "check that the text was not altered; if it was not, please report this line",
        )

    def _too_long(self, i: Instruction) -> InputError:
        return InputError(
            f"{shorten(i.name, 60)}: unrolled loops take more than {MAX_STEPS} instructions",
            self.module.where(i.line),
            f"loops of at most {MAX_TRIPS} steps and {MAX_STEPS} instructions in all",
            "capture the program with fewer layers, or with a smaller scan",
        )


def _paired(x: Held, shape: Shape) -> list[tuple[Held, Shape]]:
    """Parts of a result with their printed types, where both are of one structure."""
    if isinstance(x, tuple) and isinstance(shape, tuple) and len(x) == len(shape):
        return [pair for y, s in zip(x, shape, strict=True) for pair in _paired(y, s)]
    return [(x, shape)]


def _arrays(xs: Sequence[Held]) -> list[Held]:
    out: list[Held] = []
    for x in xs:
        if isinstance(x, tuple):
            out.extend(_arrays(x))
        elif not isinstance(x, Absent):
            out.append(x)
    return out


def _leaves(shape: Shape) -> list[Shape]:
    return [x for s in shape for x in _leaves(s)] if isinstance(shape, tuple) else [shape]


def _filled(shape: Shape, parts: Any) -> Held:
    if isinstance(shape, tuple):
        return tuple(_filled(s, parts) for s in shape)
    return next(parts) if isinstance(shape, Array) else Absent(shape.name)


def input_names(parameters: Sequence[Instruction]) -> list[str]:
    """Names of the inputs: those of the program's arguments where the module tells them, else
    the parameters' own without number, else ``p0``, ``p1``, ..."""
    told = [i.origin.module for i in parameters]
    own = [i.name.rpartition(".")[0] or i.name for i in parameters]
    for names in (told, own):
        if all(names) and len(set(names)) == len(names) and not any("/" in n for n in names):
            return names
    return [f"p{i.literal}" for i in parameters]


def prune(graph: Graph) -> None:
    """Drop nodes that no output and no collective needs."""
    needed: set[Value] = {v for v in graph.outputs if v is not None}
    kept = []
    for node in reversed(graph.nodes):
        if is_collective(node) or any(v in needed for v in node.outputs):
            needed.update(node.inputs)
            kept.append(node)
    graph.nodes = kept[::-1]


__all__ = ["Lowering", "input_names", "prune"]
