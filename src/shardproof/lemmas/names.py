"""Stable names of the lemmas, for the places in inference that apply them."""

from __future__ import annotations

# Sums and partial sums
PARTIAL_SUMS = "partial-sums-join"
SPLIT_CONTRACTION = "split-contraction"
FACTOR_OUT = "factor-out-of-sum"
CONSTANT_SUM = "sum-of-constant"
MEAN = "mean-is-scaled-sum"
SUM_OF_SUMS = "sum-of-sums"
SINGLE_SUMMAND = "single-summand"
SUM_RESPELLED = "sum-respelled"
EXTREMA = "extrema-join"
EXTREMUM_OF_CONSTANT = "extremum-of-constant"

# Ranks, slices, names
RANK_TILES = "rank-intervals-tile"
REPLICAS = "sum-of-replicas"
GATHERED = "gathered-slices"
CONGRUENCE = "congruence"
REPEATED_LAYER = "repeated-layer"

# Integers, guards, lookups
PIECES = "integer-pieces"
PIECES_OF_AXIS = "pieces-of-an-axis"
SELECT = "select-by-indicator"
INDICATOR_POWER = "indicator-power"
GUARD_MEET = "guard-meet"
GUARD_ONEHOT = "guard-onehot"
THRESHOLD_MOVED = "threshold-moved"
GUARD_OF_SUM = "guard-of-sum"
ONEHOT_SELECTS = "onehot-selects"
ONEHOT_TOTAL = "onehot-total"
LOOKUP = "lookup-as-onehot"
LOOKUP_PIECES = "lookup-by-pieces"
POSITIONS = "lookup-of-positions"
POSITION_GUARD = "position-guard"
MASKED_SUM = "masked-sum"
SCATTER = "scatter-as-onehot"
WRITE = "write-as-onehot"

# Row algebra
EXP_OF_SUM = "exp-of-sum"
EXP_PRODUCT = "exp-product"
EXP_OF_LOG = "exp-of-log"
MASKED_EXP = "masked-exponential"
LOG_OF_PRODUCT = "log-of-product"
CANCELLED = "cancelled-factor"
POWER_OF_MULTIPLE = "power-of-multiple"
POWER_OF_ROOT = "power-of-root"
OPENED = "opened-definition"
