"""The trainer's own supersteps, captured and checked against their sequential meaning."""

from __future__ import annotations

import pytest
from tests.support.examples import load_example

pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")


E = load_example("elastic_verified")


@pytest.mark.parametrize("mode", ["bsp", "local_update", "outer_optimizer", "immediate_apply"])
def test_a_superstep_is_what_its_mode_promises(mode: str) -> None:
    verdict = getattr(E, mode)().check()
    assert verdict.status == "refines", verdict.findings
    names = {o.seq_output for o in verdict.outputs}
    assert {"up", "down"} <= names
    if mode != "immediate_apply":
        assert {"momentum_up", "momentum_down"} <= names


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_large_batch_steps_of_other_sizes(workers: int) -> None:
    assert E.bsp(workers).check().status == "refines"


@pytest.mark.parametrize("steps", [(2, 2), (1, 4), (1, 2, 1, 3)])
def test_other_schedules_of_local_steps(steps: tuple[int, ...]) -> None:
    assert E.local_update(steps).check().status == "refines"


@pytest.mark.parametrize(
    "events",
    [
        ((1, "pull"), (1, "push"), (2, "pull"), (2, "push")),
        ((1, "pull"), (2, "pull"), (3, "pull"), (3, "push"), (2, "push"), (1, "push")),
    ],
)
def test_other_orders_of_pushes(events: tuple[tuple[int, str], ...]) -> None:
    workers = max(rank for rank, _ in events)
    assert E.immediate_apply(events, workers).check().status == "refines"


@pytest.mark.parametrize(
    "twin",
    [
        "not_summed",
        "summed_twice_at_the_barrier",
        "lost_update",
        "equal_weights",
        "lost_push",
        "double_apply",
        "stale_pull",
    ],
)
def test_faulty_twins_are_refuted_with_a_counterexample(twin: str) -> None:
    verdict = getattr(E, twin)().check()
    assert verdict.status == "refuted"
    assert any(f.counterexample is not None for f in verdict.findings)


def test_a_push_computed_from_another_version_is_found_in_every_position() -> None:
    """The recursion distinguishes which version each push was computed from."""
    base = E.immediate_apply()
    swapped = E.immediate_apply(
        events=((1, "pull"), (1, "push"), (2, "pull"), (1, "pull"), (2, "push"), (1, "push"))
    )
    assert E.versions_pulled(E.EVENTS) == [0, 0, 1]
    crossed = type(base)(
        sequential=swapped.sequential,
        distributed=base.distributed,
        mesh=base.mesh,
        inputs=base.inputs,
    )
    assert crossed.check().status == "refuted"
