"""Buffers: what a step writes is state that is compared, the rest is listed as known."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from shardproof import Input, InputError, Mesh, Replicate, Shard, Spec
from shardproof.frontends.torch_capture.expansions import find
from shardproof.report.diagnostic import Verdict

pytestmark = pytest.mark.filterwarnings("ignore")

ROWS = {k: Input((8, 4), "f32", {"dp": Shard(0)}) for k in "xy"}


def lines(verdict: Verdict) -> list[str]:
    return [text for kind, text in verdict.assumptions if kind == "capture"]


def outputs(verdict: Verdict) -> set[str]:
    return {o.seq_output for o in verdict.outputs}


def proved(verdict: Verdict) -> bool:
    return (verdict.status, verdict.certificate) == ("refines", "certificate checked")


# ------------------------------------------------------------------- a step of the user's


class Router(nn.Module):
    """A bias that the step moves, a variance that was saved, and a table that was drawn."""

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.w, self.bug = nn.Linear(4, 4), bug
        self.register_buffer("bias", torch.zeros(4))
        self.register_buffer("var", torch.ones(4))
        table = torch.ones(4)
        nn.init.trunc_normal_(table, std=2.0 if bug == "drawn otherwise" else 1.0)
        self.register_buffer("table", table)

    def forward(self, x: Any, y: Any) -> Any:
        bias = 0 if self.bug == "unused" else self.bias
        var = self.var * self.var if self.bug == "squared" else self.var
        h = (self.w(x) * self.table + bias) / torch.sqrt(var + 1e-5)
        return F.mse_loss(torch.softmax(h, -1), y)


def step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
    ranks = dist.get_world_size()
    loss = model(x, y)
    loss.backward()
    seen = x.mean(0)
    if ranks > 1:
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= ranks
        if model.bug != "own samples":
            dist.all_reduce(seen)
            seen /= ranks
    optimizer.step()
    if model.bug != "not updated":
        with torch.no_grad():
            model.bias.mul_(0.9).add_(seen, alpha=0.1)
    if model.bug == "counts twice":
        for state in optimizer.state.values():
            state["step"] += 1
    return loss


def routed(bug: str = "", **options: Any) -> Verdict:
    return Spec(
        sequential=Router,
        distributed=lambda mesh, rank: Router(bug),
        mesh=Mesh(dp=2),
        inputs=ROWS,
        step=step,
        optimizer=lambda params: torch.optim.Adam(params, lr=0.01),
        uneven=False,
        **{"outputs": {"loss": None}, **options},
    ).check(fixes=False)


def test_a_buffer_that_the_step_writes_is_compared() -> None:
    verdict = routed()
    assert proved(verdict)
    assert "new.bias" in outputs(verdict)
    assert "new.var" not in outputs(verdict)


@pytest.mark.parametrize(
    "bug", ["unused", "own samples", "not updated", "drawn otherwise", "counts twice"]
)
def test_wrong_buffers_and_counters_are_refuted(bug: str) -> None:
    assert routed(bug).status == "refuted"


def test_a_buffer_is_left_out_like_any_output() -> None:
    verdict = routed("own samples", outputs={"loss": None, "new.bias": None})
    assert proved(verdict)
    assert "new.bias" in verdict.left_out


def test_buffers_that_are_only_read_are_listed() -> None:
    verdict = routed("squared")  # at 1 it is the same
    assert proved(verdict)
    assert "buffers hold what their initialisation gives: var, table" in lines(verdict)
    assert "counters of the optimizer start at their value after one step: step" in lines(verdict)


def test_a_buffer_that_the_rules_name_is_unknown() -> None:
    rules = {"var": Replicate()}
    assert routed("squared", parameters=rules).status != "refines"
    right = routed(parameters=rules)
    assert proved(right)
    assert "buffers hold what their initialisation gives: table" in lines(right)


# ------------------------------------------------------------------- forward, other holders


class Holder(nn.Module):
    """State in a buffer or in a plain attribute, written in place or replaced."""

    def __init__(self, how: str, factor: float = 0.5) -> None:
        super().__init__()
        self.how, self.factor = how, factor
        if how == "attribute":
            self.cos = torch.zeros(4)
        else:
            self.register_buffer("cos", torch.zeros(4).cos())

    def forward(self, x: Any) -> Any:
        y = x + self.cos
        if self.how == "replaced":
            self.cos = self.cos * self.factor
        elif self.how == "view":
            self.cos[1:3].mul_(self.factor)
        else:
            self.cos.mul_(self.factor)
        return y


def held(how: str, factor: float) -> Verdict:
    return Spec(
        sequential=lambda: Holder(how),
        distributed=lambda mesh, rank: Holder(how, factor),
        mesh=Mesh(dp=2),
        inputs={"x": Input((8, 4), "f32", Shard(0))},
        outputs=None,
    ).check(fixes=False)


@pytest.mark.parametrize("how", ["in place", "replaced", "view"])
def test_every_way_to_write_a_buffer_counts(how: str) -> None:
    verdict = held(how, 0.5)
    assert proved(verdict)
    assert outputs(verdict) == {"output", "new.cos"}
    assert held(how, 0.25).status == "refuted"


def test_state_in_an_attribute_is_said_to_be_left_out() -> None:
    verdict = held("attribute", 0.25)
    assert verdict.status == "refines"
    assert any("no buffers" in text and text.endswith(": cos") for text in lines(verdict))


class Counter(nn.Module):
    def __init__(self, by: int = 1, where: str = "seen") -> None:
        super().__init__()
        self.by, self.where = by, where
        self.register_buffer(where, torch.tensor(0))

    def forward(self, x: Any) -> Any:
        getattr(self, self.where).add_(self.by)
        return x * 2


def counted(**options: Any) -> Verdict:
    return Spec(
        sequential=Counter,
        distributed=lambda mesh, rank: Counter(**options),
        mesh=Mesh(dp=2),
        inputs={"x": Input((8, 4), "f32", Shard(0))},
    ).check(fixes=False)


def test_counters_in_buffers_are_compared() -> None:
    assert proved(counted())
    assert counted(by=2).status == "refuted"


class Asking(Counter):
    def forward(self, x: Any) -> Any:
        y = x * 2 if self.seen.item() == 0 else x
        self.seen.add_(1)
        return y


def test_python_does_not_read_the_initial_value_of_state() -> None:
    spec = Spec(
        sequential=Asking,
        distributed=lambda mesh, rank: Asking(),
        mesh=Mesh(dp=2),
        inputs={"x": Input((8, 4), "f32", Shard(0))},
    )
    with pytest.raises(InputError, match="depends on the data"):
        spec.check()


class Own(Router):
    """A buffer that the ranks alone have."""

    def __init__(self, used: bool) -> None:
        super().__init__()
        self.used = used
        self.register_buffer("mine", torch.zeros(4))

    def forward(self, x: Any, y: Any) -> Any:
        loss = super().forward(x, y)
        self.mine.add_(1)
        return loss + self.mine.sum() - self.mine.numel() if self.used else loss


@pytest.mark.parametrize("used", [False, True])
def test_state_of_the_ranks_alone_may_hold_anything(used: bool) -> None:
    verdict = Spec(
        sequential=Router,
        distributed=lambda mesh, rank: Own(used),
        mesh=Mesh(dp=2),
        inputs={k: Input((8, 4)) for k in "xy"},
    ).check(fixes=False)
    assert verdict.status == ("refuted" if used else "refines")
    assert any("mine: free" in text for text in verdict.inputs)


# ------------------------------------------------------------------- drawn buffers


class Drawn(nn.Module):
    def __init__(self, draw: Any) -> None:
        super().__init__()
        table = torch.ones(4)
        draw(table)
        self.register_buffer("table", table)

    def forward(self, x: Any) -> Any:
        return x * self.table


def drawn(sequential: Any, distributed: Any) -> Verdict:
    return Spec(
        sequential=lambda: Drawn(sequential),
        distributed=lambda mesh, rank: Drawn(distributed),
        mesh=Mesh(dp=2),
        inputs={"x": Input((8, 4), "f32", Shard(0))},
    ).check(fixes=False)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda t: nn.init.trunc_normal_(t, 0.5), lambda t: nn.init.trunc_normal_(t)),
        (lambda t: nn.init.trunc_normal_(t, b=2.0), lambda t: nn.init.trunc_normal_(t, b=1.0)),
        (lambda t: nn.init.normal_(t, std=0.5), lambda t: nn.init.normal_(t, std=2.0)),
        (lambda t: nn.init.uniform_(t, -1.0, 1.0), lambda t: nn.init.uniform_(t)),
    ],
)
def test_what_is_drawn_otherwise_is_something_else(one: Any, other: Any) -> None:
    assert drawn(one, other).status == "refuted"
    same = drawn(one, one)
    assert proved(same)
    assert any(kind == "random" for kind, _ in same.assumptions)


class Nested(nn.Module):
    """A buffer that is written, and one of the same last name that is not."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.register_buffer("table", torch.zeros(4))
        self.inner = Drawn(lambda t: t.mul_(factor))

    def forward(self, x: Any) -> Any:
        self.table.add_(x.sum())
        return self.inner(x)


