"""What cannot be captured is refused, with the user's line and a way out; nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from shardproof import Input, InputError, Mesh, Spec
from shardproof.frontends.torch_capture import Example, Step, capture
from shardproof.frontends.torch_capture.across import Across
from shardproof.frontends.torch_capture.patches import patched

pytestmark = pytest.mark.filterwarnings("ignore")
OUTSIDE = torch.randn(1000)


def branches(x: Any) -> Any:
    return x * 2 if x.sum() > 0 else x


def reads_a_number(x: Any) -> Any:
    return x * x.max().item()


def selects(x: Any) -> Any:
    return x[x > 0].sum()


def uses_data(x: Any) -> Any:
    return x + OUTSIDE[:4]


def fails(x: Any) -> Any:
    return x @ torch.ones(3, 3)


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (branches, "depends on the data"),
        (reads_a_number, "depends on the data"),
        (selects, "depends on"),
        (uses_data, "given numbers"),
        (fails, "RuntimeError"),
    ],
)
def test_refused(program: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(InputError) as caught:
        capture(lambda: program, (Example("x", (4,)),), Step())
    assert text in caught.value.what
    assert "test_refusals.py:" in caught.value.where
    assert program.__name__ in caught.value.where


def test_a_model_that_exists_already_is_refused() -> None:
    model: Any = nn.Linear(4, 4)
    with pytest.raises(InputError, match="exists already"):
        capture(model, (Example("input", (2, 4)),), Step())


def test_no_loss_is_refused() -> None:
    with pytest.raises(InputError, match="does not return a loss"):
        capture(lambda: nn.Linear(4, 4), (Example("input", (2, 4)),), Step("backward"))


def test_a_collective_that_the_recorder_does_not_see_is_refused() -> None:
    def hidden(x: Any) -> Any:
        from torch.utils._python_dispatch import _disable_current_modes

        y = x.sum(0)
        with _disable_current_modes():
            dist.all_reduce(torch.ones(2))
        return y

    with pytest.raises(InputError, match=r"1 torch\.distributed calls, 0 recorded"):
        capture(lambda mesh, rank: hidden, (Example("x", (4,)),), Step(), axes=(("tp", 2),),
                distributed=True)  # fmt: skip


def test_writing_to_memory_in_flight_is_refused() -> None:
    def races(x: Any) -> Any:
        y = x.clone()
        work = dist.all_reduce(y, async_op=True)
        y.add_(1.0)
        work.wait()
        return y

    def chunked(x: Any) -> Any:
        y = x.clone()
        works = [dist.all_reduce(part, async_op=True) for part in y.chunk(2)]
        for work in works:
            work.wait()
        return y.add_(1.0)

    def run(program: Any) -> Any:
        return capture(lambda mesh, rank: program, (Example("x", (4,)),), Step(),
                       axes=(("tp", 2),), distributed=True)  # fmt: skip

    with pytest.raises(InputError, match="before its wait") as caught:
        run(races)
    assert "races" in caught.value.where
    assert run(chunked).lowered.collectives == {"all_reduce": 2}


def test_a_live_mesh_needs_numbers() -> None:
    spec = Spec(
        sequential=lambda: branches,
        distributed=lambda mesh, rank: branches,
        mesh=Mesh(tp="N"),
        inputs={"x": Input((4,))},
    )
    with pytest.raises(InputError, match="mesh is"):
        spec.resolve()


def test_patches_are_undone() -> None:
    import torch.distributed.device_mesh as device_mesh
    from torch._C._distributed_c10d import FakeWork, ProcessGroup

    def state() -> list[Any]:
        owners = (FakeWork, ProcessGroup, nn.Module, device_mesh.DeviceMesh, dist)
        return [dict(vars(o)) for o in owners]

    before = state()
    with patched(Across()):
        assert FakeWork.wait is not before[0]["wait"]
    assert state() == before


def test_capture_leaves_no_process_group() -> None:
    capture(lambda mesh, rank: lambda x: x + 1, (Example("x", (4,)),), Step(),
            axes=(("tp", 2),), distributed=True)  # fmt: skip
    assert not dist.is_initialized()


def test_importing_shardproof_does_not_import_torch() -> None:
    code = (
        "import sys, shardproof, shardproof.cli.app, shardproof.spec.live\n"
        "shardproof.Spec, shardproof.Input\n"
        "assert 'torch' not in sys.modules"
    )
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **path})


def test_a_stage_that_learns_its_shapes_from_messages_is_refused() -> None:
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    def build(mesh: Any, rank: int) -> Any:
        stage = PipelineStage(nn.Linear(4, 4), rank, 2, torch.device("cpu"), group=mesh.get_group())
        schedule = ScheduleGPipe(stage, n_microbatches=2)
        return schedule.step

    with pytest.raises(InputError, match="stage 0 of the pipeline learns its shapes") as caught:
        capture(build, (Example("x", (4, 4)),), Step(), axes=(("pp", 2),), distributed=True)
    assert "input_args and output_args" in caught.value.expected
