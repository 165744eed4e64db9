"""Control messages between workers and the server: one JSON object a line over TCP.

Only control travels here; tensors go through torch.distributed. There is no authentication, as in
torch.distributed itself: run it inside a trusted network.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from typing import Any, TypeAlias

from shardproof.elastic.errors import Evicted, RunOver, ServerLost, TooFewWorkers

Message: TypeAlias = dict[str, Any]


class Channel:
    """One connection, either side. Not for use by several threads at once."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._file = sock.makefile("rb")

    def send(self, message: Message) -> None:
        """Send one message; OSError if the peer has gone."""
        self._sock.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> Message | None:
        """Next message, or None at the end of the connection."""
        try:
            line = self._file.readline()
        except (OSError, ValueError):
            return None
        if not line.endswith(b"\n"):
            return None
        message: Message = json.loads(line)
        return message

    def peer_gone(self) -> bool:
        """Whether the peer closed the connection, without reading anything."""
        try:
            readable, _, _ = select.select([self._sock], [], [], 0)
            return bool(readable) and self._sock.recv(1, socket.MSG_PEEK) == b""
        except (OSError, ValueError):
            return True

    def close(self) -> None:
        """Close at once; a thread blocked in ``receive`` wakes up."""
        with contextlib.suppress(OSError):  # already disconnected
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


class Client:
    """A worker's connection to the server."""

    def __init__(self, host: str, port: int, *, patience: float) -> None:
        self._channel = Channel(_connect(host, port, patience))

    def call(self, method: str, **values: Any) -> Message:
        """Send a request and wait for its answer.

        Raises ServerLost if the connection breaks, Evicted if the server has removed this worker,
        RunOver if the run has ended and TooFewWorkers if it ended for lack of workers.
        """
        self.begin(method, **values)
        return self.end()

    def begin(self, method: str, **values: Any) -> None:
        """First half of ``call``, for requests accompanied by a tensor."""
        try:
            self._channel.send({"method": method, **values})
        except OSError as error:
            raise ServerLost("the server closed the connection") from error

    def end(self) -> Message:
        """Second half of ``call``."""
        answer = self._channel.receive()
        if answer is None:
            raise ServerLost("the server closed the connection")
        if answer.get("error") == "evicted":
            raise Evicted(str(answer.get("message")))
        if answer.get("error") == "over":
            raise RunOver(str(answer.get("message")))
        if answer.get("error") == "too-few":
            raise TooFewWorkers(str(answer.get("message")))
        if "error" in answer:
            raise ServerLost(f"the server failed: {answer['error']}")
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()


def _connect(host: str, port: int, patience: float) -> socket.socket:
    deadline = time.monotonic() + patience
    while True:
        try:
            sock = socket.create_connection((host, port), timeout=5.0)
        except OSError as error:
            if time.monotonic() > deadline:
                raise ServerLost(f"no server at {host}:{port} for {patience:g} s") from error
            time.sleep(0.05)
        else:
            sock.settimeout(None)
            return sock
