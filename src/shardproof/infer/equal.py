"""Whether two values are equal: their difference has no terms left in any cell."""

from __future__ import annotations

from shardproof.infer import views
from shardproof.infer.blocks import Lin, Unsupported, Val
from shardproof.infer.evaluate import Evaluator
from shardproof.infer.factors import align_all
from shardproof.infer.fold import MAX_FLAT_OUTPUT
from shardproof.infer.terms import lincomb
from shardproof.ir.sizes import Undecided


class Equality:
    """Equality over one naming table."""

    def __init__(self, ev: Evaluator) -> None:
        self.ev = ev

    def check(self, a: Val, b: Val) -> tuple[bool, str]:
        """``(equal, why not)``; the reason is empty where the values were compared and differ."""
        try:
            return self._equal(a, b), ""
        except (Unsupported, Undecided) as e:
            return False, str(e)

    def _equal(self, a: Val, b: Val) -> bool:
        if a.shape != b.shape:
            return False
        if any(t.atom in self.ev.undefined for c in a.cells for t, _ in c.lin):
            return False
        if any(s == 0 for s in a.shape):
            return True
        aligned = align_all([a, b])
        boxes = views.overlay(aligned)
        if not boxes or not all(v.cells for v in aligned):
            return False
        return all(self._same(x, y) for _, _, (x, y) in boxes)

    def _same(self, x: Lin, y: Lin) -> bool:
        if x == y:
            return True
        rest = lincomb(self.ev.table, [*x, *((t, -c) for t, c in y)])
        if not rest:
            return True
        flat = self.ev.folder.flatten(rest, MAX_FLAT_OUTPUT)
        return flat is not None and not flat
