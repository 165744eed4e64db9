"""The resizing pass: small, well-shaped, and still the same question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.replay.programs import embedding, mlp, pair

from shardproof import Mesh, Partial, Replicate, Shard, Spec, seq
from shardproof.ir.graph import Graph
from shardproof.ops.base import infer_types
from shardproof.replay.compare import replay_problem
from shardproof.replay.errors import NotReplayable
from shardproof.replay.instantiate import all_graphs
from shardproof.replay.resize import Resized, Wish, keep_sizes, resize
from shardproof.spec.problem import Problem

WISHES = (Wish(), Wish(first=(2, 3)), Wish(first=(4, 3)), Wish(times=2))


def shapes(graph: Graph) -> dict[str, tuple[Any, ...]]:
    return {v.name: v.shape for v in graph.values()}


def well_shaped(problem: Problem) -> bool:
    return all(
        infer_types(n.op, tuple(v.type for v in n.inputs), n.attrs)
        == tuple(v.type for v in n.outputs)
        for g in all_graphs(problem)
        for n in g.nodes
    )


def small(spec: Spec, largest: int, wish: Wish | None = None) -> Resized:
    out = resize(spec.resolve(), wish)
    assert well_shaped(out.problem)
    assert out.report.largest <= largest, out.report
    return out


def agrees(r: Resized | Problem, seeds: int = 3) -> bool:
    results = [replay_problem(r, seed) for seed in range(seeds)]
    assert not any(res.invalid for res in results), [res.invalid for res in results]
    return not any(res.differs(1e-9) for res in results)


# ------------------------------------------------------------------------------ invariants

BIG = {"s": 1536, "d": 768, "f": 3072}
PROBLEMS: dict[str, tuple[Callable[[], Spec], int]] = {
    "mlp": (lambda: mlp(BIG), 300),
    "mlp on 8 ranks": (lambda: mlp(BIG, 8), 1500),
    "all sizes collide": (lambda: mlp({"s": 64, "d": 64, "f": 64}), 300),
    "one column a rank": (lambda: mlp({"s": 512, "d": 256, "f": 4}, 4), 300),
    "embedding": (lambda: embedding(50304, 4), 200),
    "embedding of 8 rows": (lambda: embedding(8, 2), 200),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("wish", WISHES, ids=str)
def test_right_programs_stay_right_at_every_size(name: str, wish: Wish) -> None:
    make, largest = PROBLEMS[name]
    assert agrees(small(make(), largest * wish.times**2 * 4, wish))


@pytest.mark.parametrize("name", PROBLEMS)
def test_original_sizes_are_the_solution_of_scale_one(name: str) -> None:
    problem = PROBLEMS[name][0]().resolve()
    kept = keep_sizes(problem)
    for old, new in zip(all_graphs(problem), all_graphs(kept.problem), strict=True):
        assert shapes(old) == shapes(new)
        assert [n.attrs for n in old.nodes] == [n.attrs for n in new.nodes]
    assert kept.report.sizes == {}


def test_no_size_grows_and_lower_bounds_hold() -> None:
    problem = mlp(BIG).resolve()
    out = resize(problem)
    for old, new in zip(all_graphs(problem), all_graphs(out.problem), strict=True):
        for a, b in zip(old.values(), new.values(), strict=True):
            assert all(1 < n <= m for m, n in zip(a.shape, b.shape, strict=True) if m != 1)
    # The normalised axis keeps at least four elements.
    assert shapes(out.problem.sequential)["x"][1] >= 4
    assert str(shapes(out.problem.sequential)["x"][1]) in out.report.sizes["768"].split("/")


# ------------------------------------------------------------------------------ wrong programs


@pytest.mark.parametrize("drop", ["all_reduce", "bias"])
@pytest.mark.parametrize("wish", WISHES, ids=str)
def test_wrong_programs_stay_wrong(drop: str, wish: Wish) -> None:
    assert not agrees(resize(mlp(BIG, drop=drop).resolve(), wish))


@pytest.mark.parametrize("shift", [-1, 1])
def test_off_by_one_bounds_are_not_scaled_away(shift: int) -> None:
    """One row too few stays one row too few; one too many reads past the shard."""
    r = resize(embedding(98304, 8, shift=shift, rows=4096).resolve())
    assert any("read as" in text for text in r.report.ambiguous)
    assert not agrees(r, seeds=5)
    assert agrees(resize(embedding(98304, 8, rows=4096).resolve()))


# ------------------------------------------------------------------------------ sum equations


def label_shift(n: int, start: int, stop: int) -> Spec:
    body = f"""\
