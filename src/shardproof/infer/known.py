"""Which values an integer tensor has, as far as lookups of the sequential program say.

Positions (of the largest element, of a sorted one) are inside their axis without being told.
A lookup states that its ids index the table; with masked ids, that the ones that are not masked
do. Thresholds that no such value tells apart are one: with values in {-100} and [0, 8),
``[t >= -100] = 1`` and ``[t >= -99] = [t >= 0]``.
"""

from __future__ import annotations

from shardproof.infer.naming import Table
from shardproof.ir.sizes import Size, at_least, product, smax, smin
from shardproof.ops.base import POSITIONS

Bound = Size | None  # None: minus or plus infinity
Span = tuple[Bound, Bound]


class Known:
    """Values by atom: one range, or several spans in order; and the assumptions they are."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.ranges: dict[int, tuple[Size, Size]] = {}
        self.spans: dict[int, tuple[Span, ...]] = {}
        self.assumed: dict[str, int] = {}

    def range(self, atom: int) -> tuple[Size, Size] | None:
        """The values that an atom has, as one range."""
        found = self.ranges.get(atom)
        d = self.table.definition(atom)
        if found is not None or d is None or d.fn not in POSITIONS:
            return found
        return 0, product(d.hi[p] - d.lo[p] for p in d.whole)

    def index(self, atom: int, name: str, rows: Size) -> None:
        """The atom, as it is, indexes a table of ``rows`` rows."""
        old = self.range(atom)
        new = (0, rows) if old is None else (smax(old[0], 0), smin(old[1], rows))
        if old != new:
            self.ranges[atom] = new
            self.assumed[f"0 <= {name} < {rows} (it indexes a table of {rows} rows)"] = atom

    def confine(self, atom: int, name: str, spans: tuple[Span, ...], rows: Size) -> None:
        """Masked in one way or another, the atom indexes a table of ``rows`` rows."""
        self.spans[atom] = spans
        text = " or ".join(f"{lo} <= {name} < {hi}" for lo, hi in spans)
        self.assumed[f"{text} (it indexes a table of {rows} rows)"] = atom

    def take(self, other: Known, atoms: int) -> None:
        """Take over what another one knows of the first ``atoms`` atoms."""
        self.ranges.update((a, r) for a, r in other.ranges.items() if a < atoms)
        self.spans.update((a, s) for a, s in other.spans.items() if a < atoms)
        self.assumed.update((t, a) for t, a in other.assumed.items() if a < atoms)

    def threshold(self, atom: int, k: Size) -> Size | bool:
        """What ``[atom >= k]`` is: always, never, or the threshold that stands for it."""
        known = self.range(atom)
        if known is not None and at_least(known[0], k):
            return True
        if known is not None and at_least(k, known[1]):
            return False
        spans = self.spans.get(atom)
        return k if spans is None else least(spans, k)


def least(spans: tuple[Span, ...], k: Size) -> Size | bool:
    """The smallest value that is at least ``k`` in spans that are in order: True if that is every
    value, False if there is none; ``k`` itself inside a span, or where the order is not known."""
    for n, (lo, hi) in enumerate(spans):
        if lo is not None and at_least(lo, k):
            return True if n == 0 else lo
        if hi is None or not at_least(k, hi):
            return k
    return False
