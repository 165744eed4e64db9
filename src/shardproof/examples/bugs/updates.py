"""F14, F15, F16: optimizers on shards, random state and recomputation, rules of propagation.

Random masks are inputs: which of them are one mask is what the placement says.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F

from shardproof import Mesh, Shard, Spec
from shardproof.examples.bugs import parts as p
from shardproof.examples.bugs.base import Bug

TP2 = Mesh(tp=2)
ROWS, COLUMNS = {"tp": Shard(0)}, {"tp": Shard(1)}


def newton_schulz(g: Any) -> Any:
    """Two steps towards the orthogonal factor of a matrix."""
    x = g / (g.square().sum() + 1e-6).sqrt()  # carries: B140
    for _ in range(2):
        x = 1.5 * x - 0.5 * (x @ x.T) @ x  # carries: B140
    return x


def muon(bug: str) -> Spec:
    """The update is that of the whole matrix, not of a rank's rows."""

    def sequential(w: Any, g: Any) -> Any:
        return w - 0.1 * newton_schulz(g)

    def distributed(w: Any, g: Any) -> Any:
        if bug == "B140":
            return w - 0.1 * newton_schulz(g)  # planted: B140
        return w - 0.1 * p.mine(newton_schulz(p.gathered(g)))

    inputs = {"w": p.f32(4, 4, at=ROWS), "g": p.f32(4, 4, at=ROWS)}
    return p.spec(sequential, distributed, TP2, inputs, step="forward", outputs=p.ROWS_OUT)


def per_head(bug: str) -> Spec:
    """Heads are normalised one by one; their number is that of the whole weight."""

    def update(w: Any, g: Any, heads: int) -> Any:
        h = g.view(heads, -1, 3)
        norms = h.square().sum((1, 2), keepdim=True)  # carries: B142
        return w - 0.1 * (h / (norms + 1e-6).sqrt()).reshape(w.shape)

    def sequential(w: Any, g: Any) -> Any:
        return update(w, g, 4)

    def distributed(w: Any, g: Any) -> Any:
        return update(w, g, 4 if bug == "B142" else 2)  # planted: B142

    inputs = {"w": p.f32(16, 3, at=ROWS), "g": p.f32(16, 3, at=ROWS)}
    return p.spec(sequential, distributed, TP2, inputs, step="forward", outputs=p.ROWS_OUT)


def sharded_adam(bug: str) -> Spec:
    """Adam on a flat shard, with the correction of the step."""

    def adam(w: Any, g: Any, m: Any, v: Any, step: int) -> Any:
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g.square()
        m, v = m / (1 - 0.9**step), v / (1 - 0.99**step)  # carries: B143
        return w - 0.1 * m / (v.sqrt() + 1e-8)  # carries: B143

    def sequential(w: Any, g: Any, m: Any, v: Any) -> Any:
        return adam(w, g, m, v, 3)

    def distributed(w: Any, g: Any, m: Any, v: Any) -> Any:
        return adam(w, g, m, v, 4 if bug == "B143" else 3)  # planted: B143

    inputs = {n: p.f32(8, at=ROWS) for n in ("w", "g", "m", "v")}
    return p.spec(sequential, distributed, TP2, inputs, step="forward", outputs=p.ROWS_OUT)


def replicated_dropout(bug: str) -> Spec:
    """Dropout of a replicated activation: one mask on all ranks."""

    def sequential(x: Any, w: Any, v: Any, mask: Any) -> Any:
        return ((x @ w) * mask[0]) @ v

    def distributed(x: Any, w: Any, v: Any, mask: Any) -> Any:
        own = mask[dist.get_rank() if bug == "B145" else 0]  # planted: B145
        hidden = (x @ p.gathered(w, 1)) * own  # carries: B145
        return p.summed(p.mine(hidden, 1) @ v)  # carries: B145

    inputs = {
        "x": p.f32(5, 4),
        "w": p.f32(4, 6, at=COLUMNS),
        "v": p.f32(6, 3, at=ROWS),
        "mask": p.f32(2, 5, 6),
    }
    return p.spec(sequential, distributed, TP2, inputs, step="forward")


def sharded_dropout(bug: str) -> Spec:
    """Dropout of a shard: every rank has its own part of the mask."""

    def sequential(x: Any, mask: Any) -> Any:
        return torch.tanh(x) * mask

    def distributed(x: Any, mask: Any) -> Any:
        seed = 0 if bug in ("B146", "B148") else dist.get_rank()  # planted: B146, B148
        own = mask.chunk(2)[seed]
        return torch.tanh(x) * own  # carries: B146, B148

    inputs = {"x": p.f32(8, 4, at=ROWS), "mask": p.f32(8, 4)}
    return p.spec(sequential, distributed, TP2, inputs, step="forward", outputs=p.ROWS_OUT)


