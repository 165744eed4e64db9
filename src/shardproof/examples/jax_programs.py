"""JAX programs on several devices, each against its plain version. They need JAX.

Every program has a body that each device runs under ``shard_map``, and a few faults that can be
put into it by name. JAX needs eight devices; on a machine without them

    XLA_FLAGS=--xla_force_host_platform_device_count=8 \\
        shardproof check examples/jax_programs.py:tp_mlp
"""

from __future__ import annotations

from typing import Any

from shardproof import Spec
from shardproof.examples.jax_rings import RING, RING_ATTENTION
from shardproof.examples.jax_support import Program

# ---------------------------------------------------------------- tensor parallel MLP


def _mlp(x: Any, up: Any, down: Any) -> Any:
    import jax

    return jax.nn.gelu(x @ up) @ down


def _mlp_body(fault: str, x: Any, up: Any, down: Any) -> Any:
    import jax

    hidden = x @ up
    if fault == "sum before the activation":
        hidden = jax.lax.psum(hidden, "tp")
    y = jax.nn.gelu(hidden) @ down
    if fault == "no sum":
        return y
    return jax.lax.pmean(y, "tp") if fault == "mean for sum" else jax.lax.psum(y, "tp")


TP_MLP = Program(
    _mlp,
    _mlp_body,
    {"tp": 4},
    {
        "x": ((6, 8), (None, None)),
        "up": ((8, 32), (None, "tp")),
        "down": ((32, 8), ("tp", None)),
    },
    ((None, None),),
    ("no sum", "mean for sum", "sum before the activation"),
)

# ---------------------------------------------------------------- tensor parallel attention


def _attention(x: Any, q: Any, k: Any, v: Any, o: Any) -> Any:
    return _attend(x, q, k, v, o, 0.5)


def _attend(x: Any, q: Any, k: Any, v: Any, o: Any, scale: float) -> Any:
    import jax
    import jax.numpy as jnp

    length = x.shape[1]
    heads = [jnp.einsum("bth,hnd->bntd", x, w) for w in (q, k, v)]
    scores = jnp.einsum("bntd,bnsd->bnts", heads[0], heads[1]) * scale
    seen = jnp.tril(jnp.ones((length, length), bool))
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e30), axis=-1)
    return jnp.einsum("bnts,bnsd,ndh->bth", weights, heads[2], o)


def _attention_body(fault: str, x: Any, q: Any, k: Any, v: Any, o: Any) -> Any:
    import jax

    if fault == "heads of another rank":
        o = jax.lax.ppermute(o, "tp", [(r, (r + 1) % 4) for r in range(4)])
    if fault == "keys and values swapped":
        k, v = v, k
    y = _attend(x, q, k, v, o, 0.25 if fault == "scale of the whole width" else 0.5)
    return jax.lax.psum(y, "tp")


TP_ATTENTION = Program(
    _attention,
    _attention_body,
    {"tp": 4},
    {
        "x": ((2, 6, 16), (None, None, None)),
        "q": ((16, 8, 4), (None, "tp", None)),
        "k": ((16, 8, 4), (None, "tp", None)),
        "v": ((16, 8, 4), (None, "tp", None)),
        "o": ((8, 4, 16), ("tp", None, None)),
    },
    ((None, None, None),),
    ("heads of another rank", "keys and values swapped", "scale of the whole width"),
)

# ---------------------------------------------------------------- sequence parallel block


def _norm(x: Any, weight: Any) -> Any:
    import jax
    import jax.numpy as jnp

    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * weight


def _block(x: Any, weight: Any, up: Any, down: Any) -> Any:
    import jax

    return x + jax.nn.silu(_norm(x, weight) @ up) @ down


def _block_body(fault: str, x: Any, weight: Any, up: Any, down: Any) -> Any:
    import jax

    rows = x.shape[0]
    normed = x if fault == "no norm" else _norm(x, weight)
    whole = jax.lax.all_gather(normed, "tp", axis=0, tiled=True)
    y = jax.nn.silu(whole @ up) @ down
    if fault == "slice without sum":
        mine = jax.lax.dynamic_slice_in_dim(y, jax.lax.axis_index("tp") * rows, rows, 0)
    else:
        mine = jax.lax.psum_scatter(y, "tp", scatter_dimension=0, tiled=True)
    if fault == "residual of another rank":
        x = jax.lax.ppermute(x, "tp", [(r, (r + 1) % 4) for r in range(4)])
    return x + mine


