"""A matrix of live programs: the sequential capture is shared, and only where it may be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from shardproof import Input, InputError, Mesh, Replicate, Shard, Spec
from shardproof.cli.app import main
from shardproof.frontends import torch_capture
from shardproof.spec.shared import SHARED, shared_captures

built: list[str] = []
SCALE = {"by": 1.0}


def rank_model(mesh: Any, rank: int) -> Callable[..., Any]:
    class Ranked(Named):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            part = super().forward(x)
            parts = [torch.empty_like(part) for _ in range(mesh.size())]
            dist.all_gather(parts, part)
            return torch.cat(parts, -1)

    return Ranked(8 // mesh.size())


def spec(tp: int, sequential: Callable[[], Any], rows: int = 2) -> Spec:
    return Spec(
        sequential=sequential,
        distributed=rank_model,
        mesh=Mesh(tp=tp),
        inputs={"x": Input((rows, 4))},
        parameters={"weight": Shard(0)},
        outputs={"output": Replicate()},
    )


def wrapped(width: int = 8) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        built.append(str(width))
        return Named(width)

    return build


class Named(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight.t()


def statuses(specs: list[Spec]) -> list[str]:
    built.clear()
    found = []
    with shared_captures() as captures:
        for k, one in enumerate(specs):
            captures.last = k == len(specs) - 1
            verdict = one.check()
            assert ("capture", SHARED) in verdict.assumptions
            found.append(verdict.status)
    return found


def test_one_capture_for_equal_functions_and_one_to_be_sure() -> None:
    assert statuses([spec(n, wrapped()) for n in (1, 2, 4)]) == ["refines"] * 3
    assert built == ["8", "8"]


def test_other_closures_and_other_inputs_are_captured_anew() -> None:
    statuses([spec(1, wrapped()), spec(2, wrapped(), rows=6), spec(4, wrapped())])
    assert built == ["8", "8", "8"]
    with shared_captures():
        built.clear()
        spec(1, wrapped(8)).resolve()
        with pytest.raises(InputError):
            spec(1, wrapped(16)).resolve()
    assert built == ["8", "16"]


def test_a_sequential_program_that_changes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> Callable[..., Any]:
        by = SCALE["by"]

        class Scaled(Named):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return super().forward(x) * by

        return Scaled(8)

    with shared_captures() as captures:
        spec(1, build).resolve()
        monkeypatch.setitem(SCALE, "by", 2.0)
        captures.last = True
        with pytest.raises(InputError, match="not the same in all configurations"):
            spec(2, build).resolve()


def test_outside_a_matrix_nothing_is_shared() -> None:
    built.clear()
    for n in (1, 2):
        verdict = spec(n, wrapped()).check()
        assert ("capture", SHARED) not in verdict.assumptions
    assert built == ["8", "8"]


CHECK = """\
from torch import nn
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from shardproof import Input, Mesh, Spec


def model():
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))


def check(tp, dp):
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    return Spec(
        sequential=model,
        distributed=lambda mesh, rank: parallelize_module(model(), mesh["tp"], plan),
        mesh=Mesh(dp=dp, tp=tp),
        inputs={"input": Input((4, 8))},
    )
"""


def test_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("check.py").write_text(CHECK)
    calls = []
    original = torch_capture.capture

    def counted(*given: Any, **more: Any) -> Any:
        calls.append(more.get("distributed", False))
        return original(*given, **more)

    monkeypatch.setattr(torch_capture, "capture", counted)
    assert main(["check", "check.py:check", "--matrix", "tp=1,2", "dp=1,2"]) == 0
    assert "4 configurations: 4 refines" in capsys.readouterr().out
    assert calls.count(False) == 2
    assert calls.count(True) == 1 + 2 + 2 + 4
    assert main(["check", "check.py:check", "--matrix", "tp=1,2", "dp=1,2"]) == 0
    assert capsys.readouterr().out.count("(cached)") == 4
