"""Operators whose schemas hide what they write, spelled out in operators that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def find(func: Any) -> Callable[..., Any] | None:
    """The expansion of an operator, if it has one."""
    return _EXPANSIONS.get(str(func))


def _all_gather_copy_in(
    inputs: list[torch.Tensor], output: torch.Tensor, sizes: list[int], numel: int, rank: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """FSDP2: each input, flat, into this rank's part of the gathered buffer."""
    mine = output.narrow(0, numel * rank, numel)
    for goal, x in zip(torch.split(mine, sizes), inputs, strict=True):
        goal.copy_(x.reshape(-1))
    return mine, output


def _split_with_sizes_copy(
    gathered: torch.Tensor, sizes: list[int], dim: int = 0, *, out: list[torch.Tensor]
) -> None:
    """FSDP2: the parameters out of the gathered buffer."""
    for goal, piece in zip(out, torch.split(gathered, sizes, dim), strict=True):
        goal.copy_(piece)


def _chunk_cat(
    tensors: list[torch.Tensor], dim: int, num_chunks: int, *, out: torch.Tensor
) -> None:
    """FSDP2: every gradient cut into the ranks' chunks, padded with zeros, laid side by side."""
    rows = []
    for x in tensors:
        each = -(-x.shape[dim] // num_chunks)
        missing = each * num_chunks - x.shape[dim]
        if missing:
            shape = (*x.shape[:dim], missing, *x.shape[dim + 1 :])
            x = torch.cat([x, x.new_zeros(shape)], dim)
        rows.append(x.reshape(*x.shape[:dim], num_chunks, -1))
    out.copy_(torch.cat(rows, dim + 1).reshape(out.shape))


_EXPANSIONS: dict[str, Callable[..., Any]] = {
    "fsdp.all_gather_copy_in.default": _all_gather_copy_in,
    "fsdp.split_with_sizes_copy.default": _split_with_sizes_copy,
    "fsdp.chunk_cat.default": _chunk_cat,
}
