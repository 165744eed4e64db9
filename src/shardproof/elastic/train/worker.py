"""A worker process: connects, trains until the run ends, and comes back after interruptions."""

from __future__ import annotations

import logging
import time

from shardproof.elastic.errors import Evicted, ServerLost

from .immediate import immediate_session
from .job import Job, Outcome
from .local import local_session
from .wire import Client

_log = logging.getLogger("shardproof.elastic")


def run_worker(job: Job) -> Outcome:
    """Train until the run is over.

    A worker that was removed (it hung) or lost the server joins again and starts from the common
    state; what it had not committed is redone by whoever gets its tickets. Raises ServerLost if the
    server stays away longer than configured, and TooFewWorkers if the run ends for that reason.
    """
    session = immediate_session if job.config.mode == "immediate" else local_session
    patience = job.config.faults.reconnect
    lost_since: float | None = None
    while True:
        client = Client(*job.address, patience=patience)
        try:
            return session(job, client)
        except Evicted as error:
            _log.warning("%s", error)
            lost_since = None
        except ServerLost as error:
            _log.warning("%s; trying to join again", error)
            lost_since = lost_since or time.monotonic()
            if time.monotonic() - lost_since > patience:
                raise
            time.sleep(0.1)
        finally:
            client.close()
