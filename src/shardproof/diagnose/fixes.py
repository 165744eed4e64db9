"""Search for a small change that makes a refuted program refine.

Candidates follow from the kind of finding: insert or remove a reduction, reduce with another
operation or over another mesh axis, take a factor out, use the sequential attributes, take the
rank's own slice. Each is made on a copy and decided like any other program; only one after which
the affected outputs are proved is shown, and what is shown says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardproof.diagnose.candidates import Candidate, Candidates
from shardproof.diagnose.checked import checked
from shardproof.diagnose.classify import Cause
from shardproof.diagnose.edit import apply, content
from shardproof.diagnose.everywhere import everywhere
from shardproof.diagnose.suggest import suggestion
from shardproof.diagnose.trace import Site
from shardproof.infer.run import Inference
from shardproof.replay.instantiate import is_concrete
from shardproof.replay.resize import Resized, keep_sizes
from shardproof.replay.search import SMALL, differing_as_given, elements
from shardproof.report.diagnostic import Finding
from shardproof.spec.problem import Problem

MAX_CANDIDATES = 240
MIN_CANDIDATES = 24
# Operators of all ranks that are run for the candidates of one finding.
MAX_RUN = 120_000
# Of a problem that is too large for a run at its own sizes, every candidate costs an inference.
MAX_INFERENCES = 16
# Changes shown beside the first, and how many more candidates are tried for them.
MAX_OTHERS = 2
MORE_RUNS = 6


class FixSearch:
    """Fixes of the findings of one inference over concrete ranks or one graph for all."""

    def __init__(self, inf: Inference, fixed: dict[str, float] | None) -> None:
        self.inf, self.fixed = inf, fixed
        self.problem: Problem = inf.problem
        self._small = is_concrete(self.problem) and elements(self.problem) <= SMALL
        self._candidates = Candidates(inf, self._small)
        self._analysed: Resized | None = None
        # Outputs that the last candidate proves, and those that the fix found last proves.
        self._proves: set[str] = set()
        self._whole = False
        self.cured: set[str] = set()

    def search(self, finding: Finding, site: Site, cause: Cause) -> Candidate | None:
        """Try candidates in order; the first that is proved is written into the finding, and a few
        that are proved as well behind it."""
        first: Candidate | None = None
        tried: set[str] = set()
        made: set[tuple[object, ...]] = set()
        most = self._most_runs() if self._small else MAX_INFERENCES
        for c in self._changes(finding, site, cause):
            what = (c.op, *content(c.edits, len(self.problem.distributed.graphs)))
            if c.text in tried or what in made:
                continue
            if len(tried) >= most or len(finding.other_fixes) == MAX_OTHERS:
                break
            tried.add(c.text)
            made.add(what)
            if not self._proved(c, set(finding.affected)):
                continue
            if first is None:
                first, most = c, min(most, len(tried) + MORE_RUNS) if self._small else 0
                finding.fix, finding.fix_verified = c.text, True
                graph = self.problem.distributed.graphs[site.rank]
                finding.fix_checked = checked(graph, c.edits, c.how, self._whole)
                finding.suggestion = suggestion(graph, c.edits)
                finding.notes[:0] = [c.note] if c.note else []
                self.cured = self._proves
            else:
                finding.other_fixes.append(c.text)
        return first

    def _changes(self, finding: Finding, site: Site, cause: Cause) -> Iterator[Candidate]:
        """Every change alone, then at all calls of its line."""
        graph = self.problem.distributed.graphs[site.rank]
        for c in self._candidates.of(finding, site, cause):
            yield c
            yield from everywhere(graph, site.node, c)

    def _proved(self, c: Candidate, affected: set[str]) -> bool:
        edited = apply(self.problem, c.edits, c.op)
        if edited is None or self._still_differs(edited, affected):
            return False
        result = self.inf.again(edited, self.fixed)
        if result.schedule.errors:
            return False
        still, before = result.failed, self.inf.failed
        self._proves, self._whole = before - still, not still
        return not (still & affected) and still <= before

    def _most_runs(self) -> int:
        nodes = sum(len(g.nodes) for g in self.problem.distributed.graphs)
        return max(MIN_CANDIDATES, min(MAX_CANDIDATES, MAX_RUN // max(nodes, 1)))

    def _still_differs(self, edited: Problem, affected: set[str]) -> bool:
        if not self._small:
            return False
        if self._analysed is None:
            self._analysed = keep_sizes(self.problem)
        return bool(differing_as_given(edited, self.fixed, self._analysed) & affected)
