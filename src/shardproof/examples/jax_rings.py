"""JAX programs in which tensors go round a ring of devices."""

from __future__ import annotations

from typing import Any

from shardproof.examples.jax_support import Axes, Program

# ---------------------------------------------------------------- ring


def _product(x: Any, w: Any) -> Any:
    return x @ w


def _ring_body(fault: str, x: Any, w: Any) -> Any:
    """Rows of x go round the ring while each rank multiplies what it holds."""
    import jax
    import jax.numpy as jnp

    size, rows = 4, x.shape[0]
    me = jax.lax.axis_index("sp")
    step = -1 if fault == "other direction" else 1
    out = jnp.zeros((size * rows, w.shape[1]))
    for k in range(size):
        owner = (me - k + (1 if fault == "rows one rank off" else 0)) % size
        out = jax.lax.dynamic_update_slice(out, x @ w, (owner * rows, 0))
        if k < size - 1 and not (fault == "one step short" and k == size - 2):
            x = jax.lax.ppermute(x, "sp", [(r, (r + step) % size) for r in range(size)])
    return out


RING = Program(
    _product,
    _ring_body,
    {"sp": 4},
    {"x": ((8, 6), ("sp", None)), "w": ((6, 12), (None, "sp"))},
    ((None, "sp"),),
    ("other direction", "rows one rank off", "one step short"),
)

# ---------------------------------------------------------------- ring attention


def _softmax_attention(q: Any, k: Any, v: Any) -> Any:
    import jax
    import jax.numpy as jnp

    scores = jnp.einsum("btd,bsd->bts", q, k) * 0.5
    return jnp.einsum("bts,bsd->btd", jax.nn.softmax(scores, axis=-1), v)


def _ring_attention_body(fault: str, q: Any, k: Any, v: Any) -> Any:
    """Keys and values go round; sums are rescaled whenever a larger maximum comes by."""
    import jax
    import jax.numpy as jnp

    size = 4
    ring = [(r, (r + 1) % size) for r in range(size)]
    top = jnp.full(q.shape[:2], -jnp.inf)
    total, out = jnp.zeros(q.shape[:2]), jnp.zeros(q.shape)
    for step in range(size):
        scores = jnp.einsum("btd,bsd->bts", q, k) * 0.5
        higher = jnp.maximum(top, scores.max(-1))
        weights, scale = jnp.exp(scores - higher[..., None]), jnp.exp(top - higher)
        total = (total if fault == "sum not rescaled" else total * scale) + weights.sum(-1)
        out = out * scale[..., None] + jnp.einsum("bts,bsd->btd", weights, v)
        top = higher
        if step < size - 1 and not (fault == "one step short" and step == size - 2):
            k = jax.lax.ppermute(k, "sp", ring)
            v = v if fault == "values stay" else jax.lax.ppermute(v, "sp", ring)
    return out / total[..., None]


_ROWS: tuple[tuple[int, ...], Axes] = ((2, 8, 4), (None, "sp", None))
RING_ATTENTION = Program(
    _softmax_attention,
    _ring_attention_body,
    {"sp": 4},
    {"q": _ROWS, "k": _ROWS, "v": _ROWS},
    ((None, "sp", None),),
    ("sum not rescaled", "one step short", "values stay"),
)
