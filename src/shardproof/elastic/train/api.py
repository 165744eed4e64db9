"""``train``: one call for every policy and both modes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from shardproof.elastic.errors import InvalidInput
from shardproof.elastic.policies import POLICIES

from .config import Faults, Pace, TrainConfig
from .faultpoints import FaultPoints
from .job import Job
from .launch import ServerProcess, find_server, world
from .ledger import effective, read_ledger, tickets_in
from .optim import Average, Inner, Outer, Sgd
from .superstep import Batch, GradFn, gradient, unflatten
from .tickets import samples_of
from .worker import run_worker

_NORMS_WITH_STATE = (nn.modules.batchnorm._BatchNorm,)


@dataclass(frozen=True)
class TrainResult:
    """Outcome of a run.

    history: (seconds since the first snapshot, committed iterations, value of ``evaluate``), on
    rank 0 and if asked for. committed: iterations of all workers together. iterations: this
    worker's own, in its last session.
    """

    worker: int
    iterations: int
    committed: int
    workdir: Path
    history: list[tuple[float, int, float]] = field(default_factory=list)


def train(
    model: nn.Module,
    data: Any,
    *,
    loss: Callable[[Tensor, Tensor], Tensor],
    policy: str = "elastic",
    mode: str = "auto",
    steps: int = 15,
    iterations: int,
    batch_size: int,
    workdir: str | Path,
    optimizer: Inner | None = None,
    outer: Outer | None = None,
    weighting: str = "uniform",
    seed: int = 0,
    checkpoint_every: int = 0,
    snapshot_every: int = 0,
    evaluate: Callable[[nn.Module], float] | None = None,
    pace: Pace | None = None,
    faults: Faults | None = None,
    host: str = "127.0.0.1",
) -> TrainResult:
    """Train ``model`` under a synchronisation policy; every process of the job calls this.

    data: a pair of tensors (inputs, targets) or a map-style dataset of such pairs. loss: of (model
    output, targets), a mean over the batch. policy: a name of ``make_policy``. mode: ``local``,
    ``immediate``, or ``auto`` (immediate for policies without barriers, else local). steps: cap on
    iterations between barriers. iterations: of all workers together. workdir: for the ledger,
    events and checkpoints, shared by all processes; if it holds an earlier run with the same
    settings, that run goes on from its last checkpoint. host: address of rank 0's machine, which
    the server listens on.

    Processes: started by torchrun, rank 0 also starts the server. To survive the death of workers
    start each in its own torchrun, with SHARDPROOF_SERVER=host:port in the environment, since
    torchrun ends all its processes when one dies. On return the model holds the final weights.

    Raises InvalidInput for bad arguments, TooFewWorkers and ServerLost as their names say.
    """
    rank, size = world()
    if mode == "auto":
        known = POLICIES.get(policy)
        mode = "immediate" if known is not None and not known(steps).barriers else "local"
    inner = optimizer or Sgd(0.1)
    if mode == "immediate" and outer is not None:
        raise InvalidInput("an outer optimizer needs barriers with averaging: mode='local'")
    source = Data(data, batch_size, seed)
    config = TrainConfig(
        workdir=str(workdir),
        mode=mode,
        policy=policy,
        steps=steps,
        workers=size,
        iterations=iterations,
        weighting=weighting,
        checkpoint_every=checkpoint_every,
        snapshot_every=snapshot_every,
        seed=seed,
        optimizer=inner.to_json(),
        faults=faults or Faults(),
        host=host,
    )
    job = make_job(model, source, loss, config, inner, outer or Average(), pace or Pace())
    server = ServerProcess.start(config) if rank == 0 and _own_server() else None
    try:
        job.address = find_server(rank, server)
        outcome = run_worker(job)
        if server is not None:
            server.wait()
    finally:
        if server is not None:
            server.stop()
    _load(model, outcome.params)
    history = evaluate_snapshots(model, config, evaluate) if rank == 0 and evaluate else []
    committed = len(list(tickets_in(effective(read_ledger(Path(workdir) / "ledger.jsonl")))))
    return TrainResult(outcome.worker, outcome.iterations, committed, Path(workdir), history)


def _own_server() -> bool:
    return "SHARDPROOF_SERVER" not in os.environ


def make_job(
    model: nn.Module,
    source: Data,
    loss: Callable[[Tensor, Tensor], Tensor],
    config: TrainConfig,
    inner: Inner,
    outer: Outer,
    pace: Pace,
) -> Job:
    """The worker's job; checks that the model can be trained this way."""
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not named:
        raise InvalidInput("the model has no trainable parameter")
    if len({p.dtype for p in named.values()}) > 1:
        raise InvalidInput("all trainable parameters must have one dtype")
    if any(isinstance(m, _NORMS_WITH_STATE) and m.track_running_stats for m in model.modules()):
        raise InvalidInput(
            "the model has batch normalisation with running statistics, which would differ between "
            "workers; use LayerNorm or GroupNorm, or track_running_stats=False"
        )
    return Job(
        config=config,
        address=("", 0),
        names=list(named),
        params=[p.detach().clone() for p in named.values()],
        grad=gradient_of(model, list(named), loss),
        batch_of=source.batch,
        inner=inner,
        outer=outer,
        pace=pace,
        points=FaultPoints.from_environment(),
    )


