"""Formats, matrices, the cache and interruptions from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.cli.test_cli import HERE, TARGETS, run

from shardproof.cli.app import main
from shardproof.cli.matrix import spread

SEQUENTIAL = """\
graph sequential
%x = input f32[8, 4]
%y = scale(%x) {by=2/1}
return %y
"""
CHECK = f'''\
from shardproof import Mesh, Shard, Spec

SEQUENTIAL = """{SEQUENTIAL}"""


def check(tp, dp=1, by=2):
    rows = 8 // (tp * dp)
    one = f"graph rank\\n%x = input f32[{{rows}}, 4]\\n"
    one += f"%y = scale(%x) {{{{by={{by}}/1}}}}\\nreturn %y\\n"
    return Spec.from_graphs(
        sequential=SEQUENTIAL,
        distributed=[f"# {{r}}\\n{{one}}" for r in range(tp * dp)],
        mesh=Mesh(tp=tp, dp=dp),
        inputs={{"x": {{"tp": Shard(0), "dp": Shard(0)}}}},
        outputs={{"y": {{"tp": Shard(0), "dp": Shard(0)}}}},
    )


def wrong(tp):
    return check(tp, by=2 * tp)


def two():
    return check(2)


def fails(tp):
    return check({{1: 1, 2: 2}}[tp])
'''


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    (tmp_path / "check.py").write_text(CHECK)
    return "check.py"


# ---------------------------------------------------------------- formats


def test_files_of_every_format(check: str, tmp_path: Path) -> None:
    given = [
        part
        for form, name in [("sarif", "a"), ("junit", "b"), ("markdown", "c"), ("text", "d")]
        for part in ("--output", f"{form}={name}")
    ]
    code = main(["check", f"{check}:wrong", "--matrix", "tp=1,2", *given, "--json", "e"])
    assert code == 1
    assert json.loads(Path("a").read_text())["version"] == "2.1.0"
    assert ElementTree.parse("b").getroot().get("failures") == "2"
    assert Path("c").read_text().startswith("## Shardproof")
    assert Path("d").read_text().startswith("2 configurations: 1 refines, 1 refuted\n")
    assert json.loads(Path("e").read_text())["exit_code"] == 1


def test_one_format_may_take_the_place_of_the_text(
    check: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", f"{check}:two", "--output", "sarif=-"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["results"] == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--output", "sarif"], "'sarif' is no output"),
        (["--output", "pdf=x"], "'pdf=x' is no output"),
        (["--output", "json=-", "--json", "-"], "two formats go to standard output"),
        (["--output", "junit=/nowhere/x"], "its folder does not exist"),
        (["--matrix", "tp"], "'tp' is no axis"),
        (["--matrix", "tp=0"], "'tp=0' is no axis"),
        (["--matrix", "tp=1", "tp=2"], "the axis tp is named twice"),
        (["--matrix", "pp=1"], "the axes that check takes: tp, dp, by"),
        (["--matrix", "tp=1,2", "--certificate", "c"], "--certificate is for one configuration"),
    ],
)
def test_unusable_options(
    check: str, given: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", f"{check}:check", *given]) == 2
    assert message in capsys.readouterr().err


def test_a_function_of_the_extents_needs_a_matrix(
    check: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", f"{check}:wrong"]) == 2
    assert "--matrix tp=1,2" in capsys.readouterr().err


def test_a_github_run_is_annotated(
    check: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(Path.cwd()))
    assert main(["check", f"{check}:wrong", "--matrix", "tp=2"]) == 1
    streams = capsys.readouterr()
    assert "\n::error file=check.py,line=" in streams.err
    assert "::error" not in streams.out
    assert main(["check", f"{check}:nothing"]) == 2
    assert "::error file=check.py,line=1,title=shardproof could not" in capsys.readouterr().err
    found = Path("summary.md").read_text()
    assert "❌ refuted" in found
    assert "⛔ error" in found
    assert main(["check", f"{check}:wrong", "--matrix", "tp=2", "--no-github"]) == 1
    assert capsys.readouterr().err == ""


def test_an_input_error_reaches_the_dashboards(check: str) -> None:
    assert main(["check", f"{check}:nothing", "--output", "junit=j", "--output", "json=k"]) == 2
    assert ElementTree.parse("j").getroot().get("errors") == "1"
    assert not Path("k").exists()


# ---------------------------------------------------------------- matrices


def test_a_matrix_is_a_table(check: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{check}:check", "--matrix", "tp=1,2,4", "dp=1,2"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines[0] == "6 configurations: 6 refines"
    assert [line.split()[:3] for line in lines[3:9]] == [
        [tp, dp, "refines"] for tp in "124" for dp in "12"
    ]


@pytest.mark.parametrize(
    "given",
    [
        "TARGET --matrix tp=1,2 dp=1",
        "--matrix tp=1,2 dp=1 TARGET",
        "--matrix tp=1,2 --matrix dp=1 TARGET",
        "--matrix=tp=1,2 --full --matrix dp=1 TARGET",
        "--matrix tp=1,2 dp=1 -- TARGET",
        "--matrix tp=1,2 dp=1 --full TARGET",
    ],
)
def test_the_target_may_stand_anywhere(
    check: str, given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"{check}:check" if w == "TARGET" else w for w in given.split()]
    assert main(["check", *words]) == 0
    assert capsys.readouterr().out.startswith("2 configurations: 2 refines\n\ntp  dp  verdict")


def test_other_tokens_are_left_alone() -> None:
    for tokens in (
        ["check", "a=1"],
        ["--json", "x=1"],
        ["--matrix"],
        ["--matrix", "--json", "a=1"],
    ):
        assert spread(tokens) == tokens


def test_a_configuration_that_fails_leaves_the_others(
    check: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", f"{check}:fails", "--matrix", "tp=1,3,2"]) == 2
    out = capsys.readouterr().out
    assert out.startswith("3 configurations: 2 refines, 1 error\n")
    assert "tp=3\n  error: fails failed: KeyError: 3\n" in out


# ---------------------------------------------------------------- cache


def test_an_unchanged_check_is_taken_from_the_cache(
    check: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", f"{check}:two"]) == 0
    assert "from the cache" not in capsys.readouterr().out
    assert main(["check", f"{check}:two"]) == 0
    assert "from the cache" in capsys.readouterr().out
    assert main(["check", f"{check}:two", "--no-cache"]) == 0
    assert "from the cache" not in capsys.readouterr().out
    assert Path(".shardproof_cache/.gitignore").read_text().endswith("*\n")


def test_a_change_is_decided_anew(check: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{check}:two", "--cache", "kept"]) == 0
    Path(check).write_text(CHECK.replace("return check(2)", "return check(2, by=3)"))
    assert main(["check", f"{check}:two", "--cache", "kept"]) == 1
    assert "from the cache" not in capsys.readouterr().out
    assert not Path(".shardproof_cache").exists()


# ---------------------------------------------------------------- interruption


SLOW = """\
import time
from dataclasses import dataclass
import shardproof.verify
from check import two

