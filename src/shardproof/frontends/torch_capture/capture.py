"""Runs one rank of a program under the recorder: build, forward, backward, optimizer step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import DTensor

from shardproof.errors import InputError
from shardproof.frontends.fx_lexer import Ref
from shardproof.frontends.torch_capture.across import Across
from shardproof.frontends.torch_capture.failures import require_arguments, users_errors
from shardproof.frontends.torch_capture.held import Buffers, Held, chosen, number, plain_name
from shardproof.frontends.torch_capture.lower import Lowered, lost, lower
from shardproof.frontends.torch_capture.memory import geometry
from shardproof.frontends.torch_capture.objects import PASSES, unsettled
from shardproof.frontends.torch_capture.patches import Watch, patched
from shardproof.frontends.torch_capture.recorder import Recorder
from shardproof.frontends.torch_capture.world import CollectiveCount, rank_of_world

_TORCH = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8,
    "u8": torch.uint8, "b8": torch.bool, "c64": torch.complex64, "c128": torch.complex128,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Example:
    """One input of a program as the rank receives it."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "f32"
    grad: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """What to run. ``kind`` is forward, backward or train; ``custom`` replaces the built-in step
    by ``custom(program, optimizer, **inputs)``, which returns the outputs."""

    kind: str = "forward"
    loss: Callable[..., Any] | None = None
    optimizer: Callable[..., Any] | None = None
    custom: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True)
class Described:
    """A tensor of the program: its local shape, and its whole shape and DTensor placements where
    it is a DTensor (as ``(axis, placement)`` pairs)."""

    shape: tuple[int, ...]
    dtype: str
    whole: tuple[int, ...] | None = None
    placements: tuple[tuple[str, Any], ...] | None = None


@dataclass(eq=False, slots=True)
class Captured:
    """One captured rank. ``parameters`` (and buffers that are carried from step to step) and
    ``outputs`` describe tensors by name; ``owner`` says for an output ``grad.w``, ``new.w`` or
    ``state.w.k`` that it belongs to the parameter ``w``."""

    rank: int
    lowered: Lowered
    inputs: dict[str, Described]
    parameters: dict[str, Described]
    states: dict[str, Described]
    outputs: dict[str, Described]
    owner: dict[str, str] = field(default_factory=dict)
    held: Held = field(default_factory=Held)
    seconds: float = 0.0


def capture(
    build: Callable[..., Any],
    examples: tuple[Example, ...],
    step: Step,
    *,
    rank: int = 0,
    axes: tuple[tuple[str, int], ...] = (),
    distributed: bool = False,
    kernels: Mapping[str, Any] | None = None,
    dropout: str = "mask",
    across: Across | None = None,
    carried: frozenset[str] = frozenset(),
) -> Captured:
    """Capture one rank of the program that ``build`` makes; ``across`` is what concerns all ranks,
    ``carried`` the buffers that are inputs and the counters that are outputs.

    Raises:
        InputError: the program cannot be captured; says where and why.
    """
    start = time.perf_counter()
    across = across or Across()
    across.start(rank)
    with patched(across) as watch, rank_of_world(rank, axes) as mesh:
        counted = CollectiveCount()
        with FakeTensorMode(allow_non_fake_inputs=True), counted, _recording(watch) as rec:
            run = _Run(rec, step, carried)
            with users_errors(rank if distributed else None, run.parameters):
                run.build(build, (mesh, rank) if distributed else ())
                run.declare(examples)
                run.go()
    across.finish()
    _compare_counts(rec, watch, counted)
    run.outputs = rec.statements.named(run.outputs)
    lowered = lower(
        rec.statements,
        run.outputs,
        name="sequential" if not distributed else f"rank {rank}",
        rank=rank,
        groups=rec.groups,
        kernels=kernels or {},
        dropout=dropout,
        init=run.init,
    )
    lowered.graph.rank = rank
    return Captured(
        rank, lowered, run.described["input"], run.described["parameter"],
        run.described["state"], run.described["output"], run.owner, run.held,
        time.perf_counter() - start,
    )  # fmt: skip


def capture_ranks(count: int, one: Callable[[int, Across], Captured]) -> list[Captured]:
    """Capture every rank by ``one``, again until the objects that they pass each other are right.

    Raises:
        InputError: they never are, or the ranks create other process groups.
    """
    across = Across()
    for _ in range(PASSES):
        ranks = [one(rank, across) for rank in range(count)]
        if across.settled():
            return ranks
    raise unsettled()


@contextmanager
def _recording(watch: Watch) -> Iterator[Recorder]:
    rec = Recorder(watch)
    with rec.provenance, rec:
        yield rec


