"""Specs of live programs: functions that build them, captured when the Spec is resolved.

Importing this module does not import torch; resolving such a Spec does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from shardproof.errors import INSTALL_TORCH, InputError, shorten
from shardproof.frontends.fx_types import dtype_of
from shardproof.ir.graph import DTYPES, TensorType, is_float, is_integer
from shardproof.ir.graph import Mesh as GraphMesh
from shardproof.spec import carried, shared
from shardproof.spec.arguments import argument_error, mapping, size_tuple
from shardproof.spec.bounds import is_bound
from shardproof.spec.counts import proposed, recut
from shardproof.spec.expression import Expr
from shardproof.spec.load import Loaded
from shardproof.spec.lower import Lowering
from shardproof.spec.outputs import Output
from shardproof.spec.parameters import ParameterRules, rebased
from shardproof.spec.patterns import unknown_name
from shardproof.spec.placement import Replicate, is_placement
from shardproof.spec.problem import Assumption, Problem

if TYPE_CHECKING:
    from shardproof.frontends.torch_capture import Captured, Example, Step
    from shardproof.spec.spec import Spec

STEPS = ("forward", "backward", "train")
OF_PARAMETERS = ("grad.", "new.", "state.")
FORWARD_ONLY = 'forward only: no gradient is compared; step="backward" or "train" does that'


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a live program: the shape and element type of the *sequential* one, and how it
    lies on the ranks. ``grad`` asks for its gradient as an output; ``below`` states of integers
    that each is at least 0 and below it (so no label is ignored by being -100)."""

    shape: tuple[int, ...]
    dtype: str = "f32"
    placement: Any = field(default_factory=Replicate)
    grad: bool = False
    below: int | None = None

    def __post_init__(self) -> None:
        shape = size_tuple(self.shape, "Input", "the shape")
        if not all(isinstance(n, int) for n in shape):
            raise argument_error(f"the shape is {self.shape}", "Input", "whole numbers")
        object.__setattr__(self, "shape", shape)
        dtype = dtype_of(str(self.dtype)) or str(self.dtype)
        if dtype not in DTYPES:
            raise argument_error(
                f"the element type is {self.dtype!r}", "Input", "a name such as 'f32' or 'int64'"
            )
        object.__setattr__(self, "dtype", dtype)
        if self.below is not None and not (is_bound(self.below) and is_integer(dtype)):
            raise argument_error(
                f"below is {self.below!r} for elements of type {dtype}",
                "Input",
                'a whole number from 1, for integers: Input((4, 16), "i64", below=32)',
            )


@dataclass(eq=False, slots=True)
class _Live:
    """A live Spec while it is resolved."""

    spec: Spec
    mesh: GraphMesh
    inputs: dict[str, Input]
    step: Step
    sequential: Captured
    ranks: list[Captured]
    shared: bool = False


def resolve_live(spec: Spec) -> tuple[Problem, dict[str, float]]:
    """Capture both programs and resolve the Spec of their graphs.

    Raises:
        InputError: a program cannot be captured, or the Spec does not fit it.
    """
    live = _capture(spec)
    rules = ParameterRules(live.mesh, live.sequential, live.ranks, spec.parameters)
    inputs: dict[str, Any] = {k: v.placement for k, v in live.inputs.items()}
    inputs.update(rules.resolve())
    outputs, left_out = _outputs(live, inputs, rules.sources)
    from_graphs = spec.from_graphs(
        name=spec.name or "live program",
        sequential=_loaded(live.sequential),
        distributed=[_loaded(c) for c in live.ranks],
        mesh=live.mesh,
        inputs=inputs,
        outputs=outputs,
        fixed=spec.fixed,
        free=[*spec.free, *rules.free],
        below={k: v.below for k, v in live.inputs.items() if v.below is not None},
    )
    problem, fixed = from_graphs._resolved
    problem.assumptions += [Assumption("relation", text) for text in rules.proposals]
    problem.assumptions += carried.assumptions(live.sequential, live.ranks)
    if live.shared:
        problem.assumptions.append(Assumption("capture", shared.SHARED))
    if spec.step == "forward" and set(live.sequential.parameters).difference(
        live.sequential.held.carried
    ):
        problem.notes.append(FORWARD_ONLY)
    problem.notes += _unchecked(live)
    problem.left_out = list(dict.fromkeys([*problem.left_out, *left_out]))
    return problem, fixed