SEQUENCE_PARALLEL = Program(
    _block,
    _block_body,
    {"tp": 4},
    {
        "x": ((16, 8), ("tp", None)),
        "weight": ((8,), (None,)),
        "up": ((8, 32), (None, "tp")),
        "down": ((32, 8), ("tp", None)),
    },
    (("tp", None),),
    ("slice without sum", "no norm", "residual of another rank"),
)

# ---------------------------------------------------------------- fully sharded weights


def _layers(x: Any, first: Any, second: Any) -> Any:
    import jax.numpy as jnp

    return jnp.tanh(x @ first) @ second


def _sharded_body(fault: str, x: Any, first: Any, second: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def whole(w: Any) -> Any:
        if fault == "own part repeated":
            return jnp.tile(w, (4, 1))
        if fault == "parts in another order":
            w = jax.lax.ppermute(w, "fsdp", [(r, r ^ 1) for r in range(4)])
        return jax.lax.all_gather(w, "fsdp", axis=0, tiled=True)

    if fault == "gathered from another axis":
        first = jax.lax.all_to_all(first, "fsdp", split_axis=1, concat_axis=0, tiled=True)
        first = first.T
    return _layers(x, whole(first), whole(second))


FSDP = Program(
    _layers,
    _sharded_body,
    {"fsdp": 4},
    {
        "x": ((8, 16), ("fsdp", None)),
        "first": ((16, 16), ("fsdp", None)),
        "second": ((16, 12), ("fsdp", None)),
    },
    (("fsdp", None),),
    ("own part repeated", "parts in another order", "gathered from another axis"),
)

# ---------------------------------------------------------------- experts


def _dispatch(x: Any, router: Any) -> tuple[Any, Any, Any]:
    """Which tokens of each group go to which place of which expert, and with which weight."""
    import jax
    import jax.numpy as jnp

    experts = router.shape[1]
    gates = jax.nn.softmax(x @ router, axis=-1)
    chosen = jax.nn.one_hot(jnp.argmax(gates, axis=-1), experts)
    place = jnp.cumsum(chosen, axis=1) * chosen - 1.0
    slots = jnp.arange(x.shape[1], dtype=jnp.float32)
    send = (place[..., None] == slots).astype(jnp.float32)
    return send, jnp.sum(gates * chosen, axis=-1), jnp.einsum("gtec,gtd->gecd", send, x)


def _experts(x: Any, router: Any, up: Any, down: Any) -> Any:
    import jax
    import jax.numpy as jnp

    send, weight, rows = _dispatch(x, router)
    hidden = jax.nn.relu(jnp.einsum("gecd,edf->gecf", rows, up))
    back = jnp.einsum("gecf,efd->gecd", hidden, down)
    return jnp.einsum("gtec,gecd->gtd", send, back) * weight[..., None]


def _experts_body(fault: str, x: Any, router: Any, up: Any, down: Any) -> Any:
    import jax
    import jax.numpy as jnp

    send, weight, rows = _dispatch(x, router)
    rows = jax.lax.all_to_all(rows, "ep", split_axis=1, concat_axis=0, tiled=True)
    hidden = jax.nn.relu(jnp.einsum("gecd,edf->gecf", rows, up))
    back = jnp.einsum("gecf,efd->gecd", hidden, down)
    if fault == "results of another rank":
        back = jax.lax.ppermute(back, "ep", [(r, (r + 1) % 4) for r in range(4)])
    back = jax.lax.all_to_all(back, "ep", split_axis=0, concat_axis=1, tiled=True)
    if fault == "experts in another order":
        back = jnp.roll(back, 1, axis=1)
    y = jnp.einsum("gtec,gecd->gtd", send, back)
    return y if fault == "no gate weight" else y * weight[..., None]


MOE = Program(
    _experts,
    _experts_body,
    {"ep": 4},
    {
        "x": ((4, 6, 8), ("ep", None, None)),
        "router": ((8, 8), (None, None)),
        "up": ((8, 8, 12), ("ep", None, None)),
        "down": ((8, 12, 8), ("ep", None, None)),
    },
    (("ep", None, None),),
    ("results of another rank", "experts in another order", "no gate weight"),
)

# ---------------------------------------------------------------- data parallel gradient


def _loss(w: Any, v: Any, x: Any, y: Any) -> Any:
    import jax.numpy as jnp

    error = jnp.tanh(x @ w) @ v - y
    return jnp.mean(jnp.sum(error * error, axis=-1))


def _gradient(w: Any, v: Any, x: Any, y: Any) -> Any:
    import jax

    return jax.grad(_loss, argnums=(0, 1))(w, v, x, y)


def _gradient_body(fault: str, w: Any, v: Any, x: Any, y: Any) -> Any:
    import jax

    if fault == "labels of another rank":
        y = jax.lax.ppermute(y, "dp", [(r, (r + 1) % 4) for r in range(4)])
    first, second = _gradient(w, v, x, y)
    if fault == "sum for mean":
        return jax.lax.psum(first, "dp"), jax.lax.psum(second, "dp")
    if fault == "one gradient not reduced":
        return first, jax.lax.pmean(second, "dp")
    return jax.lax.pmean(first, "dp"), jax.lax.pmean(second, "dp")


DATA_PARALLEL = Program(
    _gradient,
    _gradient_body,
    {"dp": 4},
    {
        "w": ((6, 10), (None, None)),
        "v": ((10, 3), (None, None)),
        "x": ((16, 6), ("dp", None)),
        "y": ((16, 3), ("dp", None)),
    },
    ((None, None), (None, None)),
    ("sum for mean", "one gradient not reduced", "labels of another rank"),
)

# ---------------------------------------------------------------- scanned stack


def _stack(x: Any, up: Any, down: Any) -> Any:
    import jax

    def layer(x: Any, w: tuple[Any, Any]) -> tuple[Any, None]:
        return x + jax.nn.silu(x @ w[0]) @ w[1], None

    return jax.lax.scan(layer, x, (up, down))[0]


def _stack_body(fault: str, x: Any, up: Any, down: Any) -> Any:
    import jax

    def layer(x: Any, w: tuple[Any, Any]) -> tuple[Any, None]:
        y = jax.nn.silu(x @ w[0]) @ w[1]
        if fault == "residual in the sum":
            return jax.lax.psum(x + y, "tp"), None
        if fault == "one sum at the end":
            return x + y, None
        return x + jax.lax.psum(y, "tp"), None

    backwards = fault == "layers backwards"
    out = jax.lax.scan(layer, x, (up, down), reverse=backwards)[0]
    return jax.lax.psum(out, "tp") if fault == "one sum at the end" else out


SCANNED = Program(
    _stack,
    _stack_body,
    {"tp": 4},
    {
        "x": ((6, 8), (None, None)),
        "up": ((5, 8, 16), (None, None, "tp")),
        "down": ((5, 16, 8), (None, "tp", None)),
    },
    ((None, None),),
    ("residual in the sum", "one sum at the end", "layers backwards"),
)

PROGRAMS = {
    "tensor parallel MLP": TP_MLP,
    "tensor parallel attention": TP_ATTENTION,
    "sequence parallel block": SEQUENCE_PARALLEL,
    "fully sharded weights": FSDP,
    "experts with all_to_all": MOE,
    "ring product": RING,
    "ring attention": RING_ATTENTION,
    "data parallel gradient": DATA_PARALLEL,
    "scanned stack": SCANNED,
}


def tp_mlp() -> Spec:
    """Tensor parallel MLP."""
    return TP_MLP.spec("tensor parallel MLP")


def tp_attention() -> Spec:
    """Tensor parallel attention."""
    return TP_ATTENTION.spec("tensor parallel attention")


def sequence_parallel() -> Spec:
    """Sequence parallel block."""
    return SEQUENCE_PARALLEL.spec("sequence parallel block")


def fsdp() -> Spec:
    """Weights that every rank holds a part of, gathered before use."""
    return FSDP.spec("fully sharded weights")


def moe() -> Spec:
    """Experts on several ranks, tokens sent by all_to_all."""
    return MOE.spec("experts with all_to_all")


def ring() -> Spec:
    """A product whose rows go round a ring."""
    return RING.spec("ring product")


def ring_attention() -> Spec:
    """Attention whose keys and values go round a ring."""
    return RING_ATTENTION.spec("ring attention")


def data_parallel() -> Spec:
    """Mean gradients over the ranks."""
    return DATA_PARALLEL.spec("data parallel gradient")


def scanned() -> Spec:
    """A scanned stack of tensor parallel layers."""
    return SCANNED.spec("scanned stack")
