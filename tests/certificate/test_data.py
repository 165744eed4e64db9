"""Numbers, attributes and labels as they are read: near misses."""

from __future__ import annotations

from fractions import Fraction
from itertools import product as choices
from types import SimpleNamespace
from typing import Any

import pytest
from tests.certificate.corpus import PROBLEMS
from tests.certificate.test_rules import M, N

from shardproof.certificate.document import _label, _Reader
from shardproof.certificate.exact import (
    NotChecked,
    Quotient,
    coef_plus,
    coef_times,
    is_zero,
    quotient,
    same_attrs,
    whole,
)


def test_equal_attributes_of_equal_kinds() -> None:
    every: list[Any] = [
        1, 2, True, 1.0, "1", (1,), (1, 2), (2, 1), (1, (2,)), (1, (True,)), {"a": 1},
        {"a": True}, {"b": 1}, {"a": 1, "b": 2}, N, (N,), (), {}, None,
    ]  # fmt: skip
    for (i, a), (j, b) in choices(enumerate(every), repeat=2):
        assert same_attrs(a, b) == (i == j)
    assert same_attrs(Fraction(2), 2)
    assert same_attrs((Fraction(2), {"a": 1}), (2, {"a": 1}))
    assert not same_attrs(Fraction(1), True)


def test_coefficients() -> None:
    assert coef_plus(quotient(1, N), quotient(2, N)) == quotient(3, N)
    assert coef_plus(quotient(1, N), quotient(1, M)) == quotient(N + M, N * M)
    assert coef_plus(quotient(1, N), Fraction(1, 2)) == quotient(2 + N, 2 * N)
    assert coef_plus(quotient(1, N), quotient(1, M)) != quotient(2, N)
    assert is_zero(coef_plus(quotient(1, N), quotient(-1, N)))
    assert coef_times(quotient(1, N), quotient(N, M)) == quotient(1, M)
    assert coef_times(Fraction(1, 2), 4) == 2
    assert type(whole(Fraction(4, 2))) is int
    assert type(whole(3)) is int
    assert whole(Fraction(1, 2)) == Fraction(1, 2)
    assert hash(quotient(N, M)) == hash(quotient(2 * N, 2 * M))


SUM = ["sum", 5, 0]


def test_labels() -> None:
    assert _label(SUM) == ("sum", 5, 0)
    assert _label(["in", 6, 1, ["in", 7, 0, SUM]]) == ("in", 6, 1, ("in", 7, 0, ("sum", 5, 0)))
    deep: Any = SUM
    for _ in range(60):
        deep = ["in", 6, 1, deep]
    assert _label(deep)[0] == "in"
    for row in (
        "sum", ("sum", 5, 0), ["sum", 5], [], ["sum", 5, 0, 1], ["sum", 5, 0, SUM], ["in", 5, 0],
        [5, 5, 0], [None, 5, 0], ["sum", True, 0], ["sum", 5, True], ["sum", "5", 0],
        ["sum", 5, 0.0], ["in", 6, 1, SUM, SUM], ["in", 6, 1, "sum"], ["in", 6, 1, deep],
        ["in", 6, 1, ["sum", 5]],
    ):  # fmt: skip
        with pytest.raises(NotChecked, match="no known form"):
            _label(row)


def reader() -> _Reader:
    return _Reader(SimpleNamespace(), PROBLEMS["mlp for all"]())  # type: ignore[arg-type]


def test_ratios() -> None:
    run = reader()
    assert run.ratio("3/2") == Fraction(3, 2)
    assert run.ratio("-4/2") == -2
    assert run.ratio("7") == 7
    assert run.ratio((6, 4)) == Fraction(3, 2)
    found = run.ratio(("S", 2))
    assert isinstance(found, Quotient)
    assert not run.assumed
    run.ratio((1, "S - 1"))
    assert list(run.assumed) == [f"{run.size('S - 1')} is not zero (the program divides by it)"]
    for den in (0, "S - S"):
        with pytest.raises(NotChecked, match="over zero"):
            run.ratio((1, den))


def test_the_symbols_of_a_problem() -> None:
    """Those of shapes, of attributes and of the mesh."""
    assert {"S", "D", "N", "w", "@tp"} <= set(reader().symbols)
    for text in ("S" * 4001, "(" * 41 + "S" + ")" * 41, "[" * 41):
        with pytest.raises(NotChecked, match="too long"):
            reader().terms(text)
