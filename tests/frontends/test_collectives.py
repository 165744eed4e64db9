"""Collectives: groups resolved to ranks, waits kept, groups of one gone."""

from __future__ import annotations

from typing import Any

import pytest
from tests.frontends.texts import module

from shardproof.errors import InputError
from shardproof.frontends.import_fx import ImportResult, import_fx
from shardproof.ir.graph import Node

X = 'x: "f32[4, 2]"'
NEW, OLD = "torch.ops._c10d_functional.", "torch.ops.c10d_functional."


def imported(line: str, *more: str, returns: str = "y", **facts: Any) -> ImportResult:
    facts = {"groups": {"tp": (2, 5), "alone": [(r,) for r in range(8)]}, "rank": 5, **facts}
    result = import_fx(module(X, line, *more, returns=returns), **facts)
    assert result.unknown == {}
    return result


def nodes(line: str, *more: str, **facts: Any) -> list[Node]:
    return imported(line, *more, **facts).graph.nodes


CASES = [
    ('y: "f32[4, 2]"', "all_reduce.default(x, 'sum', 'tp')", "all_reduce", {"op": "sum"}),
    ('y: "f32[4, 2]"', "all_reduce.default(x, 'avg', 'tp')", "all_reduce", {"op": "avg"}),
    ('y: "f32[4, 2]"', "all_reduce.default(x, 'MAX', 'tp')", "all_reduce", {"op": "max"}),
    ('y: "f32[8, 2]"', "all_gather_into_tensor.default(x, 2, 'tp')", "all_gather", {"dim": 0}),
    ('y: "f32[8, 2]"', "all_gather_into_tensor_out.default(x, 2, 'tp', out = x)", "all_gather",
     {"dim": 0}),
    ('y: "f32[2, 2]"', "reduce_scatter_tensor.default(x, 'sum', 2, 'tp')", "reduce_scatter",
     {"op": "sum", "dim": 0}),
    ('y: "f32[2, 2]"', "reduce_scatter_tensor_out.default(x, 'sum', 2, 'tp', out = x)",
     "reduce_scatter", {"op": "sum", "dim": 0}),
    ('y: "f32[4, 2]"', "all_to_all_single.default(x, [2, 2], [2, 2], 'tp')", "all_to_all",
     {"split_dim": 0, "concat_dim": 0}),
    ('y: "f32[4, 2]"', "all_to_all_single.default(x, [], [], 'tp')", "all_to_all",
     {"split_dim": 0, "concat_dim": 0}),
    ('y: "f32[5, 2]"', "all_to_all_single.default(x, [2, 3], [1, 3], 'tp')", "all_to_all",
     {"split_dim": 0, "concat_dim": 0, "send_sizes": (1, 3), "recv_sizes": (2, 3)}),
    ('y: "f32[4, 2]"', "broadcast.default(x, 0, 'tp')", "broadcast", {"src": 2}),
    ('y: "f32[4, 2]"', "irecv.default(x, 2, 7, 'tp')", "recv",
     {"src": 2, "tag": 7, "shape": (4, 2), "dtype": "f32"}),
]  # fmt: skip


@pytest.mark.parametrize(("left", "call", "op", "attrs"), CASES, ids=[c[1] for c in CASES])
def test_functional(left: str, call: str, op: str, attrs: dict[str, Any]) -> None:
    name, annotation = left.split(": ")
    wait = f"w: {annotation} = {NEW}wait_tensor.default({name})"
    first, second = nodes(f"{left} = {NEW}{call}", wait, returns="w")
    assert first.op == op
    assert first.attrs == {**attrs, "group": (2, 5), "group_size": 2, "comm": "tp"}
    assert (second.op, second.inputs) == ("wait", first.outputs)
    assert second.output.name == "w"


OLD_CASES = [
    ('y: "f32[4, 2]"', "all_reduce.default(x, 'sum', '', [2, 5], 2)", "all_reduce"),
    ('y: "f32[4, 2]"', "all_reduce.default(x, 'sum', '', [0, 1, 2, 5], 2)", "all_reduce"),
    ('y: "f32[8, 2]"', "all_gather_into_tensor.default(x, '', [2, 5], 2)", "all_gather"),
    ('y: "f32[2, 2]"', "reduce_scatter_tensor.default(x, 'sum', '', [2, 5], 2)",
     "reduce_scatter"),
    ('y: "f32[4, 2]"', "broadcast.default(x, 1, '', [2, 5], 2)", "broadcast"),
    ('y: "f32[4, 2]"', "all_to_all_single.default(x, None, None, '', [2, 5], 2)", "all_to_all"),
]  # fmt: skip


