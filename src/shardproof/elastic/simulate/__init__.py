"""Event-driven simulation: straggler models, recorded traces, what-if analysis."""

from __future__ import annotations

from .engine import Fault, simulate
from .faults import random_faults
from .result import Result, Superstep
from .stragglers import Cluster, Draw, IterationTimes, SyntheticTimes, TraceTimes
from .traces import load_trace, save_trace
from .whatif import WhatIf, what_if

__all__ = [
    "Cluster",
    "Draw",
    "Fault",
    "IterationTimes",
    "Result",
    "Superstep",
    "SyntheticTimes",
    "TraceTimes",
    "WhatIf",
    "load_trace",
    "random_faults",
    "save_trace",
    "simulate",
    "what_if",
]
