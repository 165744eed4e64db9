"""Small graphs of ATen calls: written, imported, and evaluated."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.frontends.texts import module

from shardproof.frontends.import_fx import ImportResult, import_fx

A = "torch.ops.aten."
X = 'x: "f32[4, 2]"'


def ops(result: ImportResult) -> list[str]:
    return [n.op for n in result.graph.nodes]


def imported(*lines: str, inputs: str = X, returns: str = "y", **facts: Any) -> ImportResult:
    return import_fx(module(inputs, *lines, returns=returns), **facts)


def output(result: ImportResult, **inputs: Any) -> Any:
    from tests.frontends.support import evaluate

    env = evaluate(result.graph, {k: np.asarray(v) for k, v in inputs.items()})
    (value,) = result.graph.outputs
    assert value is not None
    return env[value]
