"""Shape rules agree with PyTorch's fake tensors, which have shapes and types and no values."""

from __future__ import annotations

import pytest
from tests.ops.samples import calls
from tests.ops.test_torch import DTYPES, ORACLES, tensors
from tests.support.double import double_precision  # noqa: F401 - a fixture

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("op", sorted(ORACLES))
def test_the_shape_rule_is_that_of_fake_tensors(op: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    for call in calls(op, 5, seed=21):
        declared = call.definition.types(call.types, call.attrs)
        with FakeTensorMode() as mode:
            given = [mode.from_tensor(t) for t in tensors(call)]
            out = ORACLES[op](call.attrs, *given)
        found = list(out) if isinstance(out, tuple | list) else [out]
        assert len(found) == len(declared)
        for t, x in zip(declared, found, strict=True):
            assert tuple(x.shape) == t.shape, (op, call.attrs)
            if t.dtype in DTYPES:
                assert str(x.dtype) == f"torch.{DTYPES[t.dtype]}", (op, call.attrs, t)
