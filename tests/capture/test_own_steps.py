"""Steps that users write themselves: what they update is expected, with an optimizer or without."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from benchmarks.live import common as p

from shardproof import Mesh, Spec

pytestmark = pytest.mark.filterwarnings("ignore")


def updating(rate: float) -> Any:
    def step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
        loss = model(x, y)
        loss.backward()
        with torch.no_grad():
            for w in model.parameters():
                w -= (rate if model.group else 0.1) * w.grad
        return loss

    return step


def spec(rate: float) -> Spec:
    return Spec(
        sequential=p.Mlp,
        distributed=lambda mesh, rank: p.Mlp(mesh.get_group("tp")),
        mesh=Mesh(tp=2),
        inputs=p.pairs(),
        step=updating(rate),
    )


def test_parameters_updated_by_hand_are_expected() -> None:
    verdict = spec(0.1).check()
    assert verdict.status == "refines"
    assert "new.up.weight" in {o.seq_output for o in verdict.outputs}


def test_a_wrong_update_by_hand_is_found() -> None:
    verdict = spec(0.2).check()
    assert verdict.status == "refuted"
    assert any(f.primary and "w -=" in f.primary.code for f in verdict.findings)
