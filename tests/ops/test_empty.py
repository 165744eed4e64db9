"""Empty shards are legal operands: evaluation gives the declared shapes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.samples import Call

import shardproof.ops  # noqa: F401 - registers the operators
from shardproof.ir.graph import AttrValue


def r(*shape: int) -> np.ndarray:
    return np.ones(shape)


NO_IDS = np.zeros((0,), dtype=np.int64)
CALLS: list[tuple[str, tuple[np.ndarray, ...], dict[str, AttrValue]]] = [
    ("add", (r(0, 3), r(1, 3)), {}),
    ("mul", (r(0, 3), r(1)), {}),
    ("gelu", (r(0, 3),), {"approximate": "none"}),
    ("cast", (r(0),), {"dtype": "i64"}),
    ("matmul", (r(0, 2), r(2, 3)), {}),
    ("matmul", (r(3, 0), r(0, 2)), {}),
    ("sum", (r(0, 3),), {"dims": (0,)}),
    ("prod", (r(0, 3),), {"dims": (0,)}),
    ("max", (r(0, 3),), {"dims": (1,)}),
    ("argmax", (r(0, 3),), {"dim": 1}),
    ("softmax", (r(0, 3),), {"dim": 1}),
    ("softmax", (r(3, 0),), {"dim": 1}),
    ("log_softmax", (r(3, 0),), {"dim": 1}),
    ("logsumexp", (r(3, 0),), {"dims": (1,), "keepdim": True}),
    ("softmax_grad", (r(3, 0), r(3, 0)), {"dim": 1}),
    ("cumsum", (r(0),), {"dim": 0}),
    ("sort", (r(0, 2),), {"dim": 0, "descending": True}),
    ("topk", (r(3, 2),), {"dim": 0, "k": 0, "largest": True}),
    ("layer_norm_affine", (r(0, 4), r(4), r(4)), {"naxes": 1, "eps": 0}),
    ("rms_norm_grad", (r(0, 4), r(0, 4), r(0), r(4)), {"naxes": 1}),
    ("attention", (r(1, 2, 3, 4), r(1, 2, 0, 4), r(1, 2, 0, 5)), {"causal": True, "scale": 1}),
    ("attention", (r(1, 2, 0, 4), r(1, 2, 3, 4), r(1, 2, 3, 5)), {"causal": True, "scale": 1}),
    ("reshape", (r(0, 3),), {"shape": (3, 0, 5)}),
    ("concat", (r(0, 3), r(2, 3)), {"dim": 0}),
    ("expand", (r(1, 3),), {"shape": (0, 3)}),
    ("iota", (), {"size": 0, "start": 3, "step": 1, "dtype": "i64"}),
    ("take_rows", (r(4, 2), NO_IDS), {}),
    ("take_along", (r(0, 2), NO_IDS), {}),
    ("add_rows", (r(0, 2), NO_IDS), {"rows": 3}),
    ("put_along", (r(0, 2), NO_IDS, r(0)), {}),
    ("masked_fill", (r(0, 2), np.zeros((0, 1), dtype=bool)), {"value": 1}),
]


@pytest.mark.parametrize(("op", "arrays", "attrs"), CALLS)
def test_empty_shards(op: str, arrays: tuple[np.ndarray, ...], attrs: dict[str, AttrValue]) -> None:
    call = Call(op, arrays, attrs)
    declared = call.definition.types(call.types, attrs)
    assert [a.shape for a in call.run()] == [t.shape for t in declared]


def test_sums_over_nothing() -> None:
    assert Call("sum", (r(0, 2),), {"dims": (0,)}).run()[0].tolist() == [0, 0]
    assert Call("matmul", (r(2, 0), r(0, 1)), {}).run()[0].tolist() == [[0], [0]]
    assert Call("add_rows", (r(0, 2), NO_IDS), {"rows": 1}).run()[0].tolist() == [[0, 0]]
    keyless = Call(
        "attention", (r(1, 1, 1, 2), r(1, 1, 0, 2), r(1, 1, 0, 2)), {"causal": False, "scale": 1}
    )
    assert keyless.run()[1].tolist() == [[[-np.inf]]]
