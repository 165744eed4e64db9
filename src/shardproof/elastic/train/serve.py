"""The server process: ``python -m shardproof.elastic.train.serve CONFIG.json``.

Prints nothing; writes ``server.json`` (address) when it is ready, and the ledger as it goes. Exit
code 0 when the run has finished, 3 when too few workers were left.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from pathlib import Path

import torch

from shardproof.elastic.errors import ElasticError, Evicted, RunOver, TooFewWorkers

from .config import TrainConfig
from .coordinator import Coordinator, Member
from .faultpoints import FaultPoints
from .ledger import Ledger
from .policy import policy_from_config
from .pushes import ParameterServer
from .transport import Pair, host_store
from .wire import Channel, Message

_SUPERVISE = 0.2
_LINGER = 5.0


class Server:
    """Accepts workers and serves each in its own thread."""

    def __init__(self, config: TrainConfig) -> None:
        workdir = Path(config.workdir)
        self.config = config
        self.store = host_store(config.host)
        self._listener = socket.create_server((config.host, config.port), backlog=256)
        ledger, policy = Ledger(workdir / "ledger.jsonl"), policy_from_config(config)
        self.coordinator: Coordinator = (
            ParameterServer(config, policy, ledger, FaultPoints.from_environment())
            if config.mode == "immediate"
            else Coordinator(config, policy, ledger)
        )
        self._sessions = 0

    def run(self) -> int:
        """Serve until the run has ended and all workers have left."""
        self._publish()
        threading.Thread(target=self._accept, daemon=True).start()
        ended: float | None = None
        while True:
            time.sleep(_SUPERVISE)
            self.coordinator.supervise()
            failed = self.coordinator.failure is not None
            if self.coordinator.finished or failed:
                ended = ended or time.time()
                if not self.coordinator.members or time.time() - ended > _LINGER:
                    break
        if isinstance(self.coordinator, ParameterServer):
            self.coordinator.finish()
        return 3 if self.coordinator.failure is not None else 0

    def _publish(self) -> None:
        host, port = self._listener.getsockname()[:2]
        path = Path(self.config.workdir) / "server.json"
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps({"host": host, "port": port, "pid": os.getpid()}))
        partial.replace(path)  # readers never see half a file

    def _accept(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            self._sessions += 1
            threading.Thread(
                target=self._serve, args=(Channel(sock), self._sessions), daemon=True
            ).start()

    def _serve(self, channel: Channel, number: int) -> None:
        member = self.coordinator.join(channel.peer_gone, channel.close)
        session = Session(self, channel, member, f"{os.getpid()}.{number}")
        cause = "disconnected"
        try:
            cause = session.run()
        except TooFewWorkers as error:
            _try_send(channel, {"error": "too-few", "message": str(error)})
            cause = "too few workers"
        except RunOver as error:
            _try_send(channel, {"error": "over", "message": str(error)})
            cause = "finished"
        except Evicted as error:
            _try_send(channel, {"error": "evicted", "message": str(error)})
        except (OSError, RuntimeError) as error:
            cause = f"transfer failed: {type(error).__name__}"
        except (ElasticError, KeyError, ValueError, AssertionError) as error:
            _try_send(channel, {"error": f"{type(error).__name__}: {error}"})
            cause = "protocol error"
        self.coordinator.leave(member, cause)
        channel.close()


def _try_send(channel: Channel, message: Message) -> None:
    with contextlib.suppress(OSError):  # it has gone, which is what the message was about
        channel.send(message)


class Session:
    """Conversation with one worker."""

    def __init__(self, server: Server, channel: Channel, member: Member, key: str) -> None:
        self._server, self._channel, self._member, self._key = server, channel, member, key
        self._pair: Pair | None = None

    def run(self) -> str:
        """Answer requests until the worker says goodbye or disconnects; returns the cause."""
        while (request := self._channel.receive()) is not None:
            method = request.pop("method")
            if method == "bye":
                self._channel.send({})
                return "finished"
            self._channel.send(getattr(self, f"on_{method}")(**request))
        return "disconnected"

    # -- both modes

    def on_hello(self) -> Message:
        """First message of a worker."""
        return {
            "worker": self._member.worker,
            "store": self._server.store.port,
            "key": self._key,
            "run": os.getpid(),
        }

    def on_checkpointed(self, version: int, name: str) -> Message:
        """The worker has written a complete checkpoint."""
        self._server.coordinator.checkpointed(self._member, version, name)
        return {}

    # -- local-update mode

    def on_report(self, seconds: float) -> Message:
        """An iteration has ended."""
        core = self._server.coordinator
        action = core.report(self._member, seconds)
        ticket = core.issue(self._member) if action.value == "run" else None
        return {"action": action.value, "ticket": ticket, "outlook": core.policy.outlook()}

    def on_arrive(self) -> Message:
        """The worker is at the barrier."""
        core = self._server.coordinator
        attempt = core.arrive(self._member)
        ranks = attempt.ranks
        weight = next(p["weight"] for p in attempt.parts if p["worker"] == self._member.worker)
        return {
            "number": attempt.number,
            "key": f"{os.getpid()}.{attempt.number}",
            "group": f"{os.getpid()}.group.{attempt.group}",
            "rank": ranks[self._member.worker],
            "world": len(ranks),
            "source": 0 if attempt.source is None else ranks[attempt.source],
            "fresh": attempt.source is None,
            "restore": core.restore_name,
            "sync": attempt.source is None or attempt.joiners > 0,
            "weight": weight,
            "total": sum(p["weight"] for p in attempt.parts),
        }

    def on_vote(self, number: int, yes: bool) -> Message:
        """Outcome of the attempt, and what comes next."""
        core = self._server.coordinator
        outcome = core.vote(self._member, number, yes=yes)
        stop = outcome == "commit" and core.finished
        go = outcome == "commit" and not stop
        every = self._server.config.checkpoint_every
        return {
            "outcome": outcome,
            "stop": stop,
            "ticket": core.issue(self._member) if go else None,
            "version": core.version,
            "superstep": core.superstep,
            "committed": len(core.tickets.committed),
            "checkpoint": bool(every and core.version and core.version % every == 0),
            "outlook": core.policy.outlook(),
        }

    # -- immediate-apply mode

    @property
    def _weights(self) -> ParameterServer:
        core = self._server.coordinator
        assert isinstance(core, ParameterServer)
        return core

    def on_attach(self, numel: int, dtype: str) -> Message:
        """Open the tensor connection; tell whether the initial weights are wanted."""
        init = self._weights.wants_weights(self._member)
        self._channel.send({"init": init})
        weights: torch.Tensor | None = None
        try:
            self._pair = Pair(
                self._server.store, self._key, 0, self._server.config.faults.collective
            )
            if init:
                weights = self._pair.receive(torch.empty(numel, dtype=getattr(torch, dtype)))
        finally:
            if init:
                self._weights.initialise(weights)
        return {}

    def on_pull(self) -> Message:
        """Send the weights; the message with their version follows the tensor."""
        version, weights = self._weights.pull(self._member)
        assert self._pair is not None
        self._pair.send(weights)
        return {"version": version}

    def on_push(self, ticket: int, seconds: float) -> Message:
        """Receive and apply one gradient; this answer is the acknowledgement."""
        core = self._weights
        assert self._pair is not None
        assert core.params is not None
        grad = self._pair.receive(core.params)
        return {"version": core.push(self._member, ticket, grad, seconds)}

    def on_next(self) -> Message:
        """Wait for permission to go on."""
        core = self._weights
        ticket = core.wait_for_turn(self._member)
        return {
            "ticket": ticket,
            "superstep": core.superstep,
            "outlook": core.policy.outlook(),
            "committed": len(core.tickets.committed),
        }


def main(config_path: str) -> int:
    """Run the server of the configuration in ``config_path``; returns the exit code."""
    torch.set_num_threads(1)
    return Server(TrainConfig.read(Path(config_path))).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
