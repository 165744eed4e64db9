"""One superstep of the elastic trainer, of each mode, checked against its sequential meaning.

    shardproof check examples/elastic_verified.py:bsp
    shardproof check examples/elastic_verified.py:local_update
    shardproof check examples/elastic_verified.py:immediate_apply

The distributed programs call the functions that ``shardproof.elastic.train`` executes; the
schedule (who takes which batches, who pulled which version) is fixed in each check. The sequential
programs are written here from the definition of the mode, in plain PyTorch. The other functions
are faulty twins: their bug is in what surrounds the trainer's functions.
"""

import torch
import torch.distributed as dist

from shardproof import Input, Mesh, Replicate, Shard, Spec
from shardproof.elastic.train import optim
from shardproof.elastic.train.superstep import (
    State,
    apply_push,
    flatten,
    gradient,
    local_superstep,
    unflatten,
)
from shardproof.elastic.train.weights import weights_of

ROWS, WIDTH, HIDDEN = 4, 6, 8  # rows of a batch, and the sizes of the model
NAMES = ("up", "down")


def loss_of(params, batch):
    """A small regression model; the loss is a mean over the batch, as users write it."""
    x, y = batch
    up, down = params
    return (torch.tanh(x @ up) @ down - y).pow(2).mean()


GRAD = gradient(loss_of)


def model_inputs(batches, placement, momentum=True):
    names = [*NAMES, *(f"momentum_{n}" for n in NAMES if momentum)]
    shapes = {"up": (WIDTH, HIDDEN), "down": (HIDDEN, 1)}
    inputs = {n: Input(shapes[n.removeprefix("momentum_")], "f64") for n in names}
    inputs["x"] = Input((batches, ROWS, WIDTH), "f64", placement)
    inputs["y"] = Input((batches, ROWS, 1), "f64", placement)
    return inputs


def named(params, momentum=()):
    found = dict(zip(NAMES, params, strict=True))
    return found | {f"momentum_{n}": m for n, m in zip(NAMES, momentum, strict=bool(momentum))}


# ------------------------------------------------- local updates, and bulk-synchronous training


def sequential_step(params, momentum, x, y, lr, beta):
    """Momentum SGD on one batch, from its definition."""
    leaves = [p.detach().requires_grad_() for p in params]
    grads = torch.autograd.grad(loss_of(leaves, (x, y)), leaves)
    momentum = [beta * m + g for m, g in zip(momentum, grads, strict=True)]
    return [p - lr * m for p, m in zip(params, momentum, strict=True)], momentum


def summed(tensor):
    tensor = tensor.clone()
    dist.all_reduce(tensor)
    return tensor


def worker(weight, outer, all_reduce=summed):
    """The program of one worker: one superstep in local-update mode."""

    def run(x, y, up, down, momentum_up, momentum_down):
        params = [up, down]
        end = local_superstep(
            State(params, [momentum_up, momentum_down], outer.init(params)),
            list(zip(x, y, strict=True)),
            weight,
            grad=GRAD,
            optimizer=optim.Sgd(0.1, momentum=0.9),
            outer=outer,
            all_reduce=all_reduce,
        )
        return named(end.params, end.inner)

    return run


def kept(tensor):
    """Bug: nothing is summed."""
    return tensor


def summed_twice(tensor):
    """Bug: the sum is taken twice."""
    return summed(summed(tensor))


def bsp(workers=4, all_reduce=summed):
    """One local step a worker is momentum SGD on the union of the batches, exactly."""

    def large_batch(x, y, up, down, momentum_up, momentum_down):
        x, y = x.flatten(0, 1), y.flatten(0, 1)
        step = sequential_step([up, down], [momentum_up, momentum_down], x, y, 0.1, 0.9)
        return named(*step)

    weights = weights_of([1] * workers, "steps")
    return Spec(
        sequential=lambda: large_batch,
        distributed=lambda mesh, rank: worker(weights[rank], optim.Average(), all_reduce),
        mesh=Mesh(dp=workers),
        inputs=model_inputs(workers, Shard(0)),
        step="forward",
    )


def local_update(steps=(3, 1, 2), weights=None, outer=None):
    """Worker r takes steps[r] local steps; then the weighted average of the local runs."""
    total = sum(steps)
    first = [sum(steps[:r]) for r in range(len(steps))]

    def average_of_runs(x, y, up, down, momentum_up, momentum_down):
        runs = []
        for r, count in enumerate(steps):
            params, momentum = [up, down], [momentum_up, momentum_down]
            for k in range(first[r], first[r] + count):
                params, momentum = sequential_step(params, momentum, x[k], y[k], 0.1, 0.9)
            runs.append([*params, *momentum])
        mean = [
            sum(n / total * t for n, t in zip(steps, ts, strict=True))
            for ts in zip(*runs, strict=True)
        ]
        if outer is None:
            return named(mean[:2], mean[2:])
        # The first Nesterov step on the pseudo-gradient (start - mean), with no momentum yet.
        move = [(1 + outer.momentum) * (s - m) for s, m in zip((up, down), mean, strict=False)]
        new = [s - outer.lr * m for s, m in zip((up, down), move, strict=True)]
        return named(new, mean[2:])

    shares = weights or weights_of(steps, "steps")
    return Spec(
        sequential=lambda: average_of_runs,
        distributed=lambda mesh, rank: worker(shares[rank], outer or optim.Average()),
        mesh=Mesh(dp=len(steps)),
        inputs=model_inputs(total, Shard(0, sizes=steps)),
        step="forward",
    )