class Checkpointed(torch.autograd.Function):
    """``tanh(x @ w) * c``, computed again in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, c: Any, bug: str) -> Any:
        ctx.save_for_backward(x, w, c)
        ctx.bug = bug
        return torch.tanh(x @ w) * c

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, w, c = ctx.saved_tensors
        y = torch.tanh(x @ w)
        inner = grad * c * (1 - y.square())
        dc = grad * y
        if ctx.bug == "B149":
            dc = torch.zeros_like(dc)  # planted: B149
        return inner @ w.T, x.T @ inner, dc, None


def keyword_tensor(bug: str) -> Spec:
    """Recomputation forgets the gradient of a tensor passed by keyword."""

    def sequential(x: Any, w: Any, c: Any, d: Any) -> Any:
        return (torch.tanh(x @ w) * c * d).sum()

    def distributed(x: Any, w: Any, c: Any, d: Any) -> Any:
        return (Checkpointed.apply(x, w, c, bug) * d).sum()

    inputs = {
        "x": p.f32(5, 4),
        "w": p.f32(4, 6, at=COLUMNS, grad=True),
        "c": p.f32(5, 6, at=COLUMNS, grad=True),
        "d": p.f32(5, 6, at=COLUMNS),
    }
    return p.spec(sequential, distributed, TP2, inputs, outputs=p.OWN_LOSS)


def block_order(bug: str) -> Spec:
    """Columns of A are cut over (x, y), rows of B over (y, x)."""
    mesh = Mesh(x=2, y=2)

    def sequential(a: Any, b: Any) -> Any:
        return a @ b

    def distributed(a: Any, b: Any) -> Any:
        r = dist.get_rank()
        k = r if bug != "B151" else 2 * (r % 2) + r // 2  # planted: B151
        own = b[2 * k : 2 * k + 2]
        return p.summed(a @ own)  # carries: B151

    inputs = {"a": p.f32(4, 8, at={"x": Shard(1), "y": Shard(1)}), "b": p.f32(8, 4)}
    return p.spec(sequential, distributed, mesh, inputs, step="forward")


def strided_softmax(bug: str) -> Spec:
    """Softmax along a dim that is cut, in strides."""

    def sequential(x: Any) -> Any:
        return torch.softmax(x, 1)

    def distributed(x: Any) -> Any:
        own = torch.cat([part.chunk(2, 1)[dist.get_rank()] for part in x.chunk(2, 1)], 1)
        if bug == "B152":
            return restored(p.gathered(torch.softmax(own, 1), 1))  # planted: B152
        return torch.softmax(restored(p.gathered(own, 1)), 1)

    def restored(y: Any) -> Any:
        a, b, c, d = y.chunk(4, 1)
        return torch.cat([a, c, b, d], 1)

    return p.spec(sequential, distributed, TP2, {"x": p.f32(4, 8)}, step="forward")


def maximum_of_parts(bug: str) -> Spec:
    """The maximum of a sum of which every rank has a part."""

    def sequential(x: Any, w: Any) -> Any:
        return (x @ w).amax(1)

    def distributed(x: Any, w: Any) -> Any:
        y = x @ w
        if bug == "B154":
            top = y.amax(1)  # planted: B154
            dist.all_reduce(top, dist.ReduceOp.MAX)  # carries: B154
            return top
        return p.summed(y).amax(1)

    inputs = {"x": p.f32(5, 8, at=COLUMNS), "w": p.f32(8, 4, at=ROWS)}
    return p.spec(sequential, distributed, TP2, inputs, step="forward")


def embedding_gradient(bug: str) -> Spec:
    """The table is cut over tp, the tokens over dp."""
    groups: dict[str, Any] = {}

    def built(mesh: Any, rank: int) -> None:
        groups.update(tp=mesh.get_group("tp"), dp=mesh.get_group("dp"))

    def sequential(ids: Any, table: Any, c: Any) -> Any:
        return (F.embedding(ids, table) * c).sum()

    def distributed(ids: Any, table: Any, c: Any) -> Any:
        first = dist.get_rank(groups["tp"]) * 4
        inside = (ids >= first) & (ids < first + 4)
        rows = F.embedding(torch.where(inside, ids - first, 0), table)  # carries: B155
        rows = torch.where(inside.unsqueeze(1), rows, 0.0)
        return (p.leave(rows, groups["tp"]) * c).sum()

    def after(v: Any) -> None:
        dist.all_reduce(v["table"].grad, group=groups["dp"])  # carries: B155
        if bug == "B155":
            dist.all_reduce(v["table"].grad, group=groups["dp"])  # planted: B155

    inputs = {
        "ids": p.i64(6, at={"dp": Shard(0)}),
        "table": p.f32(8, 3, at={"tp": Shard(0)}, grad=True),
        "c": p.f32(6, 3, at={"dp": Shard(0)}),
    }
    return p.spec(sequential, distributed, Mesh(dp=2, tp=2), inputs, after=after, built=built,
                  outputs=p.OWN_LOSS)  # fmt: skip


BUGS = [
    Bug("B140", "Y-opt", "orthogonalised by row shards", muon),
    Bug("B142", "Y-opt", "heads counted before the weight was cut", per_head),
    Bug("B143", "Y-opt", "sharded optimizer with another step count", sharded_adam),
    Bug("B145", "P", "different masks on a replicated activation", replicated_dropout),
    Bug("B146", "P", "one mask for all shards of the sequence", sharded_dropout),
    Bug("B148", "P", "one mask for all shards of the heads", sharded_dropout),
    Bug("B149", "Y-bwd", "recomputation loses a gradient", keyword_tensor),
    Bug("B151", "Y", "blocks in the order of another mesh", block_order),
    Bug("B152", "Y", "softmax of strided shards", strided_softmax),
    Bug("B154", "Y", "maximum of parts of a sum", maximum_of_parts),
    Bug("B155", "Y", "gradient of an embedding summed twice", embedding_gradient),
]
