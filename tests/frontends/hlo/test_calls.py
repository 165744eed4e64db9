"""A declared call says on what a kernel depends, and nothing more is believed."""

from __future__ import annotations

import pytest

from shardproof import Mesh, Replicate, Shard, Spec
from shardproof.ir.graph import TensorType
from shardproof.ops.base import ShapeError, infer_types
from shardproof.ops.calls import parse_signature
from shardproof.spec.placement import Placement


def check(
    sequential: str, distributed: str, inputs: dict[str, Placement], output: Placement
) -> str:
    spec = Spec.from_graphs(
        sequential=sequential, distributed=distributed.replace("graph g", "graph g\nmesh tp=2", 1),
        mesh=Mesh(tp=2), inputs=inputs, outputs={"y": output},
    )  # fmt: skip
    return spec.check().status


def call(x: str, k: str, signature: str, extra: str = "", out: str = "y") -> str:
    return f'%{out} = signature_call({x}, {k}) {{target="f", signature="{signature}"{extra}}}'


def program(shapes: str, *lines: str) -> str:
    given = (s.strip().split(": ") for s in shapes.split(", %"))
    inputs = (f"%{name.removeprefix('%')} = input {kind}" for name, kind in given)
    return "\n".join(["graph g", *inputs, *lines, "return %y", ""])


HEADS = "t! g d!, s! g d! -> t! g d!"
WHOLE = program("%x: f32[6, 4, 3], %k: f32[5, 4, 3]", call("%x", "%k", HEADS))


def test_ranks_may_hold_some_indices_of_a_free_axis() -> None:
    part = program("%x: f32[6, 2, 3], %k: f32[5, 2, 3]", call("%x", "%k", HEADS))
    assert check(WHOLE, part, {"*": Shard(1)}, Shard(1)) == "refines"


def test_ranks_must_hold_whole_axes() -> None:
    part = program("%x: f32[3, 4, 3], %k: f32[5, 4, 3]", call("%x", "%k", HEADS))
    placed: dict[str, Placement] = {"x": Shard(0), "k": Replicate()}
    assert check(WHOLE, part, placed, Shard(0)) == "refuted"


def test_other_parameters_are_another_function() -> None:
    part = program(
        "%x: f32[6, 2, 3], %k: f32[5, 2, 3]", call("%x", "%k", HEADS, ", parameters=(1,)")
    )
    assert check(WHOLE, part, {"*": Shard(1)}, Shard(1)) == "refuted"


def test_another_order_of_a_whole_axis_is_another_operand() -> None:
    part = program(
        "%x: f32[6, 2, 3], %k: f32[5, 2, 3]",
        "%a = slice(%k) {dim=0, start=0, stop=1}",
        "%b = slice(%k) {dim=0, start=1, stop=5}",
        "%c = concat(%b, %a) {dim=0}",
        call("%x", "%c", HEADS),
    )
    assert check(WHOLE, part, {"*": Shard(1)}, Shard(1)) == "refuted"


@pytest.mark.parametrize(("extra", "status"), [(", linear=(0,)", "refines"), ("", "refuted")])
def test_partial_sums_pass_through_linear_operands_only(extra: str, status: str) -> None:
    signature = "t! d, s! d -> t d"
    whole = program(
        "%x: f32[6, 8], %w: f32[8, 3], %k: f32[5, 3]",
        "%z = matmul(%x, %w)",
        call("%z", "%k", signature, extra),
    )
    part = program(
        "%x: f32[6, 4], %w: f32[4, 3], %k: f32[5, 3]",
        "%z = matmul(%x, %w)",
        call("%z", "%k", signature, extra, "v"),
        '%y = all_reduce(%v) {op="sum", group=("tp",), group_size=2}',
    )
    placed: dict[str, Placement] = {"x": Shard(1), "w": Shard(0), "k": Replicate()}
    assert check(whole, part, placed, Replicate()) == status


@pytest.mark.parametrize(
    "text",
    ["i k", "-> i", "i k! -> i q", "i i -> i", "i, k -> i, k", "i? -> i", "i k! -> i!!"],
)
def test_signatures_that_are_refused(text: str) -> None:
    with pytest.raises(ShapeError):
        parse_signature(text)


def test_axes_that_the_output_lacks_are_whole() -> None:
    assert parse_signature("i k 1, k -> i 1").whole == ("k",)


def test_extents_must_agree() -> None:
    types = TensorType("f32", (2, 3)), TensorType("f32", (4,))
    attrs = {"target": "f", "signature": "i k!, k! -> i k"}
    with pytest.raises(ShapeError, match="extents 3 and 4"):
        infer_types("signature_call", types, attrs)
    with pytest.raises(ShapeError, match="2 operands"):
        infer_types("signature_call", types[:1], attrs)
    with pytest.raises(ShapeError, match="linear"):
        infer_types("signature_call", types[:1], {"target": "f", "signature": "i k -> i k",
                                                  "linear": (1,)})  # fmt: skip
