"""A sum of partial values that is multiplied before it is reduced, as gradients of a weight whose
output is used twice."""

from __future__ import annotations

import pytest

from shardproof import Mesh, Replicate, Shard, Spec

SEQUENTIAL = """graph sequential
%x = input f32[4, 6]
%a = input f32[4, 8]
%b = input f32[4, 8]
%w = input f32[8, 3]
%v = input f32[8, 3]
%p = matmul(%a, %w)
%q = matmul(%b, %v)
%s = add(%p, %q)
%t = permute(%x) {perm=(1, 0)}
%g = matmul(%t, %s)
return %g
"""
RANKS = (
    SEQUENTIAL.replace("sequential", "ranks\nmesh tp=2")
    .replace("f32[4, 8]", "f32[4, 4]")
    .replace("[8, 3]", "[4, 3]")
    .replace("return %g", '%h = all_reduce(%g) {op="sum", group=("tp",)}\nreturn %h as g')
)


def spec(ranks: str) -> Spec:
    cut = {"a": Shard(1), "b": Shard(1), "w": Shard(0), "v": Shard(0), "x": Replicate()}
    return Spec.from_graphs(
        sequential=SEQUENTIAL, distributed=ranks, mesh=Mesh(tp=2), inputs=cut,
        outputs={"g": Replicate()},
    )  # fmt: skip


def test_both_summands_are_reduced_at_once() -> None:
    assert spec(RANKS).check().status == "refines"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("%s = add(%p, %q)", "%s = mul(%p, %q)"),
        ("%s = add(%p, %q)", "%s = add(%p, %p)"),
        ('op="sum"', 'op="avg"'),
        ("matmul(%b, %v)", "matmul(%b, %w)"),
        # One summand is reduced already, and counted twice by the second reduction.
        ("%s = add(%p, %q)", '%r = all_reduce(%p) {op="sum", group=("tp",)}\n%s = add(%r, %q)'),
    ],
)
def test_near_misses_are_refuted(right: str, wrong: str) -> None:
    assert right in RANKS
    assert spec(RANKS.replace(right, wrong)).check().status == "refuted"
