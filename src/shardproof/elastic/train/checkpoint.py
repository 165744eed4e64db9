"""Checkpoints by torch.distributed.checkpoint: ``<workdir>/checkpoints/<version>``.

All workers hold the same state at a barrier, so one of them writes (``no_dist``); the server records
a checkpoint in its ledger only when it is complete, and an interrupted one is never looked at.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch.distributed.checkpoint
from torch import Tensor

from shardproof.elastic.errors import InvalidInput

# The names are not exported explicitly, so type checkers cannot see them.
_dcp: Any = torch.distributed.checkpoint


def path_of(workdir: Path, version: int) -> Path:
    """Directory of one checkpoint."""
    return workdir / "checkpoints" / f"{version:08d}"


def save(workdir: Path, version: int, names: Sequence[str], tensors: Sequence[Tensor]) -> None:
    """Write named tensors as version ``version``."""
    state = dict(zip(names, tensors, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it announces that it assumes a single process
        _dcp.save(state, checkpoint_id=path_of(workdir, version), no_dist=True)


def load(workdir: Path, version: int, names: Sequence[str], like: Sequence[Tensor]) -> list[Tensor]:
    """Read the named tensors of a version; InvalidInput if there is no such checkpoint."""
    path = path_of(workdir, version)
    if not path.exists():
        raise InvalidInput(f"no checkpoint {path.name} in {workdir.name}/checkpoints")
    state = {name: tensor.clone() for name, tensor in zip(names, like, strict=True)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _dcp.load(state, checkpoint_id=path, no_dist=True)
    return [state[name] for name in names]
