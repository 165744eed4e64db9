"""One cause, one finding: what follows from an earlier finding is told under that one."""

from __future__ import annotations

from collections.abc import Sequence

from shardproof.diagnose.classify import Cause
from shardproof.diagnose.partials import Partials
from shardproof.diagnose.trace import Place, Site, Tracer
from shardproof.ir.graph import UNREACHED
from shardproof.report.diagnostic import Finding

# Codes of causes in which a sum is not complete, and in which a factor is wrong.
PARTIAL = ("SP110", "SP118", "SP121")
FACTORS = ("SP111", "SP112")
Located = tuple[Finding, Site, Cause]


class Fold:
    """Which findings of one inference follow from which."""

    def __init__(self, tracer: Tracer) -> None:
        self.partials = Partials(tracer)

    def fold(self, findings: Sequence[Finding], located: Sequence[Located]) -> list[Finding]:
        """The findings that stand for themselves, with the others told under them."""
        of = {id(f): (site, cause) for f, site, cause in located}
        kept: list[Finding] = []
        for f in findings:
            head = next((k for k in kept if self._follows(f, k, of)), None)
            if head is None:
                kept.append(f)
            elif self._sharper(f, head, of):
                _renamed(head, f)
            else:
                absorb(head, f)
        return kept

    @staticmethod
    def _sharper(f: Finding, head: Finding, of: dict[int, tuple[Site, Cause]]) -> bool:
        """Whether a finding at the same operator says more exactly what the first one says: some of
        what is affected shows more than the rest."""
        (site, cause), (first, why) = of[id(f)], of[id(head)]
        return site.node is first.node and not why.base and cause.base == why.code

    def _follows(self, f: Finding, head: Finding, of: dict[int, tuple[Site, Cause]]) -> bool:
        if id(f) not in of or id(head) not in of:
            return False
        if f.code == head.code and _line(f) and _line(f) == _line(head):
            return True
        (site, cause), (first, why) = of[id(f)], of[id(head)]
        if site.node is None and first.node is not None:
            return first.node.origin.phase == UNREACHED and _parameters_of(f, head)
        if cause.kind in PARTIAL and why.kind in PARTIAL:
            return bool(self.origins(site, cause) & self.origins(first, why))
        return self._derived(site, cause, first, why)

    @staticmethod
    def _derived(site: Site, cause: Cause, first: Site, why: Cause) -> bool:
        """Whether the first cause is in the forward pass and the other in its derivative. A sum
        that is not complete may lack a reduction of its own, and a factor one of its own size."""
        phases = [s.node.origin.phase if s.node is not None else "" for s in (first, site)]
        if phases != ["forward", "backward"] or cause.kind in PARTIAL:
            return False
        return cause.kind not in FACTORS or cause.ratio == why.ratio

    def origins(self, site: Site, cause: Cause) -> set[Place]:
        """Where the sum that is not complete began to be a part of one."""
        return self.partials.origins(cause.wrong or (site.rank, site.value))


def absorb(head: Finding, f: Finding) -> None:
    """Tell one finding under another, which takes over what witnesses it."""
    head.counterexample = head.counterexample or f.counterexample
    head.certain = head.certain or f.certain
    head.ranks = sorted({*head.ranks, *f.ranks})
    head.affected += [name for name in f.affected if name not in head.affected]
    where = ""
    if f.primary is not None:
        line = f" ({f.primary.file}:{f.primary.line})" if f.primary.line else ""
        where = f" at %{f.primary.node}{line}"
    said = f": {f.message}" if f.message != head.message else ""
    head.notes.append(f"follows from this: {f.code}{where}, {', '.join(f.affected)}{said}")


def _renamed(head: Finding, f: Finding) -> None:
    """Tell a finding as the more exact one about the same operator does."""
    head.code, head.title, head.message = f.code, f.title, f.message
    head.ranks = sorted({*head.ranks, *f.ranks})
    head.affected += [name for name in f.affected if name not in head.affected]
    head.notes += [n for n in f.notes if n not in head.notes]


def _parameters_of(f: Finding, head: Finding) -> bool:
    """Whether all that a finding affects belongs to parameters whose gradients another affects:
    what has no gradient is not updated."""
    having = {name.partition(".")[2] for name in head.affected if name.startswith("grad.")}
    names = [name.partition(".")[2] for name in f.affected]
    return all(any(n == p or n.startswith(f"{p}.") for p in having) for n in names)


def _line(f: Finding) -> tuple[str, int] | None:
    s = f.primary
    return (s.file, s.line) if s is not None and s.line else None
