"""Factors that are sizes: of a real tensor, or of a mask, as in a rank's vocabulary offset."""

from __future__ import annotations

import pytest

from shardproof import Replicate, Shard, Spec
from shardproof.report.diagnostic import Verdict

FACTOR = """graph g
{0}sizes S
%x = input f32[S, 3]
%e = exp(%x)
%y = scale(%e) {{by={1}}}
return %y
"""

LOOKUP = """graph g
mesh tp=N
sizes S, D, p
%ids = input i64[S]
%w = input f32[p, D]
%a = compare(%ids) {{kind="ge", value=p*@tp}}
%b = compare(%ids) {{kind="lt", value=p*@tp + p}}
%mine = logic(%a, %b) {{kind="and"}}
%first = scale(%mine) {{by={0}}}
%there = sub(%ids, %first)
%safe = mul(%mine, %there)
%rows = take_rows(%w, %safe)
%other = logic(%mine) {{kind="not"}}
%m = reshape(%other) {{shape=(S, 1)}}
%part = masked_fill(%rows, %m) {{value=0}}
%y = all_reduce(%part) {{op="sum", group=("tp",)}}
return %y
"""


def factor(one: str, other: str) -> Verdict:
    return Spec.from_graphs(
        name="factor",
        sequential=FACTOR.format("", one),
        distributed=FACTOR.format("mesh tp=N\n", other),
        inputs={"x": Replicate()},
        outputs={"y": Replicate()},
    ).check()


def lookup(first: str) -> Verdict:
    return Spec.from_graphs(
        name="lookup",
        sequential="graph s\nsizes S, D, p, N\n%ids = input i64[S]\n%w = input f32[N*p, D]\n"
        "%y = take_rows(%w, %ids)\nreturn %y\n",
        distributed=LOOKUP.format(first),
        inputs={"ids": Replicate(), "w": Shard(0)},
        outputs={"y": Replicate()},
    ).check()


def test_equal_factors_are_equal() -> None:
    verdict = factor("2*S + 1", "1 + S + S")
    assert verdict.status == "refines"
    assert verdict.certificate == "certificate checked"


@pytest.mark.parametrize("by", ["2*S", "S*S", "2*S*S + 1", "3"])
def test_another_factor_is_refuted(by: str) -> None:
    assert factor("2*S + 1", by).status == "refuted"


def test_a_factor_that_may_be_zero_is_not_used() -> None:
    """It is 0 on rank 0: nothing may be divided by it."""
    assert factor("1", "@tp").status != "refines"


def test_an_offset_under_a_mask() -> None:
    verdict = lookup("p*@tp")
    assert verdict.status == "refines"
    assert verdict.certificate == "certificate checked"


@pytest.mark.parametrize("first", ["0", "p", "p*@tp + 1", "p*@tp*@tp", "2*p*@tp", "@tp"])
def test_another_offset_under_a_mask_is_not_proved(first: str) -> None:
    assert lookup(first).status != "refines"