@pytest.mark.parametrize(("left", "call", "op"), OLD_CASES, ids=[c[1] for c in OLD_CASES])
def test_ranks_spelled_out(left: str, call: str, op: str) -> None:
    (node,) = nodes(f"{left} = {OLD}{call}", groups={})
    assert (node.op, node.attrs["group"]) == (op, (2, 5))


def test_a_second_wait_is_nothing() -> None:
    lines = [
        f"y: \"f32[4, 2]\" = {NEW}all_reduce.default(x, 'sum', 'tp')",
        f'a: "f32[4, 2]" = {NEW}wait_tensor.default(y)',
        f'b: "f32[4, 2]" = {NEW}wait_tensor.default(a)',
    ]
    assert [n.op for n in nodes(*lines, returns="b")] == ["all_reduce", "wait"]


@pytest.mark.parametrize(
    "call",
    ["all_reduce.default(x, 'sum', 'alone')", "all_gather_into_tensor.default(x, 1, 'alone')",
     "reduce_scatter_tensor.default(x, 'avg', 1, 'alone')", "broadcast.default(x, 0, 'alone')",
     "all_to_all_single.default(x, [4], [4], 'alone')"],
)  # fmt: skip
def test_a_group_of_one(call: str) -> None:
    result = imported(
        f'y: "f32[4, 2]" = {NEW}{call}', f'w: "f32[4, 2]" = {NEW}wait_tensor.default(y)',
        returns="w",
    )  # fmt: skip
    assert result.graph.nodes == []
    assert result.graph.outputs == result.graph.inputs
    assert [a.text for a in result.assumptions] == ["group 'alone' is rank 5 alone"]


@pytest.mark.parametrize(
    ("call", "op", "rows"),
    [("all_reduce_coalesced.default([x, x], 'sum', 'tp')", "all_reduce", 4),
     ("all_gather_into_tensor_coalesced.default([x, x], 2, 'tp')", "all_gather", 8),
     ("reduce_scatter_tensor_coalesced.default([x, x], 'sum', 2, 'tp')", "reduce_scatter", 2)],
)  # fmt: skip
def test_lists(call: str, op: str, rows: int) -> None:
    result = imported(
        f"l = {NEW}{call}",
        f'a: "f32[{rows}, 2]" = l[0]',
        f'b: "f32[{rows}, 2]" = l[1]',
        f'wa: "f32[{rows}, 2]" = {NEW}wait_tensor.default(a)',
        f'wb: "f32[{rows}, 2]" = {NEW}wait_tensor.default(b)',
        returns="wa, wb",
    )
    assert [n.op for n in result.graph.nodes] == [op, op, "wait", "wait"]
    assert [n.outputs[0].name for n in result.graph.nodes] == ["a", "b", "wa", "wb"]


def test_send() -> None:
    lines = [f'y: "f32[0]" = {NEW}isend.default(x, 2, 7, "tp")',
             f'w: "f32[0]" = {NEW}wait_tensor.default(y)']  # fmt: skip
    (node,) = nodes(*lines, returns="x")
    assert node.op == "send"
    assert node.outputs == ()
    assert node.attrs == {"dst": 2, "tag": 7, "group": (2, 5), "group_size": 2, "comm": "tp"}


def test_batched_point_to_point() -> None:
    lines = [
        f"l = {NEW}batch_p2p_ops.default(['isend', 'irecv'], [2, 2], [0, 1], [x, x], 'tp')",
        'b: "f32[4, 2]" = l[1]',
        f'w: "f32[4, 2]" = {NEW}wait_tensor.default(b)',
    ]
    assert [n.op for n in nodes(*lines, returns="w")] == ["send", "recv", "wait"]


def test_blocking_all_reduce() -> None:
    first, second = nodes("y: \"f32[4, 2]\" = torch.ops.vllm.all_reduce.default(x, 'tp')")
    assert (first.op, second.op, second.output.name) == ("all_reduce", "wait", "y")


def test_a_group_can_depend_on_the_rank() -> None:
    line = f"y: \"f32[4, 2]\" = {NEW}all_reduce.default(x, 'sum', 'dp')"
    for rank, group in ((0, (0, 2)), (3, (1, 3))):
        (node,) = nodes(line, rank=rank, groups={"dp": [(0, 2), (1, 3)]})
        assert node.attrs["group"] == group


def test_process_group_objects_are_not_understood() -> None:
    lines = ["g = self._torchbind_obj0", "r = torch.ops.c10d.barrier.default(x, g, [0])"]
    result = import_fx(module(X, *lines, returns="x"))
    assert result.unknown == {"c10d.barrier": 1}
    lines[1] = "r = torch.ops.c10d.allreduce_.default([x], g, g, None, False)"
    with pytest.raises(InputError, match="changes its argument in place"):
        import_fx(module(X, *lines, returns="x"))
