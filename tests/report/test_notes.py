"""The note on a proof in which nothing is distributed, and the proofs that carry none."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardproof import Input, Mesh, Replicate, Shard, Spec
from shardproof.report import json, matrix, text
from shardproof.report.diagnostic import Verdict
from shardproof.report.github import commands
from shardproof.report.html.page import render
from shardproof.report.markdown import to_markdown
from shardproof.report.places import Places
from shardproof.report.run import Outcome, Run

NOTE = "no collective and nothing sharded"
WHOLE = """\
graph whole
%x = input f32[8, 4]
%y = exp(%x)
return %y
"""


def rank(k: int, rows: int = 8, after: str = "", mesh: str = "tp=2") -> str:
    body = f'%z = {after}(%y) {{op="max", group=(0, 1)}}\nreturn %z as y\n' if after else ""
    return (
        f"graph part\nrank {k}\nmesh {mesh}\n%x = input f32[{rows}, 4]\n%y = exp(%x)\n"
        + (body or "return %y\n")
    )  # fmt: skip


def check(ranks: list[str], x: object, y: object) -> Verdict:
    mesh = Mesh(tp=len(ranks))
    spec = Spec.from_graphs(
        sequential=WHOLE, distributed=ranks, mesh=mesh, inputs={"x": x}, outputs={"y": y}
    )
    return spec.named("first").check()


@pytest.fixture(scope="module")
def vacuous() -> Verdict:
    return check([rank(0), rank(1)], Replicate(), Replicate())


def test_a_program_compared_with_itself_is_noted(vacuous: Verdict) -> None:
    assert vacuous.status == "refines"
    assert [NOTE in note for note in vacuous.notes] == [True]


def test_every_report_shows_the_note(vacuous: Verdict) -> None:
    assert f"note: {NOTE}" in text.plain(vacuous)
    assert json.from_json(json.to_json(vacuous)).notes == vacuous.notes
    assert f"Note: {NOTE}" in render(vacuous)
    assert NOTE in vacuous._repr_html_()
    run = Run("f.py:first", [Outcome({"tp": 2}, vacuous)], "f.py", 3)
    assert f"tp=2: note: {NOTE}" in matrix.plain(run)
    places = Places(Path.cwd(), "f.py", 3)
    assert NOTE in to_markdown(run, places).decode()
    assert any(line.startswith("::warning") and NOTE in line for line in commands(run, places))


@pytest.mark.parametrize(
    ("ranks", "x", "y"),
    [
        ([rank(0, mesh="tp=1")], Replicate(), Replicate()),
        ([rank(0, 4), rank(1, 4)], Shard(0), Shard(0)),
        ([rank(0, after="all_reduce"), rank(1, after="all_reduce")], Replicate(), Replicate()),
    ],
    ids=["one rank", "sharded", "a collective"],
)
def test_other_proofs_carry_none(ranks: list[str], x: object, y: object) -> None:
    verdict = check(ranks, x, y)
    assert verdict.status == "refines"
    assert verdict.notes == []


def test_what_is_no_proof_carries_none() -> None:
    wrong = [r.replace("exp", "tanh") for r in (rank(0), rank(1))]
    verdict = check(wrong, Replicate(), Replicate())
    assert verdict.status == "refuted"
    assert verdict.notes == []


def test_a_proof_of_the_forward_pass_alone_says_so() -> None:
    torch = pytest.importorskip("torch")

    def model() -> object:
        return torch.nn.Linear(4, 4)

    def check(step: str) -> Verdict:
        return Spec(
            sequential=model, distributed=lambda mesh, rank: model(), mesh=Mesh(tp=2),
            inputs={"input": Input((2, 4))}, step=step, uneven=False,
            loss=lambda output, **inputs: output.sum(),
        ).check()  # fmt: skip

    note = 'forward only: no gradient is compared; step="backward" or "train" does that'
    verdict = check("forward")
    assert verdict.status == "refines"
    assert note in verdict.notes
    assert not any("forward" in n for n in check("backward").notes)
    run = Run("f.py:first", [Outcome({}, verdict)], "f.py", 3)
    lines = commands(run, Places(Path.cwd(), "f.py", 3))
    assert [line.split()[0] for line in lines] == ["::warning", "::notice"]


def test_a_function_without_parameters_has_no_gradient_to_miss() -> None:
    pytest.importorskip("torch")
    verdict = Spec(
        sequential=lambda: lambda x: x.exp(), distributed=lambda mesh, rank: lambda x: x.exp(),
        mesh=Mesh(tp=2), inputs={"x": Input((2, 4), "f32", Shard(0))},
    ).check()  # fmt: skip
    assert (verdict.status, verdict.notes) == ("refines", [])


def test_a_note_on_many_configurations_is_printed_once(vacuous: Verdict) -> None:
    run = Run("f.py:first", [Outcome({"tp": n}, vacuous) for n in range(1, 6)], "f.py", 3)
    assert [label for label, _ in run.notes()] == ["tp=1, tp=2, tp=3 and 2 more"]
    assert matrix.plain(run).count(NOTE) == 1
