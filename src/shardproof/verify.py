"""Decide one problem: infer, judge, and where it does not hold say why and show it.

The order is fixed by what each word means. *refines* needs a proof of every obligation (and the
replay of a small instance must not contradict it, else the tool itself is wrong). *refuted* needs
a replayed counterexample or a protocol violation. Everything else is *unproved*.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from shardproof.certificate.agree import certify
from shardproof.certificate.write import write
from shardproof.collectives.tags import overtaking
from shardproof.diagnose.codes import lookup
from shardproof.diagnose.evidence import Evidence
from shardproof.diagnose.findings import Findings
from shardproof.diagnose.fixes import FixSearch
from shardproof.diagnose.fold import absorb
from shardproof.infer.run import Inference
from shardproof.partial import Watched, interruptible
from shardproof.readings import TOLERANCE, Readings, protocol_error
from shardproof.replay.compare import replay_problem
from shardproof.replay.errors import NotReplayable
from shardproof.replay.instantiate import instantiate_problem, is_concrete, size_symbols
from shardproof.replay.resize import Resized, keep_sizes, resize
from shardproof.replay.search import (
    Search,
    elements,
    instantiate_small,
    search,
)
from shardproof.report.diagnostic import Finding, OutputRelation, Verdict
from shardproof.report.relation import (
    condition_lines,
    expression,
    of_ranks,
    possibly_empty,
    proof_notes,
)
from shardproof.spec.problem import Problem

Progress = Callable[[str], None]
REALS = "equality is over the real numbers: rounding, overflow, infinities and NaNs are left out"
inf_error = float("inf")


@dataclass(slots=True)
class Clock:
    """Seconds of CPU time by stage."""

    seconds: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.process_time)

    def lap(self, stage: str) -> None:
        now = time.process_time()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now


def verify(
    problem: Problem,
    *,
    fixed: dict[str, float] | None = None,
    replay: bool = True,
    fixes: bool = True,
    certificate: Callable[[bytes], object] | None = None,
    observe: Callable[[Evidence], object] | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Decide whether the distributed program refines the sequential one.

    Args:
        fixed: inputs that hold one constant, by name.
        replay: whether to replay reduced instances (without, nothing can be *refuted* but by a
            protocol violation).
        fixes: whether to look for a change that mends a refuted program.
        certificate: is given the certificate of a proof, as a file.
        observe: is given what the verdict was made from, for reports.
        progress: called with a short text at every stage.

    Raises:
        Interrupted: Ctrl-C; it holds what was found until then.
    """
    watched = Watched(problem, progress)
    with interruptible(watched):
        verdict, evidence = _decided(watched, problem, fixed, replay, fixes, certificate)
    if observe is not None:
        observe(evidence)
    return verdict


def _decided(
    watched: Watched,
    problem: Problem,
    fixed: dict[str, float] | None,
    replay: bool,
    fixes: bool,
    certificate: Callable[[bytes], object] | None,
) -> tuple[Verdict, Evidence]:
    say, clock = watched.say, Clock()

    def inferred() -> None:
        clock.lap("inference")

    readings = Readings(problem, fixed, replay, say, inferred, watched.proved)
    inf = readings.best()
    if not inf.holds and problem.distributed.spmd and not size_symbols(problem):
        # One graph for all ranks of a mesh of numbers says the same as one graph for each.
        say("one rank after another")
        concrete = instantiate_problem(problem, {})
        by_rank = Readings(concrete, fixed, replay, say, inferred, watched.proved)
        each = by_rank.best()
        if each.holds:
            readings, inf = by_rank, each
    problem = readings.problem
    verdict = watched.verdict = _verdict(problem, inf)
    evidence = Evidence(problem, inf, fixed or {})
    if inf.holds and not _without_ranks(problem, verdict):
        _certify(problem, inf, verdict, fixed, certificate, say)
        clock.lap("certificate")
        _confirm(problem, verdict, fixed, replay, say)
    elif not inf.holds:
        _refute(evidence, readings, verdict, replay, fixes, say)
    clock.lap("replay")
    verdict.seconds = clock.seconds
    return verdict, evidence


