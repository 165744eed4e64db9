"""What JAX prints means what JAX computes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.frontends.hlo.jax_support import DIALECTS, compare, jax, text_of
from tests.frontends.hlo.support import imported

jnp, lax = jax.numpy, jax.lax
RNG = np.random.default_rng(0)


def real(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def ids(high: int, *shape: int) -> Any:
    return RNG.integers(0, high, shape).astype(np.int32)


def _scan(x: Any, w: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        carry = jnp.tanh(carry @ row)
        return carry, carry.sum(axis=0)

    return lax.scan(step, x, w)


def _loop(x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, c: c * 2 + i, x)


def _rope(x: Any, positions: Any) -> Any:
    half = x.shape[-1] // 2
    frequency = 10000.0 ** (-jnp.arange(half) / half)
    angle = positions[:, None] * frequency
    a, b = x[..., :half], x[..., half:]
    c, s = jnp.cos(angle), jnp.sin(angle)
    return jnp.concatenate([a * c - b * s, a * s + b * c], axis=-1)


def _cross_entropy(logits: Any, labels: Any) -> Any:
    rows = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(rows, labels[:, None], axis=1, mode="promise_in_bounds").mean()


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "add": (lambda x, y: x + 2 * y - 1, (real(3, 4), real(4))),
    "divide": (lambda x, y: 1.0 / x + x / 4 + x / (y * y + 1), (real(3, 4) + 9, real(3, 4))),
    "powers": (lambda x: x**2 + x**3 + jnp.sqrt(x) + lax.rsqrt(x) + x**-0.5, (real(4) ** 2 + 1,)),
    "exp": (
        lambda x: jnp.exp(x) + jnp.log1p(x * x) + jnp.expm1(x) + jnp.log(x * x + 1),
        (real(5),),
    ),
    "trigonometry": (lambda x: jnp.sin(x) + jnp.cos(x) * jnp.tan(x) + jnp.tanh(x), (real(5),)),
    "gelu": (jax.nn.gelu, (real(4, 3),)),
    "gelu exact": (partial(jax.nn.gelu, approximate=False), (real(4, 3),)),
    "silu": (jax.nn.silu, (real(4, 3),)),
    "relu": (jax.nn.relu, (real(4, 3),)),
    "softplus": (lambda x: jnp.where(x > 3, x, jnp.log1p(jnp.exp(x))), (real(4, 3),)),
    "rounding": (lambda x: jnp.floor(x) + 2 * jnp.ceil(x) + jnp.round(x) + jnp.sign(x), (real(9),)),
    "clip": (lambda x: jnp.clip(x, -0.5, 0.5), (real(9),)),
    "maximum": (lambda x, y: jnp.maximum(x, y) - jnp.minimum(x, y + 1), (real(9), real(9))),
    "compare": (lambda x, y: (x < y) & ~(x * 2 >= y) | (x != y), (ids(4, 9), ids(4, 9))),
    "select": (lambda x, y: jnp.where(x > 0, x, y), (real(9), real(9))),
    "integers": (lambda x: (x + 3) * 2 - x // 2, (ids(9, 6),)),
    "remainder": (lambda x: x % 4, (ids(9, 6),)),
    "casts": (lambda x: x.astype(jnp.float32) * 0.5, (ids(9, 6),)),
    "matmul": (lambda x, y: x @ y, (real(3, 4), real(4, 5))),
    "vectors": (lambda x, y: jnp.dot(x, y) + jnp.outer(x, y).sum(), (real(4), real(4))),
    "einsum": (
        lambda x, y: jnp.einsum("bthd,bshd->bhts", x, y),
        (real(2, 3, 4, 5), real(2, 6, 4, 5)),
    ),
    "einsum 2": (
        lambda x, y, z: jnp.einsum("bnts,ndh,bsnd->bth", x, y, z),
        (real(2, 4, 6, 3), real(4, 5, 7), real(2, 3, 4, 5)),
    ),
    "sums": (lambda x: x.sum() + x.sum(axis=(0, 2)) + x.mean(axis=2).sum(axis=0), (real(2, 3, 4),)),
    "extrema": (lambda x: x.max(axis=1) + x.min(axis=1) + x.prod(axis=1), (real(2, 3, 4),)),
    "any": (lambda x: (x > 0).all(axis=0) ^ (x > 1).any(axis=0), (real(3, 4),)),
    "argmax": (lambda x: (jnp.argmax(x, axis=1), jnp.argmin(x, axis=0)), (real(3, 4),)),
    "cumsum": (lambda x: jnp.cumsum(x, axis=1), (real(3, 4),)),
    "topk": (lambda x: lax.top_k(x, 2), (real(3, 5),)),
    "softmax": (lambda x: jax.nn.softmax(x, axis=0) + jax.nn.log_softmax(x), (real(3, 4),)),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, axis=1), (real(3, 4),)),
    "layer norm": (
        lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5),
        (real(3, 8),),
    ),
    "reshape": (lambda x: x.reshape(4, 6).T.reshape(2, 3, 4).transpose(2, 0, 1), (real(2, 3, 4),)),
    "broadcast": (
        lambda x: jnp.broadcast_to(x[:, None, :], (3, 2, 4)) + jnp.arange(4),
        (real(3, 4),),
    ),
    "slices": (lambda x: x[1:3, ::2] + x[0:2, 1::2], (real(4, 6),)),
    "steps": (lambda x: x[:, 1:6:2], (real(2, 7),)),
    "flip": (lambda x: jnp.flip(x, 1) + jnp.roll(x, 2, axis=1), (real(2, 5),)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y, x], axis=1), (real(2, 3), real(2, 2))),
    "stack": (lambda x, y: jnp.stack([x, y], axis=1), (real(2, 3), real(2, 3))),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (0, 1)), constant_values=3), (real(2, 3),)),
    "pad inside": (lambda x: lax.pad(x, 0.0, ((1, -1, 2), (0, 1, 0))), (real(3, 3),)),
    "triangle": (lambda x: jnp.tril(x) + jnp.triu(x, 1) * 2, (real(4, 4),)),
    "eye": (lambda x: x @ jnp.eye(3) + jnp.arange(3.0), (real(2, 3),)),
    "linspace": (
        lambda x: x * jnp.array([1.0, 3.0, 7.0]) + jnp.array([[1, 2, 3], [4, 5, 6]]),
        (real(2, 3),),
    ),
    "lookup": (
        lambda t, i: jnp.asarray(t).at[i].get(mode="promise_in_bounds"),
        (real(7, 3), ids(7, 2, 4)),
    ),
    "lookup clipped": (lambda t, i: jnp.take(t, i, axis=0, mode="clip"), (real(7, 3), ids(7, 4))),
    "lookup of columns": (
        lambda t, i: jnp.asarray(t).at[:, i].get(mode="promise_in_bounds"),
        (real(3, 7), ids(7, 4)),
    ),
    "one row": (lambda t, i: lax.dynamic_index_in_dim(t, i, 1), (real(3, 7, 2), ids(7))),
    "along": (
        lambda x, i: jnp.take_along_axis(x, i, axis=1, mode="promise_in_bounds"),
        (real(3, 7), ids(7, 3, 2)),
    ),
    "one hot": (lambda i: jax.nn.one_hot(i, 5), (ids(5, 4),)),
    "update": (lambda x, y: lax.dynamic_update_slice(x, y, (1, 2)), (real(4, 5), real(2, 3))),
    "update row": (
        lambda x, y, i: lax.dynamic_update_slice_in_dim(x, y, i, 0),
        (real(4, 5), real(1, 5), ids(4)),
    ),
    "add rows": (
        lambda x, y, i: jnp.asarray(x).at[i].add(y, mode="promise_in_bounds"),
        (real(6, 3), real(4, 3), ids(6, 4)),
    ),
    "set a row": (
        lambda x, y, i: jnp.asarray(x).at[i].set(y, mode="promise_in_bounds"),
        (real(6, 3), real(3), ids(6)),
    ),
    "set a known row": (lambda x, y: jnp.asarray(x).at[2].set(y), (real(6, 3), real(3))),
    "embedding gradient": (
        jax.grad(lambda t, i: (t.at[i].get(mode="promise_in_bounds") ** 2).sum()),
        (real(6, 3), ids(6, 4)),
    ),
    "cross entropy gradient": (jax.grad(_cross_entropy), (real(4, 6), ids(6, 4))),
    "rope": (_rope, (real(5, 8), np.arange(5, dtype=np.int32))),
    "scan": (_scan, (real(3, 4), real(5, 4, 4))),
    "scan gradient": (
        jax.grad(lambda x, w: _scan(x, w)[0].sum(), argnums=(0, 1)),
        (real(3, 4), real(3, 4, 4)),
    ),
    "loop": (_loop, (real(3),)),
    "cond": (lambda x: lax.cond(True, lambda y: y + 1, lambda y: y - 1, x), (real(3),)),
    "checkpoint": (jax.grad(lambda x: jax.checkpoint(jnp.sin)(x).sum()), (real(3),)),
    "constant": (lambda x: x + np.arange(6, dtype=np.float32).reshape(2, 3), (real(2, 3),)),
    "mlp gradient": (
        jax.grad(lambda w, v, x: jnp.mean((jax.nn.gelu(x @ w) @ v) ** 2), argnums=(0, 1)),
        (real(4, 6), real(6, 2), real(5, 4)),
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_jax(name: str, dialect: str) -> None:
    f, args = CASES[name]
    compare(f, args, dialect)


def test_functions_without_meaning_are_only_named() -> None:
    """Sorting, random bits: no unknown operator, and the same call on both sides is equal."""

    def f(key: Any, x: Any) -> Any:
        return jnp.sort(x, axis=-1) + jax.random.normal(key, x.shape)

    for dialect in DIALECTS:
        text = text_of(f, (jax.random.PRNGKey(0), real(3, 8)), dialect)
        (result,) = imported(text)
        assert not result.unknown
        assert any(n.op == "signature_call" for n in result.graph.nodes)
