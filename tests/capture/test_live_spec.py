"""The Spec of live programs: relations of parameters, outputs, and wrong twins."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from benchmarks.live import common as p
from tests.support.examples import load_example
from torch import nn

from shardproof import Input, InputError, Mesh, Parts, Replicate, Shard, Spec, seq
from shardproof.frontends.torch_capture.placements import chunks
from shardproof.frontends.torch_capture.strided import Geometry, NoPlan, plan

pytestmark = pytest.mark.filterwarnings("ignore")


EXAMPLE = load_example("tp_transformer")


def lines_of(verdict: Any) -> list[str]:
    spans = [s for f in verdict.findings for s in (f.primary,) if s is not None]
    return [s.code for s in spans]


def test_the_example_refines() -> None:
    verdict = EXAMPLE.right().check()
    assert verdict.status == "refines"
    assert any("proposed by name and shape" in line for line in verdict.inputs)


@pytest.mark.parametrize(
    ("twin", "line"),
    [
        ("no_backward_sum", "return x + self.parallel(self.mlp, self.norm2(x))"),
        ("wrong_scale", "return Leave.apply(block(self.enter.apply(x, self.group)), self.group)"),
        ("wrong_offset", "rows = F.embedding(local.masked_fill(absent, 0), self.weight)"),
    ],
)
def test_wrong_twins_are_refuted(twin: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EXAMPLE, "LAYERS", 1)
    verdict = getattr(EXAMPLE, twin)().check()
    assert verdict.status == "refuted"
    assert any(line in code for code in lines_of(verdict))


class Fused(nn.Module):
    """Query, key and value in one weight, and their sum."""

    def __init__(self, ranks: int = 1) -> None:
        super().__init__()
        self.ranks = ranks
        self.qkv = nn.Linear(4, 12 // ranks, bias=False)

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(x).chunk(3, -1)
        return q * k + v


def fused(parameters: Any) -> Spec:
    return Spec(
        sequential=Fused,
        distributed=lambda mesh, rank: Fused(2),
        mesh=Mesh(tp=2),
        inputs={"x": Input((3, 4))},
        parameters=parameters,
        outputs={"output": Shard(-1)},
    )


def test_two_readings_are_not_chosen_from() -> None:
    with pytest.raises(InputError) as caught:
        fused("auto").resolve()
    assert "Shard(0)" in caught.value.what
    assert "Parts(0, sizes=[4, 4, 4])" in caught.value.what
    assert "Parts cuts each block of a fused weight" in caught.value.expected
    assert 'parameters={"qkv.weight": Parts(0, sizes=[4, 4, 4])}' in caught.value.next_step


def test_the_declared_reading_is_taken() -> None:
    parts = Parts(0, [4, 4, 4])
    assert fused({"*qkv.weight": parts}).check().status == "refines"
    assert fused({"*qkv.weight": Shard(0)}).check().status == "refuted"


def test_the_users_sharding_code_is_the_relation() -> None:
    def shard(mesh: Any, rank: int, weights: dict[str, Any]) -> dict[str, Any]:
        q, k, v = (w.chunk(2)[rank] for w in weights["qkv.weight"].chunk(3))
        return {"qkv.weight": torch.cat([q, k, v])}

    def wrong(mesh: Any, rank: int, weights: dict[str, Any]) -> dict[str, Any]:
        return {"qkv.weight": weights["qkv.weight"].chunk(2)[1 - rank]}

    def scaled(mesh: Any, rank: int, weights: dict[str, Any]) -> dict[str, Any]:
        return {"qkv.weight": weights["qkv.weight"].chunk(2)[rank] * 2}

    verdict = fused(shard).check()
    assert verdict.status == "refines"
    assert any("sharding code" in line for line in verdict.inputs)
    assert fused(wrong).check().status == "refuted"
    with pytest.raises(InputError, match="is computed by scale") as caught:
        fused(scaled).resolve()
    assert "in scaled" in caught.value.where or "scaled" in caught.value.where


def test_parameters_of_other_names_by_expression() -> None:
    class Renamed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.empty(6, 4))

        def forward(self, x: Any) -> Any:
            return (x @ self.w).pow(2).sum()

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.proj = nn.Linear(6, 4, bias=False)

        def forward(self, x: Any) -> Any:
            return self.proj(x).pow(2).sum()

    def spec(parameters: Any) -> Spec:
        return Spec(
            sequential=Plain,
            distributed=lambda mesh, rank: Renamed(),
            mesh=Mesh(dp=1),
            inputs={"x": Input((3, 6))},
            parameters=parameters,
            step="backward",
        )

    with pytest.raises(InputError, match="no sequential parameter"):
        spec("auto").resolve()
    transposed = seq("proj.weight").permute(1, 0)
    verdict = spec({"w": transposed}).check()
    assert verdict.status == "refines", verdict.findings
    assert {o.seq_output for o in verdict.outputs} == {"loss", "grad.proj.weight"}


def test_a_missing_gradient_is_zero_and_found() -> None:
    class Frozen(p.Mlp):
        def forward(self, x: Any, y: Any) -> Any:
            self.up.weight.detach_()
            return super().forward(x, y)

    spec = Spec(
        sequential=p.Mlp,
        distributed=lambda mesh, rank: Frozen(mesh.get_group("tp")),
        mesh=Mesh(tp=2),
        inputs=p.pairs(),
        step="backward",
    )
    verdict = spec.check()
    assert verdict.status != "refines"


class Dropping(nn.Module):
    def __init__(self, ranks: int = 1) -> None:
        super().__init__()
        self.ranks = ranks
        self.drop = nn.Dropout(0.25)

    def forward(self, x: Any) -> Any:
        return self.drop(x) * 2


def test_dropout_masks_are_paired_in_order() -> None:
    spec = Spec(
        sequential=Dropping,
        distributed=lambda mesh, rank: Dropping(2),
        mesh=Mesh(tp=2),
        inputs={"x": Input((4, 4), "f32", Shard(0))},
        outputs={"output": Shard(0)},
    )
    verdict = spec.check()
    assert verdict.status == "refines"
    assert any(kind == "random" for kind, _ in verdict.assumptions)


class Stages(nn.Module):
    """Two layers; as a pipeline, each rank holds one and passes on what it made."""

    def __init__(self, rank: int | None = None) -> None:
        super().__init__()
        self.rank = rank
        if rank in (None, 0):
            self.first = nn.Linear(4, 4)
        if rank in (None, 1):
            self.second = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        if self.rank is None:
            return self.second(torch.relu(self.first(x)))
        if self.rank == 0:
            dist.send(torch.relu(self.first(x)), dst=1)
            return None
        h = torch.empty(3, 4)
        dist.recv(h, src=0)
        return self.second(h)


def test_a_pipeline_returns_on_its_last_rank() -> None:
    spec = Spec(
        sequential=Stages,
        distributed=lambda mesh, rank: Stages(rank),
        mesh=Mesh(pp=2),
        inputs={"x": Input((3, 4))},
    )
    verdict = spec.check()
    assert verdict.status == "refines"
    assert "ranks 1" in verdict.outputs[0].placement


def test_examples_may_be_meta_tensors() -> None:
    x = torch.empty(4, 8, device="meta", requires_grad=True)
    spec = Spec(
        sequential=p.Mlp,
        distributed=lambda mesh, rank: p.Mlp(mesh.get_group("tp")),
        mesh=Mesh(tp=2),
        inputs={"x": x, "y": (torch.empty(4, 8, device="meta"), Replicate())},
        step="backward",
    )
    verdict = spec.check()
    assert verdict.status == "refines"
    assert "grad.x" in {o.seq_output for o in verdict.outputs}


@pytest.mark.parametrize("n", [1, 4, 5, 7])
@pytest.mark.parametrize("parts", [1, 2, 3, 4])
def test_chunks_are_those_of_torch(n: int, parts: int) -> None:
    got = [len(c) for c in torch.arange(n).chunk(parts)]
    assert chunks(n, parts) == got + [0] * (parts - len(got))


@pytest.mark.parametrize(
    "window",
    [
        ((3, 4), (4, 1), 0),
        ((4, 3), (1, 4), 0),
        ((2, 2), (4, 1), 5),
        ((3,), (4,), 2),
        ((2, 5, 2), (2, 0, 1), 8),
        ((), (), 7),
        ((1, 3), (100, 4), 1),
    ],
)
def test_windows_are_cut_out_of_their_storage(
    window: tuple[tuple[int, ...], tuple[int, ...], int],
) -> None:
    flat = torch.arange(12.0)
    shape, stride, offset = window
    cut = plan(Geometry("f32", shape, stride, offset), 12)
    x = flat[cut.start : cut.stop].reshape(cut.digits)
    x = x[tuple(slice(a, b) for a, b in cut.ranges)].reshape(cut.ordered)
    x = x.permute(cut.perm).reshape(cut.single).expand(shape)
    assert torch.equal(x, torch.as_strided(flat, shape, stride, offset))


def test_windows_whose_rows_overlap_have_no_plan() -> None:
    with pytest.raises(NoPlan):
        plan(Geometry("f32", (3, 3), (2, 1), 0), 12)


class Partly(torch.optim.SGD):
    """Keeps state of which the ranks hold ``rows`` rows each."""

    def __init__(self, params: Any, rows: int) -> None:
        super().__init__(params, lr=0.1)
        self.rows = rows

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for w in self.param_groups[0]["params"]:
            held = self.state[w].setdefault("seen", torch.zeros(self.rows, *w.shape[1:]))
            held += w.grad[: self.rows]
            w -= 0.1 * w.grad


def test_state_that_is_cut_where_its_parameter_is_not() -> None:
    def optimizer(params: Any) -> Any:
        rows = {1: 4, 2: 2}[dist.get_world_size()]
        return Partly(params, rows)

    def spec(make: Any) -> Spec:
        return Spec(
            sequential=lambda: nn.Linear(3, 4, bias=False),
            distributed=lambda mesh, rank: nn.Linear(3, 4, bias=False),
            mesh=Mesh(dp=2),
            inputs={"input": Input((5, 3))},
            step="train",
            loss=lambda output, **inputs: output.pow(2).sum(),
            optimizer=make,
        )

    verdict = spec(optimizer).check()
    # Rank 1 adds rank 0's rows to its own.
    assert verdict.status == "refuted"
    assert {f for finding in verdict.findings for f in finding.affected} == {"state.weight.seen"}
    with pytest.raises(InputError, match=r"the state .* is \[\[3, 3\]\]"):
        spec(lambda params: Partly(params, 4 if dist.get_world_size() == 1 else 3)).resolve()
