"""The ten lines of the README work as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.filterwarnings("ignore")
def test_ten_lines() -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text()
    (code,) = re.findall(r"```python\n(# check_mlp\.py\n.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "check_mlp.py", "exec"), names)
    verdict = names["tp4"]().check()
    assert verdict.status == "refines"
    assert len(verdict.outputs) == 5
