"""The configurations that ``--matrix tp=1,2,4 dp=1,2`` names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

from shardproof.errors import InputError, shorten

_AXIS = re.compile(r"([A-Za-z_]\w*)=([0-9]+(?:,[0-9]+)*)")
_TOKEN = re.compile(r"[A-Za-z_]\w*=[^:/]*")
LIMIT = 1_000


def spread(tokens: Sequence[str]) -> list[str]:
    """A command line in which ``--matrix`` stands before each axis, so that what follows the axes
    (the target) is not taken for one."""
    out: list[str] = []
    inside = False
    for k, token in enumerate(tokens):
        if token == "--":
            return out + list(tokens[k:])
        axis = _TOKEN.fullmatch(token) is not None
        if inside and axis and out[-1] != "--matrix":
            out.append("--matrix")
        inside = token == "--matrix" or (inside and axis)
        out.append(token)
    return out


def configurations(tokens: Sequence[str]) -> list[dict[str, int]]:
    """All combinations, the last axis fastest.

    Raises:
        InputError: a token is not of the form AXIS=N,N,..., or an axis is named twice.
    """
    axes: dict[str, list[int]] = {}
    for token in tokens:
        found = _AXIS.fullmatch(token.strip())
        extents = [int(n) for n in found[2].split(",")] if found else []
        if found is None or 0 in extents:
            raise _error(f"{shorten(token)!r} is no axis with extents")
        if found[1] in axes:
            raise _error(f"the axis {found[1]} is named twice")
        axes[found[1]] = list(dict.fromkeys(extents))
    out = [dict(zip(axes, extents, strict=True)) for extents in product(*axes.values())]
    if len(out) > LIMIT:
        raise _error(f"{len(out)} configurations are more than {LIMIT}")
    return out if axes else []


def no_argument(option: str) -> InputError:
    """An option that is about one configuration was given for several."""
    return InputError(
        f"{option} is for one configuration",
        where="--matrix",
        expected=f"a matrix without {option}",
        next_step=f"check one configuration: a function without arguments, and {option}",
    )


def _error(what: str) -> InputError:
    return InputError(
        what,
        where="--matrix",
        expected="axes with extents of at least 1, such as --matrix tp=1,2,4 dp=1,2",
        next_step="correct the matrix",
    )