%x = input f32[8, {n}]
%y = input f32[8, {n}]
%a = slice(%x) {{dim=1, start=0, stop={n - 1}}}
%b = slice(%y) {{dim=1, start={start}, stop={stop}}}
%p = mul(%a, %b)
%z = sum(%p) {{dims=(1,)}}
return %z
"""
    return pair(body.replace(f"start={start}, stop={stop}", f"start=1, stop={n}"), body, {
        "*": Replicate()
    })  # fmt: skip


def test_label_shift_shrinks() -> None:
    r = small(label_shift(1024, 1, 1024), 64)
    n = shapes(r.problem.sequential)["x"][1]
    assert shapes(r.problem.sequential)["a"] == (shapes(r.problem.sequential)["x"][0], n - 1)
    assert n <= 8
    assert not r.report.exact
    assert agrees(r)
    assert not agrees(small(label_shift(1024, 0, 1023), 64))


def test_padded_vocabulary_is_cut() -> None:
    body = """\
%x = input f32[16, 50304]
%ids = input i64[16]
%c = slice(%x) {dim=1, start=0, stop=50257}
%l = log_softmax(%c) {dim=1}
%y = take_along(%l, %ids)
return %y
"""
    r = small(pair(body, body, {"*": Replicate()}), 200)
    assert agrees(r)
    assert r.ranges["ids"] == shapes(r.problem.sequential)["c"][1]


def uneven(v: int, first: int) -> Spec:
    """Uneven shards of the output of a matrix product, gathered with sizes."""

    def rank(k: int) -> str:
        own = (first, v - first)[k]
        return f"""\
%x = input f32[32, 64]
%w = input f32[64, {own}]
%h = matmul(%x, %w)
%y = all_gather(%h) {{dim=1, group=(0, 1), group_size=2, sizes=({first}, {v - first})}}
return %y
"""

    sequential = f"""\
%x = input f32[32, 64]
%w = input f32[64, {v}]
%y = matmul(%x, %w)
return %y
"""
    relation = {"x": Replicate(), "w": lambda rank: _columns(v, first, rank)}
    return pair(sequential, rank, relation)


def _columns(v: int, first: int, rank: int) -> Any:
    return seq("w")[:, :first] if rank == 0 else seq("w")[:, first:v]


@pytest.mark.parametrize(("v", "first"), [(50257, 25129), (12, 8), (7, 4), (10, 10)])
def test_uneven_shards(v: int, first: int) -> None:
    r = small(uneven(v, first), 1000)
    assert agrees(r)
    a, b = (shapes(g)["h"][1] for g in r.problem.distributed.graphs)
    assert a + b == shapes(r.problem.sequential)["y"][1]
    sizes = [n.attrs["sizes"] for g in r.problem.distributed.graphs for n in g.nodes[-1:]]
    assert sizes == [(a, b)] * 2
    assert b == 0 or b >= 1


def test_uneven_all_to_all_and_reduce_scatter() -> None:
    group = "group=(0, 1), group_size=2"
    sent, got = {0: (300, 100), 1: (200, 600)}, {0: (300, 200), 1: (100, 600)}

    def rank(k: int) -> str:
        own, exchanged = (500, 700)[k], f"send_sizes={sent[k]}, recv_sizes={got[k]}"
        return f"""\
%x = input f32[{sum(sent[k])}, 16]
%p = input f32[1200, 16]
%y = all_to_all(%x) {{split_dim=0, concat_dim=0, {group}, {exchanged}}}
%r = reduce_scatter(%p) {{op="sum", dim=0, {group}, sizes=(500, 700), extent={own}}}
%s = add(%r, %y)
return %s
"""

    sequential = """\