def _compare_counts(rec: Recorder, watch: Watch, counted: CollectiveCount) -> None:
    """Refuse if another observer saw more communication than the recorder."""
    called, seen = sum(watch.calls.values()), rec.recorded["c10d"]
    if called > seen:
        raise lost(f"{called} torch.distributed calls, {seen} recorded", "capture")
    for name, n in counted.calls.items():
        if n != rec.recorded[name]:
            raise lost(f"{n} calls of {name}, {rec.recorded[name]} recorded", "capture")


class _Run:
    """The steps of one capture; the recorder is active."""

    def __init__(self, rec: Recorder, step: Step, carried: frozenset[str]) -> None:
        self.rec = rec
        self.step = step
        self.carried = carried
        self.held = Held()
        self.outputs: dict[str, Ref] = {}
        self.described: dict[str, dict[str, Described]] = {
            kind: {} for kind in ("input", "parameter", "state", "output")
        }
        self.owner: dict[str, str] = {}
        self.init = 0
        self.examples: dict[str, torch.Tensor] = {}
        self.program: Any = None
        self.optimizer: Any = None
        self.parameters: dict[str, Any] = {}
        self.trained: set[str] = set()
        self.states: dict[tuple[str, str], torch.Tensor] = {}
        self.buffers = Buffers(None, rec.memory, rec.watch.synchronised)

    # -- build

    def build(self, build: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Build the program and, for a training step, its optimizer with one step taken."""
        if isinstance(build, torch.nn.Module):
            raise InputError(
                "the program is a module that exists already",
                where="Spec",
                expected="a function that builds it: the capture makes its weights",
                next_step="write sequential=lambda: Model(...)",
            )
        self.program = build(*args)
        if not callable(self.program):
            raise InputError(
                f"the builder returned {type(self.program).__name__}",
                where="Spec",
                expected="a module, or a function of the inputs",
                next_step="return the model from the builder",
            )
        if isinstance(self.program, torch.nn.Module):
            self.rec.provenance.name_modules(self.program)
            named = self.program.named_parameters()
            self.parameters.update((plain_name(k), p) for k, p in named)
        if self.step.optimizer is not None:
            self._make_optimizer(self.step.optimizer)

    def _make_optimizer(self, make: Callable[..., Any]) -> None:
        """The optimizer with its state: a step on zero gradients makes it."""
        self.optimizer = make(self._trained())
        for p in self._trained():
            p.grad = torch.zeros_like(p)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def _trained(self) -> list[Any]:
        return [p for p in self.parameters.values() if p.requires_grad]

    # -- inputs

    def declare(self, examples: tuple[Example, ...]) -> None:
        """Make parameters, optimizer state and examples the inputs of the graph."""
        self.rec.provenance.phase = "input"
        self.trained = {name for name, p in self.parameters.items() if p.requires_grad}
        for name, p in self.parameters.items():
            self._input("parameter", name, p)
        self.buffers = Buffers(self.program, self.rec.memory, self.rec.watch.synchronised)
        for name, b in self.buffers.carry(self.carried).items():
            self._input("parameter", name, b)
        for name, key, t in self._state():
            self._input("state", f"state.{name}.{key}", t)
            self.states[name, key] = t
            self.owner[f"state.{name}.{key}"] = name
        for e in examples:
            t = torch.empty(e.shape, dtype=_TORCH[e.dtype])
            if e.grad:
                t.requires_grad_()
            self.examples[e.name] = t
            self._input("input", e.name, t)
        self.init = len(self.rec.statements.all)
        self.buffers.start()

    def _input(self, kind: str, name: str, t: torch.Tensor) -> None:
        self.rec.declare(local(t), name)
        self.described[kind][name] = describe(t)

    def _state(self) -> list[tuple[str, str, torch.Tensor]]:
        """Optimizer state that is not a step counter, whose value is that after one step."""
        found = self._kept()
        return [(n, k, v) for n, k, v in found if isinstance(v, torch.Tensor) and k != "step"]

    def _counters(self) -> list[tuple[str, str, Any]]:
        """The rest of it: step counters, and plain numbers."""
        return [
            (name, key, v)
            for name, key, v in self._kept()
            if (isinstance(v, torch.Tensor) and key == "step")
            or (isinstance(v, int | float) and not isinstance(v, bool))
        ]

    def _stepped(self) -> set[str]:
        """Parameters but those whose state the step left as it was: that no gradient came shows
        in the state, which is compared, and is no fault of the counter."""
        still: dict[str, bool] = {}
        for name, key, t in self._state():
            same = t is self.states.get((name, key)) and not self.buffers.wrote(t)
            still[name] = still.get(name, True) and same
        return {name for name in self.parameters if not still.get(name, False)}

    def _kept(self) -> list[tuple[str, str, Any]]:
        states = {} if self.optimizer is None else self.optimizer.state
        return [
            (name, key, value)
            for name, p in self.parameters.items()
            for key, value in states.get(p, {}).items()
        ]

    # -- run

    def go(self) -> None:
        """Run the step and collect its outputs."""
        self.rec.provenance.phase = "forward"
        step = self.step
        if step.custom is not None:
            require_arguments(step.custom, (self.program, self.optimizer), self.examples)
            result = step.custom(self.program, self.optimizer, **self.examples)
            self._collect(result)
        else:
            require_arguments(self.program, (), self.examples)
            result = self.program(**self.examples)
            loss = self._loss(result)
            self._collect(result if step.loss is None else loss)
            if step.kind != "forward":
                loss.backward()
            if self.optimizer is not None:
                self.optimizer.step()
        moved = self._stepped()
        values = {f"state.{n}.{k}": number(v) for n, k, v in self._counters() if n in moved}
        self.held = self.buffers.held(values)
        self._gradients()
        if self.optimizer is not None or step.custom is not None:
            # A step of the user's may update parameters without an optimizer.
            for name, p in self.parameters.items():
                self._output(f"new.{name}", p, name)
            for name, key, t in self._state():
                self._output(f"state.{name}.{key}", t, name)
        for name, b in self.buffers.after().items():
            self._output(f"new.{name}", b, name)
        self._compared_counters()

    def _compared_counters(self) -> None:
        """Counters whose numbers are not known to agree: what they are computed to be."""
        wanted = set(chosen((f"state.{n}.{k}" for n, k, _ in self._counters()), self.carried))
        for name, key, v in self._counters():
            if f"state.{name}.{key}" in wanted:
                t = v if isinstance(v, torch.Tensor) else torch.full((), v)
                self._output(f"state.{name}.{key}", t, name)

    def _loss(self, result: Any) -> Any:
        if self.step.loss is not None:
            return self.step.loss(result, **self.examples)
        if self.step.kind == "forward":
            return result
        loss = result
        if isinstance(result, Mapping) and "loss" in result:
            loss = result["loss"]
        elif isinstance(result, tuple):
            loss = result[0]
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise InputError(
                "the model does not return a loss",
                where="Spec",
                expected="a tensor with one element, or a mapping with the key 'loss'",
                next_step="add loss=lambda output, **inputs: ... to the Spec, or return the loss "
                "from the model",
            )
        return loss

    def _gradients(self) -> None:
        if self.step.kind == "forward" and self.step.custom is None:
            return
        for name, p in self.parameters.items():
            grad = p.grad
            if grad is None and name in self.trained:
                with self.rec.provenance.unreached():
                    grad = torch.zeros_like(p)  # a parameter that the loss does not reach
            if grad is not None:
                self._output(f"grad.{name}", grad, name)
        for name, t in self.examples.items():
            if t.grad is not None:
                self._output(f"grad.{name}", t.grad, name)

    def _collect(self, result: Any) -> None:
        for name, t in _named(result):
            self._output(name, t)

    def _output(self, name: str, t: torch.Tensor, owner: str = "") -> None:
        self.described["output"][name] = describe(t)
        self.outputs[name] = self.rec.memory.read(local(t))
        if owner:
            self.owner[name] = owner


def _named(result: Any, path: str = "") -> list[tuple[str, torch.Tensor]]:
    """The tensors of a result with names: ``output``, ``output.1``, or the keys of a mapping."""
    if isinstance(result, torch.Tensor):
        return [(path or ("loss" if result.dim() == 0 else "output"), result)]
    if isinstance(result, Mapping):
        parts: list[tuple[str, Any]] = [(str(k), v) for k, v in result.items()]
    elif isinstance(result, list | tuple):
        path = path or "output"
        parts = [(str(k), v) for k, v in enumerate(result)]
    else:
        return []
    return [found for k, v in parts for found in _named(v, f"{path}.{k}" if path else k)]


def local(t: torch.Tensor) -> torch.Tensor:
    """The plain tensor that this rank holds."""
    if isinstance(t, DTensor):
        t = t._local_tensor
    if isinstance(t, AsyncCollectiveTensor):
        t = t.trigger_wait()
    return t


def describe(t: torch.Tensor) -> Described:
    """Shapes, and the placements of a DTensor."""
    inner = geometry(local(t))
    if not isinstance(t, DTensor):
        return Described(inner.shape, inner.dtype)
    names = t.device_mesh.mesh_dim_names or ()
    return Described(
        inner.shape, inner.dtype, tuple(t.shape), tuple(zip(names, t.placements, strict=False))
    )
