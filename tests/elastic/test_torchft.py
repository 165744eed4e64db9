"""``sync_every`` for torchft: the plan, and the real LocalSGD and DiLoCo classes on a CPU."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from shardproof.elastic.errors import InfeasiblePlan, InvalidInput
from shardproof.elastic.torchft_bridge import plan_sync_every, set_sync_every


def test_groups_reach_the_synchronisation_together() -> None:
    got = plan_sync_every({"fast": [1.0, 1.0, 9.0], "slow": [2.5]}, max_steps=20)
    assert got.sync_every == {"fast": 5, "slow": 2}
    assert got.waiting_share == pytest.approx(0.0, abs=1e-12)
    assert got.seconds == pytest.approx(5.0)
    assert got.timeout >= 2 * 2.5


def test_limits_and_fragments() -> None:
    got = plan_sync_every(
        {"a": [1.0], "b": [1.7]}, max_steps=40, min_steps=10, fragments=4, barrier_cost=5.0
    )
    assert all(steps % 4 == 0 and 10 <= steps <= 40 for steps in got.sync_every.values())
    assert got.waiting_share < 0.05
    equal = plan_sync_every({"a": [1.0], "b": [1.0]}, max_steps=100, barrier_cost=30.0)
    assert equal.sync_every == {"a": 100, "b": 100}


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match="no step time"):
        plan_sync_every({"a": []}, max_steps=5)
    with pytest.raises(InvalidInput, match="no replica group"):
        plan_sync_every({}, max_steps=5)
    with pytest.raises(InfeasiblePlan, match="multiple of 4"):
        plan_sync_every({"a": [1.0]}, max_steps=7, min_steps=5, fragments=4)
    with pytest.raises(InvalidInput, match="no torchft"):
        set_sync_every(object(), 3)


def _import_torchft() -> Any:
    pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("torchft.local_sgd"), pytest.importorskip("torchft.manager")


def _manager(module: Any) -> Any:
    """A manager of one replica group, which commits always; as in torchft's own unit tests."""
    from unittest.mock import create_autospec

    manager = create_autospec(module.Manager)
    manager._use_async_quorum = False
    manager.should_commit.return_value = True
    manager.current_step.return_value = 0

    manager.allreduce.return_value.wait.return_value = True
    return manager


@pytest.mark.filterwarnings("ignore")
def test_local_sgd_synchronises_after_the_planned_steps() -> None:
    local_sgd, manager_module = _import_torchft()
    import torch

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    manager = _manager(manager_module)
    planned = plan_sync_every({"me": [1.0], "peer": [2.0]}, max_steps=6).sync_every["me"]
    assert planned == 6 or planned % 2 == 0
    with local_sgd.LocalSGD(manager, model, optimizer, sync_every=2) as wrapper:
        set_sync_every(wrapper, planned)
        for step in range(1, planned + 1):
            assert manager.start_quorum.call_count == 0, step
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        assert manager.start_quorum.call_count == 1
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        with pytest.raises(InvalidInput, match="after 1 steps"):
            set_sync_every(wrapper, 1)


@pytest.mark.filterwarnings("ignore")
def test_diloco_synchronises_after_the_planned_steps() -> None:
    local_sgd, manager_module = _import_torchft()
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    inner = torch.optim.AdamW(model.parameters(), 0.1)
    outers = [torch.optim.SGD(part.parameters(), 0.7) for part in model]
    manager = _manager(manager_module)
    with local_sgd.DiLoCo(
        manager, list(model), inner, outers, sync_every=4, backup_device=torch.device("cpu")
    ) as wrapper:
        with pytest.raises(InvalidInput, match="multiple of 2"):
            set_sync_every(wrapper, 5)
        set_sync_every(wrapper, 6)
        for step in range(1, 4):
            assert manager.should_commit.call_count == 0, step
            model(torch.ones(1, 2)).sum().backward()
            inner.step()
        # One of two fragments is synchronised every 6 / 2 steps.
        assert manager.should_commit.call_count == 1
