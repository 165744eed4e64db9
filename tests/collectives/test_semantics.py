"""Numeric meaning of collectives against loops over elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shardproof.collectives.semantics import Array, execute, reduce
from shardproof.ir.graph import Node

RNG = np.random.default_rng(0)


def nodes(op: str, *attrs: dict[str, Any], group: tuple[int, ...] = ()) -> list[Node]:
    ranks = group or tuple(range(len(attrs)))
    return [Node(op, (), {"group": ranks, **a}, ()) for a in attrs]


def draw(*shape: int) -> Array:
    return RNG.standard_normal(shape)


@pytest.mark.parametrize(
    ("op", "fold"),
    [
        ("sum", lambda v: v[0] + v[1] + v[2]),
        ("avg", lambda v: (v[0] + v[1] + v[2]) / 3),
        ("max", max),
        ("min", min),
        ("product", lambda v: v[0] * v[1] * v[2]),
    ],
)
def test_all_reduce(op: str, fold: object) -> None:
    xs = [draw(2, 3) for _ in range(3)]
    out = execute("all_reduce", nodes("all_reduce", *[{"op": op}] * 3), xs)
    for y in out:
        for i in np.ndindex(2, 3):
            assert y[i] == pytest.approx(fold([x[i] for x in xs]))  # type: ignore[operator]


def test_reductions_without_meaning_are_refused() -> None:
    ints, bools = np.arange(3), np.array([True, False])
    for op, x in (("avg", ints), ("sum", bools), ("avg", bools), ("median", ints)):
        with pytest.raises(ValueError, match=op):
            reduce(op, [x, x])
    assert reduce("max", [bools, ~bools]).tolist() == [True, True]
    assert reduce("min", [bools, ~bools]).tolist() == [False, False]
    assert reduce("sum", [ints, ints]).dtype == np.int64


@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 0, 1)])
@pytest.mark.parametrize("dim", [0, 1])
def test_gather_and_scatter_invert_each_other(dim: int, sizes: tuple[int, ...]) -> None:
    whole = draw(6, sum(sizes)) if dim else draw(sum(sizes), 5)
    cuts = np.cumsum((0, *sizes))
    parts = [np.take(whole, range(cuts[k], cuts[k + 1]), axis=dim) for k in range(3)]
    attrs: dict[str, Any] = {"dim": dim}
    if len(set(sizes)) > 1:
        attrs["sizes"] = sizes
    for y in execute("all_gather", nodes("all_gather", *[attrs] * 3), parts):
        np.testing.assert_array_equal(y, whole)
    terms = [whole, 2 * whole, -whole]
    scatter = nodes("reduce_scatter", *[{**attrs, "op": "sum"}] * 3)
    for y, part in zip(execute("reduce_scatter", scatter, terms), parts, strict=True):
        np.testing.assert_allclose(y, 2 * part)


def test_scatter_that_does_not_divide() -> None:
    calls = nodes("reduce_scatter", *[{"op": "sum", "dim": 0}] * 3)
    with pytest.raises(ValueError, match="does not divide"):
        execute("reduce_scatter", calls, [draw(4)] * 3)
    calls = nodes("reduce_scatter", *[{"op": "sum", "dim": 0, "sizes": (1, 1, 1)}] * 3)
    with pytest.raises(ValueError, match="do not cut"):
        execute("reduce_scatter", calls, [draw(4)] * 3)


def test_even_all_to_all_is_a_transpose_of_blocks() -> None:
    xs = [draw(4, 6) for _ in range(2)]
    out = execute("all_to_all", nodes("all_to_all", *[{"split_dim": 0, "concat_dim": 1}] * 2), xs)
    for k in range(2):
        for i, j in np.ndindex(2, 12):
            assert out[k][i, j] == xs[j // 6][2 * k + i, j % 6]


def test_uneven_all_to_all_in_one_dim() -> None:
    sent = ((1, 2), (0, 3))
    xs = [draw(3, 2), draw(3, 2)]
    calls = [
        {"split_dim": 0, "concat_dim": 0, "send_sizes": s, "recv_sizes": r}
        for s, r in zip(sent, ((1, 0), (2, 3)), strict=True)
    ]
    first, second = execute("all_to_all", nodes("all_to_all", *calls), xs)
    np.testing.assert_array_equal(first, xs[0][:1])
    np.testing.assert_array_equal(second, np.concatenate([xs[0][1:], xs[1]]))


def test_uneven_all_to_all_between_two_dims() -> None:
    xs = [draw(3, 6), draw(5, 6)]
    fixed = {"split_dim": 1, "concat_dim": 0, "send_sizes": (2, 4), "recv_sizes": (3, 5)}
    first, second = execute("all_to_all", nodes("all_to_all", *[fixed] * 2), xs)
    np.testing.assert_array_equal(first, np.concatenate([xs[0][:, :2], xs[1][:, :2]]))
    np.testing.assert_array_equal(second, np.concatenate([xs[0][:, 2:], xs[1][:, 2:]]))


def test_broadcast_root_is_a_global_rank() -> None:
    xs = [draw(2), draw(2)]
    for y in execute("broadcast", nodes("broadcast", *[{"src": 7}] * 2, group=(3, 7)), xs):
        np.testing.assert_array_equal(y, xs[1])


def test_send_recv() -> None:
    x = draw(3)
    pair = nodes("send", {}, {})
    np.testing.assert_array_equal(execute("send_recv", pair, [x, None])[1], x)


def test_member_without_operand() -> None:
    with pytest.raises(ValueError, match="2 members, 1 operands"):
        execute("all_reduce", nodes("all_reduce", *[{"op": "sum"}] * 2), [draw(1), None])
