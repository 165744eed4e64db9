"""A shift that a later step takes back is no cause: the finding is where it no longer cancels."""

from __future__ import annotations

import pytest
from tests.support.causal import causal_ring
from tests.support.ignored import ignored_loss

from shardproof import Spec
from shardproof.report.diagnostic import Finding
from shardproof.verify import verify


def first(spec: Spec) -> Finding:
    return verify(spec.resolve(), fixes=False).findings[0]


def test_parts_with_different_shifts_are_added() -> None:
    f = first(causal_ring(fault="own maximum"))
    assert f.code == "SP116"
    assert f.primary is not None
    assert f.primary.node in ("z", "o")
    assert "adds up parts of one sum that are scaled differently" in f.message


@pytest.mark.parametrize(
    ("fault", "nodes"),
    [("past block left out", {"z", "out"}), ("mask by local positions", {"x1", "late1", "e1"})],
)
def test_what_is_wrong_beside_the_shift_is_named(fault: str, nodes: set[str]) -> None:
    f = first(causal_ring(fault=fault))
    assert f.primary is not None
    assert f.primary.node in nodes


def test_the_maximum_of_a_cross_entropy_is_not_blamed() -> None:
    f = first(ignored_loss(fault="local sum"))
    assert f.primary is not None
    assert f.primary.node == "lse"
    assert f.code == "SP116"