def _loaded(c: Captured) -> Loaded:
    low = c.lowered
    return Loaded(low.graph, None, low.random, low.assumptions, low.casts)


# ---------------------------------------------------------------- capture


def _capture(spec: Spec) -> _Live:
    mesh = _mesh(spec.mesh)
    inputs = {k: as_input(k, v) for k, v in mapping(spec.inputs, "inputs").items()}
    try:
        from shardproof.frontends.torch_capture import Example, Step, capture, capture_ranks
    except ImportError as error:
        if (error.name or "").startswith("shardproof"):
            raise  # our own fault, not that PyTorch is missing
        raise InputError(
            f"PyTorch cannot be imported: {error}",
            where="Spec",
            expected="PyTorch, to run the functions of the Spec",
            next_step=f"{INSTALL_TORCH}; or check printed graphs with Spec.from_graphs(...)",
        ) from error
    step = _step(spec, Step)
    options: dict[str, Any] = {"kernels": spec.kernels, "dropout": spec.dropout}
    whole = tuple(Example(k, v.shape, v.dtype, v.grad) for k, v in inputs.items())
    build: Any = spec.sequential
    parts = (build, [(e.name, e.shape, e.dtype, e.grad) for e in whole], step.kind, step.loss,
             step.optimizer, step.custom, dict(spec.kernels or {}), spec.dropout)  # fmt: skip
    axes = tuple((a, int(n)) for a, n in mesh.axes)  # type: ignore[arg-type]
    if not callable(spec.distributed):
        raise argument_error(
            f"distributed is {shorten(repr(spec.distributed), 60)}",
            "distributed",
            "a function (mesh, rank) -> model, as sequential is a function",
        )

    distributed: Any = spec.distributed

    def once(names: frozenset[str]) -> tuple[Captured, list[Captured]]:
        def one(rank: int, across: Any) -> Captured:
            mine = tuple(_local(Example, k, v, mesh, rank) for k, v in inputs.items())
            return capture(distributed, mine, step, rank=rank, axes=axes, distributed=True,
                           across=across, carried=names, **options)  # fmt: skip

        program = shared.sequential(
            (*parts, sorted(names)),
            lambda: capture(build, whole, step, carried=names, **options),
        )
        return program, capture_ranks(int(mesh.size), one)  # type: ignore[arg-type]

    sequential, ranks = carried.captured(spec.parameters, once)
    return _Live(spec, mesh, inputs, step, sequential, ranks, shared.active())


def _mesh(mesh: GraphMesh | None) -> GraphMesh:
    if mesh is None or not mesh.axes or not all(isinstance(n, int) for _, n in mesh.axes):
        raise argument_error(
            f"mesh is {mesh}" if mesh is not None else "there is no mesh",
            "mesh",
            "a mesh of whole numbers such as Mesh(tp=2): a live program runs on so many ranks",
        )
    return mesh


def as_input(name: str, given: Any) -> Input:
    """An example as the user wrote it.

    Raises:
        InputError: it is none.
    """
    if isinstance(given, Input):
        return given
    tensor, placement = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    if hasattr(tensor, "shape") and hasattr(tensor, "dtype"):
        grad = bool(getattr(tensor, "requires_grad", False))
        return Input(tuple(tensor.shape), str(tensor.dtype), placement or Replicate(), grad)
    raise argument_error(
        f"{shorten(repr(given), 60)} is no example",
        f"inputs[{name!r}]",
        'Input((4, 16), "i64", Shard(0)), or a meta tensor, alone or with its placement',
    )


def _step(spec: Spec, step: type[Step]) -> Step:
    if callable(spec.step):
        return step("train", spec.loss, spec.optimizer, spec.step)
    if spec.step not in STEPS:
        raise argument_error(
            f"step is {spec.step!r}", "step", "'forward', 'backward', 'train', or a function"
        )
    if spec.step == "train" and spec.optimizer is None:
        raise argument_error(
            "step='train' without an optimizer",
            "optimizer",
            "a function such as lambda params: torch.optim.SGD(params, lr=0.1)",
        )
    return step(spec.step, spec.loss, spec.optimizer if spec.step == "train" else None)