replay = shardproof.verify.replay_small


def wait(*given):
    print("replaying", flush=True)
    time.sleep(30)


shardproof.verify.replay_small = wait
"""


def _listening() -> None:
    """A job in the background of a shell is started with Ctrl-C ignored, and hands that on."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupted(target: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a check that waits, and press Ctrl-C when it says so."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")}
    process = subprocess.Popen(
        [sys.executable, "-m", "shardproof", "check", target, "--no-cache", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        preexec_fn=_listening,
    )  # fmt: skip
    assert process.stdout is not None
    first = process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess([], process.returncode, first + out, err)


def test_ctrl_c_leaves_a_partial_report(check: str, tmp_path: Path) -> None:
    Path("slow.py").write_text(SLOW)
    done = interrupted("slow.py:two", "--json", "r.json")
    assert done.returncode == 130
    lines = done.stdout.split("\n")
    assert lines[:2] == [
        "replaying", "no verdict (interrupted at: replaying a small instance)",
    ]  # fmt: skip
    assert "This report is partial" in done.stdout
    found = json.loads(Path("r.json").read_text())
    assert (found["status"], found["exit_code"]) == ("unproved", 130)
    assert found["outputs"][0]["status"] == "proved"
    assert "Traceback" not in done.stderr


def test_ctrl_c_while_the_spec_is_built(check: str) -> None:
    text = 'import time\n\n\ndef f():\n    print("building", flush=True)\n    time.sleep(30)\n'
    Path("slow.py").write_text(text)
    done = interrupted("slow.py:f")
    assert done.returncode == 130
    assert "no verdict (interrupted at: building the Spec)" in done.stdout


def test_ctrl_c_ends_a_matrix(check: str) -> None:
    Path("slow.py").write_text(SLOW + "\n\ndef f(tp):\n    return two()\n")
    done = interrupted("slow.py:f", "--matrix", "tp=1,2,3")
    assert done.returncode == 130
    assert "3 configurations: 1 unproved, 2 error" in done.stdout
    assert "not checked: the run was interrupted before" in done.stdout


# ---------------------------------------------------------------- pipes


@pytest.mark.parametrize(("name", "code"), [("refines", 0), ("refuted", 1), ("unproved", 3)])
def test_a_reader_that_goes_away_does_not_change_the_verdict(
    name: str, code: int, tmp_path: Path
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")}
    command = f"{sys.executable} -m shardproof check {TARGETS}:{name} --json {tmp_path}/r | true"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False,
        env=environment,
    )  # fmt: skip
    assert done.returncode == code
    assert done.stderr == ""
    assert json.loads((tmp_path / "r").read_text())["exit_code"] == code


def test_a_reader_of_another_command_goes_away() -> None:
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")}
    command = f"{sys.executable} -m shardproof explain | true"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False,
        env=environment,
    )  # fmt: skip
    assert done.returncode in (0, 141)
    assert done.stderr == ""


def test_help_names_the_options() -> None:
    done = run("check", "--help")
    assert done.returncode == 0
    assert all(f"--{name}" in done.stdout for name in ("output", "matrix", "cache", "no-cache"))
