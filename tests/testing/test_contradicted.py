"""Programs found by mutants of which the proof and the replay contradict each other."""

from __future__ import annotations

import pytest

from shardproof import Mesh, Replicate, Spec
from shardproof.verify import verify

SEQUENTIAL = "graph g\n%x = input f32[4]\nreturn %x\n"
INFINITE = '%m = full() {value=inf, shape=(4,), dtype="f32"}\n'
BODIES = {
    # Ring attention, sub.24 with its operands swapped: the running maximum starts at -inf.
    "zero times infinity": INFINITE + "%z = scale(%m) {by=0}\n%y = add(%x, %z)\n",
    "infinity minus infinity": INFINITE + "%d = add(%x, %m)\n%y = sub(%d, %m)\n",
}


def spec(body: str) -> Spec:
    ranks = [
        f"graph g\nrank {r}\nmesh tp=2\n%x = input f32[4]\n{body}return %y as x\n" for r in (0, 1)
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


@pytest.mark.xfail(strict=True, reason="0 times infinity is taken for 0; only the replay says no")
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_inference_does_not_prove_it(body: str) -> None:
    assert verify(spec(body).resolve(), replay=False, fixes=False).status != "refines"