@pytest.mark.parametrize(("factor", "status"), [(1.0, "refines"), (2.0, "refuted")])
def test_a_table_named_like_state_stays_known(factor: float, status: str) -> None:
    verdict = Spec(
        sequential=Nested,
        distributed=lambda mesh, rank: Nested(factor),
        mesh=Mesh(dp=2),
        inputs={"x": Input((8, 4))},
    ).check(fixes=False)
    assert verdict.status == status
    assert "new.inner.table" not in outputs(verdict)


# ------------------------------------------------------------------- tables and masks


class Attention(nn.Module):
    def __init__(self, group: Any = None, heads: int = 4, shifted: bool = False) -> None:
        super().__init__()
        self.group, self.heads = group, heads
        self.qkv = nn.ModuleList(nn.Linear(8, 2 * heads, bias=False) for _ in range(3))
        self.out = nn.Linear(2 * heads, 8, bias=False)
        mask = torch.ones(6, 6, dtype=torch.bool).tril(-1 if shifted else 0)
        self.register_buffer("mask", mask, persistent=False)
        angles = torch.arange(6.0)[:, None] * torch.arange(1.0, 3.0)
        self.register_buffer("cos", angles.cos(), persistent=False)

    def forward(self, x: Any) -> Any:
        q, k, v = (w(x).unflatten(-1, (self.heads, 2)).transpose(0, 1) for w in self.qkv)
        q, k = q * self.cos, k * self.cos
        scores = (q @ k.transpose(-1, -2)).masked_fill(~self.mask, float("-inf"))
        y = self.out((scores.softmax(-1) @ v).transpose(0, 1).flatten(1))
        if self.group is not None:
            dist.all_reduce(y, group=self.group)
        return y


