"""F04: normalisation of the loss, and factors of gradients.

Losses are squared errors of a line, with a weight (0 or 1, as data) for each sample, so that ranks
and micro-batches hold unequal counts.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from shardproof import Mesh, Shard, Spec
from shardproof.examples.bugs import parts as p
from shardproof.examples.bugs.base import Bug

DP2 = Mesh(dp=2)
BATCH = {"dp": Shard(0)}


def error(x: Any, a: Any, y: Any, m: Any) -> Any:
    """Sum over the samples that count."""
    return ((x @ a - y).square() * m).sum()


def data(at: Any = BATCH, rows: int = 8) -> dict[str, Any]:
    return {
        "x": p.f32(rows, 3, at=at),
        "a": p.f32(3, grad=True),
        "y": p.f32(rows, at=at),
        "m": p.f32(rows, at=at),
    }


def whole(x: Any, a: Any, y: Any, m: Any) -> Any:
    """The mean over all samples that count."""
    return error(x, a, y, m) / m.sum()  # carries: B038, B049


def accumulated(bug: str) -> Spec:
    """Each micro-batch takes the mean over its own samples."""

    def step(model: Any, optimizer: Any, x: Any, a: Any, y: Any, m: Any) -> Any:
        total = torch.zeros(())
        for k in (0, 1):
            xs, ys, ms = (t.chunk(2)[k] for t in (x, y, m))
            loss = error(xs, a, ys, ms) / m.sum()
            if bug == "B038":
                loss = whole(xs, a, ys, ms) / 2  # planted: B038
            loss.backward()
            total = total + loss.detach()
        return total

    return p.spec(whole, None, Mesh(dp=1), data({}), whole_step=step)


def world_factor(bug: str) -> Spec:
    """The loss times the world size, on a mesh whose other axis does not average."""

    def step(model: Any, optimizer: Any, x: Any, a: Any, y: Any, m: Any) -> Any:
        averaged = 2 if bug == "B040" else 1
        loss = whole(x, a, y, m) * averaged  # planted: B040
        loss.backward()
        return loss

    return p.spec(whole, None, Mesh(dp=1, tp=2), data({}), whole_step=step)


def averaged_again(bug: str) -> Spec:
    """Divided by the global count, and then averaged over ranks."""

    def after(v: Any) -> None:
        n = p.summed(v["m"].sum())
        grad = v["a"].grad
        if bug == "B041":
            dist.all_reduce(grad, dist.ReduceOp.AVG)  # planted: B041
        else:
            dist.all_reduce(grad)
        grad.div_(n)  # carries: B041

    return p.spec(whole, error, DP2, data(), after=after, outputs=p.OWN_LOSS)


def second_loss(bug: str) -> Spec:
    """The loss of the extra prediction is normalised by the local count."""

    def sequential(x: Any, a: Any, b: Any, y: Any, m: Any, n: Any) -> Any:
        return error(x, a, y, m) / m.sum() + error(x, b, y, n) / n.sum()

    def distributed(x: Any, a: Any, b: Any, y: Any, m: Any, n: Any) -> Any:
        first = error(x, a, y, m) / p.summed(m.sum())
        if bug == "B043":
            return first + error(x, b, y, n) / n.sum() / 2  # planted: B043
        return first + error(x, b, y, n) / p.summed(n.sum())

    def after(v: Any) -> None:
        dist.all_reduce(v["a"].grad)
        dist.all_reduce(v["b"].grad)  # carries: B043

    inputs = {**data(), "b": p.f32(3, grad=True), "n": p.f32(8, at=BATCH)}
    return p.spec(sequential, distributed, DP2, inputs, after=after, outputs=p.OWN_LOSS)


def repeated_division(bug: str) -> Spec:
    """The schedule divides what has been accumulated so far at every step."""

    def step(model: Any, optimizer: Any, x: Any, a: Any, y: Any) -> Any:
        if model is None:
            for k in (0, 1):
                xs, ys = x.chunk(2)[k], y.chunk(2)[k]
                ((xs @ a - ys).square().mean()).backward()
            return a.grad
        for k in (0, 1):
            xs, ys = x.chunk(2)[k], y.chunk(2)[k]
            for xp, yp in zip(xs.chunk(2), ys.chunk(2), strict=True):
                scale = 1.0 if bug == "B044" else 0.5
                ((xp @ a - yp).square().mean() * scale).backward()  # carries: B044
            if bug == "B044":
                a.grad.div_(2)  # planted: B044
        return a.grad

    inputs = {"x": p.f32(8, 3), "a": p.f32(3, grad=True), "y": p.f32(8)}
    return p.spec(None, None, Mesh(pp=1), inputs, whole_step=step)


def micro_batches(bug: str) -> Spec:
    """Gradients of means of micro-batches are added, or divided once more than needed."""

    def sequential(x: Any, a: Any, y: Any) -> Any:
        return (x @ a - y).square().mean()

    def step(model: Any, optimizer: Any, x: Any, a: Any, y: Any) -> Any:
        total = torch.zeros(())
        for xp, yp in zip(x.chunk(2), y.chunk(2), strict=True):
            loss = (xp @ a - yp).square().mean()  # carries: B046
            scaled = loss / (1 if bug == "B046" else 2)  # planted: B046
            scaled = scaled / 2 if bug == "B047" else scaled  # planted: B047
            scaled.backward()
            total = total + scaled.detach()
        return total

    inputs = {"x": p.f32(8, 3), "a": p.f32(3, grad=True), "y": p.f32(8)}
    return p.spec(sequential, None, Mesh(pp=1), inputs, whole_step=step)


def ddp_factor(bug: str) -> Spec:
    """The mean loss of each rank, averaged by the reducer."""

    def sequential(x: Any, a: Any, y: Any) -> Any:
        return (x @ a - y).square().mean()

    def distributed(x: Any, a: Any, y: Any) -> Any:
        loss = sequential(x, a, y)
        if bug == "B050":
            loss = loss * dist.get_world_size()  # planted: B050
        return loss

    def after(v: Any) -> None:
        dist.all_reduce(v["a"].grad, dist.ReduceOp.AVG)  # carries: B050

    inputs = {"x": p.f32(8, 3, at=BATCH), "a": p.f32(3, grad=True), "y": p.f32(8, at=BATCH)}
    return p.spec(sequential, distributed, DP2, inputs, after=after, outputs=p.OWN_LOSS)


def sample_share(bug: str) -> Spec:
    """Micro-batches are weighted by their share of samples instead of tokens."""

    def step(model: Any, optimizer: Any, x: Any, a: Any, y: Any, m: Any) -> Any:
        total = torch.zeros(())
        for part in (slice(0, 6), slice(6, 8)):
            mean = whole(x[part], a, y[part], m[part])
            share = m[part].sum() / m.sum()
            if bug == "B049":
                share = (part.stop - part.start) / 8  # planted: B049
            loss = mean * share  # carries: B049
            loss.backward()
            total = total + loss.detach()
        return total

    return p.spec(whole, None, Mesh(dp=1), data({}), whole_step=step)


def smoothed_branch(bug: str) -> Spec:
    """The branch of label smoothing ignores the global count."""

    def losses(x: Any, a: Any, y: Any, m: Any) -> Any:
        return error(x, a, y, m) * 0.9 + ((x @ a) * m).sum() * 0.1  # carries: B052

    def sequential(x: Any, a: Any, y: Any, m: Any) -> Any:
        return losses(x, a, y, m) / m.sum()

    def step(model: Any, optimizer: Any, x: Any, a: Any, y: Any, m: Any) -> Any:
        total, items = torch.zeros(()), m.sum()
        for k in (0, 1):
            xs, ys, ms = (t.chunk(2)[k] for t in (x, y, m))
            count = ms.sum() if bug == "B052" else items
            loss = losses(xs, a, ys, ms) / count  # planted: B052
            loss.backward()
            total = total + loss.detach()
        return total

    return p.spec(sequential, None, Mesh(dp=1), data({}), whole_step=step)


def context_factor(bug: str) -> Spec:
    """Per-token mode: the loss is a sum, divided by the global count at the end."""

    def distributed(x: Any, a: Any, y: Any, m: Any) -> Any:
        loss = error(x, a, y, m)
        return loss * 2 if bug == "B053" else loss  # planted: B053

    def after(v: Any) -> None:
        dist.all_reduce(v["a"].grad)  # carries: B053, B059
        if bug != "B059":
            count = p.summed(v["m"].sum())  # planted: B059
            v["a"].grad.div_(count)  # carries: B053

    return p.spec(whole, distributed, Mesh(cp=2), data({"cp": Shard(0)}), after=after,
                  outputs=p.OWN_LOSS)  # fmt: skip


def sequence_parallel_mean(bug: str) -> Spec:
    """Each rank takes the mean over its slice; gradients are summed over the sequence axis."""

    def sequential(x: Any, a: Any, y: Any) -> Any:
        return (x @ a - y).square().mean()  # carries: B055

    def after(v: Any) -> None:
        dist.all_reduce(v["a"].grad)  # planted: B055
        if bug != "B055":
            v["a"].grad.div_(dist.get_world_size())

    cut = {"sp": Shard(0)}
    inputs = {"x": p.f32(8, 3, at=cut), "a": p.f32(3, grad=True), "y": p.f32(8, at=cut)}
    return p.spec(sequential, sequential, Mesh(sp=2), inputs, after=after, outputs=p.OWN_LOSS)


def rescaled(bug: str) -> Spec:
    """Gradients are averaged over dp only; the factor that undoes it uses the world size."""

    def distributed(x: Any, a: Any, y: Any, m: Any) -> Any:
        return error(x, a, y, m) / p.summed(m.sum(), mesh_group["dp"])

    mesh_group: dict[str, Any] = {}

    def built(mesh: Any, rank: int) -> None:
        mesh_group["dp"] = mesh.get_group("dp")

    def after(v: Any) -> None:
        grad = v["a"].grad
        dist.all_reduce(grad, dist.ReduceOp.AVG, group=mesh_group["dp"])
        factor = dist.get_world_size() if bug == "B056" else 2
        grad.mul_(factor)  # planted: B056

    return p.spec(whole, distributed, Mesh(dp=2, tp=2), data(), after=after, built=built,
                  outputs=p.OWN_LOSS)  # fmt: skip


def split_backward(bug: str) -> Spec:
    """Input and weight gradients run as separate actions; only one is scaled."""

    def sequential(x: Any, w: Any, v: Any) -> Any:
        return ((x @ w) @ v).square().mean()

    def step(model: Any, optimizer: Any, x: Any, w: Any, v: Any) -> Any:
        total = torch.zeros(())
        for part in x.chunk(2):
            h = (part @ w).detach().requires_grad_()
            loss = (h @ v).square().mean()  # carries: B058
            dh, dv = torch.autograd.grad(loss, (h, v))
            with torch.no_grad():
                scale = 1.0 if bug == "B058" else 0.5
                dw = part.T @ (dh * scale)  # planted: B058
                w.grad = dw if w.grad is None else w.grad + dw
                v.grad = dv * 0.5 if v.grad is None else v.grad + dv * 0.5
            total = total + loss.detach() / 2
        return total

    inputs = {"x": p.f32(8, 3), "w": p.f32(3, 4, grad=True), "v": p.f32(4, grad=True)}
    return p.spec(sequential, None, Mesh(pp=1), inputs, whole_step=step)


def compensated(bug: str) -> Spec:
    """The loss times the size of cp, as gradients are averaged over dp and cp: right."""

    def distributed(x: Any, a: Any, y: Any, m: Any) -> Any:
        return error(x, a, y, m) / p.summed(m.sum()) * 2

    def after(v: Any) -> None:
        dist.all_reduce(v["a"].grad, dist.ReduceOp.AVG)

    return p.spec(whole, distributed, Mesh(cp=2), data({"cp": Shard(0)}), after=after,
                  outputs=p.OWN_LOSS)  # fmt: skip


def equal_counts(bug: str) -> Spec:
    """A mean of means over equal counts: right."""

    def sequential(x: Any, a: Any, y: Any) -> Any:
        return (x @ a - y).square().mean()

    def after(v: Any) -> None:
        dist.all_reduce(v["a"].grad, dist.ReduceOp.AVG)

    cut = {"cp": Shard(0)}
    inputs = {"x": p.f32(8, 3, at=cut), "a": p.f32(3, grad=True), "y": p.f32(8, at=cut)}
    return p.spec(sequential, sequential, Mesh(cp=2), inputs, after=after, outputs=p.OWN_LOSS)


BUGS = [
    Bug("B038", "Y", "mean of the means of micro-batches", accumulated),
    Bug("B040", "Y", "loss times a world size that does not average", world_factor),
    Bug("B041", "Y-bwd", "divided by the global count and averaged too", averaged_again),
    Bug("B043", "Y", "second loss normalised by the local count", second_loss),
    Bug("B044", "Y-bwd", "accumulated gradients divided at every step", repeated_division),
    Bug("B046", "Y-bwd", "means of micro-batches added", micro_batches),
    Bug("B047", "Y-bwd", "divided by the number of micro-batches twice", micro_batches),
    Bug("B049", "Y", "share of samples instead of tokens", sample_share),
    Bug("B050", "Y-bwd", "loss times world size before an average", ddp_factor),
    Bug("B052", "Y", "smoothed loss uses the count of the micro-batch", smoothed_branch),
    Bug("B053", "Y-bwd", "factor cp on top of a token count", context_factor),
    Bug("B055", "Y-bwd", "gradients of means summed over the sequence", sequence_parallel_mean),
    Bug("B056", "Y-bwd", "rescaled by the world size instead of dp", rescaled),
    Bug("B058", "Y-bwd", "scale missing in the weight action of a split backward", split_backward),
    Bug("B059", "P", "summed gradients never divided by the count", context_factor),
    Bug("N4", "control", "loss times cp, averaged over cp", compensated),
    Bug("N7", "control", "mean of means over equal counts", equal_counts),
]
