"""Protocol matching: tiny programs, right and wrong, written down call by call."""

from __future__ import annotations

from itertools import count

import pytest

from shardproof.collectives.match import CollectiveStep, LocalStep, Schedule, match
from shardproof.ir.graph import Graph, Mesh, Node, Origin, Program, TensorType, Value

_ids = count()
X = TensorType("f32", (4, 6))


def value(t: TensorType = X) -> Value:
    return Value(f"v{next(_ids)}", t)


def call(op: str, x: Value | None = None, out: TensorType = X, /, **attrs: object) -> Node:
    outs = () if op == "send" else (value(out),)
    origin = Origin("train.py", next(_ids))
    inputs = (x,) if x is not None else () if op == "recv" else (value(),)
    return Node(op, inputs, dict(attrs), outs, origin, f"{op}_{next(_ids)}")  # type: ignore[arg-type]


def reduce(group: tuple[int, ...], x: Value | None = None, /, **attrs: object) -> Node:
    fixed = {"op": "sum", "group": group, "group_size": len(group)}
    return call("all_reduce", x, **{**fixed, **attrs})


def gather(group: tuple[int, ...], x: Value | None = None, /, **attrs: object) -> Node:
    fixed = {"dim": 0, "group": group, "group_size": len(group)}
    return call("all_gather", x, **{**fixed, **attrs})


def send(dst: int, group: tuple[int, ...], x: Value | None = None, /, **attrs: object) -> Node:
    return call("send", x, **{"dst": dst, "tag": 0, "group": group, **attrs})


def recv(src: int, group: tuple[int, ...], t: TensorType = X, /, **attrs: object) -> Node:
    return call("recv", None, t, **{"src": src, "tag": 0, "group": group, **attrs})


def local(*xs: Value, op: str = "neg") -> Node:
    return Node(op, xs, {}, (value(),), Origin("train.py", next(_ids)), f"{op}_{next(_ids)}")


def program(*ranks: list[Node]) -> Program:
    graphs = []
    for r, nodes in enumerate(ranks):
        made = {v for n in nodes for v in n.outputs}
        used = dict.fromkeys(v for n in nodes for v in n.inputs if v not in made)
        graphs.append(Graph(f"r{r}", list(used), nodes, [], [], r))
    return Program(Mesh.of(tp=len(ranks)), graphs)


def kinds(schedule: Schedule) -> list[str]:
    return [e.kind for e in schedule.errors]


def operands_first(p: Program, schedule: Schedule) -> list[Node]:
    """No step, of a faulty program either, takes what no earlier step made; the nodes run."""
    known = {v for g in p.graphs for v in g.inputs}
    seen: list[Node] = []
    for step in schedule.steps:
        nodes = [step.node] if isinstance(step, LocalStep) else [n for _, n in step.members]
        for n in nodes:
            assert all(v in known for v in n.inputs)
        known |= {v for n in nodes for v in n.outputs}
        seen += nodes
    assert len(seen) == len(set(seen))
    return seen


def well_formed(p: Program, schedule: Schedule) -> None:
    """Every node exactly once, operands before uses, all members of a step at once."""
    assert len(operands_first(p, schedule)) == sum(len(g.nodes) for g in p.graphs)


def ok(*ranks: list[Node]) -> list[CollectiveStep]:
    p = program(*ranks)
    schedule = match(p)
    assert schedule.errors == []
    well_formed(p, schedule)
    return [s for s in schedule.steps if isinstance(s, CollectiveStep)]


# ------------------------------------------------------------------------------ correct programs


def test_members_stand_in_group_order() -> None:
    (step,) = ok([reduce((1, 0))], [reduce((1, 0))])
    assert [r for r, _ in step.members] == [1, 0]
    assert step.group == (1, 0)
    assert step.kind == "all_reduce"


