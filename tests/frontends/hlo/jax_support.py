"""Runs a JAX function both in JAX and through the importer and the reference interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tests.frontends.hlo.support import imported, outputs

from shardproof.frontends.import_hlo import HloResult

jax = pytest.importorskip("jax")
DIALECTS = ["compiled", "lowered"]


def text_of(f: Callable[..., Any], args: Sequence[Any], dialect: str) -> str:
    """HLO of ``f``, as compiled or as handed to the compiler."""
    lowered = jax.jit(f, keep_unused=True).lower(*args)
    return lowered.compile().as_text() if dialect == "compiled" else lowered.as_text(dialect="hlo")


def compare(f: Callable[..., Any], args: Sequence[Any], dialect: str) -> HloResult:
    """Import ``f`` and compare its outputs with JAX's."""
    (result,) = imported(text_of(f, args, dialect))
    assert not result.unknown, (result.unknown, result.reasons)
    (found,) = outputs([result], [args])
    wanted = [np.asarray(x) for x in jax.tree.leaves(f(*args))]
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted, strict=True):
        assert x.shape == y.shape
        np.testing.assert_allclose(x.astype(np.float64), y.astype(np.float64), rtol=2e-4, atol=2e-5)
    return result
