"""Bad input is one InputError that says what, where, what was expected and what to do."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest
from tests.frontends.hlo.stored import FOLDER
from tests.frontends.hlo.support import ADD, module

from shardproof import Mesh, Replicate, Spec
from shardproof.errors import InputError
from shardproof.frontends.import_hlo import import_hlo

GOOD = module("x = f32[2,3] parameter(0)", "y = f32[2,3] add(x, x)")


def refused(text: str, ranks: int = 1) -> InputError:
    with pytest.raises(InputError) as caught:
        import_hlo(text, ranks=ranks, path="m.hlo")
    error = caught.value
    assert error.where.startswith("m.hlo")
    assert error.what
    assert error.expected
    assert error.next_step
    return error


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        ("HloModule m\n", "no ENTRY", 1),
        ("HloModule m\nENTRY e {\n}\n", "is empty", 2),
        ("HloModule m\nENTRY e {\n  x = f32[] parameter(0)\n", "does not end", 4),
        ("HloModule m\nwhat is this\n", "is no computation", 2),
        (GOOD.replace("add(x, x)", "add x x"), "no operator", 6),
        (GOOD.replace("f32[2,3] add", "f32[2,<=3] add"), "not fixed numbers", 6),
        (GOOD.replace("f32[2,3] add", "zz9[2,3] add"), "'zz9' is not known", 6),
        (GOOD.replace("add(x, x)", "add(x, q)"), "'q' is not defined", 6),
        (GOOD.replace("add(x, x)", "add(x)"), "do not fit", 6),
        (GOOD.replace("f32[2,3] add", "f32[3,3] add"), "the module prints", 6),
        (GOOD.replace("add(x, x)", "add(x, x"), "missing ')'", 6),
        (GOOD.replace("add(x, x)", "call(x), to_apply=gone"), "'gone' is not in the text", 6),
        (GOOD.replace("add(x, x)", "get-tuple-element(x), index=2"), "no such element", 6),
        (GOOD.replace("add(x, x)", "transpose(x), dimensions={0,0}"), "do not fit", 6),
        (GOOD.replace("add(x, x)", "compare(x, x), direction=UP"), "'UP'", 6),
        (GOOD.replace("add(x, x)", "slice(x), slice={[0:2]}"), "do not fit", 6),
        (GOOD.replace("parameter(0)", "parameter(one)"), "without number", 5),
    ],
)
def test_texts(text: str, what: str, line: int) -> None:
    error = refused(text)
    assert what in error.what
    assert error.where == f"m.hlo:{line}"


def test_recursion() -> None:
    before = "f {\n  x = f32[2,3] parameter(0)\n  ROOT y = f32[2,3] call(x), to_apply=f\n}\n"
    text = module("x = f32[2,3] parameter(0)", "y = f32[2,3] call(x), to_apply=f", before=before)
    assert "too deeply" in refused(text).what


def test_endless_loops() -> None:
    before = """cond {
  s = (s32[]) parameter(0)
  ROOT c = pred[] constant(true)
}

body {
  ROOT s = (s32[]) parameter(0)
}
"""
    text = module("z = s32[] constant(0)", "s = (s32[]) tuple(z)",
                  "w = (s32[]) while(s), condition=cond, body=body", before=before)  # fmt: skip
    assert "unrolled loops" in refused(text).what


def test_another_number_of_ranks() -> None:
    text = GOOD.replace("HloModule m", "HloModule m, num_partitions=8")
    assert "for 8 devices, the mesh has 4" in refused(text, 4).what


def test_groups_that_do_not_fit() -> None:
    text = module("x = f32[2] parameter(0)",
                  "y = f32[2] all-reduce(x), replica_groups={{0,1},{2,9}}, to_apply=add",
                  before=ADD)  # fmt: skip
    assert "do not fit" in refused(text, 4).what


def test_kernels_that_fail() -> None:
    text = module("x = f32[2] parameter(0)", 'y = f32[2] custom-call(x), custom_call_target="K"')
    with pytest.raises(InputError, match="your kernel for K failed"):
        import_hlo(text, kernels={"K": lambda ctx: None})


def test_through_the_spec(tmp_path: Path) -> None:
    file = tmp_path / "m.txt"
    file.write_text(GOOD.replace("add(x, x)", "add(x, q)"))
    spec = Spec.from_graphs(
        sequential=GOOD, distributed=file, mesh=Mesh(tp=2), inputs={"*": Replicate()}
    )
    with pytest.raises(InputError) as caught:
        spec.check()
    assert caught.value.where == f"{file}:6"
    spec = Spec.from_graphs(
        sequential=GOOD, distributed=GOOD, mesh=Mesh(tp="N"), inputs={"*": Replicate()}
    )
    with pytest.raises(InputError, match="fixed number of ranks"):
        spec.check()


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.spread.hlo.txt")), ids=lambda f: f.name)
def test_damaged_texts_never_fail_otherwise(file: Path) -> None:
    text = file.read_text()
    rng = random.Random(file.name)
    start = text.index("\n")
    for _ in range(25):
        cut = list(text)
        for _ in range(rng.randint(1, 4)):
            k = rng.randrange(start, len(cut))
            change = rng.randrange(4)
            if change == 0:
                del cut[k : k + rng.randint(1, 40)]
            elif change == 1:
                cut[k] = rng.choice('{}()[],=%"0123456789 \nx-')
            elif change == 2:
                other = rng.randrange(start, len(cut))
                cut[k:k] = cut[other : other + 30]
            else:
                del cut[k:]
        with suppress(InputError):
            import_hlo("".join(cut), ranks=4, path="m.hlo")
