"""Random failures and repairs for the simulator."""

from __future__ import annotations

import numpy as np

from shardproof.elastic.errors import InvalidInput

from .engine import Fault


def random_faults(
    workers: int, seconds: float, *, between: float, repair: float, seed: int, spare: int = 1
) -> list[Fault]:
    """Failures and later rejoins, both exponential in time.

    between: mean seconds between failures of one worker. repair: mean seconds until it joins again.
    spare: workers (from number 0) that never fail, so that a run always has someone left.
    """
    if between <= 0 or repair <= 0 or not 0 <= spare <= workers:
        raise InvalidInput("between and repair must be > 0 s, spare between 0 and the workers")
    rng = np.random.default_rng(seed)
    faults: list[Fault] = []
    for worker in range(spare, workers):
        now = rng.exponential(between)
        while now < seconds:
            faults.append(Fault(float(now), worker))
            now += rng.exponential(repair)
            faults.append(Fault(float(now), worker, joins=True))
            now += rng.exponential(between)
    return sorted(faults, key=lambda fault: fault.time)
