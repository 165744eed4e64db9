"""PyTorch as an oracle in double precision; a module of tests imports the fixture."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    """Real functions of integer tensors are computed in the default element type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)
