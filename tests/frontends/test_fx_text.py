"""The reader of printed FX graphs: every printed form gives the same statements."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.frontends.texts import ANSI, JOINT, LOGGED, MULTI_LINE, PLAIN, TWO_RANKS

from shardproof.errors import InputError
from shardproof.frontends.fx_lexer import Arith, Call, Dotted, FxSyntaxError, Ref
from shardproof.frontends.fx_text import FxGraph, read_fx
from shardproof.frontends.fx_types import FxType, parse_annotation
from shardproof.ir.sizes import symbol


def brief(graph: FxGraph) -> list[tuple[str, str, str, str]]:
    return [(s.name, s.kind, str(s.type or ""), s.target) for s in graph.statements]


def test_plain_graph() -> None:
    graph = read_fx(PLAIN)
    assert brief(graph) == [
        ("arg0_1", "input", "f32[8, 16]", ""),
        ("arg1_1", "input", "f32[16]", ""),
        ("_tensor_constant0", "attr", "", "_tensor_constant0"),
        ("mul", "call", "f32[8, 16]", "aten.mul.Tensor"),
        ("max_1", "call", "", "aten.max.dim"),
        ("getitem", "getitem", "f32[8]", "max_1"),
    ]
    mul = graph.statements[3]
    assert mul.args == (Ref("arg0_1"), 2.5)
    assert mul.kwargs == {"dtype": Dotted("torch.float32"), "other": (1, -2, None, "a;b#c", True)}
    assert (mul.origin.file, mul.origin.line) == ("model/mlp.py", 12)
    assert (mul.origin.function, mul.origin.code) == ("forward", "y = x * 2.5  # in, code: x")
    assert graph.statements[4].origin.file == ""
    assert mul.line == 8
    assert graph.output_names == ("getitem", "none1", "arg1_1")
    assert graph.phase == "forward"


def test_joint_graph() -> None:
    graph = read_fx(JOINT)
    inputs = [(s.name, str(s.type)) for s in graph.statements if s.kind == "input"]
    assert inputs == [("primals_1", "f32[4]"), ("primals_2", "f32[4]"), ("tangents_1", "f32[4]")]
    assert graph.output_names == ("mul", "none1", "mul_1")
    assert graph.phase == "joint"


def test_log_prefixes_and_colours_change_nothing() -> None:
    plain = read_fx(PLAIN)
    assert brief(read_fx(ANSI)) == brief(plain)
    logged = read_fx(LOGGED, graph="Forward graph 0")
    assert brief(logged) == brief(plain)
    assert logged.phase == "forward"
    assert read_fx(LOGGED, graph=1).phase == "backward"
    many = LOGGED + LOGGED.replace("graph 0", "graph 01")
    assert read_fx(many, graph="forward graph 0").title == "Forward graph 0"
    with pytest.raises(InputError, match="names 2 of them"):
        read_fx(many, graph="forward")


def test_multi_line_signature() -> None:
    graph = read_fx(MULTI_LINE)
    assert brief(graph)[0] == ("x", "input", "f32[s0, 16]", "")
    assert brief(graph)[1] == ("s", "input", "Sym(s0)", "")
    assert graph.statements[2].args == (Arith("*", (Ref("s"), 4)),)
    assert len(graph.statements) == 4


def test_ranks_in_one_stream() -> None:
    assert read_fx(TWO_RANKS, rank=0).statements[0].type == FxType("f32", (4,))
    assert read_fx(TWO_RANKS, rank=1).statements[0].type == FxType("f32", (5,))
    with pytest.raises(InputError, match="2 graphs and none was chosen"):
        read_fx(TWO_RANKS)
    with pytest.raises(InputError, match="no printed FX graph"):
        read_fx(TWO_RANKS, rank=2)


def test_reads_paths(tmp_path: Path) -> None:
    path = tmp_path / "rank0.fx.txt"
    path.write_text(PLAIN)
    assert brief(read_fx(path)) == brief(read_fx(str(path))) == brief(read_fx(PLAIN))
    assert read_fx(path).where(3) == f"{path}:3"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f32[]", FxType("f32")),
        ("bf16[8, 16]", FxType("bf16", (8, 16))),
        ("f32[8, 16][16, 1]cuda:0", FxType("f32", (8, 16), (16, 1))),
        ("f8e4m3fn[2]", FxType("f8e4m3", (2,))),
        ("f32[][]cpu", FxType("f32", (), ())),
        ("Sym(s77)", FxType(scalar=symbol("s77"))),
        ("Sym(2*s0 + 1)", FxType(scalar=2 * symbol("s0") + 1)),
        ("Sym((s0*4//2))", FxType(scalar=2 * symbol("s0"))),
        ("Sym(True)", FxType(scalar=True)),
        ("Sym(0.5)", FxType(scalar=0.5)),
        ("f32[s0, 4*s1]", FxType("f32", (symbol("s0"), 4 * symbol("s1")))),
        ("f32[s0**2][s0, 1]cpu", FxType("f32", (symbol("s0") * symbol("s0"),), (symbol("s0"), 1))),
    ],
)
def test_annotations(text: str, expected: FxType) -> None:
    assert parse_annotation(text) == expected


@pytest.mark.parametrize(
    "text", ["", "f32", "q8[4]", "f32[", "f32[-1]", "f32[a.b]", "Sym()", "Sym(f(x))",
             "f32[" + "1, " * 40 + "]", "f32[" + "9" * 2000 + "]"]
)  # fmt: skip
def test_wrong_annotations(text: str) -> None:
    with pytest.raises(FxSyntaxError):
        parse_annotation(text)


def test_sizes_without_a_polynomial_are_unknowns() -> None:
    texts = ["(s0//3)", "(s0//2)", "Max(1, s0 - 2)", "Max(1, s0 + 2)", "Mod(s0, 3)"]
    (*shape,) = parse_annotation(f"f32[{', '.join(texts)}]").shape
    assert len(set(shape)) == len(texts)
    assert parse_annotation("f32[2*(s0//3)]").shape == (2 * shape[0],)
    assert [str(n).isidentifier() for n in shape] == [True, True, True, False, True]
    assert shape[3] == symbol("s0") + 2


def test_nested_calls_are_data() -> None:
    graph = read_fx(PLAIN.replace("other = (1", "other = (f(g = [h.i]), 1"))
    other = graph.statements[3].kwargs["other"]
    assert other[0] == Call("f", (), {"g": (Dotted("h.i"),)})
