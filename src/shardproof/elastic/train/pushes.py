"""The parameter server of the immediate-apply mode.

As published: every push is applied at once, a worker pulls before each iteration, and at an elastic
barrier all wait until everybody has arrived and leave with the same weights. The paper does not say
what happens to gradients between barriers; this is its most likely reading, as in its sister paper
DSSP (Algorithm 1).

A push is committed when its ledger record is written, which happens with the weights locked and
before the acknowledgement; a worker that dies before its push is complete has pushed nothing, and
one that dies before it reads the acknowledgement is not asked to push again.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
from torch import Tensor

from shardproof.elastic.policies import Action, Policy

from .checkpoint import load, save
from .config import TrainConfig
from .coordinator import Coordinator, Member
from .faultpoints import FaultPoints
from .ledger import Ledger
from .optim import Inner, Tensors, optimizer_from_json
from .superstep import apply_push

Snapshot = tuple[float, int, Tensor]


class ParameterServer(Coordinator):
    """Coordinator that also holds the weights, as one flat vector."""

    def __init__(
        self, config: TrainConfig, policy: Policy, ledger: Ledger, points: FaultPoints
    ) -> None:
        super().__init__(config, policy, ledger)
        self.optimizer: Inner = optimizer_from_json(config.optimizer)
        self.params: Tensor | None = None
        self.state: Tensors = []
        self.snapshots: list[Snapshot] = []
        self._points = points
        self._uploading = False
        self._allowed: dict[int, int] = {}

    # -- weights -------------------------------------------------------------------------------

    def wants_weights(self, member: Member) -> bool:
        """Whether this worker has to upload the initial weights; waits while another one does."""
        with self.changed:
            self._wait(member, lambda: self.params is not None or not self._uploading)
            self._uploading = self.params is None
            return self._uploading

    def initialise(self, weights: Tensor | None) -> None:
        """Take the uploaded weights (None: the upload failed); a resumed run replaces them."""
        with self.changed:
            self._uploading = False
            if weights is not None:
                self.params, self.state = weights, self.optimizer.init([weights])
                if self.restore:
                    self._load(weights)
            self.changed.notify_all()

    def pull(self, member: Member) -> tuple[int, Tensor]:
        """Current version and weights."""
        with self.changed:
            self._alive(member)
            assert self.params is not None
            member.pulled = self.version
            return self.version, self.params

    def push(self, member: Member, ticket: int, grad: Tensor, seconds: float) -> int:
        """Apply one gradient; returns the new version. The commit point of this mode."""
        self._points.reach("server-before-apply", self.version)
        with self.changed:
            self._alive(member)
            assert self.params is not None
            # New tensors instead of in-place updates: a pull in progress keeps its version.
            [self.params], self.state = apply_push(
                [self.params], self.state, [grad], self.optimizer
            )
            self.tickets.commit([ticket])
            member.tickets.remove(ticket)
            self.version += 1
            self.ledger.write(
                "push",
                version=self.version,
                pulled=member.pulled,
                ticket=ticket,
                worker=member.worker,
                superstep=self.superstep,
                time=time.time(),
            )
            self._points.reach("server-after-apply", self.version)
            self._decide(member, seconds)
            self._keep()
            return self.version

    def _decide(self, member: Member, seconds: float) -> None:
        now = time.time()
        member.busy_since = now
        action = self.policy.finished(member.worker, now, max(seconds, 1e-9))
        member.arrived = action is Action.ARRIVE
        if action is Action.RUN:
            self._allow(member.worker)
        self.changed.notify_all()

    # -- permission to go on -------------------------------------------------------------------

    def wait_for_turn(self, member: Member) -> int | None:
        """Wait at the barrier or for the policy's release; a ticket, or None when the run ends."""
        with self.changed:
            member.busy_since = None
            if not member.current:
                member.arrived = True
            self._wait(member, lambda: self.finished or self._may_run(member))
            if self.finished:
                return None
            self._allowed[member.worker] -= 1
            return self.issue(member)

    def _allow(self, worker: int) -> None:
        self._allowed[worker] = 1

    def _may_run(self, member: Member) -> bool:
        self._open_attempt()
        for worker in self.policy.released() if self.policy.workers else []:
            self._allow(worker)
            self.changed.notify_all()
        return self._allowed.get(member.worker, 0) > 0

    def _open_attempt(self) -> None:
        """The barrier of this mode: no collective, it closes when all have arrived."""
        current = [m for m in self.members.values() if m.current]
        joining = [m for m in self.members.values() if m.arrived and not m.current]
        if self.policy.barriers or not self.started:
            ready = [m for m in self.members.values() if m.arrived]
            if not ready or any(not m.arrived for m in current):
                return
            if self._complete(len(ready)):
                self._start_all(ready)
            return
        for member in joining:
            member.current, member.arrived = True, False
            self.policy.join(member.worker, time.time())
            self._allow(member.worker)

    def _start_all(self, ready: list[Member]) -> None:
        for member in ready:
            member.current, member.arrived = True, False
            self._allow(member.worker)
        self._barrier_at = time.time()
        if not self.started and self.config.snapshot_every and self.params is not None:
            # The clock of a run starts here, as in local mode at the first barrier.
            self.snapshots.append((time.time(), len(self.tickets.committed), self.params))
        self.begin_superstep()
        self.ledger.write("barrier", version=self.version, superstep=self.superstep)

    # -- keeping -------------------------------------------------------------------------------

    def _keep(self) -> None:
        every, snap = self.config.checkpoint_every, self.config.snapshot_every
        assert self.params is not None
        if every and self.version % every == 0:
            names = ["params", *(f"optimizer.{i}" for i in range(len(self.state)))]
            name = f"{self.version:08d}-{os.getpid()}"
            save(self._workdir, name, names, [self.params, *self.state])
            self._points.reach("server-in-checkpoint", self.version)
            self.checkpointed(None, self.version, name)
        if snap and self.version % snap == 0:
            self.snapshots.append((time.time(), len(self.tickets.committed), self.params))

    def _load(self, like: Tensor) -> None:
        names = ["params", *(f"optimizer.{i}" for i in range(len(self.state)))]
        self.params, *self.state = load(
            self._workdir, self.restore_name, names, [like, *self.state]
        )

    @property
    def _workdir(self) -> Path:
        return Path(self.config.workdir)

    def finish(self) -> None:
        """Write the final weights and the snapshots."""
        if self.params is not None:
            torch.save(
                {"final": self.params, "snapshots": self.snapshots}, self._workdir / "server.pt"
            )