%x = input f32[1200, 16]
%p = input f32[1200, 16]
%a = slice(%x) {dim=0, start=0, stop=300}
%b = slice(%x) {dim=0, start=300, stop=400}
%c = slice(%x) {dim=0, start=400, stop=600}
%d = slice(%x) {dim=0, start=600, stop=1200}
%y = concat(%a, %c, %b, %d) {dim=0}
%q = scale(%p) {by=2}
%s = add(%y, %q)
return %s
"""

    def rows(rank: int) -> Any:
        return seq("x")[:400] if rank == 0 else seq("x")[400:1200]

    def out(rank: int) -> Any:
        return seq("s")[:500] if rank == 0 else seq("s")[500:1200]

    spec = pair(sequential, rank, {"x": rows, "p": Replicate()}, outputs={"s": out})
    r = small(spec, 500)
    assert agrees(r)


# ------------------------------------------------------------------------------ reshapes


def test_heads_split_and_merge() -> None:
    """[s, b, h*d] -> [s, b*h, d] and back; 1536 is both the sequence and heads times size."""

    def rank(_: int) -> str:
        return """\
%x = input f32[1536, 8, 768]
%r = reshape(%x) {shape=(1536, 96, 64)}
%t = permute(%r) {perm=(1, 0, 2)}
%u = permute(%r) {perm=(1, 2, 0)}
%s = matmul(%t, %u)
%a = softmax(%s) {dim=2}
%o = matmul(%a, %t)
%b = permute(%o) {perm=(1, 0, 2)}
%y = reshape(%b) {shape=(1536, 8, 768)}
return %y
"""

    sequential = rank(0).replace("768", "1536").replace("96, 64", "192, 64")
    r = small(pair(sequential, rank, {"x": Shard(2)}), 4000)
    assert agrees(r)
    x = shapes(r.problem.sequential)["x"]
    assert x[0] != 1536
    assert x[2] == 2 * shapes(r.problem.distributed.graphs[0])["x"][2]


def test_rotary_halves_and_offsets_scale_together() -> None:
    """Context parallel positions: rank r owns rows [r*512, (r+1)*512) of the table."""

    def rank(k: int) -> str:
        return f"""\
%x = input f32[512, 64]
%table = input f32[1024, 64]
%i = iota() {{size=512, start={512 * k}, step=1, dtype="i64"}}
%c = take_rows(%table, %i)
%l = slice(%x) {{dim=1, start=0, stop=32}}
%h = slice(%x) {{dim=1, start=32, stop=64}}
%n = neg(%h)
%q = concat(%n, %l) {{dim=1}}
%m = mul(%q, %c)
%y = add(%x, %m)
return %y
"""

    sequential = rank(0).replace("512", "1024")
    r = small(pair(sequential, rank, {"x": Shard(0), "table": Replicate()}), 64)
    assert agrees(r)
    wrong = pair(sequential, lambda k: rank(0), {"x": Shard(0), "table": Replicate()})
    assert not agrees(small(wrong, 64))


# ------------------------------------------------------------------------------ counts


def mean_pair(by: str, seq_op: str = "mean(%x) {dims=(0, 1)}") -> Spec:
    """A mean over all elements against sums over a rank's rows, divided by a literal."""

    def rank(_: int) -> str:
        return f"""\
%x = input f32[512, 8]
%s = sum(%x) {{dims=(0, 1)}}
%t = all_reduce(%s) {{op="sum", group=(0, 1), group_size=2}}
%y = scale(%t) {{by={by}}}
return %y
"""

    sequential = f"%x = input f32[1024, 8]\n%y = {seq_op}\nreturn %y\n"
    return pair(sequential, rank, {"x": Shard(0)})


def test_literal_counts_follow_the_size() -> None:
    right = resize(mean_pair("1/8192").resolve())
    assert len(right.report.counts) == 2
    assert agrees(right)
    assert not agrees(resize(mean_pair("1/8192").resolve(), counts=False))
    assert not agrees(resize(mean_pair("1/4096").resolve()))


@pytest.mark.parametrize(("op", "value"), [("div", "8192"), ("mul", "1/8192")])
def test_counts_in_constant_tensors(op: str, value: str) -> None:
    by = f"%y = {op}(%t, %c)"

    def spec(value: str) -> Spec:
        full = f'%c = full() {{value={value}, shape=(), dtype="f32"}}'
        text = f"""\
%x = input f32[512, 8]
{full}
%s = sum(%x) {{dims=(0, 1)}}
%t = all_reduce(%s) {{op="sum", group=(0, 1), group_size=2}}
{by}
return %y
"""
        sequential = "%x = input f32[1024, 8]\n%y = mean(%x) {dims=(0, 1)}\nreturn %y\n"
        return pair(sequential, text, {"x": Shard(0)})

    assert agrees(resize(spec(value).resolve()))
    assert not agrees(resize(spec(value.replace("8192", "4096")).resolve()))


