"""Suggested changes of the source mend it as they are; there are none where it is not plain."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from shardproof import Input, Mesh, Shard, Spec
from shardproof.report import text
from shardproof.report.diagnostic import Verdict
from shardproof.report.html.page import render

pytestmark = pytest.mark.filterwarnings("ignore")

HEAD = """\
import torch
import torch.distributed as dist
from torch import nn


class Part(nn.Module):
    def __init__(self, group=None):
        super().__init__()
        ranks = dist.get_world_size(group) if group is not None else 1
        self.group = group
        self.weight = nn.Parameter(torch.empty(16 // ranks, 8))

    def forward(self, x):
        if self.group is None:
            return torch.relu(x @ self.weight)
"""


def check(path: Path, body: str, batch: tuple[int, ...] = (4,), step: str = "forward") -> Verdict:
    lines = [f"        {line}\n" for line in body.splitlines()]
    path.write_text(HEAD + "".join(lines))
    return again(path, batch, step)


def again(path: Path, batch: tuple[int, ...] = (4,), step: str = "forward") -> Verdict:
    made = importlib.util.spec_from_file_location("part", path)
    assert made is not None
    assert made.loader is not None
    module: Any = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    return Spec(
        sequential=module.Part,
        distributed=lambda mesh, rank: module.Part(mesh.get_group("tp")),
        mesh=Mesh(tp=2),
        inputs={"x": Input((*batch, 16), "f32", Shard(len(batch)))},
        loss=(lambda output, x: output.sum()) if step == "backward" else None,
        step=step,
    ).check()


def patched(source: str, diff: list[str]) -> str:
    """The source with a unified diff of one hunk applied."""
    start = re.match(r"@@ -(\d+)(?:,(\d+))?", diff[2])
    assert start is not None
    first, count = int(start[1]) - 1, int(start[2] or 1)
    old = [line[1:] for line in diff[3:] if line[0] in " -"]
    new = [line[1:] for line in diff[3:] if line[0] in " +"]
    lines = source.splitlines()
    assert lines[first : first + count] == old
    return "\n".join([*lines[:first], *new, *lines[first + count :]]) + "\n"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "part.py"


REDUCE = "dist.all_reduce(y, group=self.group)\n"
PRODUCT, RETURN = "y = x @ self.weight\n", "return torch.relu(y)"
BROKEN = {
    "missing": (PRODUCT + RETURN, "all_reduce(y, group=self.group)"),
    "doubled": (PRODUCT + 2 * REDUCE + RETURN, "-        dist.all_reduce(y, group=self.group)"),
    "factor": (PRODUCT + REDUCE + "y = y / 4\n" + RETURN, "+        y = y * 4"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("batch", [(4,), (2, 3)], ids=["plain", "views"])
def test_what_is_suggested_mends_the_source(name: str, batch: tuple[int, ...], path: Path) -> None:
    body, said = BROKEN[name]
    (finding,) = check(path, body, batch).findings
    assert finding.suggestion[0] == "--- part.py"
    assert said in "\n".join(finding.suggestion)
    path.write_text(patched(path.read_text(), finding.suggestion))
    assert again(path, batch).status == "refines"


def test_a_returned_value_gets_a_name(path: Path) -> None:
    path.write_text(
        HEAD.replace("torch.relu(x @ self.weight)", "x @ self.weight")
        + "        return x @ self.weight\n"
    )
    (finding,) = again(path).findings
    assert "+        out = x @ self.weight" in finding.suggestion
    assert "+        return out" in finding.suggestion
    path.write_text(patched(path.read_text(), finding.suggestion))
    assert again(path).status == "refines"


@pytest.mark.parametrize(
    "body",
    [
        "return torch.relu(x @ self.weight)",
        "y = (\n    x @ self.weight\n)\nreturn torch.relu(y)",
        "y = x @ self.weight; z = y\nreturn torch.relu(z)",
    ],
    ids=["inside an expression", "on several lines", "two statements"],
)
def test_nothing_is_suggested_where_it_is_not_plain(body: str, path: Path) -> None:
    (finding,) = check(path, body).findings
    assert finding.fix.startswith("all_reduce %")
    assert finding.suggestion == []


def test_nothing_is_suggested_for_a_file_that_was_only_named(path: Path) -> None:
    one = "graph g\n%x = input f32[4, 4]\n%y = scale(%x) {by=1/1}\nreturn %y\n"
    place = f'!{{file="{path}", line=1, function="f", code="y = x"}}'
    path.write_text("y = x\n")
    rank = one.replace("{by=1/1}", f"{{by=2/1}} {place}")
    verdict = Spec.from_graphs(
        sequential=one, distributed=[rank], mesh=Mesh(tp=1), inputs={"x": Shard(0)}
    ).check()
    (finding,) = verdict.findings
    assert finding.fix.startswith("multiply %y by 1/2")
    assert finding.suggestion == []


def test_reports_show_it_as_a_suggestion(path: Path) -> None:
    verdict = check(path, BROKEN["missing"][0])
    shown = text.plain(verdict)
    assert "= source: a suggestion, not checked\n" in shown
    assert "+        dist.all_reduce(y, group=self.group)\n" in shown
    assert "In the source <small>a suggestion, not checked" in render(verdict)


def test_nothing_is_suggested_for_the_backward_pass(path: Path) -> None:
    made = "        self.weight ="
    head = HEAD.replace(made, f"        self.scale = nn.Parameter(torch.empty(()))\n{made}")
    head = head.replace("x @ self.weight", "(x * self.scale) @ self.weight")
    body = "y = (x * self.scale) @ self.weight\n" + REDUCE + RETURN
    path.write_text(head + "".join(f"        {line}\n" for line in body.splitlines()))
    verdict = again(path, step="backward")
    (finding,) = verdict.findings
    assert finding.affected == ["grad.scale"]
    assert "in the backward pass of part.py:" in finding.fix
    assert finding.suggestion == []
