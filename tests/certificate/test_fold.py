"""A folded problem is the original one with the rank as an index, or it is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.certificate.corpus import PROBLEMS
from tests.support.layers import pipeline

from shardproof.certificate.exact import NotChecked
from shardproof.certificate.fold import check_fold
from shardproof.infer.prepare import class_problem, fold_problem
from shardproof.ir.graph import Graph, Mesh, Program, Value
from shardproof.spec.problem import Problem

Edit = Callable[[Problem, Problem], Any]


def pair() -> tuple[Problem, Problem]:
    original = PROBLEMS["mlp"]()
    return original, fold_problem(original)


def with_mesh(folded: Problem, mesh: Mesh) -> Problem:
    return replace(folded, distributed=Program(mesh, folded.distributed.graphs, spmd=True))


def graph(folded: Problem) -> Graph:
    return folded.distributed.graphs[0]


def other_wiring(folded: Problem) -> None:
    node = next(n for n in graph(folded).nodes if n.op == "add")
    node.inputs = node.inputs[::-1]


def other_attribute(folded: Problem, name: str, value: Any) -> None:
    node = next(n for n in graph(folded).nodes if name in n.attrs)
    node.attrs = {**node.attrs, name: value}


def other_type(folded: Problem) -> None:
    v = graph(folded).nodes[0].outputs[0]
    v.type = replace(v.type, dtype="f64")


def other_name(folded: Problem) -> None:
    v = graph(folded).inputs[0]
    v.name = "z"


EDITS: list[tuple[str, Edit]] = [
    ("sequential graph is another", lambda o, f: replace(f, sequential=pair()[0].sequential)),
    ("axes are not those", lambda o, f: with_mesh(f, Mesh.of(dp=3))),
    ("axes are not those", lambda o, f: with_mesh(f, Mesh.of(tp=4))),
    ("as many graphs as classes", lambda o, f: f.relation.clear()),
    ("as many graphs as classes", lambda o, f: f.distributed.graphs.append(graph(f))),
    ("as many graphs as ranks", lambda o, f: o.distributed.graphs.pop()),
    ("an obligation is missing", lambda o, f: f.obligations.clear()),
    ("an obligation is another", lambda o, f: setattr(f.obligations[0], "seq_output", "z")),
    ("an obligation is another", lambda o, f: setattr(f.obligations[0], "dist_output", "z")),
    ("an obligation is another", lambda o, f: setattr(f.obligations[0], "partial_over", ("tp",))),
    ("stated for every rank", lambda o, f: o.obligations[0].expected.pop()),
    ("stated for every rank", lambda o, f: f.obligations[0].expected.append(None)),
    ("some ranks of a class only", lambda o, f: o.obligations[0].expected.__setitem__(1, None)),
    ("some ranks of a class only", lambda o, f: f.obligations[0].expected.__setitem__(0, None)),
    ("other inputs, or values", lambda o, f: other_type(f)),
    ("other inputs, or values", lambda o, f: other_name(f)),
    ("other operators", lambda o, f: setattr(graph(f).nodes[1], "op", "tanh")),
    ("other operators", lambda o, f: other_wiring(f)),
    ("returns other values", lambda o, f: graph(f).outputs.reverse() or graph(f).outputs.pop()),
    ("returns other values", lambda o, f: graph(f).output_names.__setitem__(0, "z")),
    ("other attributes", lambda o, f: other_attribute(f, "op", "max")),
    ("other attributes", lambda o, f: other_attribute(f, "group_size", 4)),
    ("no axes and no classes|joins the ranks", lambda o, f: other_attribute(f, "group", (0, "tp"))),
    ("joins the ranks", lambda o, f: other_attribute(f, "group", ())),
]  # fmt: skip


def test_a_fold_is_accepted() -> None:
    check_fold(*pair())


@pytest.mark.parametrize(("message", "edit"), EDITS, ids=[m for m, _ in EDITS])
def test_another_problem_is_refused(message: str, edit: Edit) -> None:
    original, folded = pair()
    found = edit(original, folded)
    with pytest.raises(NotChecked, match=message):
        check_fold(original, found if isinstance(found, Problem) else folded)


def test_true_is_not_one() -> None:
    original, folded = pair()
    for g in original.distributed.graphs:
        g.nodes[0].attrs = {**g.nodes[0].attrs, "async": True}
    n = graph(folded).nodes[0]
    n.attrs = {**n.attrs, "async": 1}
    with pytest.raises(NotChecked, match="other attributes"):
        check_fold(original, folded)
    n.attrs = {**n.attrs, "async": True}
    check_fold(original, folded)


def test_the_value_of_an_output_counts() -> None:
    original, folded = pair()
    outputs: list[Value | None] = [graph(folded).inputs[0]]
    graph(folded).outputs[:] = outputs
    with pytest.raises(NotChecked, match="returns other values"):
        check_fold(original, folded)


def test_messages_of_classes_are_over_equal_groups_with_both_ends() -> None:
    for group in ((0, 1, 2), (1, 3), (0, 1)):
        original = pipeline(2, 2)
        folded = class_problem(original)
        check_fold(original, folded)
        node = next(n for n in original.distributed.graphs[0].nodes if n.op == "send")
        node.attrs = {**node.attrs, "group": group, "group_size": len(group)}
        with pytest.raises(NotChecked, match="another group"):
            check_fold(original, folded)
