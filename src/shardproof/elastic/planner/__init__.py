"""Where to put the next barrier: exact planners, published baselines, objectives and caps.

``plan`` is the entry point. The input is a matrix of predicted arrival times, one row per worker;
the output says after how many further iterations each worker stops, and when the barrier closes.
"""

from __future__ import annotations

from .exact import plan
from .grid import full_grid_scan, grid_scan
from .linked import zipline
from .model import Arrivals, Caps, Plan, arrivals_from_intervals, as_arrivals
from .objectives import MinGap, Objective, WaitRate, make_objective
from .published import zipline_opt, zipline_opt_bs, zipline_published

__all__ = [
    "Arrivals",
    "Caps",
    "MinGap",
    "Objective",
    "Plan",
    "WaitRate",
    "arrivals_from_intervals",
    "as_arrivals",
    "full_grid_scan",
    "grid_scan",
    "make_objective",
    "plan",
    "zipline",
    "zipline_opt",
    "zipline_opt_bs",
    "zipline_published",
]
