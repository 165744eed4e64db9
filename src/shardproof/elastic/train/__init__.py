"""Training on torch.distributed under any policy; the only part of ``elastic`` that needs torch."""

from __future__ import annotations

from .api import TrainResult, train
from .config import Faults, Pace, TrainConfig
from .optim import AdamW, Average, OuterSgd, Sgd

__all__ = [
    "AdamW",
    "Average",
    "Faults",
    "OuterSgd",
    "Pace",
    "Sgd",
    "TrainConfig",
    "TrainResult",
    "train",
]