def outer_optimizer():
    """The same with an outer optimizer, as in DiLoCo."""
    return local_update(outer=optim.OuterSgd())


def lost_update():
    """Bug: one worker's change never enters the sum."""
    return local_update(weights=[3 / 6, 1 / 6, 0.0])


def equal_weights():
    """Bug: workers with different numbers of steps count the same."""
    return local_update(weights=weights_of((3, 1, 2), "uniform"))


def not_summed():
    """Bug: the barrier's all-reduce is missing."""
    return bsp(all_reduce=kept)


def summed_twice_at_the_barrier():
    """Bug: the barrier's all-reduce is applied twice."""
    return bsp(all_reduce=summed_twice)


# ------------------------------------------------------------------------- immediate apply

# Rank 0 serves; the event (worker, "pull") or (worker, "push") is in the server's order.
EVENTS = ((1, "pull"), (2, "pull"), (1, "push"), (1, "pull"), (2, "push"), (1, "push"))


def versions_pulled(events):
    """For each push, in order, the number of pushes applied when its weights were pulled."""
    holds, applied, pulled = {}, 0, []
    for rank, event in events:
        if event == "pull":
            holds[rank] = applied
        else:
            pulled.append(holds[rank])
            applied += 1
    return pulled


def serve(up, down, events, workers, optimizer, apply):
    """The server: answers pulls and applies pushes in order."""
    params, state = [up, down], []
    for rank, event in events:
        if event == "pull":
            dist.send(flatten(params), rank)
            continue
        received = torch.empty(up.numel() + down.numel(), dtype=up.dtype)
        dist.recv(received, rank)
        params, state = apply(params, state, unflatten(received, params), optimizer)
    for rank in workers:
        dist.send(flatten(params), rank)
    return named(params)


def serve_worker(rank, x, y, up, down, events, stale):
    """A worker: the gradient of batch k on the weights pulled last, for each of its pushes."""
    like, push, params = [up, down], -1, None

    def pull():
        flat = torch.empty(up.numel() + down.numel(), dtype=up.dtype)
        dist.recv(flat, 0)
        return unflatten(flat, like)

    for who, event in events:
        push += event == "push"
        if who != rank:
            continue
        if event == "pull":
            fresh = pull()
            params = fresh if params is None or not stale else params
        else:
            grads, _ = GRAD(params, (x[push], y[push]))
            dist.send(flatten(grads), 0)
    return named(pull())


def immediate_apply(events=EVENTS, workers=2, apply=apply_push, stale=False):
    """The weights follow the delayed-gradient recursion in the order of the pushes."""
    pulled = versions_pulled(events)

    def recursion(x, y, up, down):
        versions = [[up, down]]
        for k, version in enumerate(pulled):
            leaves = [p.detach().requires_grad_() for p in versions[version]]
            grads = torch.autograd.grad(loss_of(leaves, (x[k], y[k])), leaves)
            versions.append([p - 0.1 * g for p, g in zip(versions[-1], grads, strict=True)])
        return named(versions[-1])

    def rank_program(mesh, rank):
        def run(x, y, up, down):
            if rank == 0:
                return serve(up, down, events, range(1, workers + 1), optim.Sgd(0.1), apply)
            return serve_worker(rank, x, y, up, down, events, stale)

        return run

    return Spec(
        sequential=lambda: recursion,
        distributed=rank_program,
        mesh=Mesh(ps=workers + 1),
        inputs=model_inputs(len(pulled), Replicate(), momentum=False),
        step="forward",
    )


def applied_twice(params, state, grads, optimizer):
    """Bug: a push is applied again, as after a retry without a version check."""
    params, state = apply_push(params, state, grads, optimizer)
    return apply_push(params, state, grads, optimizer)


def push_lost(params, state, grads, optimizer):
    """Bug: a push is acknowledged but not applied."""
    return params, state


def double_apply():
    return immediate_apply(apply=applied_twice)


def lost_push():
    return immediate_apply(apply=push_lost)


def stale_pull():
    """Bug: the worker goes on with the weights it had, not with those it pulled again."""
    return immediate_apply(stale=True)
