"""Named points at which tests stop, slow or kill the running process.

A run without SHARDPROOF_FAULTS in its environment pays one comparison a point. The variable holds a
JSON list of ``{"stage", "kind", "superstep"?, "after"?, "seconds"?}``: ``kind`` is ``kill``
(SIGKILL, as an out-of-memory killer would), ``stop`` (SIGSTOP, a hang) or ``slow`` (sleep).
"""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

from shardproof.elastic.errors import InvalidInput

WORKER_STAGES_LOCAL = (
    "iteration-start",
    "iteration-computed",
    "iteration-reported",
    "before-arrive",
    "before-group",
    "before-reduce",
    "in-reduce",
    "after-reduce",
    "after-vote",
    "after-commit",
    "in-checkpoint",
    "joining",
)
WORKER_STAGES_IMMEDIATE = (
    "before-pull",
    "after-pull",
    "iteration-computed",
    "before-push",
    "in-push",
    "after-push",
    "after-ack",
    "before-next",
    "joining",
)
SERVER_STAGES = ("server-before-apply", "server-after-apply", "server-in-checkpoint")


class FaultPoints:
    """Carries out the faults asked for; each fault fires once."""

    def __init__(self, faults: list[dict[str, Any]]) -> None:
        known = {*WORKER_STAGES_LOCAL, *WORKER_STAGES_IMMEDIATE, *SERVER_STAGES}
        for fault in faults:
            if fault.get("stage") not in known or fault.get("kind") not in {"kill", "stop", "slow"}:
                raise InvalidInput(f"SHARDPROOF_FAULTS: unknown stage or kind in {fault}")
        self._faults = [dict(fault) for fault in faults]

    @staticmethod
    def from_environment() -> FaultPoints:
        """Read SHARDPROOF_FAULTS."""
        return FaultPoints(json.loads(os.environ.get("SHARDPROOF_FAULTS", "[]")))

    def reach(self, stage: str, superstep: int = 0) -> None:
        """Called when the process gets to ``stage``; may not return."""
        for fault in list(self._faults):
            if fault["stage"] != stage or superstep < fault.get("superstep", 0):
                continue
            fault["after"] = fault.get("after", 0) - 1
            if fault["after"] < 0:
                self._faults.remove(fault)
                _act(fault)


def _act(fault: dict[str, Any]) -> None:
    if fault["kind"] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault["kind"] == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        time.sleep(float(fault.get("seconds", 1.0)))
