"""What a certificate is said to prove comes from its graphs, not from what it says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.certificate.corpus import as_data, certificate
from tests.support.problems import even, sharded

from shardproof.certificate.statement import (
    _limited,
    not_stated,
    obligation_lines,
    relation_lines,
)
from shardproof.certificate.write import write
from shardproof.cli.app import run_tokens
from shardproof.infer.run import infer
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Mesh, Value
from shardproof.spec.problem import Problem


def statement(data: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What is proved, and what the file says of itself."""
    path = tmp_path / "proof.json"
    path.write_bytes(msgspec.json.encode(data))
    assert run_tokens(["verify-certificate", str(path)]) == 0
    _, proved, said, *_ = capsys.readouterr().out.split("\n\n")
    return proved, said


def test_words_about_the_relation_do_not_change_the_statement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data: Any = as_data(certificate("mlp"))
    proved, _ = statement(data, tmp_path, capsys)
    data["assumptions"] = [("relation", "w1: R")]
    data["obligations"][0]["placement"] = "S(7)"
    data["left_out"] = ["nothing"]
    again, said = statement(data, tmp_path, capsys)
    assert again == proved
    assert "w1: R" in said


def test_the_statement_names_every_rank_and_what_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proved, _ = statement(as_data(certificate("mlp", symbolic_ranks=False)), tmp_path, capsys)
    assert "the same on every rank" in proved
    assert "on rank 0 = slice(" in proved
    assert "on rank 1 = slice(" in proved


def swapped() -> Problem:
    """A program that returns each output under the other's name."""

    def outputs(b: Builder, v: dict[str, Value], names: str) -> dict[str, Value]:
        made = (b.emit("exp", v["x"]), b.emit("tanh", v["x"]))
        return dict(zip(names, made, strict=True))

    return sharded(
        "swapped", even(2, 2), {"x": ("f32", (4,), 0)},
        lambda b, v: outputs(b, v, "ab"), lambda b, v, rank: outputs(b, v, "ba"),
        {"a": 0, "b": 0},
    )  # fmt: skip


def test_what_an_expected_output_calls_its_input_does_not_matter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that shows that ``a`` is the sequential ``b``, in graphs that call this ``a``."""
    problem = swapped()
    for ob in problem.obligations:
        ob.seq_output = {"a": "b", "b": "a"}[ob.seq_output]
    data: Any = as_data(write(problem, infer(problem, symbolic_ranks=False)))
    proved, _ = statement(data, tmp_path, capsys)
    assert "a on rank 0 = slice(b, " in proved
    assert "b on rank 1 = slice(a, " in proved


def test_names_in_the_file_make_no_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data: Any = as_data(certificate("mlp", symbolic_ranks=False))
    data["fixed"] = {"c\n  loss": 0.0}
    data["assumptions"] = [("note\n  loss", "text")]
    path = tmp_path / "proof.json"
    path.write_bytes(msgspec.json.encode(data))
    assert run_tokens(["verify-certificate", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert not [x for x in lines if x.startswith("  loss")]


def partial(axis: str) -> Problem:
    """A sum of which every rank returns its part; ``y`` is whole, ``z`` is not."""
    problem = sharded(
        "partial", even(2, 2), {"x": ("f32", (4,), 0)},
        lambda b, v: {"y": b.emit("sum", v["x"], dims=(0,), keepdim=False)},
        lambda b, v, rank: {"y": b.emit("sum", v["x"], dims=(0,), keepdim=False)},
        {"y": None},
    )  # fmt: skip
    problem.obligations[0].partial_over = (axis,)
    problem.distributed.mesh = Mesh(((axis, 2),))
    return problem


@pytest.mark.parametrize(
    ("n", "more"), [(199, []), (200, []), (201, ["1 more"]), (250, ["50 more"])]
)
def test_long_statements_are_cut(n: int, more: list[str]) -> None:
    lines = [f"line {k}" for k in range(n)]
    assert _limited(lines) == [*lines[:200], *more]


def test_the_lines_of_a_statement() -> None:
    problem = partial("tp\n  z: the same on every rank")
    text = "y: the same on every rank (summed over tp z: the same on every rank)"
    assert obligation_lines(problem) == [text]
    assert relation_lines(problem) == [
        "x on rank 0 = slice(x, dim=0, start=0, stop=2)",
        "x on rank 1 = slice(x, dim=0, start=2, stop=4)",
    ]
    assert not_stated(problem) == []
    problem.sequential.output_names = ("y2",)
    assert not_stated(problem) == ["y2"]
