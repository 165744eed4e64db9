"""The well-formedness check: one case a flaw, and silence on good graphs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shardproof.ir.check import check_graph, check_program
from shardproof.ir.graph import Attrs, Graph, Mesh, Node, Program, TensorType, Value
from shardproof.ir.sizes import symbol
from shardproof.ir.text import parse_graph

MESH = Mesh.of(dp=2, tp=2)
TEXT = """\
graph g
rank 1
%x: f32[4] = make()
%y: f32[4] = same(%x) {group=(0, 1), group_size=2}
return %y
"""


def rule(op: str, inputs: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    if op == "strange":
        raise ValueError("strange operands")
    return inputs[:1] if inputs else (TensorType("f32", (4,)),)


def good() -> Graph:
    return parse_graph(TEXT).graph


def test_a_good_graph_has_no_flaws() -> None:
    assert check_graph(good(), rule, MESH) == []
    assert check_graph(good()) == []


def _attr(key: str, value: object) -> Callable[[Graph], None]:
    def change(graph: Graph) -> None:
        graph.nodes[1].attrs[key] = value  # type: ignore[assignment]

    return change


def _rename(graph: Graph) -> None:
    graph.nodes[1].outputs[0].name = "x"


def _use_before(graph: Graph) -> None:
    graph.nodes.reverse()


def _twice(graph: Graph) -> None:
    graph.nodes.append(Node("make", (), {}, graph.nodes[0].outputs))


def _dtype(graph: Graph) -> None:
    graph.nodes[0].outputs[0].type = TensorType("f31", (4,))


def _shape(graph: Graph) -> None:
    graph.nodes[1].outputs[0].type = TensorType("f32", (5,))


def _negative(graph: Graph) -> None:
    graph.inputs.append(Value("z", TensorType("f32", (-1,))))


def _no_size(graph: Graph) -> None:
    graph.inputs.append(Value("z", TensorType("f32", (1.5,))))  # type: ignore[arg-type]


def _strange(graph: Graph) -> None:
    graph.nodes[1].op = "strange"


def _foreign_output(graph: Graph) -> None:
    graph.outputs = [Value("q", TensorType("f32", ()))]


def _names(graph: Graph) -> None:
    graph.output_names = []


CASES: list[tuple[Callable[[Graph], None], str]] = [
    (_rename, "%x: is the name of 2 values"),
    (_use_before, "%y: uses %x before it is defined"),
    (_twice, "%x: is defined twice"),
    (_dtype, "unknown element type 'f31'"),
    (_shape, "%y: has type f32[5], but same gives f32[4]"),
    (_negative, "%z: has the negative size -1"),
    (_no_size, "%z: has the size 1.5, which is no integer"),
    (_strange, "the shape rule of strange refuses it: strange operands"),
    (_foreign_output, "%q: is returned but never defined"),
    (_names, "1 outputs, but 0 names"),
    (_attr("k", [1]), "the attribute k is of the unknown kind list"),
    (_attr("k", ({},)), "the attribute k is of the unknown kind tuple"),
    (_attr("group", ()), "the group () is no tuple of ranks or axes"),
    (_attr("group", (0, "tp")), "mixes ranks and axes"),
    (_attr("group", ("pp",)), "names 'pp', which is no mesh axis"),
    (_attr("group", ("dp", "tp")), "group_size is 2, the group has 4"),
    (_attr("group", (1, 1)), "names a rank twice"),
    (_attr("group", (0, 2)), "does not contain the calling rank 1"),
    (_attr("group", (1, 9)), "names a rank outside the mesh of 4"),
    (_attr("group_size", 3), "group_size is 3, the group has 2"),
]


@pytest.mark.parametrize(("spoil", "message"), CASES, ids=[m for _, m in CASES])
def test_flaw(spoil: Callable[[Graph], None], message: str) -> None:
    graph = good()
    spoil(graph)
    assert any(message in str(f) for f in check_graph(graph, rule, MESH))
    assert all(str(f).startswith("g (rank 1)") for f in check_graph(graph, rule, MESH))


def _on(*ranks: int | None) -> list[Graph]:
    return [Graph(f"g{r}", rank=r) for r in ranks]


def test_ranks_of_a_program() -> None:
    assert check_program(Program(Mesh.of(tp=2), _on(0, 1))) == []
    assert check_program(Program.sequential(Graph("s"))) == []
    assert check_program(Program(Mesh.of(tp=symbol("N")), _on(None), spmd=True)) == []
    for program in (
        Program(Mesh.of(tp=2), _on(0)),
        Program(Mesh.of(tp=2), _on(1, 0)),
        Program(Mesh.of(tp=symbol("N")), _on(0)),
    ):
        assert "the graphs are those of ranks" in str(check_program(program)[0])
    spmd = check_program(Program(Mesh.of(tp=2), _on(0), spmd=True))
    assert "one graph without a rank" in str(spmd[0])