@pytest.mark.parametrize("shifted", [False, True])
def test_masks_and_tables_stay_known(shifted: bool) -> None:
    verdict = Spec(
        sequential=Attention,
        distributed=lambda mesh, rank: Attention(mesh.get_group("tp"), 2, shifted),
        mesh=Mesh(tp=2),
        inputs={"x": Input((6, 8))},
    ).check(fixes=False)
    assert proved(verdict) if not shifted else verdict.status != "refines"
    assert lines(verdict) == ["buffers hold what their initialisation gives: mask, cos"]
    assert outputs(verdict) == {"output"}


# ------------------------------------------------------------------- DDP


class Norm(nn.Module):
    """Batch normalisation over all ranks of a group, or over the own samples."""

    def __init__(self, everywhere: bool = True) -> None:
        super().__init__()
        self.everywhere = everywhere
        self.w = nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: Any, y: Any) -> Any:
        h = self.w(x)
        mean = h.detach().mean(0)
        if self.everywhere and dist.get_world_size() > 1:
            mean = mean / dist.get_world_size()
            dist.all_reduce(mean)
        with torch.no_grad():
            self.mean.mul_(0.9).add_(mean, alpha=0.1)
        return F.mse_loss(h - self.mean, y)


class Batch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x: Any, y: Any) -> Any:
        return F.mse_loss(self.norm(self.w(x)), y)


