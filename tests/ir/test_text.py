"""The text form: round trip, conveniences of hand-written text, and every error."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from tests.ir.strategies import MESH, as_data, graphs, sizes

from shardproof.ir.graph import Attrs, Mesh, TensorType
from shardproof.ir.sizes import Size, symbol
from shardproof.ir.text import TextError, parse_graph, parse_size, print_graph


def rule(op: str, inputs: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    """A toy shape rule."""
    if op == "pair":
        return inputs[0], inputs[0]
    if op == "sink":
        return ()
    if op == "needs":
        return (TensorType("f32", (attrs["n"],)),)  # type: ignore[arg-type]
    if op in ("same", "all_reduce"):
        return (inputs[0],)
    raise ValueError(f"unknown operator {op!r}")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs())
def test_round_trip(graph) -> None:
    text = print_graph(graph, MESH)
    parsed = parse_graph(text)
    assert as_data(parsed.graph) == as_data(graph)
    assert parsed.mesh == MESH
    assert print_graph(parsed.graph, parsed.mesh) == text


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs())
def test_round_trip_without_a_mesh(graph) -> None:
    parsed = parse_graph(print_graph(graph))
    assert as_data(parsed.graph) == as_data(graph)
    assert parsed.mesh is None


@given(sizes())
def test_sizes_round_trip(size: Size) -> None:
    known = [MESH.index("tp"), MESH.index("dp")]
    assert parse_size(str(size), known) == size


MLP = """\
graph mlp   # two layers
mesh tp=N
sizes S, D, f

%x = input f32[S, 4*D]
%h = same(%x) {by=[1, -1/3],
               eps=1e-5}
