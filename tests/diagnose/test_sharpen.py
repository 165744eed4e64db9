"""The code says what was done, decided from the terms of meanings."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from tests.replay.programs import pair as program

from shardproof import Replicate, Shard
from shardproof.diagnose.codes import known
from shardproof.examples.bugs import all_bugs
from shardproof.report.diagnostic import Finding
from shardproof.verify import verify

pytestmark = pytest.mark.filterwarnings("ignore")


@cache
def findings(fault: str) -> list[Finding]:
    """The findings of a fault of the corpus, without replay and fixes."""
    bug = next(b for b in all_bugs().values() if fault in b.case().twins)
    spec = bug.case().twins[fault]()
    problem, fixed = spec.resolve(), spec.fixed_values
    return verify(problem, fixed=fixed, replay=False, fixes=False).findings


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        # Reduced twice, against a value that was complete from the beginning.
        ("B155", "SP122", "%all_reduce_1 is the complete sum already"),
        ("B035 twice", "SP122", "reduce_scatter adds it up once more over 2 ranks"),
        ("B034", "SP111", "every rank already held the complete value"),
        # Means of means, against a factor.
        ("B038", "SP123", "elements 0 to 3 of 8"),
        ("B049", "SP123", "elements 0 to 5 of 8"),
        ("B052", "SP123", "a count of one part"),
        ("B071", "SP123", "elements 0 to 1 of 3 (times 1/16) and element 2 of 3 (times 1/8)"),
        ("B046", "SP111", "twice too large"),
        ("B047", "SP112", "twice too small"),
        # Terms of a norm and clipping, against a norm of one part.
        ("B076", "SP124", "%norm is not multiplied by %clamp"),
        ("B079", "SP124", "counts 2 times in place of once"),
        ("B083", "SP124", "it holds only elements 0 to 2 of 6"),
        ("B085", "SP124", "the squares of %a, where"),
        ("B086", "SP124", "%g is not multiplied by %clamp"),
        ("B077", "SP116", "on rank 0 its square sums elements 0 to 2 of 6"),
        ("N9", "SP116", "elements 0 to 3 of 8"),
        ("B028", "SP118", "counts once a rank"),
        # Summands, against a factor on one of them.
        ("B128", "SP125", "2 of 3 summands missing: %mean_1 of %g1 and %mean_2 of %g2"),
        ("B130", "SP125", "%mean of %g0 2 times, against once for %mean_1 of %g1"),
        ("B131", "SP125", "the sum holds -1/10*%w"),
        ("B133", "SP125", "1 of 2 summands missing: %mean of %g0"),
        ("B136", "SP125", "1 of 2 summands missing: %mean of %g0"),
        ("B088", "SP111", "too large"),
        ("B125", "SP126", "rank 0 has %first, and not %last on rank 1"),
        ("B134", "SP110", "(elements 0 to 1 of 4 on rank 0)"),
        # The backward pass behind a proved forward, against a reduction that is missing behind it.
        ("B020", "SP127", "the forward pass is proved (loss)"),
        ("B025", "SP127", "is 1/2 of it on each of 2 ranks"),
        ("B026", "SP127", "is the sum over the ranks and is used nowhere"),
        ("B149", "SP127", "grad.c is zero"),
        ("B001", "SP121", "only a partial sum on each rank"),
        ("B041", "SP112", "twice too small"),
    ],
)  # fmt: skip
def test_the_code_of_a_reported_bug(fault: str, code: str, said: str) -> None:
    first = findings(fault)[0]
    assert first.code == code
    assert said in first.message


@pytest.mark.parametrize(
    ("fault", "affected"),
    [
        # One part of a sum in two gradients; one divisor, or factor, in a loss and its gradient.
        ("B005", {"grad.x", "grad.gate"}),
        ("B007", {"grad.x", "grad.wk", "grad.bk"}),
        ("B038", {"loss", "grad.a"}),
        ("B047", {"loss", "grad.a"}),
        # The gradient of a wrong loss.
        ("B070", {"loss", "grad.z"}),
    ],
)
def test_one_cause_is_one_finding(fault: str, affected: set[str]) -> None:
    (f,) = findings(fault)
    assert set(f.affected) == affected
    assert any(n.startswith("follows from this: ") for n in f.notes)


def test_two_causes_stay_two_findings() -> None:
    text = "%s = sum(%x) {dims=(0,)}\n%t = sum(%y) {dims=(0,)}\n"
    head = "%x = input f32[{n}, 3]\n%y = input f32[{n}, 3]\n"
    ends = "%a = exp(%s)\n%b = exp(%t)\nreturn %a as a, %b as b\n"
    verdict = program(
        head.format(n=4) + text + ends,
        head.format(n=2) + text + ends,
        {"x": Shard(0), "y": Shard(0)},
        2,
    ).check()
    assert [f.code for f in verdict.findings] == ["SP110", "SP110"]
    assert [f.affected for f in verdict.findings] == [["a"], ["b"]]


def code_of(sequential: str, rank: str, inputs: dict[str, Any], ranks: int = 2) -> str:
    verdict = program(sequential, rank, inputs, ranks).check()
    assert verdict.status == "refuted"
    return verdict.findings[0].code


def test_a_divisor_is_a_count_or_a_statistic_by_what_it_is_made_of() -> None:
    """Softmax over a cut dim divides the data by a sum of the data, a masked mean by another."""
    text = (
        "%x = input f32[{n}]\n%e = exp(%x)\n%s = sum(%e) {{dims=(0,), keepdim=true}}\n"
        "%y = div(%e, %s)\nreturn %y as y\n"
    )
    assert code_of(text.format(n=8), text.format(n=4), {"x": Shard(0)}) == "SP116"


def test_a_wrong_weight_of_one_summand_is_no_repeated_summand() -> None:
    head = "%a = input f32[3]\n%b = input f32[3]\n"
    whole = head + "%s = add(%a, %b)\nreturn %s as s\n"
    scaled = head + "%c = scale(%b) {by=3}\n%s = add(%a, %c)\nreturn %s as s\n"
    twice = head + "%c = add(%b, %b)\n%s = add(%a, %c)\nreturn %s as s\n"
    both = {"a": Replicate(), "b": Replicate()}
    assert code_of(whole, scaled, both) != "SP125"
    assert code_of(whole, twice, both) == "SP125"
    lost = head + "%s = scale(%a) {by=1}\nreturn %s as s\n"
    assert code_of(whole, lost, both) == "SP125"


def test_every_code_has_a_page() -> None:
    for c in known():
        assert c.what and c.why and c.example and c.fix  # noqa: PT018
