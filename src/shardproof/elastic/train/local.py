"""The local-update mode: each worker runs its planned number of local steps, then all average."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import torch
from torch import Tensor

from .checkpoint import save
from .job import Job, Outcome, Pacer, Recorder
from .optim import Tensors
from .superstep import Batch, State, flatten, local_run, merge_local, unflatten
from .transport import BarrierGroup, join_store
from .wire import Client, Message

_log = logging.getLogger("shardproof.elastic")


def local_session(job: Job, client: Client) -> Outcome:
    """Take part in the run over one connection, from joining to its end."""
    hello = client.call("hello")
    recorder = Recorder(job.workdir, hello["worker"], hello["key"])
    try:
        return _LocalWorker(job, client, hello, recorder).run()
    finally:
        recorder.close()


class _LocalWorker:
    def __init__(self, job: Job, client: Client, hello: Message, recorder: Recorder) -> None:
        self.job, self.client, self.recorder = job, client, recorder
        self.worker: int = hello["worker"]
        host = job.address[0]
        self.store = join_store(host, hello["store"], job.config.faults.collective)
        self.pacer = Pacer(job.pace, self.worker)
        self.group: BarrierGroup | None = None
        self.group_key = ""
        self.state: State | None = None
        self.local: tuple[Tensors, Tensors] | None = None
        self.iterations = 0
        self.snapshot_due = 0

    def run(self) -> Outcome:
        recorder, points = self.recorder, self.job.points
        recorder.log("join", time.time())
        while True:
            points.reach("joining" if self.state is None else "before-arrive", recorder.superstep)
            before = time.time()
            attempt = self.client.call("arrive")
            if self.state is not None:
                recorder.log("wait", before)
            before = time.time()
            merged = self._try_to_merge(attempt)
            points.reach("after-reduce", recorder.superstep)
            verdict = self.client.call("vote", number=attempt["number"], yes=merged is not None)
            points.reach("after-vote", recorder.superstep)
            recorder.log("barrier", before, outcome=verdict["outcome"], world=attempt["world"])
            if verdict["outcome"] != "commit":
                continue
            assert merged is not None
            self.state, self.local = merged, None
            points.reach("after-commit", recorder.superstep)
            self._keep(verdict, attempt)
            if verdict["stop"]:
                self.client.call("bye")
                return Outcome(merged.params, self.worker, self.iterations, verdict["committed"])
            recorder.superstep = verdict["superstep"]
            self._iterate(merged, verdict)

    def _iterate(self, state: State, verdict: Message) -> None:
        if verdict["outlook"] is not None:
            self.recorder.log("plan", time.time(), barrier=verdict["outlook"])
        params, inner, steps = local_run(
            state, self._batches(verdict["ticket"]), self.job.grad, self.job.inner
        )
        self.local = (params, inner)
        self.iterations += steps

    def _batches(self, ticket: int) -> Iterator[Batch]:
        """Batches of this superstep; after each iteration the policy says whether to go on."""
        points, recorder = self.job.points, self.recorder
        while True:
            points.reach("iteration-start", recorder.superstep)
            started = time.time()
            yield self.job.batch_of(ticket)
            points.reach("iteration-computed", recorder.superstep)
            self.pacer.pad(started)
            recorder.log("iteration", started, ticket=ticket)
            answer = self.client.call("report", seconds=time.time() - started)
            points.reach("iteration-reported", recorder.superstep)
            if answer["action"] != "run":
                return
            ticket = answer["ticket"]

    def _try_to_merge(self, attempt: Message) -> State | None:
        """The collectives of one attempt; None if any of them failed, with nothing changed."""
        points, superstep = self.job.points, self.recorder.superstep
        try:
            points.reach("before-group", superstep)
            group = self._group_of(attempt)
            start = self._agree(attempt, group)
            if attempt["total"] == 0:
                return start
            params, inner = self.local or (start.params, start.inner)
            points.reach("before-reduce", superstep)

            def all_reduce(tensor: Tensor) -> Tensor:
                return group.sum(tensor, lambda: points.reach("in-reduce", superstep))

            return merge_local(start, params, inner, attempt["weight"], self.job.outer, all_reduce)
        except RuntimeError as error:
            # Whatever torch.distributed raises when a peer dies or times out; the vote decides.
            _log.info("barrier attempt %s failed: %s", attempt["number"], error)
            self._drop_group()
            return None

    def _drop_group(self) -> None:
        if self.group is not None:
            self.group.close()
        self.group, self.group_key = None, ""

    def _group_of(self, attempt: Message) -> BarrierGroup:
        if self.group is not None and self.group_key == attempt["group"]:
            return self.group
        self._drop_group()
        self.group_key = attempt["group"]
        self.group = BarrierGroup(
            self.store,
            attempt["group"],
            attempt["rank"],
            attempt["world"],
            self.job.config.faults.collective,
            cuda=self.job.params[0].is_cuda,
        )
        return self.group

    def _agree(self, attempt: Message, group: BarrierGroup) -> State:
        """The state at the start of the superstep, sent to those who have just joined."""
        if not attempt["sync"]:
            assert self.state is not None
            return self.state
        fresh = attempt["fresh"] and attempt["rank"] == attempt["source"]
        mine = self.job.restored(attempt["restore"]) if fresh else self.state or self.job.blank()
        flat = group.broadcast(attempt["source"], flatten(mine.tensors()))
        return mine.like(unflatten(flat, mine.tensors()))

    def _keep(self, verdict: Message, attempt: Message) -> None:
        """Checkpoint and snapshot, written by the first worker of the attempt."""
        assert self.state is not None
        config = self.job.config
        if attempt["rank"] != 0:
            return
        if verdict["checkpoint"]:
            before = time.time()
            name = f"{verdict['version']:08d}-{attempt['key']}"
            save(self.job.workdir, name, self.job.state_names(), self.state.tensors())
            self.job.points.reach("in-checkpoint", self.recorder.superstep)
            self.client.call("checkpointed", version=verdict["version"], name=name)
            self.recorder.log("checkpoint", before, version=verdict["version"])
        if config.snapshot_every and verdict["committed"] >= self.snapshot_due:
            self.snapshot_due = verdict["committed"] + config.snapshot_every
            path = self.job.workdir / "snapshots" / f"{verdict['committed']:09d}.pt"
            path.parent.mkdir(exist_ok=True)
            torch.save((time.time(), verdict["committed"], flatten(self.state.params)), path)
