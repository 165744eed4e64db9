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


def _per_channel(t: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return t.reshape(-1, *(1,) * (like.dim() - 2))


def _batch_norm(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None,
    running_mean: torch.Tensor | None, running_var: torch.Tensor | None,
    training: bool, momentum: float, eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Its schema does not say that it updates the running statistics."""
    dims = [d for d in range(x.dim()) if d != 1]
    count = x.numel() // x.shape[1]
    if training:
        mean = x.mean(dims)
        centred = x - _per_channel(mean, x)
        var = (centred * centred).mean(dims)
        if running_mean is not None:
            running_mean.mul_(1 - momentum).add_(mean, alpha=momentum)
        if running_var is not None:
            unbiased = var * (count / (count - 1))
            running_var.mul_(1 - momentum).add_(unbiased, alpha=momentum)
    else:
        assert running_mean is not None
        assert running_var is not None
        mean, var = running_mean, running_var
    rstd = torch.rsqrt(var + eps)
    y = (x - _per_channel(mean, x)) * _per_channel(rstd, x)
    y = y if weight is None else y * _per_channel(weight, x)
    y = y if bias is None else y + _per_channel(bias, x)
    if training:
        return y, mean, rstd
    return y, x.new_empty((0,)), x.new_empty((0,))


def _batch_norm_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None,
    running_mean: torch.Tensor | None, running_var: torch.Tensor | None,
    mean: torch.Tensor | None, rstd: torch.Tensor | None,
    training: bool, eps: float, wanted: list[bool],
) -> tuple[torch.Tensor | None, ...]:  # fmt: skip
    dims = [d for d in range(x.dim()) if d != 1]
    if not training:
        assert running_mean is not None
        assert running_var is not None
        mean, rstd = running_mean, torch.rsqrt(running_var + eps)
    assert mean is not None
    assert rstd is not None
    scale = _per_channel(rstd, x)
    normal = (x - _per_channel(mean, x)) * scale
    dx = grad if weight is None else grad * _per_channel(weight, x)
    if training:
        along = (dx * normal).mean(dims)
        dx = dx - _per_channel(dx.mean(dims), x) - normal * _per_channel(along, x)
    return (
        dx * scale if wanted[0] else None,
        (grad * normal).sum(dims) if wanted[1] else None,
        grad.sum(dims) if wanted[2] else None,
    )


_EXPANSIONS: dict[str, Callable[..., Any]] = {
    "fsdp.all_gather_copy_in.default": _all_gather_copy_in,
    "fsdp.split_with_sizes_copy.default": _split_with_sizes_copy,
    "fsdp.chunk_cat.default": _chunk_cat,
    "aten.native_batch_norm.default": _batch_norm,
    "aten.native_batch_norm_backward.default": _batch_norm_backward,
}
