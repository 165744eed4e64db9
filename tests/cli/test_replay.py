"""``shardproof replay``: the counterexample of a finding once more."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from shardproof.cli.app import main
from shardproof.cli.values import side_by_side
from shardproof.replay.again import OutputValue

CHECK = """
from shardproof import Mesh, Replicate, Shard, Spec

HEAD = "%x = input f32[{n}, 4]\\n%s = sum(%x) {{dims=(0,), keepdim=false}}\\n"
REDUCE = '%r = all_reduce(%s) {op="sum", group=(0, 1), group_size=2}\\n'

def made(reduced):
    end = "%y = exp(%s)\\nreturn %y as y\\n"
    rank = HEAD.format(n=4) + (REDUCE + end.replace("%s", "%r") if reduced else end)
    return Spec.from_graphs(
        sequential="graph whole\\n" + HEAD.format(n=8) + end,
        distributed=[f"graph part\\nrank {k}\\nmesh tp=2\\n{rank}" for k in (0, 1)],
        mesh=Mesh(tp=2),
        inputs={"x": Shard(0)},
        outputs={"y": Replicate()},
    )

def wrong():
    return made(False)

def right():
    return made(True)
"""


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a file with a wrong and a right program."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "check.py").write_text(CHECK)
    return "check.py"


def test_a_finding_is_replayed_with_both_results(
    check: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", f"{check}:wrong"]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("finding 1: SP110 ")
    assert "seed" in shown
    assert "the programs differ" in shown
    (row,) = [line for line in shown.splitlines() if ">" in line and " | " in line]
    left, right = row.split(" | ")
    assert len(left.split()) == len(right.split())


def test_a_report_knows_what_it_is_about(check: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{check}:wrong", "--json", "r.json", "--report", "folder"]) == 1
    counterexample = json.loads(Path("r.json").read_text())["findings"][0]["counterexample"]
    capsys.readouterr()
    for source in ("r.json", "folder"):
        assert main(["replay", source, "--finding", "1", "--rank", "1"]) == 1
        shown = capsys.readouterr().out
        assert "rank 1" in shown
        assert f"seed {counterexample['seed']}" in shown


def test_a_program_that_was_mended_agrees(check: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{check}:wrong", "--json", "r.json"]) == 1
    Path(check).write_text(CHECK.replace("made(False)", "made(True)"))
    assert main(["replay", "r.json"]) == 0
    assert "the programs agree on these inputs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check.py:right"], "there is no counterexample"),
        (["check.py:wrong", "--finding", "7"], "finding 7 has no counterexample"),
        (["check.py:wrong", "--rank", "9"], "rank 9 does not return this output"),
        (["nothing.json"], "the report cannot be read"),
    ],
)
def test_what_cannot_be_replayed(
    check: str, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_report_of_unknown_origin(check: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{check}:wrong", "--json", "r.json"]) == 1
    report = json.loads(Path("r.json").read_text())
    Path("r.json").write_text(json.dumps(report | {"target": ""}))
    assert main(["replay", "r.json"]) == 2
    assert "does not say what it is about" in capsys.readouterr().err


def test_another_program_than_that_of_the_report(
    check: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", f"{check}:wrong", "--json", "r.json"]) == 1
    report = json.loads(Path("r.json").read_text())
    report["findings"][0]["counterexample"]["sizes"] = {"77": "3"}
    Path("r.json").write_text(json.dumps(report))
    assert main(["replay", "r.json"]) == 2
    assert "no instance of the sizes" in capsys.readouterr().err


def test_the_element_that_differs_most_is_in_the_cut() -> None:
    want = np.zeros((3, 20, 20))
    got = want.copy()
    want[0, 0, 0] = 1.0
    got[0, 0, 0] = 1.0
    got[2, 13, 17], got[2, 13, 16] = 0.5, 0.25
    text = "\n".join(side_by_side(OutputValue(3, want, got), 1e-9))
    assert "rank 3[2, 10:16, 15:20]" in text
    assert ">0.5" in text
    assert "*0.25" in text
    assert text.endswith("2 of 1200 elements differ, most of all [2, 13, 17]: 0 and 0.5")


@pytest.mark.parametrize(
    ("want", "got", "marked"),
    [
        (np.float64(1.0), np.float64(2.0), ">2"),
        (np.array([True, False]), np.array([True, True]), ">True"),
        (np.array([1, 2]), np.array([1, 3]), ">3"),
        (np.array([1.0, np.nan]), np.array([np.nan, 5.0]), ">nan"),
        (np.array([1.0]), np.array([1.0, 2.0]), "shape [1]; rank 0: [2]"),
        (np.array([1 + 1j]), np.array([1 - 1j]), ">1-1j"),
    ],
)
def test_elements_of_all_kinds(want: object, got: object, marked: str) -> None:
    value = OutputValue(0, np.asarray(want), np.asarray(got))
    assert marked in "\n".join(side_by_side(value, 1e-9))
