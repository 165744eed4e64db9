"""Programs with which a newcomer got a wrong verdict; each must stay right."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardproof import InputError, Replicate, Shard, Spec
from shardproof.cli.app import main
from shardproof.report.diagnostic import Verdict

ALL = {"*": Replicate()}


def check(sequential: str, ranks: str) -> Verdict:
    spec = Spec.from_graphs(
        sequential="graph sequential\n" + sequential, distributed="graph ranks\n" + ranks,
        inputs=ALL, outputs={"y": Replicate()},
    )  # fmt: skip
    return spec.check(replay=False)


def test_a_root_that_cancels_leaves_its_condition() -> None:
    verdict = check(
        '%i = input i64[4]\n%y = cast(%i) {dtype="f64"}\nreturn %y\n',
        'mesh tp=2\n%i = input i64[4]\n%f = cast(%i) {dtype="f64"}\n%a = sqrt(%f)\n'
        "%b = add(%f, %a)\n%y = sub(%b, %a)\nreturn %y\n",
    )
    assert ("defined", "what a takes a root of is nowhere negative") in verdict.assumptions


def test_a_reduction_of_nothing() -> None:
    verdict = check(
        "sizes S\n%x = input f64[S]\n%y = scale(%x) {by=1/1}\nreturn %y\n",
        "mesh tp=N\nsizes S, N\n%x = input f64[S]\n%a = slice(%x) {dim=0, start=1, stop=S}\n"
        "%q = softmax(%a) {dim=0}\n%s = sum(%q) {dims=(0,), keepdim=true}\n"
        "%e = expand(%s) {shape=(S,)}\n%y = mul(%x, %e)\nreturn %y\n",
    )
    assert "where S - 1 >= 1 (an extent of %a)" in verdict.conditions


@pytest.mark.parametrize("stop", ["@tp*D", "(N - 1 - @tp)*D"], ids=["first", "last"])
def test_a_reduction_of_nothing_on_some_rank(stop: str) -> None:
    verdict = check(
        "sizes N, D\n%x = input f64[N*D]\n%y = scale(%x) {by=1/1}\nreturn %y\n",
        "mesh tp=N\nsizes N, D\n%x = input f64[N*D]\n"
        f"%a = slice(%x) {{dim=0, start=0, stop={stop}}}\n"
        "%q = softmax(%a) {dim=0}\n%s = sum(%q) {dims=(0,), keepdim=true}\n"
        "%e = expand(%s) {shape=(N*D,)}\n%y = mul(%x, %e)\nreturn %y\n",
    )
    assert verdict.status == "unproved"


def test_a_divisor_that_is_zero_on_some_rank() -> None:
    verdict = check(
        "sizes S\n%x = input f64[S]\n%y = scale(%x) {by=1/1}\nreturn %y\n",
        "mesh tp=N\nsizes S, N\n%x = input f64[S]\n"
        '%n = full() {value=@tp - 3, shape=(S,), dtype="f64"}\n%d = div(%n, %n)\n'
        "%y = mul(%x, %d)\nreturn %y\n",
    )
    assert verdict.status != "refines"


def test_one_rank_of_a_graph_for_all() -> None:
    verdict = check(
        "%x = input f64[4]\n%y = scale(%x) {by=1/1}\nreturn %y\n",
        "mesh tp=1\n%x = input f64[4]\n"
        '%y = all_reduce(%x) {op="sum", group=("tp",), group_size=1}\nreturn %y\n',
    )
    assert verdict.status == "refines"


def test_a_placement_needs_a_mesh() -> None:
    text = "graph g\n%x = input f64[4]\n%y = scale(%x) {by=1/1}\nreturn %y\n"
    spec = Spec.from_graphs(sequential=text, distributed=text, inputs={"x": Shard(0)})
    with pytest.raises(InputError, match="without a mesh"):
        spec.resolve()


def test_a_file_that_leaves_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "leaves.py"
    path.write_text("def f():\n    raise SystemExit(0)\n")
    assert main(["check", f"{path}:f"]) == 2
    assert "SystemExit" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "\0garbage", "graph g\0\nreturn %x\n"])
def test_texts_that_are_none(text: str) -> None:
    spec = Spec.from_graphs(sequential=text, distributed=text, inputs=ALL)
    with pytest.raises(InputError):
        spec.resolve()


def test_numbered_ranks_in_a_graph_for_all() -> None:
    text = (
        "graph g\nmesh tp=2\n%x = input f64[4]\n"
        '%y = all_reduce(%x) {op="sum", group=(0, 1), group_size=2}\nreturn %y\n'
    )
    spec = Spec.from_graphs(
        sequential="graph g\n%x = input f64[4]\nreturn %x as y\n", distributed=text, inputs=ALL
    )
    with pytest.raises(InputError, match="numbered ranks"):
        spec.resolve()
