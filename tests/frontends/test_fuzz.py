"""Mutated dumps import, or fail with one clear error; never anything else, and never for long."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.frontends.dump_kernels import KERNELS
from tests.frontends.dumps import CONSTANTS, groups, packaged, text_of
from tests.frontends.texts import JOINT, LOGGED, MULTI_LINE, PLAIN

from shardproof.errors import InputError
from shardproof.frontends.import_fx import import_fx
from shardproof.ir.check import check_graph
from shardproof.ops.base import infer_types

SEEDS = {
    path: text_of(path)
    for path in (
        packaged("gpt/tp2_layers1"),
        packaged("bugs/grad_accumulation/distributed"),
        packaged("bugs/missing_layernorm_allreduce/distributed", 0, "both"),
    )
}
TEXTS = [*SEEDS.values(), PLAIN, JOINT, LOGGED, MULTI_LINE]
GROUPS = groups(packaged("gpt/tp2_layers1"))
PIECES = ["", " ", "\n", "0", "-1", "1", "99999999999", "[", "]", "(", ")", '"', "'", ",", ";", ":",
          "=", "None", "True", "f32", "i64", "b8", "s0", "x", ".", "1e400", "nan", "inf", "\x1b[0m",
          "é", "# File: ", "return", "torch.ops.aten.", "{", "}", "**", "-", "*", "//"]  # fmt: skip
LIMIT = 5.0


def try_import(text: str) -> None:
    started = time.process_time()
    try:
        result = import_fx(text, groups=GROUPS, constants=CONSTANTS, kernels=KERNELS)
    except InputError as e:
        lines = str(e).splitlines()
    else:
        lines = ["", "", "", ""]
        assert check_graph(result.graph, infer_types) == []
    assert len(lines) == 4
    assert time.process_time() - started < LIMIT


common = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@common
@given(st.sampled_from(TEXTS), st.data())
def test_characters(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        drop = data.draw(st.integers(0, 12))
        text = text[:at] + data.draw(st.sampled_from(PIECES)) + text[at + drop :]
    try_import(text + "\n")


@common
@given(st.sampled_from(TEXTS), st.data())
def test_lines(text: str, data: st.DataObject) -> None:
    lines = text.split("\n")
    i, j = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    match data.draw(st.sampled_from(["drop", "swap", "double", "cut"])):
        case "drop":
            del lines[i]
        case "swap":
            lines[i], lines[j] = lines[j], lines[i]
        case "double":
            lines.insert(j, lines[i])
        case "cut":
            del lines[i:]
    try_import("\n".join(lines) + "\n")


_ATOM = re.compile(r"-?\d+(?:\.\d+)?|\"[^\"]*\"|torch\.ops\.[\w.]+|\b[a-z_]+_\d+\b")


@common
@given(st.sampled_from(TEXTS), st.data())
def test_atoms(text: str, data: st.DataObject) -> None:
    """Numbers, annotations, operators and names replaced by others of the same text: what is
    read is then well formed, and wrong."""
    found = list(_ATOM.finditer(text))
    for _ in range(data.draw(st.integers(1, 2))):
        a, b = (found[data.draw(st.integers(0, len(found) - 1))] for _ in range(2))
        new = data.draw(st.sampled_from([b[0], "0", "-1", "100000000", "None", "[]", "2.5"]))
        text = text[: a.start()] + new + text[a.end() :]
        found = list(_ATOM.finditer(text))
    try_import(text)


@common
@given(st.text(max_size=400))
@example("class A(M):\n    def forward(self):\n        return 1")
@example("def forward(:\n")
@example("def forward(self): return\n")
def test_any_text(text: str) -> None:
    try_import(text + "\n")
    try_import('class A(M):\n    def forward(self, x: "f32[2]"):\n        ' + text + "\n")


@pytest.mark.parametrize("target", ["split.Tensor", "unbind.int", "repeat.default", "flip.default",
                                    "arange.start", "eye.default", "one_hot.default"])  # fmt: skip
def test_huge_sizes(target: str) -> None:
    arguments = {"repeat.default": "[9999999999]", "flip.default": "[0]"}.get(target, "1")
    if target in ("arange.start", "eye.default"):
        arguments = "99999999999"
    first = "0" if target == "arange.start" else "x"
    line = f"y = torch.ops.aten.{target}({first}, {arguments})"
    if target == "eye.default":
        line = f"y = torch.ops.aten.{target}({arguments})"
    try_import(f'class A(M):\n    def forward(self, x: "i64[9999999999]"):\n        {line}\n'
               f"        getitem = y[0]\n        return getitem\n")  # fmt: skip
