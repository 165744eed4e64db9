"""Rewrite a problem to small sizes at which it can be run.

The original sizes already solve every equation between sizes, so the pass does not solve for
sizes but for *scale factors*. Dims that must shrink together form a class
(:mod:`~shardproof.replay.resize.scales`); the operators' algebra says which
(:mod:`~shardproof.replay.resize.rules`); reshapes give equations between products of classes
(:mod:`~shardproof.replay.resize.closure`, :mod:`~shardproof.replay.resize.solve`). Sizes that occur
as values, such as the first vocabulary row of a rank, follow the table they index
(:mod:`~shardproof.replay.resize.domains`). The result is checked by the operators' shape rules.

What shapes cannot check is that values keep their meaning: a caller who claims a counterexample
verifies the resized problem again and requires the same verdict.
"""

from shardproof.replay.resize.resize import Resized, ResizeReport, keep_sizes, resize
from shardproof.replay.resize.solve import Wish

__all__ = ["ResizeReport", "Resized", "Wish", "keep_sizes", "resize"]