def test_other_factors_are_kept() -> None:
    r = resize(mean_pair("1/1000").resolve())
    assert r.report.counts == []
    node = r.problem.distributed.graphs[0].nodes[-1]
    assert str(node.attrs["by"]) == "1/1000"


# ------------------------------------------------------------------------------ refusals


def test_protocol_violations_are_not_resized() -> None:
    body = """\
%x = input f32[4]
%y = all_reduce(%x) {op="OP", group=(0, 1), group_size=2}
return %y
"""
    spec = pair(
        "%x = input f32[4]\n%y = scale(%x) {by=2}\nreturn %y\n",
        lambda k: body.replace("OP", ("sum", "max")[k]),
        {"x": Replicate()},
    )
    with pytest.raises(NotReplayable, match="op"):
        resize(spec.resolve())


def test_masks_and_unused_integers_are_listed() -> None:
    body = """\
%i = input i64[1000]
%x = input f32[1000]
%m = compare(%i) {kind="eq", value=-100}
%y = masked_fill(%x, %m) {value=0}
return %y
"""
    r = small(pair(body, body, {"*": Replicate()}), 10)
    assert [text for text in r.report.kept if "-100" in text]
    assert np.prod(shapes(r.problem.sequential)["x"]) < 10


def test_topk_keeps_its_count() -> None:
    body = """\
%x = input f32[64, 128]
%v, %i = topk(%x) {k=6, dim=1, largest=true}
%y = sum(%v) {dims=(1,)}
return %y
"""
    r = small(pair(body, body, {"*": Replicate()}), 64)
    assert shapes(r.problem.sequential)["x"][1] >= 6
    assert agrees(r)


# ------------------------------------------------------------------------------ two mesh axes


def two_axes(reduce_over: str) -> Spec:
    """Batch over dp, features over tp with uneven cuts; mesh dp=2, tp=2."""
    groups = {"tp": lambda k: (k // 2 * 2, k // 2 * 2 + 1), "dp": lambda k: (k % 2, k % 2 + 2)}

    def rank(k: int) -> str:
        tp = k % 2
        rows, own = 700, (768, 256)[tp]
        return f"""\
graph part
rank {k}
mesh dp=2, tp=2
%x = input f32[{rows}, {own}]
%w = input f32[{own}, 512]
%p = matmul(%x, %w)
%y = all_reduce(%p) {{op="sum", group={groups[reduce_over](k)}, group_size=2}}
%q = all_to_all(%y) {{split_dim=1, concat_dim=0, group={groups["tp"](k)}, group_size=2}}
%g = sum(%q) {{dims=(0,)}}
return %y, %g
"""

    sequential = """\
graph seq
%x = input f32[1400, 1024]
%w = input f32[1024, 512]
%y = matmul(%x, %w)
%t = sum(%y) {dims=(0,)}
%g = scale(%t) {by=2}
return %y, %g
"""

    def columns(rank: int) -> slice:
        return slice(768, 1024) if rank % 2 else slice(0, 768)

    def x(rank: int) -> Any:
        dp = rank // 2
        return seq("x")[700 * dp : 700 * dp + 700, columns(rank)]

    return Spec.from_graphs(
        sequential=sequential,
        distributed=[rank(k) for k in range(4)],
        mesh=Mesh(dp=2, tp=2),
        inputs={"x": x, "w": lambda rank: seq("w")[columns(rank)]},
        outputs={"y": {"dp": Shard(0)}, "g": {"dp": Partial(), "tp": Shard(0)}},
    )


def test_two_mesh_axes_and_partial_sums() -> None:
    r = small(two_axes("tp"), 400)
    assert agrees(r)
    a, b = (shapes(g)["x"][1] for g in r.problem.distributed.graphs[:2])
    assert a == 3 * b
    assert not agrees(small(two_axes("dp"), 400))
