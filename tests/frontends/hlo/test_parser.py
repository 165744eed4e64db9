"""The parser reads every form that printers use."""

from __future__ import annotations

import pytest

from shardproof.frontends.hlo.parser import looks_like_hlo, parse_module
from shardproof.frontends.hlo.shapes import Array, HloSyntaxError, NoArray, parse_shape

TEXT = """HloModule jit_f, is_scheduled=true, replica_count=2, num_partitions=4

FileNames
1 "src/model.py"

FunctionNames
1 "layer"

FileLocations
1 {file_name_id=1 function_name_id=1 line=8 end_line=8 column=2 end_column=4}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

%fused (p: f32[2]) -> f32[2] {
  ROOT %p = f32[2]{0} parameter(0)
}

ENTRY %main.4 (x: f32[2,3], t: (f32[], s32[2])) -> (f32[2,3], f32[]) {
  %x.1 = f32[2,3]{1,0:T(8,128)S(1)} parameter(0), metadata={op_name="x" stack_frame_id=1}
  %t.2 = (f32[], /*index=1*/s32[2]{0}) parameter(1)
  %c = f32[2,2]{1,0} constant({ { 1, 2 },
    { 3, -4e-1 } })
  %a = f32[] get-tuple-element(%t.2), index=0, backend_config={"a":{"b":"},{"},"c":[1,2]}
  %d = f32[2,3]{1,0} add(f32[2,3]{1,0} %x.1, f32[2,3]{1,0} %x.1), sharding={devices=[2,1]<=[2]}
  ROOT %r = (f32[2,3]{1,0}, /*index=1*/f32[]) tuple(%d, %a)
}, execution_thread="main"
"""


def test_a_compiled_module() -> None:
    m = parse_module(TEXT)
    assert (m.name, m.replicas, m.partitions) == ("jit_f", 2, 4)
    assert set(m.computations) == {"fused", "main.4"}
    x, t, c, a, d, r = m.entry.instructions
    assert m.entry.root is r
    assert x.shape == Array("f32", (2, 3), (1, 0))
    assert (x.origin.file, x.origin.line, x.origin.function) == ("src/model.py", 8, "layer")
    assert x.origin.module == "x"
    assert t.shape == (Array("f32", (), ()), Array("i32", (2,), (0,)))
    assert c.literal.split() == "{ { 1, 2 }, { 3, -4e-1 } }".split()
    assert a.ints("index") == (0,)
    assert a.attrs["backend_config"] == '{"a":{"b":"},{"},"c":[1,2]}'
    assert d.operands == ("x.1", "x.1")
    assert r.operands == ("d", "a")


def test_source_files_and_call_stacks() -> None:
    stack = (
        "/app/run.py\\n----\\n[\\'/app/run.py:3\\', \\'/app/layer.py:86\\', "
        "\\'/x/site-packages/y.py:5\\']"
    )
    text = (
        "HloModule m\nENTRY e {\n"
        f'  a = f32[] parameter(0), metadata={{source_file="{stack}" source_line=3}}\n'
        '  ROOT b = f32[] negate(a), metadata={op_name="neg" source_file="f.py" source_line=7}\n}\n'
    )
    a, b = parse_module(text).entry.instructions
    assert (a.origin.file, a.origin.line) == ("/app/layer.py", 86)
    assert (b.origin.file, b.origin.line, b.origin.module) == ("f.py", 7, "neg")


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("f32[]", Array("f32", (), ())),
        ("bf16[2,3]{0,1}", Array("bf16", (2, 3), (0, 1))),
        ("pred[4]{0:T(256)}", Array("b8", (4,), (0,))),
        ("f8e4m3fn[1]", Array("f8e4m3", (1,), (0,))),
        ("token[]", NoArray("token")),
        ("()", ()),
        ("(f32[1], (s8[2]))", (Array("f32", (1,), (0,)), (Array("i8", (2,), (0,)),))),
    ],
)
def test_types(text: str, shape: object) -> None:
    assert parse_shape(text)[0] == shape


@pytest.mark.parametrize("text", ["f32[<=5]", "f32[?]", "q7[2]", "(f32[1]", "[2]", ""])
def test_types_that_are_refused(text: str) -> None:
    with pytest.raises(HloSyntaxError):
        parse_shape(text)


def test_recognition() -> None:
    assert looks_like_hlo(TEXT)
    assert looks_like_hlo("\n" + TEXT)
    assert not looks_like_hlo("graph main")
