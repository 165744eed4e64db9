"""Train a small network on the handwritten digits of scikit-learn with an elastic barrier.

    torchrun --standalone --nproc-per-node=4 examples/elastic_digits.py
    shardproof elastic report elastic-digits --timeline timeline.json

The last two of four workers are made 1.5 and 2 times slower, and every iteration jitters by 10 %.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from shardproof.elastic.train import Pace, Sgd, train


def digits() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Training and test set: 1400 and 397 images of 8 x 8 pixels, scaled to [0, 1]."""
    data = load_digits()
    images = torch.tensor(data.data, dtype=torch.float32) / 16
    labels = torch.tensor(data.target)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    train_set, test_set = order[:1400], order[1400:]
    return (images[train_set], labels[train_set]), (images[test_set], labels[test_set])


def main() -> None:
    """Train and print the accuracy over time on rank 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", default="elastic")
    parser.add_argument("--mode", default="auto")
    parser.add_argument("--iterations", type=int, default=600)
    parser.add_argument("--workdir", type=Path, default=Path("elastic-digits"))
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    train_set, (images, labels) = digits()
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def accuracy(model: nn.Module) -> float:
        with torch.no_grad():
            return float((model(images).argmax(1) == labels).float().mean())

    if os.environ.get("RANK", "0") == "0":
        shutil.rmtree(options.workdir, ignore_errors=True)
    result = train(
        model,
        train_set,
        loss=nn.functional.cross_entropy,
        policy=options.policy,
        mode=options.mode,
        steps=8,
        iterations=options.iterations,
        batch_size=32,
        optimizer=Sgd(0.2),
        workdir=options.workdir,
        snapshot_every=100,
        evaluate=accuracy,
        pace=Pace(seconds=0.01, factors=(1.0, 1.0, 1.5, 2.0), jitter=0.1),
    )
    for seconds, iterations, value in result.history:
        sys.stdout.write(f"{seconds:7.2f} s {iterations:6d} iterations  accuracy {value:.3f}\n")


if __name__ == "__main__":
    main()
