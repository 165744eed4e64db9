"""Programs of the screenshots and of the browser tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from shardproof import Input, Mesh, Spec

ROOT = Path(__file__).parents[2]
HIDDEN = 16


class Block(nn.Module):
    """A residual MLP, sequential or cut over ``group``; ``synchronise`` is the line in question."""

    def __init__(self, group: Any = None, synchronise: bool = True) -> None:
        super().__init__()
        ranks = 1 if group is None else dist.get_world_size(group)
        self.group, self.synchronise = group, synchronise
        self.norm = nn.LayerNorm(HIDDEN)
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN // ranks)
        self.down = nn.Linear(4 * HIDDEN // ranks, HIDDEN, bias=False)

    def forward(self, x: Any) -> Any:
        h = self.down(F.gelu(self.up(self.norm(x))))
        if self.group is not None and self.synchronise:
            dist.all_reduce(h, group=self.group)
        return x + h


def blocks(group: Any = None, synchronise: bool = True) -> Any:
    return nn.Sequential(Block(group, synchronise), Block(group))


def missing_sum() -> Spec:
    """The first of two blocks does not add up what its ranks computed."""
    return Spec(
        name="Two MLP blocks, tp=4",
        sequential=blocks,
        distributed=lambda mesh, rank: blocks(mesh.get_group("tp"), synchronise=False),
        mesh=Mesh(tp=4),
        inputs={"input": Input((4, HIDDEN))},
        step="forward",
    )


class Gate(nn.Module):
    """An activation in two spellings; that they are equal needs an identity of ``exp`` that is no
    lemma."""

    def __init__(self, ranks: int = 1, spelled: bool = False) -> None:
        super().__init__()
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN // ranks, bias=False)
        self.spelled = spelled

    def forward(self, x: Any) -> Any:
        y = self.up(x)
        return (y.exp() - (-y).exp()) / 2 if self.spelled else torch.sinh(y)


def unproved() -> Spec:
    """Two ranks that spell an activation out."""
    return Spec(
        name="Column-parallel layer, tp=2",
        sequential=Gate,
        distributed=lambda mesh, rank: Gate(2, spelled=True),
        mesh=Mesh(tp=2),
        inputs={"x": Input((4, HIDDEN))},
        parameters={"up.weight": {"tp": _shard(0)}},
        outputs={"output": {"tp": _shard(1)}},
        step="forward",
    )


def _shard(dim: int) -> Any:
    from shardproof import Shard

    return Shard(dim)


def layers_32() -> Spec:
    """The tensor-parallel transformer of the examples with 32 layers over four ranks."""
    path = ROOT / "examples" / "tp_transformer.py"
    spec = importlib.util.spec_from_file_location("tp_transformer_32", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.LAYERS = 32
    return module.check(ranks=4, step="forward").named("Transformer with 32 layers, tp=4")
