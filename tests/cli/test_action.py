"""The GitHub Action and the pre-commit hook: their files, and the scripts in them, run."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.test_outputs import CHECK

from shardproof.cli.app import app

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


def steps() -> list[dict[str, Any]]:
    return ACTION["runs"]["steps"]


def test_a_composite_action_with_described_inputs() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert ACTION["name"]
    assert ACTION["description"]
    for given in ACTION["inputs"].values():
        assert given["description"]
        assert given.get("required") or isinstance(given["default"], str)
    for step in steps():
        assert ("run" in step) != ("uses" in step)
        assert "run" not in step or step["shell"] == "bash"


def test_no_input_is_pasted_into_a_script() -> None:
    for step in steps():
        assert "${{" not in step.get("run", "")
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text()))
    assert used == set(ACTION["inputs"])


def run_check(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    (step,) = [s for s in steps() if s.get("id") == "check"]
    given = {k: v.get("default", "") for k, v in ACTION["inputs"].items()} | inputs
    environment = {
        **os.environ,
        **{k: given[v.split("inputs.")[1].split()[0]] for k, v in step["env"].items()},
        "PYTHONPATH": str(ROOT / "src"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        "GITHUB_WORKSPACE": str(folder),
    }
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ({"target": "check.py:two"}, 0),
        ({"target": "check.py:wrong", "matrix": "tp=1,2", "junit": "j.xml"}, 1),
        ({"target": "check.py:nothing; touch injected"}, 2),
        ({"target": "check.py:two", "arguments": "--no-cache --json r.json"}, 0),
    ],
)
def test_the_script_of_the_action(tmp_path: Path, inputs: dict[str, str], code: int) -> None:
    (tmp_path / "check.py").write_text(CHECK)
    done = run_check(tmp_path, **inputs)
    assert done.returncode == code, done.stderr
    assert (tmp_path / "output").read_text() == f"exit-code={code}\n"
    assert json.loads((tmp_path / "shardproof.sarif").read_text())["version"] == "2.1.0"
    assert (tmp_path / "summary").read_text().startswith("## Shardproof")
    assert ("::error file=check.py" in done.stderr) == (code != 0)
    assert (tmp_path / "j.xml").exists() == ("junit" in inputs)
    assert (tmp_path / "r.json").exists() == ("arguments" in inputs)
    assert not (tmp_path / "injected").exists()


def test_the_hook_is_a_command_of_ours() -> None:
    (hook,) = HOOKS
    assert {"id", "name", "entry", "language"} <= set(hook)
    assert not hook["pass_filenames"]
    program, command = shlex.split(hook["entry"])
    scripts = (ROOT / "pyproject.toml").read_text()
    assert f'{program} = "shardproof.cli.app:main"' in scripts
    assert app[command]