def test_subgroups_interleave_freely() -> None:
    pair, cross = [(0, 1), (2, 3)], [(0, 2), (1, 3)]
    steps = ok(*[[reduce(pair[r // 2]), gather(cross[r % 2])] for r in range(4)])
    assert len(steps) == 4


def test_group_of_one_needs_nobody() -> None:
    assert len(ok([reduce((0,))], [])) == 1


def test_pipeline_of_three_stages() -> None:
    g = (0, 1, 2)
    got = recv(0, g)
    steps = ok([send(1, g)], [got, send(2, g, got.output)], [recv(1, g)])
    assert [(s.kind, [r for r, _ in s.members]) for s in steps] == [
        ("send_recv", [0, 1]),
        ("send_recv", [1, 2]),
    ]


def test_messages_of_one_tag_keep_their_order_and_tags_are_apart() -> None:
    g = (0, 1)
    a, b, c = send(1, g), send(1, g), send(1, g, tag=7, **{"async": True})
    first, second, tagged = recv(0, g), recv(0, g), recv(0, g, tag=7)
    steps = ok([c, a, b], [first, second, tagged])
    assert [s.members for s in steps] == [
        ((0, a), (1, first)),
        ((0, b), (1, second)),
        ((0, c), (1, tagged)),
    ]


def test_buffered_sends_in_a_ring_do_not_deadlock() -> None:
    g = (0, 1, 2)
    ring = [[send((r + 1) % 3, g, **{"async": True}), recv((r - 1) % 3, g)] for r in g]
    assert len(ok(*ring)) == 3


def test_async_collectives_block_at_their_wait_only() -> None:
    """Each rank starts with another group; with blocking calls this would be a cycle."""

    def rank(first: tuple[int, ...], second: tuple[int, ...]) -> list[Node]:
        a = reduce(first, **{"async": True})
        b = reduce(second, **{"async": True})
        return [a, b, local(a.output, op="wait"), local(b.output, op="wait")]

    assert len(ok(rank((0, 1), (0, 2)), rank((1, 2), (0, 1)), rank((0, 2), (1, 2)))) == 3


def test_async_operands_may_be_used_in_flight() -> None:
    x = value()
    a = reduce((0,), x, **{"async": True})
    ok([a, local(x), local(a.output, op="wait")])


def test_uneven_gather_and_exchange() -> None:
    def rows(n: int) -> Value:
        return value(TensorType("f32", (n, 2)))

    ok(*[[gather((0, 1), rows(n), sizes=(3, 5))] for n in (3, 5)])
    sent = {0: (1, 2), 1: (3, 4)}
    got = {0: (1, 3), 1: (2, 4)}
    fixed = {"split_dim": 0, "concat_dim": 0, "group": (0, 1), "group_size": 2}
    ok(
        *[
            [call("all_to_all", rows(sum(sent[r])), send_sizes=sent[r], recv_sizes=got[r], **fixed)]
            for r in (0, 1)
        ]
    )


def exchange(k: int, **change: object) -> list[Node]:
    """Columns are cut as (2, 4), rows arrive as (3, 5): the two dims differ."""
    x, out = TensorType("f32", ((3, 5)[k], 6)), TensorType("f32", (8, (2, 4)[k]))
    fixed = {"split_dim": 1, "concat_dim": 0, "group": (0, 1), "group_size": 2}
    sizes = {"send_sizes": (2, 4), "recv_sizes": (3, 5), "extent": (2, 4)[k]}
    return [call("all_to_all", value(x), out, **{**fixed, **sizes, **change})]


def test_uneven_exchange_between_two_dims() -> None:
    ok(exchange(0), exchange(1))
    faulty("sizes", exchange(0), exchange(1, extent=2), names="rank 1 takes 2 elements")
    faulty("sizes", exchange(0), exchange(1, recv_sizes=(5, 3)), names="rank 0 sends 3 to rank 1")
    faulty("sizes", exchange(0), exchange(1, send_sizes=(3, 4)), names="do not cut")
    faulty("sizes", exchange(0), exchange(1, send_sizes=(4, 2)), names="rank 1 into (4, 2)")


def test_uneven_scatter_parts() -> None:
    def scatter(k: int, extent: int) -> list[Node]:
        fixed = {"op": "sum", "dim": 0, "group": (0, 1), "group_size": 2, "sizes": (1, 3)}
        return [call("reduce_scatter", extent=extent, **fixed)]

    ok(scatter(0, 1), scatter(1, 3))
    faulty("sizes", scatter(0, 1), scatter(1, 1), names="its part is 3")


def test_spmd_graph_needs_no_matching() -> None:
    node = call("all_reduce", op="sum", group=("tp",), group_size=4)
    p = Program(Mesh.of(dp=2, tp=4), [Graph("spmd", [node.inputs[0]], [node])], spmd=True)
    schedule = match(p)
    assert schedule.errors == []
    assert schedule.steps == [CollectiveStep("all_reduce", ((0, node),), ("tp",))]


# ------------------------------------------------------------------------------ faulty programs


def faulty(kind: str, *ranks: list[Node], names: str = "") -> Schedule:
    """Exactly one finding, of this kind, whose text contains ``names``."""
    p = program(*ranks)
    schedule = match(p)
    assert kinds(schedule) == [kind], [str(e) for e in schedule.errors]
    operands_first(p, schedule)
    assert names in str(schedule.errors[0])
    for s in schedule.errors[0].sites:
        assert s.node is None or (s.origin.file == "train.py" and s.name)
    return schedule


def test_order_differs() -> None:
    g = (0, 1)
    found = faulty("order", [reduce(g), gather(g)], [gather(g), reduce(g)])
    assert found.errors[0].ranks == [0, 1]


def test_what_depends_on_a_misfit_is_left_out() -> None:
    g = (0, 1)
    x, y = reduce(g), reduce(g, op="max")
    uses = [local(x.output), local(y.output)]
    apart = [local(value()), local(value())]
    found = faulty("op", [x, uses[0], apart[0]], [y, uses[1], apart[1]])
    assert {s.node for s in found.steps if isinstance(s, LocalStep)} == set(apart)
    assert len(found.steps) == 2


def test_kind_differs_without_a_swap() -> None:
    g = (0, 1)
    faulty("kind", [reduce(g), gather(g)], [gather(g), gather(g)], names="all_reduce, all_gather")


def test_a_dropped_call_is_one_finding() -> None:
    g = (0, 1)
    faulty("kind", [gather(g), reduce(g), gather(g)], [gather(g), gather(g)])


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("op", {"op": "max"}),
        ("dtype", {"x": value(TensorType("bf16", (4, 6)))}),
        ("shape", {"x": value(TensorType("f32", (4, 5)))}),
        ("shape", {"x": value(TensorType("f32", (24,)))}),
    ],
)
def test_all_reduce_disagreements(kind: str, change: dict[str, object]) -> None:
    g = (0, 1)
    x = change.pop("x", None)
    other = reduce(g, x if isinstance(x, Value) else None, **change)
    faulty(kind, [reduce(g), gather(g)], [other, gather(g)])


def test_gather_dims_and_extents_differ() -> None:
    g = (0, 1)
    faulty("dim", [gather(g)], [gather(g, dim=1)])
    rows = value(TensorType("f32", (3, 6)))
    faulty("shape", [gather(g)], [gather(g, rows)])
    faulty("sizes", [gather(g, sizes=(4, 4))], [gather(g, rows, sizes=(4, 4))])


def test_broadcast_roots_differ() -> None:
    def cast(src: int) -> list[Node]:
        return [call("broadcast", src=src, group=(0, 1), group_size=2)]

    faulty("src", cast(0), cast(1))
    faulty("src", cast(5), cast(5))


def test_exchange_sizes_disagree() -> None:
    fixed = {"split_dim": 0, "concat_dim": 0, "group": (0, 1), "group_size": 2}
    calls = [
        [call("all_to_all", send_sizes=s, recv_sizes=r, **fixed)]
        for s, r in (((1, 3), (1, 2)), ((3, 1), (3, 1)))
    ]
    faulty("sizes", *calls, names="rank 1 sends 3 to rank 0, which expects 2")


def test_group_without_the_caller() -> None:
    faulty("group", [reduce((0, 1))], [reduce((0, 1))], [reduce((0, 1))], names="rank 2")


def test_group_orders_differ() -> None:
    faulty("group", [reduce((0, 1))], [reduce((1, 0))])


def test_group_with_an_unknown_rank() -> None:
    faulty("group", [reduce((0, 7))], names="there is no rank 7")


def test_group_size_disagrees() -> None:
    faulty("group_size", [reduce((0, 1), group_size=4)], [reduce((0, 1))])


def test_a_member_never_arrives() -> None:
    found = faulty("missing", [reduce((0, 1, 2))], [reduce((0, 1, 2))], [], names="rank 2 never")
    assert [(s.rank, s.node is None) for s in found.errors[0].sites] == [
        (0, False),
        (1, False),
        (2, True),
    ]


def test_different_groups_wait_in_a_cycle() -> None:
    found = faulty(
        "deadlock",
        [reduce((0, 1)), reduce((0, 2))],
        [reduce((1, 2)), reduce((0, 1))],
        [reduce((0, 2)), reduce((1, 2))],
    )
    assert found.errors[0].ranks == [0, 1, 2]
    assert all("waits for rank" in s.detail for s in found.errors[0].sites)


def test_part_of_a_group_where_others_use_all() -> None:
    everyone = (0, 1, 2)
    faulty("deadlock", [reduce(everyone)], [reduce(everyone)], [reduce((2, 1))], names="1 -> 2")


def test_blocking_sends_in_a_ring_deadlock() -> None:
    g = (0, 1, 2)
    found = faulty("deadlock", *[[send((r + 1) % 3, g), recv((r - 1) % 3, g)] for r in g])
    assert {s.node.op for s in found.errors[0].sites if s.node} == {"send"}


def test_both_receive_first() -> None:
    g = (0, 1)
    faulty("deadlock", [recv(1, g), send(1, g)], [recv(0, g), send(0, g)], names="0 -> 1 -> 0")


def test_a_send_crosses_a_collective() -> None:
    g = (0, 1)
    faulty("deadlock", [send(1, g), reduce(g)], [reduce(g), recv(0, g)])


def test_a_blocking_send_to_itself() -> None:
    faulty("deadlock", [send(0, (0,)), recv(0, (0,))], names="0 -> 0")
    ok([send(0, (0,), **{"async": True}), recv(0, (0,))])


def test_unmatched_messages() -> None:
    g = (0, 1)
    faulty("unmatched", [send(1, g)], [], names="has no recv on rank 1")
    faulty("unmatched", [], [recv(0, g)], names="has no send on rank 0")
    faulty("unmatched", [send(1, g, **{"async": True})], [], names="has no recv on rank 1")
    faulty("deadlock", [send(1, g, tag=1)], [recv(0, g, tag=2)])


def test_process_groups_over_the_same_ranks_are_different() -> None:
    g, late = (0, 1), {"async": True}
    faulty("deadlock", [reduce(g)], [reduce(g, comm="1")], names="0 -> 1 -> 0")
    faulty("deadlock", [reduce(g), reduce(g, comm="1")], [reduce(g, comm="1"), reduce(g)])
    alone = match(program([reduce(g, **late)], [reduce(g, comm="1", **late)]))
    assert kinds(alone) == ["missing", "missing"]
    faulty("deadlock", [send(1, g)], [recv(0, g, comm="1")])
    faulty("deadlock", [send(1, g)], [recv(0, (0, 1, 2))], [])
    ok([send(1, g), send(1, g, comm="1", **late)], [recv(0, g), recv(0, g, comm="1")])


def test_calls_on_two_process_groups_meet_those_of_their_own() -> None:
    g, late = (0, 1), {"async": True}
    a, b = reduce(g, **late), reduce(g, comm="1", **late)
    c, d = reduce(g, **late), reduce(g, comm="1", **late)
    p = program([a, b], [d, c])
    met = [{n for _, n in s.members} for s in match(p).steps if isinstance(s, CollectiveStep)]
    assert met == [{b, d}, {a, c}] or met == [{a, c}, {b, d}]


def test_messages_of_different_types() -> None:
    g = (0, 1)
    faulty("shape", [send(1, g)], [recv(0, g, TensorType("f32", (6, 4)))])
    faulty("dtype", [send(1, g)], [recv(0, g, TensorType("f16", (4, 6)))])


def test_use_before_wait() -> None:
    a = reduce((0,), **{"async": True})
    late = local(a.output, op="wait")
    faulty("use_before_wait", [a, local(a.output, op="exp"), late], names="exp uses the result")
    b = reduce((0,))
    ok([b, local(b.output, op="exp")])


def test_returned_before_wait() -> None:
    a = reduce((0,), **{"async": True})
    p = program([a])
    p.graphs[0].outputs, p.graphs[0].output_names = [a.output], ["out"]
    assert kinds(match(p)) == ["use_before_wait"]


def test_async_call_that_nobody_joins() -> None:
    faulty("missing", [reduce((0, 1), **{"async": True})], [], names="rank 1 never arrives")


@pytest.mark.parametrize(
    ("node", "kind"),
    [
        (call("all_reduce", op="sum", group=("pp",), group_size=2), "group"),
        (call("all_reduce", op="sum", group=("tp",), group_size=8), "group_size"),
        (call("send", dst=1, tag=0, group=("tp",), group_size=4), "unsupported"),
    ],
)
def test_spmd_findings(node: Node, kind: str) -> None:
    p = Program(Mesh.of(dp=2, tp=4), [Graph("spmd", list(node.inputs), [node])], spmd=True)
    assert kinds(match(p)) == [kind]
