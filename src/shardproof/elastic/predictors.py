"""How long will a worker's next iteration take? Estimators of the iteration interval.

``last`` is the published rule (arXiv 2001.01347, section III-B): the latest interval, no smoothing.
It is unbiased but carries the full noise of one iteration into every one of the R extrapolated
arrivals, so its error grows with R. ``ewma`` and ``median`` smooth, and estimate the spread too.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .errors import InvalidInput


@dataclass(frozen=True)
class Estimate:
    """Predicted interval of the next iteration: its mean and standard deviation in seconds."""

    mean: float
    deviation: float


class Predictor(Protocol):
    """Online estimator for one worker."""

    def observe(self, seconds: float) -> None:
        """Take in the duration of one finished iteration."""
        ...

    def estimate(self) -> Estimate | None:
        """Current prediction, or None before the first observation."""
        ...


def _check(seconds: float) -> None:
    if not (math.isfinite(seconds) and seconds > 0):
        raise InvalidInput(f"an iteration must take a positive, finite time, got {seconds} s")


class LastInterval:
    """The published predictor; its spread is unknown and reported as 0."""

    def __init__(self) -> None:
        self._last: float | None = None

    def observe(self, seconds: float) -> None:
        """Replace the prediction by this duration."""
        _check(seconds)
        self._last = seconds

    def estimate(self) -> Estimate | None:
        """The latest duration."""
        return None if self._last is None else Estimate(self._last, 0.0)


class Ewma:
    """Exponentially weighted mean and variance with weight ``alpha`` for the newest value.

    While few values are known the weight is 1 / count (a plain mean), so the first value does not
    linger. Variance by West's incremental update (1979).
    """

    def __init__(self, alpha: float = 0.1) -> None:
        if not 0 < alpha <= 1:
            raise InvalidInput(f"alpha must lie in (0, 1], got {alpha}")
        self._alpha = alpha
        self._count = 0
        self._mean = 0.0
        self._variance = 0.0

    def observe(self, seconds: float) -> None:
        """Blend in one duration."""
        _check(seconds)
        self._count += 1
        weight = max(self._alpha, 1.0 / self._count)
        delta = seconds - self._mean
        self._mean += weight * delta
        self._variance = (1 - weight) * (self._variance + weight * delta * delta)

    def estimate(self) -> Estimate | None:
        """Weighted mean and standard deviation."""
        if self._count == 0:
            return None
        return Estimate(self._mean, math.sqrt(self._variance))


class RunningMedian:
    """Median of the last ``window`` durations; deviation = 1.4826 * median absolute deviation.

    Ignores single stalls (garbage collection, a slow read) that would pull a mean.
    """

    def __init__(self, window: int = 15) -> None:
        if window < 1:
            raise InvalidInput(f"window must be at least 1, got {window}")
        self._values: deque[float] = deque(maxlen=window)

    def observe(self, seconds: float) -> None:
        """Add one duration, dropping the oldest beyond the window."""
        _check(seconds)
        self._values.append(seconds)

    def estimate(self) -> Estimate | None:
        """Median and robust standard deviation."""
        if not self._values:
            return None
        middle = _median(sorted(self._values))
        spread = _median(sorted(abs(v - middle) for v in self._values))
        return Estimate(middle, 1.4826 * spread)


def _median(ordered: list[float]) -> float:
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2


_KINDS: dict[str, Callable[[], Predictor]] = {
    "last": LastInterval,
    "ewma": Ewma,
    "median": RunningMedian,
}


def make_predictor(kind: str) -> Predictor:
    """Return a fresh predictor: ``last`` (published), ``ewma`` or ``median``."""
    if kind not in _KINDS:
        raise InvalidInput(f"unknown predictor {kind!r}; choose one of {', '.join(_KINDS)}")
    return _KINDS[kind]()
