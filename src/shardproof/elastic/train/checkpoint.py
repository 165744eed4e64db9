"""Checkpoints by torch.distributed.checkpoint: ``<workdir>/checkpoints/<name>``.

All workers hold the same state at a barrier, so one of them writes (``no_dist``); the server
records a checkpoint in its ledger only when it is complete, and an interrupted one is never looked
at. Names begin with the version and end with who wrote it, so that a worker which was taken for
dead and wakes up in the middle of writing cannot touch the checkpoint others have written since.
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


def path_of(workdir: Path, name: str) -> Path:
    """Directory of one checkpoint."""
    return workdir / "checkpoints" / name


def save(workdir: Path, name: str, names: Sequence[str], tensors: Sequence[Tensor]) -> None:
    """Write named tensors as checkpoint ``name``."""
    state = dict(zip(names, tensors, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it announces that it assumes a single process
        _dcp.save(state, checkpoint_id=path_of(workdir, name), no_dist=True)


def load(workdir: Path, name: str, names: Sequence[str], like: Sequence[Tensor]) -> list[Tensor]:
    """Read the named tensors of a checkpoint; InvalidInput if there is no such checkpoint."""
    path = path_of(workdir, name)
    if not path.exists():
        raise InvalidInput(f"no checkpoint {path.name} in {workdir.name}/checkpoints")
    state = {key: tensor.clone() for key, tensor in zip(names, like, strict=True)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _dcp.load(state, checkpoint_id=path, no_dist=True)
    return [state[key] for key in names]
