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
        out = s.T.unsqueeze(-1) * torch.einsum("etf,efh->eth", hidden, down)
        return out.sum(0).square().sum()

    def distributed(x: Any, gate: Any, up: Any, down: Any) -> Any:
        s = torch.softmax(x @ gate, -1)  # carries: B005
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
        return torch.softmax(q @ k.T, -1) @ k  # carries: B007

    def sequential(x: Any, wq: Any, wk: Any, bk: Any, c: Any) -> Any:
        return (attend(x @ wq, x @ wk + bk, 4) * c).sum()

    def distributed(x: Any, wq: Any, wk: Any, bk: Any, c: Any) -> Any:
        k = x @ wk + bk  # carries: B007
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


def rotary_key(bug: str) -> Spec:
    """Latent attention: the rotary key is made once and read by the heads of all ranks."""

    def attend(x: Any, wq: Any, wn: Any, rope: Any, heads: int) -> Any:
        q = (x @ wq).view(6, heads, 4)
        nope = (x @ wn).view(6, heads, 2)
        key = torch.cat([nope, rope.unsqueeze(1).expand(6, heads, 2)], -1)
        return torch.softmax(torch.einsum("shd,thd->hst", q, key), -1)

    def sequential(x: Any, wq: Any, wn: Any, wr: Any, c: Any) -> Any:
        return (attend(x, wq, wn, x @ wr, 4) * c).sum()

    def distributed(x: Any, wq: Any, wn: Any, wr: Any, c: Any) -> Any:
        rope = x @ wr  # carries: B010
        if bug != "B010":
            rope = p.enter(rope)  # planted: B010
        return (attend(p.enter(x), wq, wn, rope, 2) * c).sum()

    inputs = {
        "x": p.f32(6, 8, grad=True),
        "wq": p.f32(8, 16, at=COLUMNS, grad=True),
        "wn": p.f32(8, 8, at=COLUMNS, grad=True),
        "wr": p.f32(8, 2, grad=True),
        "c": p.f32(4, 6, 6, at=ROWS),
    }
    return p.spec(sequential, distributed, TP2, inputs, outputs=p.OWN_LOSS)


def chunked_loss(bug: str) -> Spec:
    """The loss runs in chunks; hidden gradients of the chunks are collected in a buffer."""

    def step(model: Any, optimizer: Any, h: Any, base: Any, head: Any, c: Any) -> Any:
        hidden = torch.tanh(h @ base)  # carries: B013
        chunks: list[Any] = [t.detach().requires_grad_() for t in hidden.chunk(2)]
        loss = 0
        for part, weight in zip(chunks, c.chunk(2), strict=True):
            value = (part @ head * weight).sum()  # carries: B013
            value.backward()
            loss = loss + value.detach()
        grad = torch.cat([t.grad for t in chunks])
        if model is not None and bug != "B013":
            dist.all_reduce(grad)  # planted: B013
        hidden.backward(grad)
        return loss

    inputs = {
        "h": p.f32(6, 4, grad=True),
        "base": p.f32(4, 4, grad=True),
        "head": p.f32(4, 8, at=COLUMNS, grad=True),
        "c": p.f32(6, 8, at=COLUMNS),
    }
    return p.spec(None, None, TP2, inputs, whole_step=step, outputs=p.OWN_LOSS)


def masked_scores(bug: str) -> Spec:
    """A hook keeps the scores of this rank's experts and zeroes the others."""

    def experts(x: Any, up: Any) -> Any:
        return torch.tanh(torch.einsum("th,ehf->etf", x, up))

    def sequential(x: Any, gate: Any, up: Any) -> Any:
        s = torch.softmax(x @ gate, -1)
        return torch.einsum("te,etf->tf", s, experts(x, up)).square().sum()

    def distributed(x: Any, gate: Any, up: Any) -> Any:
        s = torch.softmax(x @ gate, -1)  # carries: B014
        if bug != "B014":
            s = p.enter(s)  # planted: B014
        local = s.chunk(2, 1)[dist.get_rank()]
        return p.leave(torch.einsum("te,etf->tf", local, experts(p.enter(x), up))).square().sum()

    inputs = {
        "x": p.f32(6, 4, grad=True),
        "gate": p.f32(4, 4, grad=True),
        "up": p.f32(4, 4, 3, at=ROWS, grad=True),
    }
    return p.spec(sequential, distributed, TP2, inputs)


