"""F11: layouts of weights, loading, resharding, partition into stages.

What a loader does is an index map, and the programs here run it on whole weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from shardproof import Mesh, Shard, Spec
from shardproof.examples.bugs import parts as p
from shardproof.examples.bugs.base import Bug

TP2, TP4 = Mesh(tp=2), Mesh(tp=4)
COLUMNS = {"tp": Shard(1)}


def rank_part(w: Any, sizes: Sequence[int]) -> Any:
    """This rank's rows of each of the components packed in ``w``."""
    return torch.cat([p.mine(part) for part in w.split(list(sizes))])


def packed_components(bug: str) -> Spec:
    """A projection that packs six components is cut evenly, then split as if it were balanced."""
    sizes = (4, 4, 8, 8, 2, 2)

    def use(x: Any, w: Any, n: int) -> Any:
        q, k, v, z, b, a = (x @ w.T).split([s // n for s in sizes], 1)
        qk = (q * k).sum(1, keepdim=True)
        return (
            (v * torch.sigmoid(z)).sum(1, keepdim=True),
            qk,
            (b * a).sum(1, keepdim=True),
        )  # carries: B109

    def sequential(x: Any, w: Any) -> Any:
        return torch.cat(use(x, w, 1), 1)

    def distributed(x: Any, w: Any) -> Any:
        own = p.mine(w) if bug == "B109" else rank_part(w, sizes)  # planted: B109
        return p.summed(torch.cat(use(x, own, 2), 1))  # carries: B109

    inputs = {"x": p.f32(5, 4), "w": p.f32(28, 4)}
    return p.spec(sequential, distributed, TP2, inputs, step="forward")


def attention(q: Any, k: Any, heads: int, groups: int) -> Any:
    """Scores of grouped queries; keys of each group are repeated."""
    q = q.view(5, heads, 2)
    k = k.view(5, groups, 2).repeat_interleave(heads // groups, 1)
    return torch.softmax(torch.einsum("shd,thd->hst", q, k), -1)  # carries: B110, B115


def shared_heads(bug: str) -> Spec:
    """Two key heads on four ranks: ranks 2r and 2r + 1 load head r."""

    def sequential(x: Any, wq: Any, wk: Any) -> Any:
        return attention(x @ wq, x @ wk, 4, 2)

    def distributed(x: Any, wq: Any, wk: Any) -> Any:
        r = dist.get_rank()
        head = r % 2 if bug == "B110" else r // 2  # planted: B110
        own = wk[:, 2 * head : 2 * head + 2]  # carries: B110
        return attention(x @ wq, x @ own, 1, 1)  # carries: B110

    inputs = {"x": p.f32(5, 4), "wq": p.f32(4, 8, at=COLUMNS), "wk": p.f32(4, 4)}
    return p.spec(sequential, distributed, TP4, inputs, step="forward", outputs=p.ROWS_OUT)


def presharded(bug: str) -> Spec:
    """A checkpoint in 8 slices is read by 4 ranks: each needs two."""

    def sequential(x: Any, w: Any) -> Any:
        return x @ w.reshape(8 * 2, 4).T

    def distributed(x: Any, w: Any) -> Any:
        r = dist.get_rank()
        if bug == "B112":
            own = torch.cat([w[r], torch.zeros_like(w[r])])  # planted: B112
        else:
            own = torch.cat([w[2 * r], w[2 * r + 1]])
        return x @ own.T  # carries: B112

    inputs = {"x": p.f32(5, 4), "w": p.f32(8, 2, 4)}
    return p.spec(sequential, distributed, TP4, inputs, step="forward", outputs=p.COLUMNS_OUT)


def gate_and_up(bug: str) -> Spec:
    """A fused gate and up weight is a plain column shard to the loader."""

    def use(x: Any, w: Any) -> Any:
        gate, up = (x @ w.T).chunk(2, 1)
        return torch.nn.functional.silu(gate) * up  # carries: B113

    def sequential(x: Any, w: Any, down: Any) -> Any:
        return use(x, w) @ down

    def distributed(x: Any, w: Any, down: Any) -> Any:
        own = p.mine(w) if bug == "B113" else rank_part(w, (8, 8))  # planted: B113
        return p.summed(use(x, own) @ down)  # carries: B113

    inputs = {"x": p.f32(5, 4), "w": p.f32(16, 4), "down": p.f32(8, 4, at={"tp": Shard(0)})}
    return p.spec(sequential, distributed, TP2, inputs, step="forward")


def heads_per_layer(bug: str) -> Spec:
    """Layers with 1, 2 and 4 key heads on four ranks."""
    counts = (1, 2, 4)

    def sequential(x: Any, wq: Any, **wk: Any) -> Any:
        return sum(attention(x @ wq, x @ wk[f"k{n}"], 4, n) for n in counts)

    def distributed(x: Any, wq: Any, **wk: Any) -> Any:
        out = 0
        for n in counts:
            copies = 4 // counts[0] if bug == "B115" else 4 // n  # planted: B115
            head = dist.get_rank() // copies
            own = wk[f"k{n}"][:, 2 * head : 2 * head + 2]  # carries: B115
            out = out + attention(x @ wq, x @ own, 1, 1)  # carries: B115
        return out

    inputs = {"x": p.f32(5, 4), "wq": p.f32(4, 8, at=COLUMNS)}
    inputs.update({f"k{n}": p.f32(4, 2 * n) for n in counts})
    return p.spec(sequential, distributed, TP4, inputs, step="forward", outputs=p.ROWS_OUT)


def packing_order(bug: str) -> Spec:
    """Queries, keys and values packed by head are cut by a rule for those packed by kind."""

    def use(x: Any, w: Any, heads: int) -> Any:
        q, k, v = (x @ w.T).view(5, heads, 3, 2).unbind(2)
        return torch.einsum(
            "hst,thd->hsd", torch.softmax(torch.einsum("shd,thd->hst", q, k), -1), v
        )  # carries: B116

    def sequential(x: Any, w: Any) -> Any:
        return use(x, w, 2)

    def distributed(x: Any, w: Any) -> Any:
        own = rank_part(w, (4, 4, 4)) if bug == "B116" else p.mine(w)  # planted: B116
        return use(x, own, 1)  # carries: B116

    inputs = {"x": p.f32(5, 4), "w": p.f32(12, 4)}
    return p.spec(sequential, distributed, TP2, inputs, step="forward", outputs=p.ROWS_OUT)


def swizzled_checkpoint(bug: str) -> Spec:
    """Rows of two fused weights, cut over tp and then over dp, back to one checkpoint."""
    rows = 16

    def sequential(wv: Any) -> Any:
        return torch.tanh(wv)

    def distributed(wv: Any) -> Any:
        r = dist.get_rank()
        local = rank_part_of(wv, r // 2).chunk(2)[r % 2]
        pieces = p.gathered(torch.tanh(local)).chunk(4)
        if bug == "B118":
            return torch.cat(pieces)  # planted: B118
        first = [torch.cat(pieces[2 * t : 2 * t + 2]).chunk(2) for t in (0, 1)]
        return torch.cat([first[t][k] for k in (0, 1) for t in (0, 1)])

    def rank_part_of(w: Any, t: int) -> Any:
        return torch.cat([part.chunk(2)[t] for part in w.chunk(2)])

    mesh = Mesh(tp=2, dp=2)
    return p.spec(sequential, distributed, mesh, {"wv": p.f32(rows, 3)}, step="forward")


def stage_offset(bug: str) -> Spec:
    """Layers of the second stage get the weights of the first ones."""

    def run(x: Any, w: Any, layers: Any) -> Any:
        for k in layers:
            x = torch.tanh(x @ w[k])  # carries: B119, B121
        return x

    def sequential(x: Any, w: Any) -> Any:
        return run(x, w, range(4))

    def distributed(x: Any, w: Any) -> Any:
        if dist.get_rank() == 0:
            dist.send(run(x, w, (0, 1)), 1)
            return None
        h = torch.empty_like(x)
        dist.recv(h, 0)
        layers = {"B119": (0, 1), "B121": (2,)}.get(bug, (2, 3))  # planted: B119, B121
        return run(h, w, layers)

    inputs = {"x": p.f32(5, 4), "w": p.f32(4, 4, 4)}
    spec = p.spec(sequential, distributed, Mesh(pp=2), inputs, step="forward")
    return spec


def dropped_moments(bug: str) -> Spec:
    """A step of Adam, saved and loaded, then another one."""

    def adam(w: Any, g: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g.square()
        return w - 0.1 * m / (v.sqrt() + 1e-8), m, v  # carries: B122

    def sequential(w: Any, g: Any, h: Any, m: Any, v: Any) -> Any:
        w, m, v = adam(w, g, m, v)
        return adam(w, h, m, v)[0]

    def distributed(w: Any, g: Any, h: Any, m: Any, v: Any) -> Any:
        w, m, v = adam(w, g, m, v)
        if bug == "B122":
            m, v = torch.zeros_like(m), torch.zeros_like(v)  # planted: B122
        return adam(w, h, m, v)[0]

    cut = {"dp": Shard(0)}
    inputs = {n: p.f32(6, 3, at=cut) for n in ("w", "g", "h", "m", "v")}
    return p.spec(sequential, distributed, Mesh(dp=2), inputs, step="forward",
                  outputs={"output": cut})  # fmt: skip


BUGS = [
    Bug("B109", "Y", "packed components cut evenly", packed_components),
    Bug("B110", "P", "shared key heads loaded by the wrong rank", shared_heads),
    Bug("B112", "P", "one of two slices of a checkpoint read", presharded),
    Bug("B113", "Y", "fused gate and up weight cut as one", gate_and_up),
    Bug("B115", "P", "key heads of another layer's count", heads_per_layer),
    Bug("B116", "P", "packed by head, cut by kind", packing_order),
    Bug("B118", "P", "fused rows of a checkpoint in another order", swizzled_checkpoint),
    Bug("B119", "P", "second stage has the first layers", stage_offset),
    Bug("B121", "Y", "a layer is in no stage", stage_offset),
    Bug("B122", "P", "moments lost between two steps", dropped_moments),
]
