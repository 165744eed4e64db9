"""What is said of a Spec of live programs that does not fit them: which thing, and what to do."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from shardproof import Input, InputError, Mesh, Replicate, Shard, Spec

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.tensor.parallel import (  # noqa: E402
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

pytestmark = pytest.mark.filterwarnings("ignore")


class Mlp(nn.Module):
    def __init__(self, group: Any = None) -> None:
        super().__init__()
        self.group = group
        ranks = dist.get_world_size(group) if group is not None else 1
        self.up = nn.Linear(4, 16 // ranks)
        self.down = nn.Linear(16 // ranks, 4, bias=False)

    def forward(self, x: Any, scale: float = 1.0) -> Any:
        y = self.down(self.up(x)) * scale
        if self.group is not None:
            dist.all_reduce(y, group=self.group)
        return y


def spec(**more: Any) -> Spec:
    given: dict[str, Any] = {
        "sequential": Mlp,
        "distributed": lambda mesh, rank: Mlp(mesh.get_group("tp")),
        "mesh": Mesh(tp=2),
        "inputs": {"x": Input((2, 4))},
    }
    return Spec(**(given | more))


def error(**more: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        spec(**more).resolve()
    return caught.value


def test_the_right_one_resolves() -> None:
    assert spec().resolve().distributed.mesh.size == 2


@pytest.mark.parametrize(
    ("mesh", "said"),
    [
        (Mesh(tp=3), "tp=3 does not divide its dim 0 of 16"),
        (Mesh(dp=5, tp=3), "none of dp=5, tp=3 divides its dim 0 of 16"),
        (Mesh(dp=2, tp=3), ""),  # dp divides it; it is not said that tp is to cut it
    ],
)
def test_a_size_that_the_mesh_does_not_divide(mesh: Any, said: str) -> None:
    e = error(mesh=mesh)
    text = (
        "the parameter 'up.weight' is [5, 4] on every rank, the sequential 'up.weight' is [16, 4]"
    )
    assert e.what == (f"{text}: {said}" if said else text)
    assert e.next_step.startswith("choose extents of the mesh" if said else "say what it is")


def test_a_size_that_torch_cuts_unevenly(capfd: pytest.CaptureFixture[str]) -> None:
    def model() -> Any:
        return nn.Sequential(nn.Linear(4, 256), nn.GELU(), nn.Linear(256, 4))

    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    e = error(
        sequential=model,
        distributed=lambda mesh, rank: parallelize_module(model(), mesh, plan),
        mesh=Mesh(tp=3),
        inputs={"input": Input((2, 4))},
    )
    said = "; the parameter '0.weight' is [256, 4], and tp=3 does not divide its dim 0 of 256"
    assert e.what.endswith(said)
    assert e.next_step.startswith("choose extents of the mesh")
    assert "Traceback" not in capfd.readouterr().err
    assert logging.getLogger("torch._subclasses.fake_tensor").level != logging.CRITICAL


def test_a_program_that_fails_otherwise_names_no_size() -> None:
    e = error(inputs={"x": Input((2, 5))})
    assert "does not divide" not in e.what
    assert e.next_step.startswith("correct the program or the examples")


@pytest.mark.parametrize(
    ("inputs", "what", "where", "step"),
    [
        ("xs", "Mlp.forward has no argument 'xs'", "inputs['xs']", "did you mean 'x'?"),
        ("x scal", "Mlp.forward has no argument 'scal'", "inputs['scal']", "did you mean 'scale'?"),
        ("x zzz", "Mlp.forward has no argument 'zzz'", "inputs['zzz']", "correct the name or"),
        ("qqq", "Mlp.forward has no argument 'qqq'", "inputs['qqq']", "did you mean 'x'?"),
        ("", "inputs has no example for the argument x of Mlp.forward", "inputs", "add inputs={"),
    ],
)
def test_inputs_of_other_names(inputs: str, what: str, where: str, step: str) -> None:
    e = error(inputs={name: Input((2, 4)) for name in inputs.split()})
    assert (e.what, e.where) == (what, where)
    assert e.expected == "the arguments of Mlp.forward: x, scale"
    assert e.next_step.startswith(step)


def test_a_step_of_the_users_takes_the_inputs_behind_its_model() -> None:
    def step(model: Any, optimizer: Any, batch: Any) -> Any:
        return model(batch)

    e = error(step=step)
    assert e.what == "the function step has no argument 'x'"
    assert e.expected == "the arguments of the function step: batch"


@pytest.mark.parametrize(
    ("argument", "name", "near", "what"),
    [
        ("parameters", "up.weigth", "up.weight", "parameter"),
        ("outputs", "outptu", "output", "output"),
    ],
)
def test_entries_of_other_names(argument: str, name: str, near: str, what: str) -> None:
    placement = Shard(0) if argument == "parameters" else Replicate()
    e = error(**{argument: {name: placement}})
    assert e.what == f"{name!r} matches no {what}"
    assert e.where == f"{argument}[{name!r}]"
    assert e.next_step == f"did you mean {near!r}?"
