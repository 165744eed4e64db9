"""A file without a function names the only one in it; a matrix needs a function of its axes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shardproof.cli.app import main

HEAD = """\
from shardproof import Mesh, Replicate, Spec

WHOLE = "graph whole\\n%x = input f32[8]\\n%y = exp(%x)\\nreturn %y\\n"


def made(n):
    ranks = [WHOLE.replace("whole", f"part\\nrank {k}\\nmesh tp={n}") for k in range(n)]
    return Spec.from_graphs(
        sequential=WHOLE, distributed=ranks, mesh=Mesh(tp=n), inputs={"*": Replicate()}
    )


def helper():
    raise AssertionError("called")
"""
FIRST = "\ndef first():\n    return made(2)\n"
SECOND = '\ndef second() -> "Spec":\n    return globals()["made"](2)\n'
OF_TP = "\ndef of_tp(tp):\n    return made(tp)\n"
Captured = pytest.CaptureFixture[str]


def check(capsys: Captured, body: str, *more: str) -> tuple[int, str, str]:
    Path("c.py").write_text(HEAD + body)
    code = main(["check", "c.py", "--no-cache", *more])
    found = capsys.readouterr()
    return code, found.out, found.err


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def test_the_only_function_is_taken(capsys: Captured) -> None:
    code, out, err = check(capsys, FIRST)
    assert (code, err) == (0, "")
    assert "\n  first: 1 of 1 outputs proved" in out


def test_a_result_is_known_by_its_annotation(capsys: Captured) -> None:
    code, out, _ = check(capsys, SECOND)
    assert code == 0
    assert "\n  second: 1 of 1" in out


def test_a_spec_in_a_variable_is_one(capsys: Captured) -> None:
    code, out, _ = check(capsys, "\nalone = made(2)\n")
    assert code == 0
    assert "\n  alone: 1 of 1" in out


def test_of_several_none_is_taken(capsys: Captured) -> None:
    code, out, err = check(capsys, FIRST + SECOND)
    assert (code, out) == (2, "")
    assert err.splitlines()[0] == "error: c.py has 2 functions to check"
    assert "one of: c.py:first, c.py:second\n" in err


def test_a_matrix_takes_the_function_of_its_axes(capsys: Captured) -> None:
    code, out, _ = check(capsys, FIRST + OF_TP, "--matrix", "tp=1,2")
    assert code == 0
    assert out.startswith("2 configurations: 2 refines\n")


def test_a_function_of_extents_asks_for_a_matrix(capsys: Captured) -> None:
    code, _, err = check(
        capsys, OF_TP.replace("made(tp)", "Spec(sequential=made, mesh=Mesh(tp=tp))")
    )
    assert code == 2
    assert "c.py has no function that can be checked\n" in err
    assert "one of made(n), of_tp(tp) and a --matrix of its arguments\n" in err
    assert "next: name one, and the axes that it takes: c.py:NAME --matrix tp=1,2\n" in err
    Path("c.py").write_text("from shardproof import Spec\n\ndef f(tp):\n    return Spec()\n")
    assert main(["check", "c.py"]) == 2
    assert "next: shardproof check c.py:f --matrix tp=1,2\n" in capsys.readouterr().err


def test_a_file_without_one(capsys: Captured) -> None:
    code, _, err = check(capsys, "\ndef other(x):\n    return x\n")
    assert code == 2
    assert "has no function that can be checked" in err


def test_a_matrix_of_a_function_without_arguments(capsys: Captured) -> None:
    Path("c.py").write_text(HEAD + FIRST)
    assert main(["check", "c.py:first", "--matrix", "tp=1,2", "dp=1"]) == 2
    err = capsys.readouterr().err
    assert err.splitlines() == [
        "error: first takes no arguments, so that --matrix has nothing to vary",
        "  where: c.py:first",
        "  expected: a function of the mesh extents: def first(tp, dp)",
        "  next: give it arguments and use them: mesh=Mesh(tp=tp, dp=dp); or leave --matrix out",
    ]


def test_axes_that_the_function_does_not_take(capsys: Captured) -> None:
    Path("c.py").write_text(HEAD + "\ndef both(tp, dp=1):\n    return made(tp * dp)\n")
    lines = {}
    for axes in ("tpp=1", "ep=1 tp=1", "dp=2"):
        assert main(["check", "c.py:both", "--matrix", *axes.split()]) == 2
        lines[axes] = capsys.readouterr().err.splitlines()
    assert lines["tpp=1"] == [
        "error: both takes no 'tpp'",
        "  where: --matrix, for c.py:both",
        "  expected: the axes that both takes: tp, dp",
        "  next: did you mean tp=...?",
    ]
    assert lines["ep=1 tp=1"][0] == "error: both takes no 'ep'"
    assert lines["ep=1 tp=1"][3].startswith("  next: name the axes as both names its arguments")
    assert lines["dp=2"][0] == "error: both needs tp as well"
    assert lines["dp=2"][3] == "  next: add them: --matrix tp=1,2"


NO_CHECKS = """
from typing import Any

def verdict():
    return made(2).check()

def shown():
    return f"{made(2)}"

def main():
    print(made(2))

def pairs():
    yield made(2)

def told() -> str:
    return made(2)

async def later():
    return made(2)
"""
CHECKS = """
class Own(Spec):
    pass

def plain():
    return made(2).named("x")

def chosen(both=True):
    return made(2) if both else made(1)

def any_one() -> Any:
    return made(2)

def own() -> Own:
    return made(2)

def inner():
    def f():
        return 1
    spec = made(f() + 1)
    return spec
"""


def test_helpers_are_not_listed(capsys: Captured) -> None:
    code, _, err = check(capsys, NO_CHECKS + FIRST + CHECKS)
    assert code == 2
    names = "first plain chosen any_one own inner".split()
    assert f"one of: {', '.join(f'c.py:{n}' for n in names)}\n" in err
    assert main(["check", "c.py:zzz"]) == 2
    assert f"one of: made, {', '.join(names)}\n" in capsys.readouterr().err
    assert main(["check", "c.py:main"]) == 2
    assert "next: end it with: return Spec(...), or" in capsys.readouterr().err


def test_a_certificate_that_is_not_written_is_said(capsys: Captured) -> None:
    more = ("--certificate", "proof.json")
    wrong = FIRST.replace("made(2)", "Spec.from_graphs(sequential=WHOLE, distributed="
                          "WHOLE.replace('exp', 'neg'), inputs={'*': Replicate()})")  # fmt: skip
    assert check(capsys, wrong, *more)[::2] == (
        1, "no certificate was written: the program is refuted\n",
    )  # fmt: skip
    assert not Path("proof.json").exists()
    assert check(capsys, FIRST, *more)[::2] == (0, "certificate: proof.json\n")
    assert main(["verify-certificate", "proof.json"]) == 0
    before = Path("proof.json").read_bytes()
    capsys.readouterr()
    assert check(capsys, wrong, *more)[2] == (
        "no certificate was written: the program is refuted (proof.json is from before)\n"
    )
    assert Path("proof.json").read_bytes() == before


def test_a_missing_torch_is_said_with_its_remedy(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    code, _, err = check(capsys, "\nimport torch\n" + FIRST)
    assert code == 2
    assert "c.py cannot be imported: ModuleNotFoundError" in err
    assert err.endswith(
        "next: install PyTorch (its CPU build is enough): pip install 'torch>=2.13'\n"
    )
    code, _, err = check(capsys, "\nimport no_such_module\n" + FIRST)
    assert "next: correct the file" in err
