"""Numbers that are right at the captured number of ranks by chance are never read as right for all.

Every program here refines its sequential one at the captured sizes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from shardproof import Replicate, Shard, Spec
from shardproof.report.diagnostic import Verdict
from shardproof.spec.placement import Placement
from shardproof.verify import verify, verify_for_all

ROWS, COLUMNS, ALL = Shard(0), Shard(1), Replicate()


def verdicts(
    sequential: str,
    distributed: str,
    inputs: Mapping[str, Placement],
    output: Placement = ALL,
    ranks: int = 2,
) -> tuple[Verdict, Verdict]:
    """Of the captured instance, and for every number of ranks."""
    spec = Spec.from_graphs(
        name="p",
        sequential=f"graph seq\n{sequential}\nreturn %y\n",
        distributed=f"graph tp\nmesh tp={ranks}\n{distributed}\nreturn %y\n",
        inputs=dict(inputs),
        outputs={"y": output},
    )
    return verify(spec.resolve()), verify_for_all(spec.resolve(), "tp")


def only_captured(one: Verdict, every: Verdict) -> None:
    assert one.status == "refines"
    assert every.status == "unproved"
    assert [f.code for f in every.findings] == ["SP202"]


def conditions(v: Verdict) -> str:
    return "; ".join(text for kind, text in v.assumptions if kind == "condition")


HEADS = """%x = input f32[6, 10]
%w = input f32[10, {0}]
%p = matmul(%x, %w)
%h = reshape(%p) {{shape=(6, {1}, 5)}}
%e = exp(%h)
%y = permute(%e) {{perm=(1, 0, 2)}}"""


@pytest.mark.parametrize(("ranks", "local"), [(2, 4), (2, 1), (3, 6), (4, 4)])
def test_heads_of_a_rank_are_a_number_of_their_own(ranks: int, local: int) -> None:
    """Also where they are a multiple of the number of ranks, or one."""
    heads = ranks * local
    one, every = verdicts(
        HEADS.format(5 * heads, heads), HEADS.format(5 * local, local),
        {"x": ALL, "w": COLUMNS}, ROWS, ranks,
    )  # fmt: skip
    assert one.status == every.status == "refines"
    assert every.conditions[0].startswith("for all integers N, u1")
    assert f"{heads} = N" in conditions(every)
    assert ("kept at the captured number: 1" in conditions(every)) == (local == 1)


@pytest.mark.parametrize(("start", "src"), [(0, 0), (4, 1)])
def test_half_of_a_tensor_is_no_share(start: int, src: int) -> None:
    """A half is the share of one rank with two ranks only."""
    only_captured(*verdicts(
        f"%x = input f32[8, 3]\n%y = slice(%x) {{dim=0, start={start}, stop={start + 4}}}",
        f'%x = input f32[4, 3]\n%y = broadcast(%x) {{src={src}, group=("tp",)}}',
        {"x": ROWS},
    ))  # fmt: skip


def test_an_offset_that_follows_the_rank() -> None:
    """Rank r takes what starts at r*4; the whole is then N*4."""
    local = """%x = input f32[8, 3]
%y = slice(%x) {{dim=0, start={0}, stop={1}}}"""
    one, every = verdicts(
        "%x = input f32[8, 3]\n%y = scale(%x) {by=1}",
        local.format("4*@tp", "4*@tp + 4"), {"x": ALL}, ROWS,
    )  # fmt: skip
    assert one.status == every.status == "refines"
    one, every = verdicts(
        "%x = input f32[8, 3]\n%y = scale(%x) {by=1}",
        local.format("4 - 4*@tp", "8 - 4*@tp"), {"x": ALL}, ROWS,
    )  # fmt: skip
    assert one.status == every.status == "refuted"


AVERAGE = """%x = input f32[8, 3]
%s = sum(%x) {dims=(0,), keepdim=false}
%y = scale(%s) {by=1/8}"""


@pytest.mark.parametrize(
    ("by", "op", "holds"), [("1/8", "sum", True), ("1/4", "avg", False), ("1/16", "sum", None)]
)
def test_a_scale_that_was_captured_as_a_number(by: str, op: str, holds: bool | None) -> None:
    one, every = verdicts(
        AVERAGE,
        f"""%x = input f32[4, 3]
%s = sum(%x) {{dims=(0,), keepdim=false}}
%m = scale(%s) {{by={by}}}
%y = all_reduce(%m) {{op="{op}", group=("tp",)}}""",
        {"x": ROWS},
    )
    if holds:
        assert one.status == every.status == "refines"
    elif holds is None:
        assert one.status == every.status == "refuted"
    else:
        only_captured(one, every)


@pytest.mark.parametrize(("op", "by", "holds"), [("sum", "1/2", False), ("avg", "1", True)])
def test_one_over_the_number_of_ranks(op: str, by: str, holds: bool) -> None:
    one, every = verdicts(
        "%x = input f32[8, 3]\n%y = exp(%x)",
        f"""%x = input f32[8, 3]
%e = exp(%x)
%r = all_reduce(%e) {{op="{op}", group=("tp",)}}
%y = scale(%r) {{by={by}}}""",
        {"x": ALL},
    )
    if holds:
        assert one.status == every.status == "refines"
    else:
        only_captured(one, every)