def parallel(sequential: Any, distributed: Any, inputs: Any = ROWS, **ddp: Any) -> Verdict:
    return Spec(
        sequential=sequential,
        distributed=lambda mesh, rank: DistributedDataParallel(distributed(), **ddp),
        mesh=Mesh(dp=2),
        inputs=inputs,
        step="backward",
        outputs={"loss": None},
        uneven=False,
    ).check(fixes=False)


@pytest.mark.parametrize("ddp", [{}, {"broadcast_buffers": False}])
def test_buffers_under_ddp_are_compared(ddp: dict[str, Any]) -> None:
    right = parallel(Norm, Norm, **ddp)
    assert proved(right)
    assert "new.mean" in outputs(right)
    assert parallel(Norm, lambda: Norm(False), **ddp).status == "refuted"


class Tables(nn.Module):
    """A table that is only read; DDP sends that of rank 0 to the others all the same."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.w = nn.Linear(4, 4)
        self.register_buffer("cos", torch.arange(4.0).mul(factor).cos())

    def forward(self, x: Any, y: Any) -> Any:
        return F.mse_loss(self.w(x) * self.cos, y)


@pytest.mark.parametrize(
    ("factor", "status"),
    [(lambda rank: 1.0, "refines"), (lambda rank: 2.0, "refuted"),
     (lambda rank: 1.0 + rank, "refines"), (lambda rank: 2.0 - rank, "refuted")],
)  # fmt: skip
def test_tables_under_ddp_stay_known(factor: Any, status: str) -> None:
    verdict = parallel(Tables, lambda: Tables(factor(dist.get_rank())))
    assert verdict.status == status
    assert proved(verdict) == (status == "refines")
    assert lines(verdict) == ["buffers hold what their initialisation gives: cos"]
    assert "new.cos" not in outputs(verdict)


def test_batch_norm_of_the_own_samples_is_refuted() -> None:
    assert parallel(Batch, Batch).status == "refuted"


def test_batch_norm_of_equal_samples_refines() -> None:
    verdict = parallel(Batch, Batch, {k: Input((8, 4)) for k in "xy"})
    assert proved(verdict)
    assert {"new.norm.running_mean", "new.norm.running_var", "new.norm.num_batches_tracked"} <= (
        outputs(verdict)
    )


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("shape", "affine"), [((6, 3), True), ((4, 3, 2, 5), False)])
def test_batch_norm_is_spelled_out_rightly(
    training: bool, shape: tuple[int, ...], affine: bool
) -> None:
    torch.manual_seed(0)
    x, grad = torch.randn(shape).double(), torch.randn(shape).double()
    weight, bias = (torch.randn(3).double() if affine else None for _ in range(2))
    stats = [torch.rand(3).double() + 0.5 for _ in range(2)]
    forward, backward = torch.ops.aten.native_batch_norm, torch.ops.aten.native_batch_norm_backward
    results = []
    for known in (False, True):
        mean, var = (s.clone() for s in stats)
        run = find(forward.default) if known else forward
        back = find(backward.default) if known else backward
        assert run is not None
        assert back is not None
        y, *saved = run(x, weight, bias, mean, var, training, 0.1, 1e-5)
        wanted = [True, affine, affine]
        grads = back(grad, x, weight, mean, var, *saved, training, 1e-5, wanted)
        results.append(
            [y, mean, var, *saved, *(g for g, w in zip(grads, wanted, strict=True) if w)]
        )
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)
