"""Bugs that papers on verification of distributed models name, beside those of the other families.

G1 (no offset of positions) is in `positions`, the gradient of the head in `partial_gradients`
(B017), and so is the router of a switch layer (B002).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from shardproof import Mesh, Shard, Spec
from shardproof.examples.bugs import parts as p
from shardproof.examples.bugs.base import Bug

TP2 = Mesh(tp=2)
ROWS = {"tp": Shard(0)}


def auxiliary_loss(bug: str) -> Spec:
    """Every rank adds the whole auxiliary loss before outputs are reduce-scattered."""

    def sequential(x: Any, w: Any, gate: Any) -> Any:
        return x @ w + (x @ gate).square().mean()

    def distributed(x: Any, w: Any, gate: Any) -> Any:
        whole = p.gathered(x)
        extra = (whole @ gate).square().mean()
        share = extra if bug == "G2" else extra / dist.get_world_size()  # planted: G2
        own = whole[:, 2 * dist.get_rank() : 2 * dist.get_rank() + 2]
        return p.scattered(own @ w + share)  # carries: G2

    inputs = {"x": p.f32(6, 4, at=ROWS), "w": p.f32(4, 4, at=ROWS), "gate": p.f32(4, 3)}
    return p.spec(sequential, distributed, TP2, inputs, step="forward", outputs=p.ROWS_OUT)


def expert_weights(bug: str) -> Spec:
    """Experts whose weights stay cut compute the blocks on the diagonal only."""

    def sequential(x: Any, up: Any, down: Any) -> Any:
        return torch.einsum("etf,efh->eth", torch.relu(torch.einsum("eth,ehf->etf", x, up)), down)

    def distributed(x: Any, up: Any, down: Any) -> Any:
        if bug == "G3":
            own = p.mine(x, 1)  # planted: G3
            h = torch.relu(torch.einsum("eth,ehf->etf", own, up))
            y = torch.einsum("etf,efh->eth", h, down)  # carries: G3
            return p.gathered(y, 1)  # carries: G3
        h = torch.relu(torch.einsum("eth,ehf->etf", x, p.gathered(up, 2)))
        return torch.einsum("etf,efh->eth", h, p.gathered(down, 1))

    inputs = {
        "x": p.f32(2, 4, 3),
        "up": p.f32(2, 3, 8, at={"tp": Shard(2)}),
        "down": p.f32(2, 8, 3, at={"tp": Shard(1)}),
    }
    return p.spec(sequential, distributed, TP2, inputs, step="forward")


def padding(bug: str) -> Spec:
    """A sequence is padded to a multiple of the ranks, and cut back afterwards."""

    def sequential(x: Any) -> Any:
        return torch.tanh(x)

    def distributed(x: Any) -> Any:
        padded = torch.cat([x, torch.zeros_like(x[:1])])
        if bug == "G4":
            padded = torch.cat([torch.zeros_like(x[:1]), x])  # planted: G4
        return p.gathered(torch.tanh(p.mine(padded)))[:7]  # carries: G4

    return p.spec(sequential, distributed, TP2, {"x": p.f32(7, 3)}, step="forward")


BUGS = [
    Bug("G2", "Y", "auxiliary loss counted once a rank by the scatter", auxiliary_loss),
    Bug("G3", "Y", "expert weights left cut: diagonal blocks only", expert_weights),
    Bug("G4", "Y", "padded in front, cut behind", padding),
]
