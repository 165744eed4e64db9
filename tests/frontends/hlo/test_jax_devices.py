"""Programs on eight devices mean what JAX computes on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.frontends.hlo.jax_support import DIALECTS, jax
from tests.frontends.hlo.support import imported, outputs

jnp, lax = jax.numpy, jax.lax
P = jax.sharding.PartitionSpec
RNG = np.random.default_rng(1)
RING = [(r, (r + 1) % 4) for r in range(4)]


def real(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def _rank() -> Any:
    return lax.axis_index("dp") * 4 + lax.axis_index("tp")


CASES: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "sum over one axis": (lambda x: lax.psum(x, "tp"), P("dp"), P("dp")),
    "sum over the other": (lambda x: lax.psum(x, "dp"), P("dp", "tp"), P(None, "tp")),
    "sum over both": (lambda x: lax.psum(x, ("dp", "tp")), P("dp", "tp"), P()),
    "extrema": (lambda x: lax.pmax(x, "tp") - lax.pmin(x, "dp"), P("dp", "tp"), P("dp", "tp")),
    "mean": (lambda x: lax.pmean(x, "dp"), P("dp"), P()),
    "several sums": (lambda x: lax.psum((x, x * 2, x.sum()), "tp")[1], P(None, "tp"), P()),
    "gather": (lambda x: lax.all_gather(x, "tp", axis=1, tiled=True), P("dp", "tp"), P("dp")),
    "gather to a new axis": (lambda x: lax.all_gather(x, "tp", axis=1), P("dp", "tp"), P("dp")),
    "gather over both": (
        lambda x: lax.all_gather(x, ("dp", "tp"), tiled=True),
        P(("dp", "tp")),
        P(),
    ),
    "scatter": (
        lambda x: lax.psum_scatter(x, "tp", scatter_dimension=1, tiled=True),
        P("dp"),
        P("dp", "tp"),
    ),
    "scatter over the other": (
        lambda x: lax.psum_scatter(x, "dp", tiled=True),
        P(None, "tp"),
        P("dp", "tp"),
    ),
    "all to all": (lambda x: lax.all_to_all(x, "tp", 1, 0, tiled=True), P("dp"), P(("dp", "tp"))),
    "all to all, same axis": (
        lambda x: lax.all_to_all(x, "tp", 0, 0, tiled=True),
        P(("tp",)),
        P(("tp",)),
    ),
    "ring": (lambda x: lax.ppermute(x, "tp", RING), P("dp", "tp"), P("dp", "tp")),
    "partial ring": (
        lambda x: lax.ppermute(x, "tp", [(0, 1), (2, 3)]),
        P("dp", "tp"),
        P("dp", "tp"),
    ),
    "own index": (lambda x: x * _rank(), P("dp", "tp"), P("dp", "tp")),
    "own rows": (
        lambda x: lax.dynamic_slice_in_dim(x, lax.axis_index("tp") * 4, 4, 0),
        P(),
        P("tp"),
    ),
    "own positions": (
        lambda x: x + jnp.arange(4.0)[:, None] + lax.axis_index("tp") * 4,
        P("tp"),
        P("tp"),
    ),
    "own mask": (
        lambda x: jnp.where(jnp.arange(16) < lax.axis_index("tp") * 4 + 2, x, 0.0),
        P(),
        P("tp"),
    ),
    "own branch": (lambda x: jnp.where(lax.axis_index("tp") == 0, x, 2 * x), P("tp"), P("tp")),
    "scan of sums": (
        lambda x: lax.scan(lambda c, r: (c + lax.psum(r, "tp"), c), x[0], x)[1],
        P("dp"),
        P("dp"),
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_jax(name: str, dialect: str) -> None:
    if len(jax.devices()) < 8:
        pytest.skip("JAX was started with fewer devices")
    f, ins, outs = CASES[name]
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("dp", "tp"))
    spread = jax.jit(
        jax.shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False),
        keep_unused=True,
    )
    x = jax.device_put(real(16, 16), jax.sharding.NamedSharding(mesh, ins))
    lowered = spread.lower(x)
    y = spread(x)
    if dialect == "lowered":
        # Whole tensors go in and come out on every rank.
        results = imported(lowered.as_text(dialect="hlo"), 8)
        given, wanted = [[np.asarray(x)]] * 8, [np.asarray(y)] * 8
    else:
        results = imported(lowered.compile().as_text(), 8)
        given = [[_part(x, d)] for d in mesh.devices.flat]
        wanted = [_part(y, d) for d in mesh.devices.flat]
    assert not any(r.unknown for r in results)
    for (found,), want in zip(outputs(results, given), wanted, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def _part(x: Any, device: Any) -> Any:
    (part,) = [s.data for s in x.addressable_shards if s.device == device]
    return np.asarray(part)
