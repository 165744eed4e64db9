"""F01: the gradient of a replicated tensor stays each rank's part of the sum."""

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


def norm_weight(bug: str) -> Spec:
    """LayerNorm on a slice of the sequence: its weight's gradient is a part."""

    def program(x: Any, w: Any, c: Any) -> Any:
        return (F.layer_norm(x, (4,), w) * c).sum()  # carries: B001, B011

    def after(v: Any) -> None:
        overlap = bug != "B011"  # planted: B011
        if bug != "B001" and overlap:
            dist.all_reduce(v["w"].grad)  # planted: B001

    inputs = {
        "x": p.f32(8, 4, at=ROWS, grad=True),
        "w": p.f32(4, grad=True),
        "c": p.f32(8, 4, at=ROWS),
    }
    return p.spec(program, program, TP2, inputs, after=after, outputs=p.OWN_LOSS)


def switch_router(bug: str) -> Spec:
    """A router sees this rank's tokens only."""

    def program(x: Any, router: Any, experts: Any) -> Any:
        gates = torch.softmax(x @ router, -1)  # carries: B002
        return (gates.unsqueeze(-1) * torch.einsum("sh,ehd->sed", x, experts)).square().sum()

    def after(v: Any) -> None:
        dist.all_reduce(v["experts"].grad)
        if bug != "B002":
            dist.all_reduce(v["router"].grad)  # planted: B002

    inputs = {
        "x": p.f32(8, 4, at=ROWS, grad=True),
        "router": p.f32(4, 3, grad=True),
        "experts": p.f32(3, 4, 4, grad=True),
    }
    return p.spec(program, program, TP2, inputs, after=after, outputs=p.OWN_LOSS)


def final_norm(bug: str) -> Spec:
    """The last norm before a head that is cut over the vocabulary."""

    def sequential(h: Any, w: Any, head: Any, c: Any) -> Any:
        return (F.layer_norm(h, (4,), w) @ head * c).sum()

    def distributed(h: Any, w: Any, head: Any, c: Any) -> Any:
        whole = p.gather(F.layer_norm(h, (4,), w))  # carries: B004
        return (whole @ head * c).sum()

    def after(v: Any) -> None:
        if bug != "B004":
            dist.all_reduce(v["w"].grad)  # planted: B004

    inputs = {
        "h": p.f32(8, 4, at=ROWS, grad=True),
        "w": p.f32(4, grad=True),
        "head": p.f32(4, 6, at=COLUMNS, grad=True),
        "c": p.f32(8, 6, at=COLUMNS),
    }
    return p.spec(sequential, distributed, TP2, inputs, after=after, outputs=p.OWN_LOSS)


def router_scores(bug: str) -> Spec:
    """Experts cut along the hidden dim: each rank has a part of the gradient of the scores."""

    def sequential(x: Any, gate: Any, up: Any, down: Any) -> Any:
        s = torch.softmax(x @ gate, -1)
        hidden = torch.relu(torch.einsum("th,ehf->etf", x, up))
        return (s.T.unsqueeze(-1) * torch.einsum("etf,efh->eth", hidden, down)).sum(0).square().sum()

    def distributed(x: Any, gate: Any, up: Any, down: Any) -> Any:
        s = torch.softmax(x @ gate, -1)
        if bug != "B005":
            s = p.enter(s)  # planted: B005
        hidden = torch.relu(torch.einsum("th,ehf->etf", p.enter(x), up))
        out = s.T.unsqueeze(-1) * torch.einsum("etf,efh->eth", hidden, down)  # carries: B005
        return p.leave(out.sum(0)).square().sum()

    inputs = {
        "x": p.f32(6, 4, grad=True),
        "gate": p.f32(4, 3, grad=True),
        "up": p.f32(3, 4, 8, at={"tp": Shard(2)}, grad=True),
        "down": p.f32(3, 8, 4, at={"tp": Shard(1)}, grad=True),
    }
    return p.spec(sequential, distributed, TP2, inputs)


def one_key_head(bug: str) -> Spec:
    """Multi-query attention: the only key head is used by the query heads of all ranks."""

    def attend(q: Any, k: Any, heads: int) -> Any:
        q = q.view(-1, heads, 4).transpose(0, 1)
        return torch.softmax(q @ k.T, -1) @ k

    def sequential(x: Any, wq: Any, wk: Any, bk: Any, c: Any) -> Any:
        return (attend(x @ wq, x @ wk + bk, 4) * c).sum()

    def distributed(x: Any, wq: Any, wk: Any, bk: Any, c: Any) -> Any:
        k = x @ wk + bk
        if bug != "B007":
            k = p.enter(k)  # planted: B007
        return (attend(p.enter(x) @ wq, k, 2) * c).sum()  # carries: B007

    inputs = {
        "x": p.f32(6, 8, grad=True),
        "wq": p.f32(8, 16, at=COLUMNS, grad=True),
        "wk": p.f32(8, 4, grad=True),
        "bk": p.f32(4, grad=True),
        "c": p.f32(4, 6, 4, at=ROWS),
    }
    return p.spec(sequential, distributed, TP2, inputs, outputs=p.OWN_LOSS)


def key_bias(bug: str) -> Spec:
    """The finaliser sums the gradients of key weights, but not of biases, or of one chunk only."""

    def chunk(x: Any, w: Any, i: int) -> Any:
        q, k = x @ w[f"wq{i}"], x @ w[f"wk{i}"] + w[f"bk{i}"]  # carries: B008 bias, B008 chunk
        heads = q.view(6, -1, 4).transpose(0, 1)
        return (torch.softmax(heads @ k.T, -1) @ k).square().sum()

    def sequential(x: Any, **w: Any) -> Any:
        return sum(chunk(x, w, i) * (i + 1) for i in (0, 1))

    def after(v: Any) -> None:
        chunks = (0,) if bug == "B008 chunk" else (0, 1)  # planted: B008 chunk
        for i in chunks:
            dist.all_reduce(v[f"wk{i}"].grad)
            if bug != "B008 bias":
                dist.all_reduce(v[f"bk{i}"].grad)  # planted: B008 bias

    inputs = {"x": p.f32(6, 8)}
    for i in (0, 1):
        inputs[f"wq{i}"] = p.f32(8, 16, at=COLUMNS, grad=True)
        inputs[f"wk{i}"] = p.f32(8, 4, grad=True)
        inputs[f"bk{i}"] = p.f32(4, grad=True)
    return p.spec(sequential, sequential, TP2, inputs, after=after, outputs=p.OWN_LOSS)


BUGS = [
    Bug("B001", "Y-bwd", "norm weight's gradient not summed over tp", norm_weight),
    Bug("B002", "Y-bwd", "router's gradient not summed under sequence parallelism", switch_router),
    Bug("B004", "Y-bwd", "final norm's gradient is this rank's slice", final_norm),
    Bug("B005", "Y-bwd", "router scores' gradient taken as replicated", router_scores),
    Bug("B007", "Y-bwd", "shared key head's gradient not summed", one_key_head),
    Bug("B008", "Y-bwd", "finaliser leaves out biases, or later chunks", key_bias,
        ("B008 bias", "B008 chunk")),
    Bug("B011", "Y-bwd", "norm gradients summed on the overlapped path only", norm_weight),
]
