"""Programs that XLA itself partitioned refine the plain ones."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import pytest
from tests.frontends.hlo.jax_support import jax

from shardproof import Mesh, Shard, Spec
from shardproof.examples.jax_programs import PROGRAMS

P = jax.sharding.PartitionSpec
Case = tuple[str, list[tuple[int, ...]], list[tuple[str | None, ...]], list[tuple[str | None, ...]]]
N = None
COLUMNS: tuple[str | None, ...] = (N, "tp", N)

CASES: list[Case] = [
    (
        "tensor parallel MLP",
        [(8, 16), (16, 32), (32, 16)],
        [("dp", N), (N, "tp"), ("tp", N)],
        [("dp", N)],
    ),
    (
        "tensor parallel attention",
        [(4, 6, 16), (16, 8, 4), (16, 8, 4), (16, 8, 4), (8, 4, 16)],
        [("dp", N, N), COLUMNS, COLUMNS, COLUMNS, ("tp", N, N)],
        [("dp", N, N)],
    ),
    (
        "sequence parallel block",
        [(16, 8), (8,), (8, 32), (32, 8)],
        [("tp", N), (N,), (N, "tp"), ("tp", N)],
        [("tp", N)],
    ),
    (
        "scanned stack",
        [(8, 8), (5, 8, 16), (5, 16, 8)],
        [("dp", N), (N, N, "tp"), (N, "tp", N)],
        [("dp", N)],
    ),
    (
        "data parallel gradient",
        [(8, 12), (12, 4), (16, 8), (16, 4)],
        [("tp", N), ("tp", N), ("dp", N), ("dp", N)],
        [("tp", N), ("tp", N)],
    ),
]


def _placed(axes: tuple[str | None, ...]) -> dict[str, Shard]:
    return {axis: Shard(d) for d, axis in enumerate(axes) if axis}


def _texts(f: Callable[..., Any], case: Case) -> tuple[str, str]:
    _, shapes, ins, outs = case
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("dp", "tp"))
    given = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    tree = jax.tree.structure(jax.eval_shape(f, *given))
    placed = [jax.sharding.NamedSharding(mesh, P(*axes)) for axes in outs]
    spread = jax.jit(
        f,
        in_shardings=[jax.sharding.NamedSharding(mesh, P(*axes)) for axes in ins],
        out_shardings=jax.tree.unflatten(tree, placed),
    )
    plain = jax.jit(f).lower(*given).compile().as_text()
    return plain, spread.lower(*given).compile().as_text()


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_partitioned_by_the_compiler(case: Case) -> None:
    if len(jax.devices()) < 8:
        pytest.skip("JAX was started with fewer devices")
    f = PROGRAMS[case[0]].plain
    plain, spread = _texts(f, case)
    names = list(signature(f).parameters)
    verdict = Spec.from_graphs(
        sequential=plain,
        distributed=spread,
        mesh=Mesh(dp=2, tp=4),
        inputs={n: _placed(axes) for n, axes in zip(names, case[2], strict=True)},
        outputs={f"out{k}": _placed(axes) for k, axes in enumerate(case[3])},
    ).check()
    assert verdict.status == "refines", verdict.findings