%y = all_reduce(%h) {op="sum", group=("tp",)} !{file="a.py", line=7}
%a, %b: f32[S, 4*D] = pair(%y)
sink(%a) {dst=1}
return %y as loss, none, %b
"""


def test_hand_written_text_leaves_out_types_and_group_size() -> None:
    parsed = parse_graph(MLP, rule)
    graph = parsed.graph
    assert parsed.mesh == Mesh.of(tp=symbol("N"))
    assert graph.by_name()["y"].type == graph.input("x").type
    assert graph.nodes[1].attrs["group_size"] == symbol("N")
    assert graph.nodes[1].origin.line == 7
    assert graph.nodes[3].outputs == ()
    assert graph.output_names == ["loss", "none1", "b"]
    assert parse_graph(print_graph(graph, parsed.mesh), rule).graph.output_names[0] == "loss"


def test_group_of_ranks_gives_its_size() -> None:
    text = "graph g\nrank 1\n%x = input f32[2]\n%y = all_reduce(%x) {group=(0, 1)}\nreturn %y"
    graph = parse_graph(text, rule).graph
    assert graph.nodes[0].attrs == {"group": (0, 1), "group_size": 2}
    assert graph.rank == 1


def test_names_of_several_graphs_of_one_problem_agree() -> None:
    one = parse_graph("graph a\nsizes N\n%x = input f32[N]\nreturn %x").graph
    two = parse_graph("graph b\nmesh tp=N\n%x = input f32[N]\nreturn %x").graph
    assert one.input("x").type == two.input("x").type


BODY = "graph g\n%x = input f32[2]\n"
ERRORS = [
    ("", "1:1: found the end of the text; expected the header 'graph NAME'"),
    ("hello", "1:1: found hello; expected the header 'graph NAME'"),
    ("graph g\n", "the graph returns nothing; expected a last line such as: return %y"),
    (BODY + "return %x\nreturn %x", "4:1: a statement after 'return'"),
    (BODY + "%y = same(%z)\nreturn %y", "3:11: %z is not defined; define it on an earlier line"),
    (
        "graph g\n%alpha = input f32[2]\n%y = same(%alpah)\nreturn %y",
        "3:11: %alpah is not defined; did you mean %alpha?",
    ),
    (BODY + "%x = same(%x)\nreturn %x", "3:1: %x is defined twice; rename one of them"),
    (BODY + "%y: f32[3] = same(%x)\nreturn %y", "3:1: %y is written as f32[3], but same gives"),
    (BODY + "%y = pair(%x)\nreturn %y", "3:6: pair has 2 result(s), 1 named"),
    (BODY + "%y = wat(%x)\nreturn %y", "3:6: wat(f32[2]): unknown operator 'wat'"),
    (BODY + "%y = needs(%x)\nreturn %y", "3:6: needs(f32[2]): missing attribute 'n'"),
    ("graph g\n%x = input f33[2]\nreturn %x", "2:12: unknown element type 'f33'; expected one of"),
    ("graph g\n%x = input f32[S]\nreturn %x", "2:16: the size 'S' is not declared; add a line"),
    ("graph g\n%x = input f32[@tp]\nreturn %x", "2:16: @tp is not the rank symbol of a mesh axis"),
    ("graph g\nsizes S, S\nsizes true", "3:7: 'true' is a word of the text form"),
    ("graph g\nmesh tp=2, tp=3", "2:12: the mesh axis 'tp' is named twice"),
    ("graph g\nmesh tp=N\nranks N < 4", "3:7: the size 'N' is declared twice"),
    ("graph g\nranks 4", "2:7: found 4; expected a line such as: ranks r < N"),
    (BODY + "sizes S", "3:1: 'sizes' after the first value; move it to the top"),
    (BODY + "%y = same(%x)\n%z = input f32[2]", "4:6: an input after the first operator"),
    (BODY + "%y, %z = input f32[2]", "3:10: an input line defines one value"),
    (
        BODY + '%y = all_reduce(%x) {group=("tp",)}\nreturn %y',
        "3:6: 'tp' is not a mesh axis of this graph; expected one of none",
    ),
    (BODY + '%y = same(%x) {a=("tp")}', "write a one-element tuple with a comma"),
    (BODY + "%y = same(%x) {a=1, a=2}", "3:21: the attribute 'a' is given twice"),
    (BODY + "%y = same(%x) {a=1/0}", "3:18: a fraction over zero"),
    ("graph g\nsizes N\n%x = input f32[2]\n%y = same(%x) {a=N/2}", "sizes have no division"),
    (BODY + '%y = same(%x) {a="b}', "3:18: a string is not closed"),
    (BODY + '%y = same(%x) {a="\\q"}', "3:18: an unknown escape in a string"),
    (BODY + "%y = same(%x) !{color=1}", "3:16: an unknown source mark"),
    (BODY + "%y = same(%x", "expected ')'"),
    (BODY + "%y = ;", "3:6: unexpected character ';'"),
    (BODY + "% = same(%x)", "3:1: % without a name"),
    (BODY + "%y same(%x)", "3:4: found same; expected '='"),
    (BODY + "%y = same(%x) {a=" + "9" * 2000 + "}", "a number with 2000 digits"),
    (BODY + "%y = same(%x) {a=" + "(" * 20000, "brackets are nested too deeply"),
]


@pytest.mark.parametrize(("text", "message"), ERRORS, ids=[m[:40] for _, m in ERRORS])
def test_error(text: str, message: str) -> None:
    with pytest.raises(TextError) as caught:
        parse_graph(text, rule)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{caught.value.line}:{caught.value.column}: ")


def test_types_are_needed_without_a_shape_rule() -> None:
    with pytest.raises(TextError, match="%y needs a type here"):
        parse_graph(BODY + "%y = same(%x)\nreturn %y")


def test_symbols_without_text_form_are_refused() -> None:
    graph = parse_graph(BODY + "return %x").graph
    graph.inputs[0].type = TensorType("f32", (symbol("a b"),))
    with pytest.raises(ValueError, match="no text form"):
        print_graph(graph)
    graph.inputs[0].type = TensorType("f32", (symbol("@tp"), MESH.index("tp")))
    with pytest.raises(ValueError, match="two different size symbols"):
        print_graph(graph)
