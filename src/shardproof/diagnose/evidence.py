"""What a verdict was made from, for those who show it."""

from __future__ import annotations

from dataclasses import dataclass, field

from shardproof.diagnose.candidates import Candidate
from shardproof.diagnose.classify import Cause
from shardproof.diagnose.trace import Site
from shardproof.infer.run import Inference
from shardproof.replay.search import Search
from shardproof.report.diagnostic import Finding
from shardproof.spec.problem import Problem


@dataclass(slots=True)
class Evidence:
    """One decided problem. ``located`` are the places of findings, ``mended`` the changes that
    were proved to mend them, ``witness`` the replay that shows a difference."""

    problem: Problem
    inference: Inference
    fixed: dict[str, float] = field(default_factory=dict)
    located: list[tuple[Finding, Site, Cause]] = field(default_factory=list)
    mended: list[tuple[Finding, Site, Candidate]] = field(default_factory=list)
    witness: Search | None = None
