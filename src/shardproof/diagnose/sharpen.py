"""A more exact name for a cause, from the innermost difference of two meanings.

The classifier sees the operator where a cause enters; what the user did is often visible only in
how the wrong value is made: a term of the norm is missing, a count is that of one micro-batch, one
of several gradients was dropped. Every rule here asks about the terms of meanings, none about
names; a rule that does not apply leaves the cause as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from shardproof.diagnose.backward import Backward, is_zero
from shardproof.diagnose.classify import Cause
from shardproof.diagnose.difference import Difference, Differences
from shardproof.diagnose.facts import Facts, is_partial
from shardproof.diagnose.ignored import ignored
from shardproof.diagnose.summands import Summands, join
from shardproof.diagnose.trace import Place, Site, Tracer
from shardproof.infer.blocks import Lin, Term
from shardproof.infer.coef import Coef, format_coef
from shardproof.infer.naming import UNIT
from shardproof.infer.run import Inference, Judged

# Codes of causes in which a count of one part was taken for another.
COUNTS = ("SP116", "SP123")
REDUCTIONS = ("all_reduce", "reduce_scatter")


@dataclass(frozen=True, slots=True)
class Question:
    """A cause with what it was found from."""

    cause: Cause
    site: Site
    judged: Judged
    difference: Difference | None


class Sharpener:
    """Sharper causes of one inference."""

    def __init__(self, inf: Inference, facts: Facts, tracer: Tracer) -> None:
        self.inf, self.facts, self.tracer = inf, facts, tracer
        self.table = inf.evaluator.table
        self.differences = Differences(inf.evaluator)
        self.summands = Summands(inf, self.differences)
        self.backward = Backward(inf, tracer)

    def sharpen(self, cause: Cause, site: Site, judged: Judged) -> Cause:
        """The cause under its most exact code; ``base`` keeps the one that it was found under."""
        d = None
        if judged.found is not None and judged.expected is not None:
            d = self.differences.of(judged.found, judged.expected)
        q = Question(cause, site, judged, d)
        for codes, rule in self._rules():
            if cause.code in codes and (told := rule(q)) is not None:
                code, message = told
                notes = [*cause.notes, *self._ignored(code, d)]
                return replace(cause, code=code, message=message, base=cause.code, notes=notes)
        return cause

    def _ignored(self, code: str, d: Difference | None) -> list[str]:
        """What to say of labels that a count leaves out."""
        if code not in COUNTS or d is None:
            return []
        return ignored(self.inf, {a for t, _ in d.missing for a in self.differences.leaves(t)})

    def _rules(self) -> list[tuple[tuple[str, ...], Callable[[Question], tuple[str, str] | None]]]:
        """Which rule can say more about which code, the most telling first."""
        sums = ("SP110", "SP111", "SP112", "SP113", "SP117", "SP118", "SP203")
        return [
            (sums, self._norm_term),
            (sums, self._clipping),
            (("SP110", "SP117", "SP203"), self._local_divisor),
            (sums, self._mean_of_means),
            (("SP110",), self._local_statistic),
            (("SP112", "SP113", "SP117", "SP121", "SP203"), self._backward),
            (("SP110", "SP111", "SP112", "SP203"), self._summand),
            (("SP111",), self._twice),
        ]

    # ---- norms and clipping

    def _norm_term(self, q: Question) -> tuple[str, str] | None:
        """The sum of squares below a root is not the sequential one."""
        d = q.difference
        if d is None or not d.way:
            return None
        if d.kind == "factor":
            return self._squared(d)
        terms = [t for t, _ in d.expected if t.atom != UNIT]
        if d.way[-1].fn != "power" or not any(self._of_squares(t) for t in terms):
            return None
        parts = [t for t, _ in d.found if t.atom != UNIT]
        if all(is_partial(t) for t in parts):
            ranges = join([self._range(t) for t in parts])
            return "SP116", (
                f"the norm is that of this rank's part only: on rank {q.judged.graph} its square "
                f"sums {ranges}"
            )
        if len(terms) == 1 and len(parts) == 1:
            return None  # nothing is missing; a factor is wrong
        said = join([self._said(t, k, d.extra) for t, k in d.missing])
        extra = [t for t, _ in d.extra if t.atom not in {u.atom for u, _ in d.missing}]
        if extra:
            said += ("; " if said else "") + f"it has {join([self._name(t) for t in extra])} too"
        return "SP124", f"the squared norm is not that of the sequential program: {said}"

    def _squared(self, d: Difference) -> tuple[str, str] | None:
        """A norm of other values."""
        if d.way[-1].power != 2 or not any(step.fn == "power" for step in d.way):
            return None
        found, wanted = (join([self._name(t) for t, _ in x]) for x in (d.extra, d.missing))
        if not found or not wanted:
            return None
        return "SP124", (
            f"the norm is that of other values: it has the squares of {found}, where the "
            f"sequential program has those of {wanted}"
        )

    def _of_squares(self, t: Term) -> bool:
        d = self.table.definition(t.atom)
        powers = [k for o in d.operands for _, k in o] if d is not None and d.fn == "sum" else []
        return len(powers) == 1 and powers[0] == 2

    def _said(self, t: Term, k: Coef, extra: Lin) -> str:
        """How a term of the sequential sum occurs in the one that was found."""
        found = [(u, c) for u, c in extra if u.atom == t.atom]
        name = self._name(t)
        if not found:
            return f"it lacks {name}"
        u, c = found[0]
        if u.restr != t.restr:
            return f"of {name} it holds only {self._range(u)}"
        return f"{name} counts {format_coef(c / k)} times in place of once"

    def _clipping(self, q: Question) -> tuple[str, str] | None:
        """A factor made of the whole tensor (a clip factor) is missing, or there is one more."""
        d = q.difference
        if d is None or d.kind != "sum":
            return None
        for a, b, fault in ((d.extra, d.missing, "lacks"), (d.missing, d.extra, "has")):
            for plain, _ in a:
                for scaled, _ in b:
                    factor = self._scaled_by(scaled, plain)
                    if factor is not None:
                        more = "" if fault == "lacks" else " more"
                        return "SP124", (
                            f"%{q.site.value.name} {fault} a factor{more}: {self._name(plain)} "
                            f"{'is not' if fault == 'lacks' else 'is'} multiplied by "
                            f"{self._name(factor)}, which is computed from the norm of it"
                        )
        return None

    def _scaled_by(self, scaled: Term, plain: Term) -> Term | None:
        """The one factor without axes, made of all of ``plain``, that ``scaled`` has beside it."""
        d = self.table.definition(scaled.atom)
        if d is None or d.fn != "prod":
            return None
        factors = [x for lin in d.operands for x in lin]
        rest = [(t, k) for t, k in factors if t.atom != plain.atom or k != 1]
        if len(rest) != 1 or len(factors) != 2:
            return None
        t = rest[0][0]
        whole = all(w is None for w in t.ax) and plain.atom in self.differences.leaves(t)
        return t if whole and t.atom != plain.atom else None

    # ---- statistics

    def _local_divisor(self, q: Question) -> tuple[str, str] | None:
        """A quotient by a sum over a part, where the sequential one is by the whole sum."""
        d = q.difference
        if d is None or d.kind != "factor":
            return None
        for t, k in d.missing:
            part = next((u for u, c in d.extra if u.atom == t.atom and c == k), None)
            if part is None or not is_partial(part) or not _negative(k):
                continue
            data = {u.atom for u, _ in d.found} - {t.atom}
            if data & self.differences.leaves(t):
                return "SP116", (
                    f"the divisor {self._name(t)} is a sum over {self._range(part)} only, where "
                    "the sequential program divides by the whole sum"
                )
            return "SP123", (
                f"a mean of means: the sum is divided by {self._name(t)} over "
                f"{self._range(part)}, a count of one part, where the sequential program divides "
                "by that of all"
            )
        return None

    def _mean_of_means(self, q: Question) -> tuple[str, str] | None:
        """Parts of one sum with weights that make a mean of each, although they are not equally
        long."""
        d = q.difference
        if d is None or d.kind != "sum" or len(d.missing) != 1 or len(d.extra) < 2:
            return None
        whole = d.missing[0][0]
        shares = []
        for t, k in d.extra:
            if t.atom != whole.atom or len(t.restr) != 1 or not is_partial(t):
                return None
            _, lo, hi = t.restr[0]
            if not (isinstance(lo, int) and isinstance(hi, int)):
                return None
            shares.append((k, k * Fraction(hi - lo)))
        if len({k for k, _ in shares}) == 1 or len({s for _, s in shares}) != 1:
            return None
        ranges = join([f"{self._range(t)} (times {format_coef(k)})" for t, k in d.extra])
        return "SP123", (
            f"a mean of means of parts of unequal length: {self._name(whole)} is put together from "
            f"{ranges}, where every element counts {format_coef(d.missing[0][1])}"
        )

    def _local_statistic(self, q: Question) -> tuple[str, str] | None:
        """What scales a tensor was computed from a part of that tensor."""
        d = q.difference
        if d is None:
            return None
        beside = {t.atom: len(t.off) for step in d.way for t in step.beside}
        for t, k in d.missing:
            part = next((u for u, c in d.extra if u.atom == t.atom and c == k), None)
            # A statistic has fewer axes than what it is of; a product of matrices has not.
            scaled = {a for a, axes in beside.items() if axes > len(t.off)}
            if part is not None and is_partial(part) and scaled & self.differences.leaves(t):
                return "SP116", (
                    f"{self._name(t)} over {self._range(part)} is used as if it were that of the "
                    "whole; it scales the tensor that it was computed from"
                )
        return None

    # ---- sums of several values

    def _summand(self, q: Question) -> tuple[str, str] | None:
        if q.difference is None or q.difference.kind != "sum":
            return None
        repeats = q.cause.code != "SP112" or self._adds(q)
        told = self.summands.told(q.judged, q.difference, repeats)
        if told is not None and q.cause.code == "SP111" and not self._adds(q):
            return None  # a factor on one of them, not the same value twice
        return told

    def _adds(self, q: Question) -> bool:
        """Whether the operator at the site adds values, or its fault is not a factor."""
        node = q.site.node
        mine = [p for p in q.site.operands if p[0] == q.site.rank]
        return node is not None and ("group" in node.attrs or (len(mine) > 1 and node.op == "add"))

    def _twice(self, q: Question) -> tuple[str, str] | None:
        """A reduction of what an earlier reduction had completed."""
        node = q.site.node
        if node is None or node.op not in REDUCTIONS:
            return None
        if q.cause.ratio is not None and q.cause.ratio != len(q.site.operands):
            return None  # by another factor than the ranks that add up
        for p in q.site.operands:
            first = self._completed_by(p)
            if first is not None:
                n = len(q.site.operands)
                return "SP122", (
                    f"%{q.site.value.name} is reduced twice: %{first[1].name} is the complete sum "
                    f"already, and {node.op} adds it up once more over {n} ranks"
                )
        return None

    def _completed_by(self, place: Place) -> Place | None:
        """The reduction that made a partial sum complete on the way to ``place``."""
        for p in self.tracer.carriers(place):
            node = self.tracer.node(p)
            if node is None or node.op not in REDUCTIONS:
                continue
            meanings = [self.tracer.meaning(o) for o in self.tracer.operands(p)]
            if all(v is not None and self.facts.partials(v) for v in meanings):
                return p
        return None

    def _backward(self, q: Question) -> tuple[str, str] | None:
        told = self.backward.told(q.cause.code, q.site, q.judged)
        if told is None or q.cause.code != "SP203" or is_zero(q.judged.found):
            return told
        missing = q.difference.missing if q.difference is not None else ()
        names = join([self._name(t) for t, _ in missing])
        return told[0], f"{told[1]}: it lacks {names}" if names else told[1]

    # ---- words

    def _name(self, t: Term) -> str:
        return self.differences.name(t)

    def _range(self, t: Term) -> str:
        """``elements 0 to 3 of 8`` for a sum over a part."""
        return self.facts.range_of(t) or self._name(t)


def _negative(k: Coef) -> bool:
    return isinstance(k, Fraction | int) and k < 0
