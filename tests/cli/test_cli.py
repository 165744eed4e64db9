"""The command line in its own process: exit codes, messages, streams."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TARGETS = HERE / "targets.py"


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src"), "TERM": "xterm"}
    environment.pop("GITHUB_ACTIONS", None)
    return subprocess.run(
        [sys.executable, "-m", "shardproof", *arguments],
        capture_output=True, text=True, check=False, cwd=cwd, env=environment, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize(("name", "code"), [("refines", 0), ("refuted", 1), ("unproved", 3)])
def test_exit_codes_and_first_line(name: str, code: int) -> None:
    done = run("check", f"{TARGETS}:{name}")
    assert done.returncode == code
    first = "refines (certificate not checked)" if name == "refines" else name
    assert done.stdout.split("\n")[0] == first
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stderr == ""


def test_a_spec_object_is_a_target_too() -> None:
    assert run("check", f"{TARGETS}:a_spec").returncode == 0


def test_json(tmp_path: Path) -> None:
    done = run("check", f"{TARGETS}:refuted", "--json", "-")
    assert done.returncode == 1
    assert json.loads(done.stdout)["status"] == "refuted"
    path = tmp_path / "report.json"
    done = run("check", f"{TARGETS}:unproved", "--json", str(path))
    assert done.returncode == 3
    assert done.stdout.startswith("unproved")
    assert json.loads(path.read_text())["exit_code"] == 3
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


BAD = [
    (("check", "nothing.py:f"), "there is no file nothing.py"),
    (("check", str(TARGETS)), f"one of: {TARGETS}:refines, {TARGETS}:refuted, "),
    (("check", "nothing.py"), "there is no file nothing.py"),
    (("check", "refines"), "'refines' does not name a function"),
    (("check", f"{TARGETS}:refine"), "did you mean refines?"),
    (("check", f"{TARGETS}:zzz"), "targets.py has no function 'zzz'"),
    (("check", f"{TARGETS}:raises"), "raises failed: KeyError: 'missing'"),
    (("check", f"{TARGETS}:no_spec"), "no_spec returned 3"),
    (("check", f"{TARGETS}:not_a_function"), "not_a_function is no function"),
    (("check", f"{TARGETS}:needs_an_argument"), "needs_an_argument needs arguments"),
    (("trace", f"{TARGETS}:wrong_graph"), "unknown element type 'f3'"),
    (("check", f"{TARGETS}:refines", "--json", "/nowhere/a.json"), "its folder does not exist"),
    (("check", f"{TARGETS}:refines", "--json", "--full"), "it looks like an option"),
    (("check", f"{TARGETS}:refines", "--json", "/"), "it is a folder"),
    (("trace", f"{TARGETS}:refines", "--rank", "2"), "there is no rank 2"),
    (("trace", f"{TARGETS}:refines", "--value", "hh"), "did you mean 'h'?"),
    (("explain", "SP999"), "there is no code 'SP999'"),
    (("explain", "op:matmull"), "did you mean 'matmul'?"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[m for _, m in BAD])
def test_bad_input_is_one_message_and_exit_2(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert [line.split(":")[0].strip() for line in done.stderr.splitlines()] == [
        "error", "where", "expected", "next",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "arguments", [("chekc",), ("check",), ("check", "a", "b"), ("check", "a:b", "--jsn", "x")]
)
def test_usage_errors_exit_2(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Error" in done.stderr


def test_a_file_with_a_syntax_error(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("x = 1\ndef f(:\n")
    done = run("check", f"{path}:f")
    assert done.returncode == 2
    assert f"where: {path}:2" in done.stderr
    assert "SyntaxError" in done.stderr
    path.write_text("import json\n1 / 0\n")
    assert f"where: {path}:2" in run("check", f"{path}:f").stderr


def test_a_target_may_import_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("def f():\n    return 3\n")
    (tmp_path / "main.py").write_text("from neighbour import f\n")
    assert "f returned 3" in run("check", "main.py:f", cwd=tmp_path).stderr


def test_internal_errors_say_how_to_report() -> None:
    done = run("check", f"{TARGETS}:broken")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("internal error SP900: RuntimeError: broken inside")
    assert "run again with --debug" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in run("check", f"{TARGETS}:broken", "--debug").stderr


def test_trace() -> None:
    sequential = run("trace", f"{TARGETS}:refines")
    assert sequential.returncode == 0
    assert sequential.stdout.startswith("graph seq\n%x = input f32[8, 4]\n")
    rank = run("trace", f"{TARGETS}:refines", "--rank", "1").stdout
    assert "rank 1\nmesh tp=2\n" in rank
    assert "slice(%x) {dim=0, start=4, stop=8}" in rank
    value = run("trace", f"{TARGETS}:refines", "--value", "%h").stdout
    assert value.splitlines() == [
        "%h: f32[8, 6] = matmul(%x, %w)",
        "  at <text>:4",
        "  code: %h = matmul(%x, %w)",
        "  used by %s: f32[8, 6] = exp(%h)",
        "  returned as h",
    ]
    value = run("trace", f"{TARGETS}:refines", "--value", "h", "--rank", "1").stdout
    assert "  means h[4:8, 0:6]" in value
    assert "    # h[4:8, 0:6]\n" in rank
    quiet = run("trace", f"{TARGETS}:refines", "--rank", "1", "--no-meanings").stdout
    assert "h[4:8" not in quiet
    assert "%x = input f32[8, 4]" in run("trace", f"{TARGETS}:refines", "--value", "x").stdout
    assert "mesh tp=N" in run("trace", f"{TARGETS}:spmd", "--rank", "0").stdout


def test_explain() -> None:
    listed = run("explain").stdout
    assert "SP110  partial value used as if it were replicated" in listed
    assert run("explain", "sp110").stdout.startswith("SP110: partial value")
    assert run("explain", "op:matmul").stdout.startswith("matmul\n")


def test_version_and_help() -> None:
    assert run("--version").stdout.strip() == "0.1.0"
    done = run("--help")
    assert done.returncode == 0
    assert "Exit codes: 0 refines, 1 refuted, 3 unproved" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_closed_pipe_is_no_error() -> None:
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")}
    shell = f"{sys.executable} -m shardproof explain | head -1"
    done = subprocess.run(
        ["bash", "-c", shell], capture_output=True, text=True, check=False, env=environment
    )
    assert done.stdout.startswith("SP100")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["explain", "SP110"], ["--version"]])
def test_quick_commands_import_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from shardproof.cli.app import main\n"
        f"main({arguments!r})\n"
        "heavy = {'torch', 'numpy', 'msgspec', 'shardproof.ops', 'shardproof.spec.spec'}\n"
        "sys.exit(str(sorted(heavy & set(sys.modules))) if heavy & set(sys.modules) else 0)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr


def test_errors_of_the_elastic_half_are_one_line() -> None:
    done = run("elastic", "report", "no-such-run")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
