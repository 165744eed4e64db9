"""The judge of the capture: PyTorch itself, with real tensors in float64 on one device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from shardproof.frontends.torch_capture import Example, Step, capture
from shardproof.replay.compare import replay_problem
from shardproof.replay.inputs import draw_inputs
from shardproof.replay.run import run_graph
from shardproof.spec.spec import Spec

TOLERANCE = 1e-9


def difference(build: Callable[[], Any], examples: tuple[Example, ...], step: Step,
               ranges: Mapping[str, int] | None = None) -> float:  # fmt: skip
    """Largest relative difference of the captured graph, replayed, and PyTorch."""
    captured = capture(build, examples, step)
    graph = captured.lowered.graph
    values = draw_inputs(graph, ranges or {}, seed=3)
    values = {k: np.abs(v) if k.startswith("state.") else v for k, v in values.items()}
    found = run_graph(graph, values)
    wanted = _real(build, examples, step, values)
    worst = 0.0
    for name in graph.output_names:
        value = graph.output(name)
        assert value is not None
        assert wanted[name].shape == found[value].shape, name
        scale = max(float(np.abs(wanted[name]).max()), 1e-6)
        worst = max(worst, float(np.abs(wanted[name] - found[value]).max()) / scale)
    return worst


def _real(
    build: Callable[[], Any], examples: tuple[Example, ...], step: Step, values: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    torch.set_default_dtype(torch.float64)
    try:
        program = build()
        parameters = dict(program.named_parameters())
        optimizer = None
        if step.optimizer is not None:
            optimizer = step.optimizer(list(parameters.values()))
            for p in parameters.values():
                p.grad = torch.zeros_like(p)
            optimizer.step()
            optimizer.zero_grad()
        inputs = {e.name: torch.tensor(values[e.name]) for e in examples}
        for e in examples:
            inputs[e.name].requires_grad_(e.grad)
        with torch.no_grad():
            for name, p in parameters.items():
                p.copy_(torch.tensor(values[name]))
            for name, key, t in _states(parameters, optimizer):
                t.copy_(torch.tensor(values[f"state.{name}.{key}"]))
        return _run(program, optimizer, parameters, inputs, step)
    finally:
        torch.set_default_dtype(torch.float32)


def _states(parameters: Mapping[str, Any], optimizer: Any) -> list[tuple[str, str, Any]]:
    if optimizer is None:
        return []
    return [
        (name, key, t)
        for name, p in parameters.items()
        for key, t in optimizer.state[p].items()
        if isinstance(t, torch.Tensor) and key != "step"
    ]


def _run(
    program: Any, optimizer: Any, parameters: Mapping[str, Any], inputs: Mapping[str, Any],
    step: Step,
) -> dict[str, np.ndarray]:  # fmt: skip
    if step.custom is not None:
        result = step.custom(program, optimizer, **inputs)
    else:
        result = program(**inputs)
        if step.kind != "forward":
            result.backward()
        if optimizer is not None:
            optimizer.step()
    out = {"loss" if result.dim() == 0 else "output": result}
    out.update({f"grad.{k}": p.grad for k, p in {**parameters, **inputs}.items()})
    out.update({f"new.{k}": p for k, p in parameters.items()})
    out.update({f"state.{n}.{k}": t for n, k, t in _states(parameters, optimizer)})
    return {k: v.detach().numpy() for k, v in out.items() if v is not None}


def replayed(spec: Spec) -> float:
    """Largest relative difference of the ranks and the captured sequential program. Every output
    is compared in some run: in one alone it may be undefined (the root of a negative state)."""
    worst = 0.0
    compared: set[tuple[str, int]] = set()
    wanted: set[tuple[str, int]] = set()
    for seed in range(1, 9):
        result = replay_problem(spec.resolve(), seed, spec.fixed_values)
        assert not result.invalid
        assert result.fault is None
        assert result.worst is not None
        worst = max(worst, result.worst.error)
        wanted |= {(c.obligation.seq_output, c.rank) for c in result.comparisons}
        compared |= {(c.obligation.seq_output, c.rank) for c in result.comparisons if c.checked}
        if compared == wanted:
            return worst
    raise AssertionError(f"never compared: {sorted(wanted - compared)}")
