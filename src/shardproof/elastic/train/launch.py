"""Finding out who we are, and starting and finding the server."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import torch.distributed

from shardproof.elastic.errors import InvalidInput

from .config import TrainConfig

# The name is not exported explicitly, so type checkers cannot see it.
_dist: Any = torch.distributed

_IDENTITY = ("mode", "seed", "optimizer", "weighting")
_KEY = "shardproof/server"


def world() -> tuple[int, int]:
    """Rank and number of workers, from torchrun's environment; (0, 1) without it."""
    rank, size = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
    if "SHARDPROOF_SERVER" in os.environ:
        # Each worker has its own launcher, so the launcher's numbers say nothing about the job.
        return 1, int(os.environ.get("SHARDPROOF_WORKERS", size))
    return int(rank), int(size)


class ServerProcess:
    """The server as a child process, started again after a crash as often as allowed."""

    def __init__(self, config: TrainConfig, path: Path) -> None:
        self._config, self._path = config, path
        self._stopping = False
        self._process = self._spawn()
        self._left = config.faults.server_restarts
        self._watch = threading.Thread(target=self._restart_on_crash, daemon=True)
        self._watch.start()

    @staticmethod
    def start(config: TrainConfig) -> ServerProcess:
        """Write the configuration and start the server on a free port, which it keeps."""
        workdir = Path(config.workdir)
        workdir.mkdir(parents=True, exist_ok=True)
        _check_same_run(config, workdir / "config.json")
        (workdir / "server.json").unlink(missing_ok=True)
        values = {**config.__dict__, "port": config.port or free_port(config.host)}
        fixed = TrainConfig(**values)
        fixed.write(workdir / "config.json")
        return ServerProcess(fixed, workdir / "config.json")

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self._config.host, self._config.port

    def wait(self) -> None:
        """Wait until the server has written its results."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=30)

    def stop(self) -> None:
        """End the server."""
        self._stopping = True
        if self._process.poll() is None:
            self._process.terminate()
            self.wait()

    def _spawn(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "shardproof.elastic.train.serve", str(self._path)]
        return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})

    def _restart_on_crash(self) -> None:
        while True:
            code = self._process.wait()
            if self._stopping or code in (0, 3) or self._left == 0:
                return
            self._left -= 1
            self._process = self._spawn()


def _check_same_run(config: TrainConfig, path: Path) -> None:
    """A directory with a run in it can only be used to continue that run."""
    if not path.exists():
        return
    earlier = TrainConfig.read(path)
    for name in _IDENTITY:
        before, now = getattr(earlier, name), getattr(config, name)
        if before != now:
            raise InvalidInput(
                f"{path.parent.name} holds a run with {name} {before!r}, this one has {now!r}; "
                "use another workdir"
            )


def free_port(host: str) -> int:
    """A port that is free now."""
    with socket.create_server((host, 0)) as probe:
        return int(probe.getsockname()[1])


def find_server(rank: int, server: ServerProcess | None) -> tuple[str, int]:
    """Address of the server: from the environment, or from rank 0 through torchrun's store."""
    given = os.environ.get("SHARDPROOF_SERVER")
    if given:
        host, _, port = given.rpartition(":")
        if not host or not port.isdecimal():
            raise InvalidInput(f"SHARDPROOF_SERVER must be host:port, got {given!r}")
        return host, int(port)
    if "MASTER_ADDR" not in os.environ:
        if server is None:
            raise InvalidInput("no server: start with torchrun or set SHARDPROOF_SERVER")
        return server.address
    store, _, _ = next(iter(_dist.rendezvous("env://")))
    if server is not None:
        store.set(_KEY, json.dumps(server.address))
    host, port = json.loads(store.get(_KEY))
    _keep_alive.append(store)
    return host, port


# Rank 0 may host the store, which the other ranks read after it has moved on.
_keep_alive: list[Any] = []
