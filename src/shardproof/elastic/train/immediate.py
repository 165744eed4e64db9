"""The immediate-apply mode, worker side: pull, compute, push, ask whether to go on."""

from __future__ import annotations

import time

from shardproof.elastic.errors import ServerLost

from .job import Job, Outcome, Pacer, Recorder
from .superstep import flatten, unflatten
from .transport import Pair, Store, join_store
from .wire import Client


def immediate_session(job: Job, client: Client) -> Outcome:
    """Take part in the run over one connection, from joining to its end."""
    hello = client.call("hello")
    recorder = Recorder(job.workdir, hello["worker"], hello["key"])
    try:
        store = join_store(job.address[0], hello["store"], job.config.faults.collective)
        return _ImmediateWorker(job, client, recorder).run(
            _attach(job, client, store, hello["key"])
        )
    except RuntimeError as error:
        raise ServerLost(f"transfer to or from the server failed: {error}") from error
    finally:
        recorder.close()


def _attach(job: Job, client: Client, store: Store, key: str) -> Pair:
    weights = flatten([p.detach().cpu() for p in job.params])
    dtype = str(weights.dtype).removeprefix("torch.")
    client.begin("attach", numel=weights.numel(), dtype=dtype)
    init = client.end()["init"]
    job.points.reach("joining")
    pair = Pair(store, key, 1, job.config.faults.collective)
    if init:
        pair.send(weights)
    client.end()
    return pair


class _ImmediateWorker:
    def __init__(self, job: Job, client: Client, recorder: Recorder) -> None:
        self.job, self.client, self.recorder = job, client, recorder
        self.pacer = Pacer(job.pace, recorder.worker)
        self.flat = flatten([p.detach().cpu() for p in job.params])
        self.iterations = 0

    def run(self, pair: Pair) -> Outcome:
        """Iterate until the server says that the run is over."""
        points, recorder = self.job.points, self.recorder
        recorder.log("join", time.time())
        while True:
            points.reach("before-next", recorder.superstep)
            before = time.time()
            turn = self.client.call("next")
            recorder.log("wait" if turn["superstep"] != recorder.superstep else "hold", before)
            recorder.superstep = turn["superstep"]
            if turn["ticket"] is None:
                self._pull(pair)
                self.client.call("bye")
                params = unflatten(self.flat, self.job.params)
                return Outcome(params, recorder.worker, self.iterations, turn["committed"])
            self._iterate(pair, turn["ticket"])

    def _iterate(self, pair: Pair, ticket: int) -> None:
        points, superstep = self.job.points, self.recorder.superstep
        started = time.time()
        points.reach("before-pull", superstep)
        version = self._pull(pair)
        points.reach("after-pull", superstep)
        like = self.job.params
        weights = [t.to(p.device) for t, p in zip(unflatten(self.flat, like), like, strict=True)]
        grads, _ = self.job.grad(weights, self.job.batch_of(ticket))
        points.reach("iteration-computed", superstep)
        self.pacer.pad(started)
        points.reach("before-push", superstep)
        self.client.begin("push", ticket=ticket, seconds=time.time() - started)
        points.reach("in-push", superstep)
        pair.send(flatten([g.cpu() for g in grads]))
        points.reach("after-push", superstep)
        applied = self.client.end()["version"]
        points.reach("after-ack", superstep)
        self.iterations += 1
        self.recorder.log("iteration", started, ticket=ticket, stale=applied - 1 - version)

    def _pull(self, pair: Pair) -> int:
        self.client.begin("pull")
        self.flat = pair.receive(self.flat)
        return int(self.client.end()["version"])
