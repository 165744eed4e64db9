"""Records every operator of one rank, in eager Python, on tensors without memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives
import torch.distributed.distributed_c10d as distributed_c10d
from torch._C._distributed_c10d import FakeWork, ProcessGroup
from torch._ops import HigherOrderOperator
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed._meta_registrations import create_fakework
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from shardproof.errors import InputError
from shardproof.frontends.fx_lexer import Ref
from shardproof.frontends.fx_types import FxType
from shardproof.frontends.torch_capture import c10d, expansions
from shardproof.frontends.torch_capture.flights import Flights
from shardproof.frontends.torch_capture.functional import is_composite, twin, written
from shardproof.frontends.torch_capture.memory import Memory, dtype_name, fx_type
from shardproof.frontends.torch_capture.patches import Watch
from shardproof.frontends.torch_capture.provenance import Provenance
from shardproof.frontends.torch_capture.statements import Statements

_DATA_DEPENDENT = (
    fake_tensor.DataDependentOutputException,
    fake_tensor.DynamicOutputShapeException,
    fake_tensor.UnsupportedFakeTensorException,
)
_SAME = frozenset(("aten.lift_fresh.default", "aten.detach.default", "aten.alias.default",
                   "_c10d_functional._wrap_tensor_autograd.default"))  # fmt: skip
_OVERWRITES = frozenset(("aten.copy_.default", "aten.zero_.default", "aten.fill_.Scalar",
                         "aten.fill_.Tensor"))  # fmt: skip
_COMMUNICATION = ("_c10d_functional", "_c10d_functional_autograd")
_NOT_COUNTED = ("wait_tensor", "_wrap_tensor_autograd")


class Recorder(TorchDispatchMode):
    """Pushed on top of a FakeTensorMode; ``statements`` is the program in SSA form."""

    supports_higher_order_operators = True

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.statements = Statements()
        self.memory = Memory(self.statements)
        self.provenance = Provenance()
        self.groups: dict[str, tuple[int, ...]] = {}
        self.recorded: Counter[str] = Counter()
        self.watch = watch
        self._flights = Flights()
        self._keep: list[Any] = []
        watch.waited = self._waited
        watch.across.objects.called = self._objects
        self._sends: dict[int, str] = {}
        self._barriers: dict[int, Ref] = {}

    @classmethod
    def is_infra_mode(cls) -> bool:
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def declare(self, t: torch.Tensor, name: str) -> Ref:
        """From here on ``t`` holds the graph input ``name``."""
        ref = self.statements.input(name, fx_type(t))
        self.memory.write(t, ref)
        self._keep.append(t)
        return ref

    # -- dispatch

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(_is_foreign(t) for t in types):
            return NotImplemented
        if isinstance(func, HigherOrderOperator):
            self.statements.origin = self.provenance.origin()
            raise self._refused(f"the higher-order operator {func.name()}", "plain operators")
        space = func.namespace
        if space in ("prim", "profiler") or func._schema.name == "aten::sym_size":
            return func(*args, **kwargs)
        expansion = expansions.find(func)
        if expansion is not None:
            with self:
                return expansion(*args, **kwargs)
        if is_composite(func):
            with self:
                out = func.decompose(*args, **kwargs)
            if out is not NotImplemented:
                return out
        self.statements.origin = self.provenance.origin()
        self._keep.extend(a for a in tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor))
        if space == "c10d":
            return self._c10d(func, args, kwargs)
        if written(func):
            return self._writing(func, args, kwargs)
        return self._plain(func, args, kwargs)

    def _plain(self, func: Any, args: Any, kwargs: Any) -> Any:
        target = str(func)
        given, named = self._literals(func, args, kwargs)
        out = self._run(func, args, kwargs)
        if target in _SAME:
            self._bind(out, given[0])
            return out
        if target == "aten.as_strided.default" and self.memory.knows(out):
            self.memory.read(out)  # cut out of its storage by its strides
            return out
        tensors = _tensors(out)
        if not tensors:
            return out
        single = isinstance(out, torch.Tensor)
        ref = self.statements.call(target, given, named, fx_type(out) if single else None)
        if func.namespace in _COMMUNICATION and func._opname not in _NOT_COUNTED:
            self.statements.keep(ref)
            self.recorded[func._opname] += 1
        for index, t in tensors:
            self._bind(t, ref if single else self.statements.item(ref, index, fx_type(t)))
        return out

    def _bind(self, t: torch.Tensor, ref: Ref) -> None:
        self.memory.bind(t, ref)
        self._keep.append(t)

    def _writing(self, func: Any, args: Any, kwargs: Any) -> Any:
        names = written(func)
        arguments = dict(zip((a.name for a in func._schema.arguments), args, strict=False))
        arguments.update(kwargs)
        goals = [t for n in names for t in tree_leaves(arguments[n])
                 if isinstance(t, torch.Tensor)]  # fmt: skip
        if func.namespace in _COMMUNICATION:
            self.recorded[func._opname] += 1
        self._flights.check_write(goals, self.statements.origin)
        if str(func) in _OVERWRITES:
            return self._overwriting(func, args, kwargs)
        target, drop = twin(func)
        if drop:
            positions = [a.name for a in func._schema.arguments]
            args = tuple(a for n, a in zip(positions, args, strict=False) if n not in names)
            kwargs_read = {k: v for k, v in kwargs.items() if k not in names}
        else:
            kwargs_read = kwargs
        given, named = self._literals(func, args, kwargs_read)
        full = tuple(arguments[a.name] for a in func._schema.arguments
                     if a.name in arguments and not a.kwarg_only)  # fmt: skip
        out = self._run(func, full, kwargs)
        many = len(goals) != 1 or isinstance(arguments[names[0]], list | tuple)
        extra = [] if target else [t for _, t in _tensors(out) if not _among(t, goals)]
        many = many or bool(extra)
        type_ = None if many else fx_type(goals[0])
        ref = self.statements.call(target or f"{func}#mutating", given, named, type_)
        if func.namespace in _COMMUNICATION:
            self.statements.keep(ref)
        for k, t in enumerate((*goals, *extra)):
            new = self.statements.item(ref, k, fx_type(t)) if many else ref
            self.memory.write(t, new)
            self._keep.append(t)
        return out

    def _overwriting(self, func: Any, args: Any, kwargs: Any) -> Any:
        """``copy_``, ``fill_``, ``zero_``: what was there before does not matter."""
        goal, source = args[0], args[1] if len(args) > 1 else 0
        wanted = fx_type(goal)
        ref = self._literal(source)
        shape = wanted.shape
        if isinstance(source, torch.Tensor):
            if source.dtype != goal.dtype:
                ref = self.statements.call("aten._to_copy.default", (ref,),
                                           {"dtype": wanted.dtype},
                                           FxType(wanted.dtype, tuple(source.shape)))  # fmt: skip
            if tuple(source.shape) != shape:
                ref = self.statements.call("aten.expand.default", (ref, shape), {}, wanted)
        else:
            ref = self.statements.call(
                "aten.full.default", (shape, ref), {"dtype": wanted.dtype}, wanted
            )
        out = self._run(func, args, kwargs)
        self.memory.write(goal, ref)
        self._keep.append(goal)
        return out

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except _DATA_DEPENDENT as e:
            raise self._refused(
                f"{func} gives Python a value that depends on the data",
                "a program whose control flow and shapes do not depend on tensor values",
            ) from e

    def _refused(self, what: str, expected: str) -> InputError:
        return InputError(
            f"this cannot be captured: {what}",
            where=str(self.statements.origin),
            expected=expected,
            next_step="compute with tensors only (torch.where instead of if, no .item() or "
            "nonzero()), or leave this part out of the captured step",
        )

    # -- arguments

    def _literals(self, func: Any, args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
        communicates = func.namespace in _COMMUNICATION
        names = [a.name for a in func._schema.arguments]
        given = [
            self._group(a) if communicates and n == "group_name" else self._literal(a)
            for n, a in zip(names, args, strict=False)
        ]
        named = {
            k: self._group(v) if communicates and k == "group_name" else self._literal(v)
            for k, v in kwargs.items()
        }
        return given, named

    def _group(self, name: Any) -> str:
        resolve: Any = distributed_c10d._resolve_process_group  # type: ignore[attr-defined]
        group = resolve(name) if isinstance(name, str) else c10d.unboxed(name)
        return self._declare_group(group)

    def _declare_group(self, group: ProcessGroup) -> str:
        """The group's name: by it the members of a real run find each other."""
        name = str(group.group_name)
        self.groups[name] = tuple(dist.get_process_group_ranks(group))
        return name

    def _literal(self, a: Any) -> Any:
        if isinstance(a, torch.Tensor):
            return self.memory.read(a)
        if isinstance(a, list | tuple):
            return tuple(self._literal(x) for x in a)
        if a is None or isinstance(a, bool | int | float | str):
            return a
        if isinstance(a, torch.dtype):
            return dtype_name(a)
        if isinstance(a, torch.SymInt | torch.SymFloat | torch.SymBool | complex):
            raise self._refused(f"an argument is {a!r}", "real numbers as arguments")
        return None  # device, layout, memory format, generator: no meaning over the reals

    # -- torch.distributed

    def _c10d(self, func: Any, args: Any, kwargs: Any) -> Any:
        name = func._opname
        arguments = dict(zip((a.name for a in func._schema.arguments), args, strict=False))
        arguments.update(kwargs)
        boxed = len(func._schema.returns) == 2
        if name in c10d.SILENT:
            return create_fakework(args, boxed) if func._schema.returns else None
        group = self._declare_group(c10d.unboxed(arguments["process_group"]))
        ranks = self.groups[group]
        call = c10d.Call(self.statements, self.memory, name, ranks, group, arguments, [])
        before = len(self.statements.all)
        c10d.record(call)
        self.recorded["c10d"] += 1
        self._flights.check_write([t for t, _ in call.results], self.statements.origin)
        for t, ref in call.results:
            self.memory.write(t, ref)
            self._keep.append(t)
        out = create_fakework(args, boxed)
        work: Any = FakeWork.unbox(out[1] if boxed else out)
        made = {s.name for s in self.statements.all[before:]} & self.statements.effects
        for issued in made:
            self.statements.mark(issued, **{"async": True})
        if name == c10d.BARRIER:
            self._barriers[work.seq_id] = Ref(self.statements.all[-1].name)
        flying = [(t, ref) for t, ref in call.results if ref.name in made]
        tensors = [t for t in tree_leaves(arguments) if isinstance(t, torch.Tensor)]
        self._flights.start(work.seq_id, name.strip("_"), self.statements.origin, flying, tensors)
        if name == "send":
            self._sends[work.seq_id] = self.statements.all[-1].name
        return out

    def _objects(self, group: ProcessGroup, how: str) -> None:
        """Python objects are passed: every member of the group must come."""
        self.statements.origin = self.provenance.origin()
        name = self._declare_group(group)
        ranks = self.groups[name]
        state = (self.statements, self.memory)
        c10d.record(c10d.Call(*state, c10d.BARRIER, ranks, name, {}, [], how))

    def _waited(self, seq: int) -> None:
        """``Work.wait()``: what the collective wrote may be read from here on."""
        st, sent, barrier = self.statements, self._sends.pop(seq, ""), self._barriers.pop(seq, None)
        if sent and sent == st.all[-1].name:
            st.landed(sent)  # a plain send
        elif sent:
            st.keep(self._wait("wait_sent", sent, None))
            st.mark(sent, handle=sent)
        if barrier is not None:
            st.keep(self._wait("wait_tensor", barrier, FxType("f32", ())))
        for t, ref in self._flights.land(seq):
            done = self._wait("wait_tensor", ref, fx_type(t))
            if st.all[-2].name == ref.name:  # nothing happened in between: not asynchronous
                st.landed(ref.name)
            self.memory.settle(t, ref, done)

    def _wait(self, name: str, of: Ref | str, type_: FxType | None) -> Ref:
        self.statements.origin = self.provenance.origin()
        return self.statements.call(f"_c10d_functional.{name}.default", (of,), {}, type_)


def _is_foreign(kind: type) -> bool:
    """A tensor subclass that desugars itself into plain tensors (DTensor and the like)."""
    if issubclass(kind, FakeTensor) or kind in (torch.Tensor, torch.nn.Parameter):
        return False
    own = getattr(kind, "__torch_dispatch__", None)
    return own is not None and own is not torch._C._disabled_torch_dispatch_impl


def _among(t: torch.Tensor, goals: Sequence[torch.Tensor]) -> bool:
    return any(t is g for g in goals)


def _tensors(out: Any) -> list[tuple[int, torch.Tensor]]:
    """The tensors of a result with their positions."""
    if isinstance(out, torch.Tensor):
        return [(0, out)]
    if not isinstance(out, list | tuple):
        return []
    return [(k, t) for k, t in enumerate(out) if isinstance(t, torch.Tensor)]
