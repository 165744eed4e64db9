"""The tensor functions that ``train`` executes, against torch.optim and sequential recursions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from shardproof.elastic.errors import InvalidInput  # noqa: E402
from shardproof.elastic.train.api import gradient_of  # noqa: E402
from shardproof.elastic.train.optim import (  # noqa: E402
    AdamW,
    Average,
    Inner,
    OuterSgd,
    Sgd,
    Tensors,
    optimizer_from_json,
)
from shardproof.elastic.train.superstep import (  # noqa: E402
    State,
    immediate_superstep,
    local_run,
    local_superstep,
    merge_local,
)
from shardproof.elastic.train.tickets import Tickets, samples_of  # noqa: E402
from shardproof.elastic.train.weights import weights_of  # noqa: E402

Batch = tuple[Tensor, Tensor]


def problem(seed: int = 0) -> tuple[nn.Module, list[str], Tensors, list[Batch]]:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    named = dict(model.named_parameters())
    batches = [
        (torch.randn(6, 5, dtype=torch.float64), torch.randint(0, 3, (6,))) for _ in range(8)
    ]
    return model, list(named), [p.detach().clone() for p in named.values()], batches


def close(got: Sequence[Tensor], want: Sequence[Tensor]) -> None:
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Sgd(0.1), lambda p: torch.optim.SGD(p, 0.1)),
        (
            Sgd(0.1, 0.9, 0.01, nesterov=True),
            lambda p: torch.optim.SGD(p, 0.1, 0.9, weight_decay=0.01, nesterov=True),
        ),
        (Sgd(0.1, momentum=0.5), lambda p: torch.optim.SGD(p, 0.1, 0.5)),
        (
            AdamW(0.05, weight_decay=0.1),
            lambda p: torch.optim.AdamW(p, 0.05, weight_decay=0.1),
        ),
    ],
    ids=["sgd", "nesterov", "momentum", "adamw"],
)
def test_optimizers_equal_torch(ours: Inner, theirs: object) -> None:
    model, names, params, batches = problem()
    optimizer = theirs(model.parameters())  # type: ignore[operator]
    for inputs, targets in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
    grad = gradient_of(model, names, nn.functional.cross_entropy)
    start = State(params, ours.init(params), [])
    got, _, steps = local_run(start, batches, grad, ours)
    assert steps == len(batches)
    close(got, [p.detach() for p in model.parameters()])


def run_superstep(
    shares: list[list[Batch]], weights: list[float], inner: Inner, outer: Average | OuterSgd
) -> list[State]:
    """All workers of one local-update superstep, with an all-reduce in this process."""
    model, names, params, _ = problem()
    grad = gradient_of(model, names, nn.functional.cross_entropy)
    start = State(params, inner.init(params), outer.init(params))
    sent: list[Tensor] = []

    def collect(tensor: Tensor) -> Tensor:
        sent.append(tensor)
        return tensor

    for share, weight in zip(shares, weights, strict=True):
        local_superstep(
            start, share, weight, grad=grad, optimizer=inner, outer=outer, all_reduce=collect
        )
    total = torch.stack(sent).sum(0)
    return [
        local_superstep(
            start, s, w, grad=grad, optimizer=inner, outer=outer, all_reduce=lambda _: total
        )
        for s, w in zip(shares, weights, strict=True)
    ]


@pytest.mark.parametrize("inner", [Sgd(0.1), Sgd(0.1, 0.9, 0.01)], ids=["plain", "momentum"])
def test_bsp_is_large_batch_sgd(inner: Sgd) -> None:
    model, names, params, batches = problem()
    states = run_superstep([[b] for b in batches[:4]], [0.25] * 4, inner, Average())
    union = (torch.cat([b[0] for b in batches[:4]]), torch.cat([b[1] for b in batches[:4]]))
    grad = gradient_of(model, names, nn.functional.cross_entropy)
    want, state, _ = local_run(State(params, inner.init(params), []), [union], grad, inner)
    for got in states:
        close(got.params, want)
        close(got.inner, state)


def test_local_update_is_the_weighted_average_of_local_runs() -> None:
    model, names, params, batches = problem()
    shares, weights = [batches[:3], batches[3:4]], weights_of([3, 1], "steps")
    assert weights == [0.75, 0.25]
    got = run_superstep(shares, weights, Sgd(0.1), Average())[0]
    grad = gradient_of(model, names, nn.functional.cross_entropy)
    runs = [local_run(State(params, [], []), s, grad, Sgd(0.1))[0] for s in shares]
    close(got.params, [0.75 * a + 0.25 * b for a, b in zip(*runs, strict=True)])


def test_outer_sgd_equals_torch_on_the_pseudo_gradient() -> None:
    model, names, params, batches = problem()
    outer = OuterSgd(0.7, 0.9)
    grad = gradient_of(model, names, nn.functional.cross_entropy)
    leaves = [p.clone().requires_grad_() for p in params]
    optimizer = torch.optim.SGD(leaves, 0.7, 0.9, nesterov=True)
    state = State(params, [], outer.init(params))
    for batch in batches[:3]:
        local, inner, _ = local_run(state, [batch], grad, Sgd(0.1))
        for leaf, new in zip(leaves, local, strict=True):
            leaf.grad = leaf.detach() - new
        state = merge_local(state, local, inner, 1.0, outer, lambda t: t)
        optimizer.step()
        close(state.params, [leaf.detach() for leaf in leaves])


def test_immediate_superstep_is_the_delayed_gradient_recursion() -> None:
    model, names, params, batches = problem()
    grad = gradient_of(model, names, nn.functional.cross_entropy)
    pulled = [0, 0, 1, 2]
    got, _ = immediate_superstep(
        params, [], zip(pulled, batches, strict=False), grad=grad, optimizer=Sgd(0.1)
    )
    history = [params]
    for at, (inputs, targets) in zip(pulled, batches, strict=False):
        leaves = dict(zip(names, [p.clone().requires_grad_() for p in history[at]], strict=True))
        output = torch.func.functional_call(model, leaves, (inputs,))
        nn.functional.cross_entropy(output, targets).backward()
        steps = zip(history[-1], leaves.values(), strict=True)
        history.append([w - 0.1 * leaf.grad for w, leaf in steps])
    close(got, history[-1])
    fresh, _ = immediate_superstep(params, [], enumerate(batches), grad=grad, optimizer=Sgd(0.1))
    close(fresh, local_run(State(params, [], []), batches, grad, Sgd(0.1))[0])


def test_weights_sum_to_one_and_ignore_newcomers() -> None:
    assert weights_of([4, 2, 0], "uniform") == [0.5, 0.5, 0.0]
    assert weights_of([4, 2, 0], "steps") == pytest.approx([2 / 3, 1 / 3, 0.0])
    assert weights_of([0, 0], "uniform") == [0.0, 0.0]


def test_tickets_cover_every_pass_exactly_once() -> None:
    batches = [samples_of(k, samples=23, batch_size=5, seed=1) for k in range(8)]
    for epoch in (batches[:4], batches[4:]):
        used = [i for batch in epoch for i in batch]
        assert len(used) == len(set(used)) == 20
    assert sorted(batches[0]) != sorted(batches[4])


def test_tickets_of_the_lost_go_out_again_and_none_commits_twice() -> None:
    book = Tickets()
    first = [book.issue() for _ in range(4)]
    book.commit([first[0], first[2]])
    book.give_back([first[3], first[1]])
    assert [book.issue() for _ in range(3)] == [1, 3, 4]
    with pytest.raises(InvalidInput, match="second commit"):
        book.commit([0])
    resumed = Tickets([0, 2])
    assert [resumed.issue() for _ in range(2)] == [1, 3]


def test_bad_arguments() -> None:
    with pytest.raises(InvalidInput, match="lr > 0"):
        Sgd(0.0)
    with pytest.raises(InvalidInput, match="Nesterov"):
        Sgd(0.1, nesterov=True)
    with pytest.raises(InvalidInput, match="unknown optimizer"):
        optimizer_from_json({"kind": "lion"})
    with pytest.raises(InvalidInput, match="fill one batch"):
        samples_of(0, samples=3, batch_size=5, seed=0)
    for optimizer in (Sgd(0.1, 0.9), AdamW(0.1)):
        assert optimizer_from_json(optimizer.to_json()) == optimizer
