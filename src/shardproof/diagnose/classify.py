"""Name the kind of a cause from the meanings of its operands."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from shardproof.diagnose.facts import (
    FACTOR,
    NO_MEANING,
    ORDER,
    SUM,
    Facts,
    is_local_extremum,
    overlap,
)
from shardproof.diagnose.near import Near, nearest
from shardproof.diagnose.partials import BACKWARD, Partials
from shardproof.diagnose.shifts import Split
from shardproof.diagnose.trace import Place, Site, Tracer
from shardproof.infer.blocks import Lin, Term, Val
from shardproof.infer.coef import Coef, format_coef
from shardproof.infer.describe import describe
from shardproof.infer.naming import UNIT
from shardproof.infer.run import Inference
from shardproof.ir.graph import Node
from shardproof.ir.sizes import Size


@dataclass(slots=True)
class Cause:
    """What a finding says before it is dressed up: its code, a message, the value that carries
    the wrong meaning, and the sequential operator nearest to what was meant. ``base`` is the code
    under which it was found, where a more exact one was found later; ``ratio`` the factor by which
    a value is wrong."""

    code: str
    message: str
    wrong: Place | None = None
    near: Near | None = None
    expected: str = ""
    notes: list[str] = field(default_factory=list)
    base: str = ""
    ratio: Coef | None = None

    @property
    def kind(self) -> str:
        """The code under which it was found."""
        return self.base or self.code


class Classifier:
    """Causes of one inference."""

    def __init__(self, inf: Inference, facts: Facts, tracer: Tracer) -> None:
        self.inf, self.facts, self.tracer = inf, facts, tracer
        self.partials = Partials(tracer)

    def classify(self, site: Site) -> Cause:
        """The kind of cause at a site."""
        v = self.tracer.meaning((site.rank, site.value))
        undefined = self._undefined(v)
        if undefined is not None:
            return undefined
        near = self._near(v)
        found = (
            self._scaled_apart(site, v)
            or self._gap(site)
            or self._partial_operand(site)
            or self._factor(site, v)
            or self._order(site)
            or self._extremum_operand(site)
        )
        if found is not None:
            found.near = found.near or near
            return found
        return self._other(site, near)

    # ---- the value itself

    def _undefined(self, v: Val | None) -> Cause | None:
        if v is None:
            return None
        ev = self.inf.evaluator
        lost = [t.atom for c in v.cells for t, _ in c.lin if t.atom in ev.undefined]
        reasons = [ev.reasons.get(a, "") for a in lost]
        for reason in reasons:
            if "may leave the table" in reason:
                return Cause("SP131", reason)
            if "infinity" in reason:
                return Cause("SP130", reason)
        if lost:
            return Cause("SP130", "contents that nobody has written reach an output")
        for c in v.cells:
            for t, _ in c.lin:
                for a in self.facts.roots([t.atom]):
                    reason = ev.reasons.get(a, "")
                    if "may leave the table" in reason:
                        return Cause("SP131", reason)
        return None

    def _near(self, v: Val | None) -> Near | None:
        if v is None:
            return None
        atoms = [t.atom for c in v.cells for t, _ in c.lin]
        roots = self.facts.roots(atoms)
        return nearest(self.inf, roots[0]) if roots else None

    def _scaled_apart(self, site: Site, v: Val | None) -> Cause | None:
        """Parts of one sum are added up that are shifted by different maxima, or divided by sums
        of their own."""
        for c in v.cells if v is not None else ():
            parts = self.tracer.scales.parts(c)
            if parts:
                said = " and ".join(f"{self._range(s)} {self._scaled_by(s)}" for s in parts[:3])
                return Cause(
                    "SP116",
                    f"%{site.value.name} adds up parts of one sum that are scaled differently: "
                    f"{said}",
                    (site.rank, site.value),
                )
        return None

    def _range(self, s: Split) -> str:
        assert s.core is not None
        return self.facts.range_of(s.core) or self.inf.evaluator.table.atoms[s.core.atom].name

    def _scaled_by(self, s: Split) -> str:
        if not s.gauge:
            return "as they are"
        names = sorted({self.inf.evaluator.table.atoms[t.atom].name for t, _ in s.gauge})
        return f"with {', '.join(names)}"

    # ---- operands

    def _gap(self, site: Site) -> Cause | None:
        """Partial sums that are added up and do not join, over the ranks or on one of them."""
        local = site.oddity is not None and any(overlap(c) for c in self._lins(site))
        if site.node is None or not (local or site.node.attrs.get("op") in ("sum", "avg")):
            return None
        parts = [(p, t.restr[0]) for p in site.operands for t in self._partial_terms(p)]
        if len(parts) < len(site.operands) or len({label for _, (label, _, _) in parts}) != 1:
            return None
        full = self.inf.evaluator.table.full(parts[0][1][0])
        ends = [
            (p, lo, hi) for p, (_, lo, hi) in parts if isinstance(lo, int) and isinstance(hi, int)
        ]
        if full is None or len(ends) != len(parts):
            return None
        before, reached = None, full[0]
        for p, lo, hi in sorted(ends, key=lambda e: (e[1], e[2])):
            if lo != reached:
                return _not_joined(before, p, reached, lo)
            before, reached = p, hi
        return None if reached == full[1] else _not_joined(before, None, reached, full[1])

    def _lins(self, site: Site) -> list[Lin]:
        v = self.tracer.meaning((site.rank, site.value))
        return [c.lin for c in v.cells] if v is not None else []

    def _partial_terms(self, place: Place) -> list[Term]:
        """The terms of a value with one sum each that is not complete."""
        v = self.tracer.meaning(place)
        partials = self.facts.partials(v) if v is not None else ()
        return [t for t, _ in partials if len(t.restr) == 1]

    def _partial_operand(self, site: Site) -> Cause | None:
        """A partial sum met an operator that is not linear in it, or a complete summand."""
        if site.oddity is None or site.oddity.kind not in (NO_MEANING, SUM):
            return None
        for p in site.operands:
            v = self.tracer.meaning(p)
            if v is not None and self.facts.partials(v):
                if self._bias_everywhere(site):
                    return Cause(
                        "SP118",
                        "a value that every rank holds is added to a partial sum: after the "
                        "reduction it counts once a rank",
                        p,
                    )
                return Cause(
                    "SP110",
                    f"%{p[1].name}{_of_backward(self.tracer.node(p))} is only a partial sum here"
                    f"{self._part_of(p)}, and it is used as if it were the complete value; a "
                    "reduction over the ranks is missing or of the wrong kind",
                    p,
                )
        return None

    def _part_of(self, place: Place) -> str:
        """Which part of its sum a value holds, in brackets."""
        parts = [r for t in self._partial_terms(place) if (r := self.facts.range_of(t))]
        return f" ({parts[0]} on rank {place[0]})" if parts else ""

    def _bias_everywhere(self, site: Site) -> bool:
        """Whether the sum that was formed is later reduced, as it is or passed on by views (so its
        complete part is counted again on every rank)."""
        formed = (site.rank, site.value)
        return self._adds_up(formed) and any(
            formed in self.tracer.carriers(p) for p in self.tracer.reduced() if p[0] == site.rank
        )

    def _adds_up(self, place: Place) -> bool:
        """Whether a value is a sum of several values, with or without a name."""
        v = self.tracer.meaning(place)
        definition = self.facts.table.definition
        return v is not None and any(
            len(c.lin) > 1 or any((d := definition(t.atom)) and d.fn == "lin" for t, _ in c.lin)
            for c in v.cells
        )

    def _factor(self, site: Site, v: Val | None) -> Cause | None:
        if site.oddity is None or site.oddity.kind != FACTOR or v is None:
            return None
        t, k = site.oddity.terms[0]
        phase = site.node.origin.phase if site.node is not None else ""
        right = self.facts.right_factor(t.atom, k, phase)
        ratio = k / right
        name = self.inf.evaluator.table.atoms[t.atom].name
        reduced = site.node is not None and "group" in site.node.attrs
        code = "SP111" if _whole(ratio) else "SP112"
        message = (
            f"%{site.value.name} is {_off_by(ratio)}: it holds {format_coef(k)}*{name}, "
            f"where the sequential program has {format_coef(right)}*{name}"
        )
        if reduced and _whole(ratio):
            message += (
                ": every rank has the mean over its own part, and the reduction added them up"
                if any(self._partial_terms(p) for p in site.operands)
                else ": every rank already held the complete value, and the reduction added it up"
            )
        expected = f"{format_coef(right)}*{name}"
        return Cause(code, message, (site.rank, site.value), None, expected, ratio=ratio)

    def _order(self, site: Site) -> Cause | None:
        if site.oddity is not None and site.oddity.kind == ORDER:
            return Cause(
                "SP115",
                f"the pieces of %{site.value.name} stand in another order than in the "
                "sequential value, or one of them twice",
                (site.rank, site.value),
            )
        for p in site.operands:
            v = self.tracer.meaning(p)
            if v is not None and self.facts.misordered(v):
                return Cause(
                    "SP115",
                    f"the pieces of %{p[1].name} stand in another order than in the sequential "
                    "value, or one of them twice",
                    p,
                )
        return None

    def _extremum_operand(self, site: Site) -> Cause | None:
        for p in site.operands:
            v = self.tracer.meaning(p)
            if v is not None and any(is_local_extremum(t) for c in v.cells for t, _ in c.lin):
                return Cause(
                    "SP116",
                    f"%{p[1].name} is a maximum or minimum over this rank's part only",
                    p,
                )
        return None

    def _other(self, site: Site, near: Near | None) -> Cause:
        pieces = site.oddity is not None and site.oddity.kind == SUM and self._known_sum(site)
        if pieces or (near is not None and near.difference == "index"):
            return Cause(
                "SP114",
                "the operands are pieces of the right values, but not pieces that belong together",
                near=near,
            )
        if near is not None and near.difference == "attribute":
            return Cause(
                "SP117",
                "the sequential program applies this operator with other attributes",
                near=near,
            )
        collective = site.node is not None and "group" in site.node.attrs
        if collective:
            return Cause(
                "SP113",
                "this collective combines values that do not make up one sequential value "
                "(wrong group, operation or dim)",
                near=near,
            )
        return Cause(
            "SP117", "the sequential program has no such operator on these operands", near=near
        )

    def _known_sum(self, site: Site) -> bool:
        """Whether the sequential program adds up these values, only other parts of them."""
        assert site.oddity is not None
        return frozenset(t.atom for t, _ in site.oddity.terms) in self.facts.named_sums

    def _never_summed(self, place: Place) -> str:
        """What is missing for the whole sum, and where."""
        entry = self.partials.entry(place)
        if entry is None:
            return "a later reduction over the ranks, outside the captured graph, would mend it"
        of = _of_backward(self.tracer.node(entry))
        return (
            f"so is %{entry[1].name}{of} from which it comes, and no backward pass on the way sums "
            "that over the ranks"
        )

    # ---- an output that has a meaning, only not the one declared

    def output(self, place: Place, found: Val, expected: Val, partial_name: str) -> Cause:
        """The cause where an output itself is a plain sequential value, but the wrong one."""
        ev = self.inf.evaluator
        want = describe(ev, expected)
        a, b = _atoms(found), _atoms(expected)
        if self.facts.unreduced(found, expected):
            return Cause(
                "SP121" if partial_name == "gradient" else "SP110",
                f"%{place[1].name}{_of_backward(self.tracer.node(place))} is only a partial sum on "
                f"each rank{self._part_of(place)}; {self._never_summed(place)}",
                place,
                expected=want,
            )
        ratio = ratio_of(found, expected)
        if a == b and ratio is not None and ratio != 1:
            code = "SP111" if _whole(ratio) else "SP112"
            return Cause(
                code, f"%{place[1].name} is {_off_by(ratio)}", place,
                expected=want, ratio=ratio,
            )  # fmt: skip
        if a == b:
            return Cause(
                "SP114",
                f"%{place[1].name} holds another part of the sequential value than declared",
                place,
                expected=want,
            )
        return Cause(
            "SP203", f"%{place[1].name} is another value than declared", place, expected=want
        )


def _of_backward(node: Node | None) -> str:
    """Of which forward line an operator computes the gradient."""
    if node is None or node.origin.phase != BACKWARD or not node.origin.file:
        return ""
    return f", of the backward pass of {node.origin.file}:{node.origin.line},"


def _not_joined(before: Place | None, after: Place | None, reached: Size, lo: Size) -> Cause:
    """The cause where two neighbouring parts of a sum leave a gap or overlap."""
    wrong = after or before
    assert wrong is not None
    name = wrong[1].name
    if before and after and before[0] == after[0]:
        whose, first, second = "", f"%{before[1].name} ends at", f"%{after[1].name} begins at"
    else:
        whose = "ranks' "
        first = f"rank {before[0]} ends at" if before else "the sum begins at"
        second = f"rank {after[0]} begins at" if after else "the sum ends at"
    return Cause(
        "SP113",
        f"the {whose}parts of the sum in %{name} do not join: {first} {reached}, {second} {lo}",
        wrong,
    )


def _atoms(v: Val) -> set[int]:
    return {t.atom for c in v.cells for t, _ in c.lin if t.atom != UNIT}


def ratio_of(a: Val, b: Val) -> Coef | None:
    """The constant that ``a`` is of ``b``, or None."""
    if len(a.cells) != 1 or len(b.cells) != 1:
        return None
    x, y = a.cells[0].lin, b.cells[0].lin
    if len(x) != 1 or len(y) != 1 or x[0][0].atom != y[0][0].atom:
        return None
    return x[0][1] / y[0][1]


def _whole(ratio: Coef) -> bool:
    return isinstance(ratio, Fraction) and ratio.denominator == 1 and ratio > 1


def _off_by(ratio: Coef) -> str:
    """``twice too large``, ``4 times too small``, ``off by the factor -1/3``."""
    if isinstance(ratio, Fraction) and ratio > 0:
        size = ratio if ratio > 1 else 1 / ratio
        times = "twice" if size == 2 else f"{format_coef(size)} times"
        return f"{times} too {'large' if ratio > 1 else 'small'}"
    return f"off by the factor {format_coef(ratio)}"