def gradient_of(
    model: nn.Module, names: Sequence[str], loss: Callable[[Tensor, Tensor], Tensor]
) -> GradFn:
    """Gradient of the model's loss as a function of its named parameters and a batch."""

    def loss_of(params: Sequence[Tensor], batch: Batch) -> Tensor:
        inputs, targets = batch
        output = functional_call(model, dict(zip(names, params, strict=True)), (inputs,))
        return loss(output, targets)

    return gradient(loss_of)


class Data:
    """Batches by ticket, from tensors or a map-style dataset."""

    def __init__(self, data: Any, batch_size: int, seed: int) -> None:
        self._tensors = data if isinstance(data, tuple) else None
        self._data, self._size, self._seed = data, batch_size, seed
        self._samples = len(data[0]) if self._tensors is not None else len(data)
        if self._tensors is not None and len({len(t) for t in data}) != 1:
            raise InvalidInput("inputs and targets differ in length")
        if batch_size < 1 or self._samples < batch_size:
            raise InvalidInput(f"{self._samples} samples do not fill one batch of {batch_size}")
        self.batches = self._samples // batch_size

    def batch(self, ticket: int) -> Batch:
        """Inputs and targets of a ticket."""
        index = samples_of(ticket, samples=self._samples, batch_size=self._size, seed=self._seed)
        if self._tensors is not None:
            inputs, targets = self._tensors
            return inputs[index], targets[index]
        return torch.utils.data.default_collate([self._data[i] for i in index])


def _load(model: nn.Module, params: Sequence[Tensor]) -> None:
    trainable = [p for p in model.parameters() if p.requires_grad]
    with torch.no_grad():
        for parameter, value in zip(trainable, params, strict=True):
            parameter.copy_(value)


def evaluate_snapshots(
    model: nn.Module, config: TrainConfig, evaluate: Callable[[nn.Module], float]
) -> list[tuple[float, int, float]]:
    """Value of ``evaluate`` at every snapshot, after the run so that it costs no training time."""
    workdir = Path(config.workdir)
    if config.mode == "immediate":
        kept = torch.load(workdir / "server.pt", weights_only=True)["snapshots"]
    else:
        files = sorted((workdir / "snapshots").glob("*.pt"))
        kept = [torch.load(file, weights_only=True) for file in files]
    trainable = [p for p in model.parameters() if p.requires_grad]
    final = [p.detach().clone() for p in trainable]
    history = []
    for moment, committed, flat in kept:
        _load(model, unflatten(flat, trainable))
        history.append((moment - kept[0][0], int(committed), evaluate(model)))
    _load(model, final)
    return history
