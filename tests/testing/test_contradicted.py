"""Programs found by mutants of which the proof and the replay contradict each other."""

from __future__ import annotations

import pytest

from shardproof import Mesh, Replicate, Spec
from shardproof.verify import verify

SEQUENTIAL = "graph g\n%x = input f32[4]\nreturn %x\n"
INFINITE = '%m = full() {value=inf, shape=(4,), dtype="f32"}\n'
MASK = (
    INFINITE
    + '%none = full() {value=0/1, shape=(4,), dtype="f32"}\n'
    + '%late = compare(%x) {kind="gt", value=0/1}\n%mask = where(%late, %m, %none)\n'
)
BODIES = {
    # Ring attention, sub.24 with its operands swapped: the running maximum starts at -inf.
    "zero times infinity": INFINITE + "%z = scale(%m) {by=0}\n%y = add(%x, %z)\n",
    "infinity minus infinity": INFINITE + "%d = add(%x, %m)\n%y = sub(%d, %m)\n",
    "minus infinity from both sides": INFINITE.replace("=inf", "=-inf")
    + "%a = add(%x, %m)\n%b = sub(%x, %m)\n%s = add(%a, %b)\n%y = scale(%s) {by=1/2}\n",
    "zeros times infinity": INFINITE
    + '%o = full() {value=0/1, shape=(4,), dtype="f32"}\n%z = mul(%m, %o)\n%y = add(%x, %z)\n',
    "infinity over infinity": INFINITE + "%q = div(%m, %m)\n%y = mul(%x, %q)\n",
    "a mask less itself": MASK + "%d = sub(%mask, %mask)\n%y = add(%x, %d)\n",
    "a mask times zero": MASK + "%z = scale(%mask) {by=0}\n%y = add(%x, %z)\n",
    "filled values times zero": '%late = compare(%x) {kind="gt", value=0/1}\n'
    "%f = masked_fill(%x, %late) {value=-inf}\n%z = scale(%f) {by=0}\n%y = add(%x, %z)\n",
    "sent to both sides": INFINITE + "%a = add(%x, %m)\n%n = neg(%m)\n%p = SIDE\n"
    '%y = all_reduce(%p) {group=(0, 1), group_size=2, op="sum"}\n',
}
SIDES = ("scale(%a) {by=1/1}", "scale(%n) {by=1/1}")


def spec(body: str) -> Spec:
    ranks = [
        f"graph g\nrank {r}\nmesh tp=2\n%x = input f32[4]\n{body}return %y as x\n".replace(
            "SIDE", SIDES[r]
        )
        for r in (0, 1)
    ]
    return Spec.from_graphs(
        name="infinite",
        sequential=SEQUENTIAL,
        distributed=ranks,
        mesh=Mesh(tp=2),
        inputs={"x": Replicate()},
        outputs={"x": Replicate()},
    )


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_verdict_is_not_refines(body: str) -> None:
    assert verify(spec(body).resolve(), fixes=False).status != "refines"


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_inference_does_not_prove_it(body: str) -> None:
    assert verify(spec(body).resolve(), replay=False, fixes=False).status != "refines"


MASKED = """graph g
%x = input f32[4, 4]
%m = full() {value=-inf, shape=(4, 4), dtype="f32"}
%o = full() {value=0/1, shape=(4, 4), dtype="f32"}
%i = iota() {size=4, start=0, step=1, dtype="i64"}
%r = reshape(%i) {shape=(4, 1)}
%re = expand(%r) {shape=(4, 4)}
%ce = expand(%i) {shape=(4, 4)}
%late = compare(%ce, %re) {kind="gt"}
%mask = where(%late, %m, %o)
%s = add(%x, %mask)
"""
SOFTMAX = {
    "fused": "%y = softmax(%s) {dim=1}\n",
    "in parts": "%t = max(%s) {dims=(1,), keepdim=true}\n%d = sub(%s, %t)\n%e = exp(%d)\n"
    "%z = sum(%e) {dims=(1,), keepdim=true}\n%y = div(%e, %z)\n",
}


@pytest.mark.parametrize("sequential", SOFTMAX)
@pytest.mark.parametrize("ranks", SOFTMAX)
def test_an_added_mask_of_minus_infinity_is_proved(sequential: str, ranks: str) -> None:
    body = MASKED + SOFTMAX[ranks] + "return %y\n"
    verdict = Spec.from_graphs(
        sequential=MASKED + SOFTMAX[sequential] + "return %y\n",
        distributed=[body.replace("graph g\n", f"graph g\nrank {r}\nmesh tp=2\n") for r in (0, 1)],
        mesh=Mesh(tp=2),
        inputs={"x": Replicate()},
        outputs={"y": Replicate()},
    ).check()
    assert (verdict.status, verdict.certificate) == ("refines", "certificate checked")


def test_a_mask_at_the_end_of_a_long_program() -> None:
    """What reads an infinity is found without a call for each step on the way."""
    steps = "".join(f"%a{k + 1} = add(%a{k}, %{'xy'[k % 2]})\n" for k in range(1500))
    body = (
        "%x = input f32[4]\n%y = input f32[4]\n%a0 = mul(%x, %y)\n"
        + steps
        + '%late = compare(%y) {kind="gt", value=0/1}\n'
        + "%f = masked_fill(%a1500, %late) {value=-inf}\n%p = softmax(%f) {dim=0}\nreturn %p\n"
    )
    verdict = Spec.from_graphs(
        sequential="graph g\n" + body,
        distributed=[f"graph g\nrank {r}\nmesh tp=2\n" + body for r in (0, 1)],
        mesh=Mesh(tp=2),
        inputs={"*": Replicate()},
        outputs={"p": Replicate()},
    ).check()
    assert (verdict.status, verdict.certificate) == ("refines", "certificate checked")