def fused_sink(bug: str) -> Spec:
    """The weight gradient is written straight to the buffer that the optimizer reads; the hook
    sums the gradient that autograd holds."""

    def step(model: Any, optimizer: Any, x: Any, a: Any, b: Any) -> Any:
        middle = (x @ a).detach().requires_grad_()
        loss = (middle @ b).square().sum()
        (dmiddle,) = torch.autograd.grad(loss, middle)  # carries: B016
        main = torch.zeros_like(a)
        with torch.no_grad():
            main += x.T @ dmiddle  # carries: B016
            if model is not None:
                dummy = torch.zeros_like(a) if bug == "B016" else main  # planted: B016
                dist.all_reduce(dummy)
            a.sub_(0.1 * main)  # carries: B016
        return a

    inputs = {
        "x": p.f32(6, 4, at=ROWS),
        "a": p.f32(4, 2),
        "b": p.f32(2, 4),
    }
    return p.spec(None, None, TP2, inputs, whole_step=step)


def head_gradient(bug: str) -> Spec:
    """The input gradient of a column-parallel head goes on without its sum."""

    def sequential(x: Any, w: Any, bias: Any, head: Any, c: Any) -> Any:
        return (torch.log_softmax((x @ w + bias) @ head, 0) * c).sum()

    def distributed(x: Any, w: Any, bias: Any, head: Any, c: Any) -> Any:
        h = p.leave(x @ w) + bias  # carries: B017
        asynchronous = bug == "B017"  # planted: B017
        h = h if asynchronous else p.enter(h)
        return (torch.log_softmax(h @ head, 0) * c).sum()

    inputs = {
        "x": p.f32(6, 8, at=COLUMNS, grad=True),
        "w": p.f32(8, 4, at=ROWS, grad=True),
        "bias": p.f32(4, grad=True),
        "head": p.f32(4, 6, at=COLUMNS, grad=True),
        "c": p.f32(6, 6, at=COLUMNS),
    }
    return p.spec(sequential, distributed, TP2, inputs, outputs=p.OWN_LOSS)


def expert_counts(bug: str) -> Spec:
    """The bias that balances the experts follows the token counts of all ranks."""

    def update(counts: Any, bias: Any) -> Any:
        return bias + 0.1 * torch.sign(counts.mean() - counts)  # carries: B019

    def sequential(chosen: Any, bias: Any) -> Any:
        return update(chosen.sum(0), bias)

    def distributed(chosen: Any, bias: Any) -> Any:
        counts = chosen.sum(0)
        if bug != "B019":
            counts = p.summed(counts)  # planted: B019
        return update(counts, bias)  # carries: B019

    inputs = {"chosen": p.f32(8, 4, at=ROWS), "bias": p.f32(4)}
    return p.spec(sequential, distributed, TP2, inputs, step="forward")


BUGS = [
    Bug("B001", "Y-bwd", "norm weight's gradient not summed over tp", norm_weight),
    Bug("B002", "Y-bwd", "router's gradient not summed under sequence parallelism", switch_router),
    Bug("B004", "Y-bwd", "final norm's gradient is this rank's slice", final_norm),
    Bug("B005", "Y-bwd", "router scores' gradient taken as replicated", router_scores),
    Bug("B007", "Y-bwd", "shared key head's gradient not summed", one_key_head),
    Bug(
        "B008",
        "Y-bwd",
        "finaliser leaves out biases, or later chunks",
        key_bias,
        ("B008 bias", "B008 chunk"),
    ),
    Bug("B011", "Y-bwd", "norm gradients summed on the overlapped path only", norm_weight),
    Bug("B010", "Y-bwd", "rotary key's gradient holds this rank's heads only", rotary_key),
    Bug("B013", "Y-bwd", "gradients of loss chunks are parts, kept as whole", chunked_loss),
    Bug("B014", "Y-bwd", "router's score gradient covers local experts only", masked_scores),
    Bug("B016", "P", "the sum is of a gradient that nobody reads", fused_sink),
    Bug("B017", "Y-bwd", "input gradient of the head not summed", head_gradient),
    Bug("B019", "Y-opt", "expert counts of one rank move the routing bias", expert_counts),
]
