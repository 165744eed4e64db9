"""The example in the description of the text form is a graph."""

from __future__ import annotations

import re
from pathlib import Path

import shardproof.ops  # noqa: F401 - declares the operators
from shardproof.ir.check import check_graph
from shardproof.ir.text import parse_graph
from shardproof.ops.base import infer_types

PAGE = Path(__file__).parents[2] / "docs" / "text-form.md"


def test_examples_are_well_formed() -> None:
    blocks = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        parsed = parse_graph(block, infer_types)
        assert check_graph(parsed.graph, infer_types, parsed.mesh) == []
