"""Tensors whose values are known when the program is captured (lifted Python numbers)."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from shardproof.errors import InputError
from shardproof.frontends.fx_lexer import Ref
from shardproof.frontends.fx_types import FxType
from shardproof.frontends.torch_capture.statements import Statements
from shardproof.frontends.torch_capture.strided import Geometry

MAX_RUNS = 256
"""A constant with more runs of equal elements than this is refused."""


def real_value(t: torch.Tensor) -> list[Any] | None:
    """The elements of a tensor that holds real data, else None."""
    held = getattr(t, "constant", None) if isinstance(t, FakeTensor) else t
    if held is None or isinstance(held, FakeTensor) or held.device.type == "meta":
        return None
    with _disable_current_modes():
        return list(held.detach().reshape(-1).tolist())


def emit_constant(st: Statements, values: list[Any], g: Geometry) -> Ref:
    """Statements for a tensor of known values."""
    runs = [(v, len(list(same))) for v, same in groupby(values)]
    if len(runs) > MAX_RUNS:
        raise InputError(
            f"a tensor of shape {list(g.shape)} holds {len(values)} given numbers",
            where=str(st.origin),
            expected=f"constants with at most {MAX_RUNS} different runs of numbers",
            next_step="compute the table with torch operators, or pass it as an input",
        )
    if len(runs) <= 1:
        return _full(st, runs[0][0] if runs else 0, g.shape, g.dtype)
    pieces = tuple(_full(st, v, (n,), g.dtype) for v, n in runs)
    flat = st.call("aten.cat.default", (pieces, 0), {}, FxType(g.dtype, (len(values),)))
    if g.shape == (len(values),):
        return flat
    return st.call("aten.view.default", (flat, g.shape), {}, FxType(g.dtype, g.shape))


def _full(st: Statements, value: Any, shape: tuple[int, ...], dtype: str) -> Ref:
    return st.call("aten.full.default", (shape, value), {"dtype": dtype}, FxType(dtype, shape))
