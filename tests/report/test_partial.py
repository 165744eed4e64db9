"""A check that is stopped keeps the outputs that were proved, and is no proof."""

from __future__ import annotations

import pytest
from tests.spec import programs

from shardproof import Mesh, Replicate, Shard, Spec
from shardproof.partial import Interrupted
from shardproof.report import text
from shardproof.report.diagnostic import Verdict


def stopped(at: str, ranks: list[str] = programs.RANKS) -> Verdict:
    """The verdict of a check that is stopped when it comes to the stage ``at``."""
    spec = Spec.from_graphs(
        sequential=programs.SEQUENTIAL, distributed=ranks, mesh=Mesh(tp=2),
        inputs={"x": Shard(0), "w": Replicate()},
    )  # fmt: skip

    def progress(stage: str) -> None:
        if stage.startswith(at):
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as found:
        spec.check(progress=progress)
    return found.value.verdict


def statuses(verdict: Verdict) -> dict[str, str]:
    return {o.seq_output: o.status for o in verdict.outputs}


def test_what_was_proved_until_then_is_kept() -> None:
    assert statuses(stopped("matching collectives")) == {"h": "open", "s": "open"}
    verdict = stopped("obligation 2")
    assert statuses(verdict) == {"h": "proved", "s": "open"}
    assert verdict.status == "unproved"
    assert verdict.exit_code == 130
    shown = text.plain(verdict)
    assert shown.startswith("no verdict (interrupted at: obligation 2 of 2, 1 proved: s)")
    assert "1 of 2 outputs proved" in shown
    assert "\n  h = concat(rank0.h, rank1.h; dim=0)" in shown
    assert "\n  s: not proved" in shown


def test_what_is_not_proved_is_not_kept() -> None:
    wrong = [
        r.replace("matmul(%x, %w)", "matmul(%x, %w)\n%h = exp(%h0)", 1) for r in programs.RANKS
    ]
    wrong = [r.replace("%h = matmul", "%h0 = matmul") for r in wrong]
    assert statuses(stopped("obligation 2", wrong)) == {"h": "open", "s": "open"}


def test_nothing_is_proved_where_calls_do_not_fit_together() -> None:
    call = "%g = all_gather(%x) {dim=0, group=(0, 1)}\n%h ="
    ranks = [programs.RANKS[0], programs.RANKS[1].replace("%h =", call, 1)]
    assert statuses(stopped("obligation 2", ranks)) == {"h": "open", "s": "open"}