def _local(example: type[Example], name: str, given: Input, mesh: GraphMesh, rank: int) -> Example:
    """The example as one rank receives it."""
    where = f"inputs[{name!r}], rank {rank}"
    lowering = Lowering(
        name, mesh, lambda *_: TensorType(given.dtype, given.shape), {**mesh.coordinates(rank)},
        rank,
    )  # fmt: skip
    value = lowering.define(name, given.placement, name, where)
    return example(name, tuple(int(n) for n in value.shape), given.dtype, given.grad)  # type: ignore[arg-type]


# ---------------------------------------------------------------- outputs


def _outputs(
    live: _Live, inputs: Mapping[str, Any], sources: Mapping[str, str]
) -> tuple[dict[str, Any], list[str]]:
    """The expected outputs by sequential name, and those that the user leaves out."""
    given = live.spec.outputs
    user: dict[str, Any] = mapping(given, "outputs") if isinstance(given, Mapping) else {}
    names = _distributed_names(live, sources)
    out: dict[str, Any] = {}
    left_out = []
    for name in live.sequential.outputs:
        key = next((k for k in user if fnmatchcase(name, k)), None)
        if key is not None and user[key] is None:
            left_out.append(name)
        elif key is not None:
            out[name] = _recut(live, name, user[key])
        else:
            there = names.get(name, name)
            ranks = [c.rank for c in live.ranks if there in c.outputs or _holds(c, there)]
            rule = _expected(live, name, there, inputs)
            limited = tuple(ranks) if 0 < len(ranks) < len(live.ranks) else None
            out[name] = Output(there, rule, limited)
    unused = [k for k in user if not any(fnmatchcase(n, k) for n in live.sequential.outputs)]
    if unused:
        known = live.sequential.outputs
        raise unknown_name(unused[0], known, "output", f"outputs[{unused[0]!r}]")
    return out, left_out


def _unchecked(live: _Live) -> list[str]:
    """A note on the gradients of inputs, where the step has gradients and not theirs."""
    returned = live.sequential.outputs
    if not any(name.startswith("grad.") for name in returned):
        return []
    inputs = [k for k, v in live.inputs.items() if is_float(v.dtype) and not v.grad]
    names = shorten(", ".join(inputs), 60)
    text = f"the gradient of {names} was not checked; grad=True of its Input asks for it"
    return [text] if inputs else []


def _recut(live: _Live, name: str, rule: Any) -> Any:
    """The user's rule for an output that is made of the rows of the inputs."""
    counts = live.spec.counts
    if counts is None or name.startswith(OF_PARAMETERS):
        return rule
    return recut(rule, live.sequential.outputs[name].shape, counts, live.mesh)


def _proposed(live: _Live, name: str, parts: list[tuple[int, ...]]) -> Any:
    """The placement of an output with unequal rows; with equal ones it is proposed later."""
    counts = live.spec.counts
    if counts is None or name.startswith(OF_PARAMETERS):
        return None
    return proposed(live.sequential.outputs[name].shape, parts, counts, live.mesh)


def _holds(c: Captured, output: str) -> bool:
    """Whether the rank has the parameter that an output belongs to, and so must return it."""
    _, _, parameter = output.partition(".")
    return output.startswith(("grad.", "new.")) and parameter in c.parameters


def _distributed_names(live: _Live, sources: Mapping[str, str]) -> dict[str, str]:
    """Distributed output by sequential output, where parameters have other names."""
    return {
        output.replace(owner, sources[owner]): output
        for c in live.ranks
        for output, owner in c.owner.items()
        if sources.get(owner, owner) != owner and output in c.outputs
    }


def _expected(live: _Live, name: str, there: str, inputs: Mapping[str, Any]) -> Any:
    """The declared placement: a DTensor's own, else the owner's (parameter or input)."""
    from shardproof.frontends.torch_capture.placements import rule_of

    described = [c.outputs[there] for c in live.ranks if there in c.outputs]
    if described and described[0].placements is not None:
        return rule_of(there, name, described[0], live.mesh)
    owner = next((c.owner[there] for c in live.ranks if there in c.owner), None)
    if owner is None or owner not in inputs:
        return _proposed(live, name, [d.shape for d in described])
    rule = inputs.get(there, inputs[owner])  # state may be cut where its parameter is not
    whole = live.sequential.outputs[name].shape
    if is_placement(rule) or isinstance(rule, Expr) or callable(rule):
        same = described and whole == described[0].shape
        return Replicate() if same and not whole else rebased(rule, name)
    return rule