def verify_for_all(
    problem: Problem,
    axis: str,
    *,
    fixed: dict[str, float] | None = None,
    replay: bool = True,
    certificate: Callable[[bytes], object] | None = None,
    observe: Callable[[Evidence], object] | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Decide a captured problem for every extent of a mesh axis and for all sizes, or for every
    extent with all else at its captured size.

    Where that fails the captured instance is decided instead, and a *refines* of it alone is
    reported as unproved, with what stands in the way.
    """
    from shardproof.generalise import NotGeneral, generalise

    say = progress or (lambda text: None)
    say("generalising the captured sizes")
    reason = ""
    for sizes in (True, False):
        try:
            general = generalise(problem, axis, sizes=sizes)
        except NotGeneral as e:
            reason = reason or str(e)
            continue
        verdict = verify(
            general.problem, fixed=fixed, replay=replay, certificate=certificate, fixes=False,
            observe=observe, progress=progress,
        )  # fmt: skip
        if verdict.status == "refines":
            return verdict
        reason = reason or "the generalised program is not proved"
    verdict = verify(problem, fixed=fixed, replay=replay, observe=observe, progress=progress)
    if verdict.status == "refines":
        verdict.status = "unproved"
        verdict.findings.append(
            Finding(
                "SP202",
                lookup("SP202").title,
                f"the captured instance refines, but not shown for every {axis}: {reason}",
                certain=False,
            )
        )
    return verdict


def _without_ranks(problem: Problem, verdict: Verdict) -> bool:
    """Whether an extent may be zero on some ranks in a proof for all: a condition on it may leave
    ranks out whatever the sizes, so the proof is none."""
    empty = (
        [(v, n) for v, n in possibly_empty(problem) if of_ranks(n)] if verdict.conditions else []
    )
    if not empty:
        return False
    name, extent = empty[0]
    verdict.status = "unproved"
    verdict.findings.append(
        Finding(
            "SP202",
            lookup("SP202").title,
            f"%{name} has an extent of {extent}, which may be zero on some ranks; the proof is for "
            "extents of at least 1",
            certain=False,
        )
    )
    return True


def _verdict(problem: Problem, inf: Inference) -> Verdict:
    v = Verdict(problem.name, "refines" if inf.holds else "unproved")
    v.outputs = _relations(problem, inf)
    v.inputs = [a.text for a in problem.assumptions if a.kind == "relation"]
    v.assumptions = [("arithmetic", REALS)]
    v.assumptions += [(a.kind, a.text) for a in problem.assumptions if a.kind != "relation"]
    v.assumptions += [("range", t) for t in inf.evaluator.lookups.assumed]
    v.assumptions += [("defined", t) for t in inf.evaluator.products.assumed]
    v.assumptions += [("tags", t) for t in overtaking(inf.problem.distributed, inf.schedule)]
    v.conditions = condition_lines(problem)
    v.left_out = list(problem.left_out)
    v.notes = proof_notes(problem) if inf.holds else []
    v.unknown_operators = dict(inf.unknown)
    v.lemmas = dict(sorted(inf.evaluator.fired.items()))
    v.nodes = {
        "sequential": len(problem.sequential.nodes),
        "distributed": sum(len(g.nodes) for g in problem.distributed.graphs),
        "ranks": len(problem.distributed.graphs),
        "evaluated": sum(len(g.nodes) for g in inf.problem.distributed.graphs),
    }
    return v


def _relations(problem: Problem, inf: Inference) -> list[OutputRelation]:
    out = []
    for ob in problem.obligations:
        mine = [j for j in inf.judged if j.obligation.dist_output == ob.dist_output
                and j.obligation.seq_output == ob.seq_output]  # fmt: skip
        proved = bool(mine) and all(j.holds for j in mine)
        text = expression(ob, problem)
        out.append(
            OutputRelation(ob.seq_output, text, "proved" if proved else "open", ob.placement)
        )
    return out


def _certify(
    problem: Problem,
    inf: Inference,
    verdict: Verdict,
    fixed: dict[str, float] | None,
    keep: Callable[[bytes], object] | None,
    say: Progress,
) -> None:
    """Have the derivation checked by the independent checker."""
    say("checking the certificate")
    listed = {text for kind, text in verdict.assumptions if kind in ("range", "defined")}
    outcome = certify(problem, inf, fixed, listed)
    if outcome.agrees:
        verdict.certificate = "certificate checked"
    else:
        verdict.certificate_note = outcome.problem
    if keep is not None:
        keep(write(problem, inf, fixed))


# ---------------------------------------------------------------- replay


# Elements of all values of a proved problem that is run at its own sizes, where the reduced ones
# contradict the proof.
MAX_AS_GIVEN = 100_000_000


def _search(readings: Readings, inf: Inference) -> Search:
    """A counterexample on an instance that gets the verdict of the original."""
    wrong = bool(readings.wrong())

    def accept(small: Problem) -> bool:
        """An instance in which something fails that is proved is another program."""
        if wrong:
            return True
        again = inf.again(small, readings.fixed)
        return not again.holds and again.failed <= inf.failed

    try:
        return search(readings.problem, fixed_inputs=readings.fixed, accept=accept)
    except NotReplayable as e:
        out = Search()
        out.notes.append(f"not replayed: {e}")
        return out


def _confirm(
    problem: Problem,
    verdict: Verdict,
    fixed: dict[str, float] | None,
    replay: bool,
    say: Progress,
) -> None:
    """A proof that a replay contradicts is a bug of this tool, never a verdict."""
    if not replay:
        return
    say("replaying a small instance")
    try:
        instance, error = replay_small(problem, fixed)
    except NotReplayable as e:
        verdict.replay = f"the proof was not replayed: {e}"
        return
    verdict.replay = f"replayed at {instance}: worst relative error {error:.1e}"
    if not error <= TOLERANCE:
        verdict.status = "unproved"
        verdict.findings.append(
            Finding(
                "SP900",
                lookup("SP900").title,
                "the proof and the replay of a small instance disagree: this is a bug of "
                "Shardproof, please report it with the graphs",
                certain=False,
                notes=[verdict.replay],
            )
        )


def replay_small(problem: Problem, fixed: dict[str, float] | None) -> tuple[str, float]:
    """Replay one reduced instance: its sizes as text, and the worst relative error. Where that
    differs the problem is run as it is, if it is not too large: a number that counts elements
    may have been read as another thing than a count.

    Raises:
        NotReplayable: the problem cannot be run.
    """
    concrete = problem if is_concrete(problem) else instantiate_small(problem, {})
    resized = resize(concrete)
    sizes = ", ".join(f"{k} -> {v}" for k, v in list(resized.report.sizes.items())[:8])
    if concrete is not problem:
        sizes = ", ".join(f"{a}={n}" for a, n in concrete.distributed.mesh.axes) or sizes
    error = _worst(resized, fixed)
    if not error <= TOLERANCE and elements(concrete) <= MAX_AS_GIVEN:
        own = _worst(keep_sizes(concrete), fixed)
        if own <= TOLERANCE:
            return "the sizes given", own
    return f"reduced sizes ({sizes})", error


def _worst(instance: Resized, fixed: dict[str, float] | None) -> float:
    """The worst relative error of one run."""
    result = replay_problem(instance, 0, fixed)
    if result.invalid:
        raise NotReplayable(result.invalid)
    if result.fault is not None:
        return inf_error
    worst = result.worst
    return worst.error if worst is not None else 0.0


def _refute(
    evidence: Evidence,
    readings: Readings,
    verdict: Verdict,
    replay: bool,
    fixes: bool,
    say: Progress,
) -> None:
    say("looking for the cause")
    inf, fixed = evidence.inference, evidence.fixed
    found_by = Findings(inf)
    findings = found_by.all()
    verdict.findings = findings
    evidence.located = found_by.located
    if protocol_error(inf):
        verdict.status = "refuted"
        return
    if replay:
        say("looking for a counterexample")
        found = evidence.witness = _search(readings, inf)
        for f in findings:
            f.notes.extend(n for n in found.notes if n.startswith("not replayed"))
        if found.counterexample is not None:
            verdict.status = "refuted"
            _attach(found, findings, verdict)
            _note_unwitnessed(found, findings, fixed)
            if fixes:
                say("looking for a fix")
                _find_fixes(evidence, findings)
    if verdict.status == "unproved":
        _explain_unproved(inf, verdict)


def _attach(found: Search, findings: list[Finding], verdict: Verdict) -> None:
    """Give the counterexample to the finding of the output it was found on."""
    c = found.counterexample
    assert c is not None
    target = next((f for f in findings if c.output in f.affected), None)
    target = target or (findings[0] if findings else None)
    if target is None:
        target = Finding("SP203", lookup("SP203").title, "the programs differ", certain=True)
        findings.append(target)
    target.counterexample = c
    if found.fault:
        target.notes.append(f"the distributed program stops: {found.fault}")
    for f in findings:
        f.certain = f is target or f.certain
    for o in verdict.outputs:
        if o.seq_output == c.output:
            o.status = "refuted"


def _find_fixes(evidence: Evidence, findings: list[Finding]) -> None:
    """Propose a change for each finding, where one is found and proved. What the change proves as
    well follows from the same cause."""
    search_for = FixSearch(evidence.inference, evidence.fixed)
    of = {id(f): (site, cause) for f, site, cause in evidence.located}
    for finding in list(findings):
        if id(finding) not in of or not any(f is finding for f in findings):
            continue
        site, cause = of[id(finding)]
        change = search_for.search(finding, site, cause)
        if change is None:
            continue
        evidence.mended.append((finding, site, change))
        for f in list(findings):
            if f is not finding and not f.fix and set(f.affected) <= search_for.cured:
                absorb(finding, f)
                findings[:] = [kept for kept in findings if kept is not f]


def _note_unwitnessed(
    found: Search, findings: list[Finding], fixed: dict[str, float] | None
) -> None:
    """Name the outputs of a finding whose difference no replay shows (a gradient that is
    identically zero is partial all the same)."""
    if found.resized is None or found.counterexample is None or found.fault:
        return
    result = replay_problem(found.resized, found.counterexample.seed, fixed)
    worst: dict[str, float] = {}
    for c in result.comparisons:
        name = c.obligation.seq_output
        worst[name] = max(worst.get(name, 0.0), c.error)
    for f in findings:
        silent = [n for n in f.affected if worst.get(n, 1.0) <= TOLERANCE]
        if silent and len(silent) < len(f.affected):
            f.notes.append(f"no numeric witness in this replay: {', '.join(silent)}")


def _explain_unproved(inf: Inference, verdict: Verdict) -> None:
    """What is missing for a proof."""
    if inf.unknown:
        names = ", ".join(f"{k} ({n}x)" for k, n in sorted(inf.unknown.items()))
        verdict.findings.insert(
            0,
            Finding(
                "SP200",
                lookup("SP200").title,
                f"operators without a declaration: {names}; what depends on them is unproved",
                certain=False,
                fix="declare their meaning: Spec.from_graphs(..., kernels={name: function})",
            ),
        )
        return
    for f in verdict.findings:
        f.notes.append(
            "not witnessed: no replayed instance differs, so this may be a missing lemma (SP201)"
        )
