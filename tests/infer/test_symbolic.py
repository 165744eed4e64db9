"""Proofs for all numbers of ranks and all sizes through the user's entry point, and faulty twins
of the same programs, which are refuted by a replayed counterexample."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import problems
from tests.support.judging import proved, refused
from tests.support.vocabulary import masked_lookup

from shardproof import Replicate, Shard, Spec
from shardproof.infer.run import Runner, infer
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Value
from shardproof.ir.sizes import symbol
from shardproof.lemmas import names
from shardproof.report.diagnostic import Verdict
from shardproof.spec.placement import Placement
from shardproof.spec.problem import Problem
from shardproof.verify import verify

HERE = Path(__file__).parents[2] / "examples" / "symbolic"
SUM = '{op="sum", group=("tp",)}'
SCATTER = '{op="sum", dim=0, group=("tp",)}'
COLUMNS, ROWS = Shard(1), Shard(0)
MLP: dict[str, Placement] = {"x": Replicate(), "w1": COLUMNS, "w2": ROWS}


def text(name: str, *edits: tuple[str, str]) -> str:
    """A packaged graph with replacements, each of which must find its place once."""
    out = (HERE / f"{name}.txt").read_text()
    for old, new in edits:
        assert out.count(old) == 1, (name, old, out.count(old))
        out = out.replace(old, new)
    return out


def mlp(*edits: tuple[str, str], inputs: dict[str, Placement] | None = None) -> Verdict:
    return Spec.from_graphs(
        name="mlp",
        sequential=text("mlp_seq"),
        distributed=text("mlp_tp", *edits),
        inputs=inputs or MLP,
        outputs={"y": Replicate()},
    ).check()


def block(graph: str, *edits: tuple[str, str]) -> Verdict:
    stream: Placement = ROWS if graph == "block_tp_sp" else Replicate()
    return Spec.from_graphs(
        name=graph,
        sequential=text("block_seq"),
        distributed=text(graph, *edits),
        inputs={"x": stream, "w[qkvgu]": COLUMNS, "w[od]": ROWS, "*": Replicate()},
        outputs={"y": stream},
    ).check()


def holds_for_all(verdict: Verdict, *sizes: str) -> None:
    assert verdict.status == "refines", verdict.findings
    assert verdict.conditions == [f"for all integers {', '.join(sizes)} >= 1"]
    # The witness has at least two ranks and was replayed.
    assert "tp=2" in verdict.replay
    assert "worst relative error" in verdict.replay


def test_mlp_for_all_sizes() -> None:
    verdict = mlp()
    holds_for_all(verdict, "D", "N", "S", "f")
    assert verdict.lemmas[names.RANK_TILES] == 1


@pytest.mark.parametrize("graph", ["block_tp", "block_tp_sp"])
def test_transformer_block_for_all_sizes(graph: str) -> None:
    verdict = block(graph)
    holds_for_all(verdict, "D", "N", "e", "f", "h", "s")
    assert verdict.lemmas[names.RANK_TILES] == 2


WHOLE_WEIGHT = ("%w1 = input f32[D, f]", "%w1 = input f32[D, N*f]")
OWN_SHARD = (
    "%h = matmul(%x, %w1)",
    "%own = slice(%w1) {dim=1, start=@tp*f, stop=@tp*f + f}\n%h = matmul(%x, %own)",
)


def test_a_rank_may_cut_its_own_shard() -> None:
    verdict = mlp(WHOLE_WEIGHT, OWN_SHARD, inputs={**MLP, "w1": Replicate()})
    holds_for_all(verdict, "D", "N", "S", "f")


MLP_TWINS = {
    "missing all_reduce": [
        (f"%o = all_reduce(%p) {SUM}\n", ""),
        ("add(%o, %x)", "add(%p, %x)"),
    ],
    "double all_reduce": [
        ("%o = all_reduce(%p)", f"%o1 = all_reduce(%p) {SUM}\n%o = all_reduce(%o1)"),
    ],
    "average": [('op="sum"', 'op="avg"')],
    "residual on every rank": [
        (f"%o = all_reduce(%p) {SUM}\n", "%o = add(%p, %x)\n"),
        ("%y = add(%o, %x)", f"%y = all_reduce(%o) {SUM}"),
    ],
    "activation of partial sums": [
        ("%p = matmul(%a, %w2)", "%p0 = matmul(%a, %w2)\n%p = tanh(%p0)"),
    ],
    "scaled by 2": [("%y = add(%o, %x)", "%z = add(%o, %x)\n%y = scale(%z) {by=2}")],
}


@pytest.mark.parametrize("edits", MLP_TWINS.values(), ids=MLP_TWINS)
def test_faulty_mlps_are_refuted(edits: list[tuple[str, str]]) -> None:
    verdict = mlp(*edits)
    assert verdict.status == "refuted"
    assert verdict.findings


@pytest.mark.parametrize(
    ("start", "stop"),
    [("(N - 1 - @tp)*f", "(N - @tp)*f"), ("0", "f")],
    ids=["from the end", "always the first"],
)
def test_a_wrong_shard_is_refuted(start: str, stop: str) -> None:
    old, new = OWN_SHARD
    other = new.replace("start=@tp*f, stop=@tp*f + f", f"start={start}, stop={stop}")
    verdict = mlp(WHOLE_WEIGHT, (old, other), inputs={**MLP, "w1": Replicate()})
    assert verdict.status == "refuted"


FIRST_ROWS = "slice(%whole) {dim=0, start=0, stop=s}"
REPEATED = """\
%n2_one = reshape(%n2) {shape=(1, s, D)}
%n2_rep = expand(%n2_one) {shape=(N, s, D)}
%n2_all = reshape(%n2_rep) {shape=(N*s, D)}"""
SCALE, MASK = "%scaled = scale(%scores) {by=1/8}", "{value=-10000}"
BLOCK_TWINS = {
    "rope: sign of the first half": (
        "block_tp",
        [("%q1 = sub(%qac, %qbs)", "%q1 = add(%qac, %qbs)")],
    ),
    "rope: halves of the keys swapped": ("block_tp", [("concat(%k1, %k2)", "concat(%k2, %k1)")]),
    "rope: sin for cos": ("block_tp", [("%kac = mul(%ka, %cos)", "%kac = mul(%ka, %sin)")]),
    "softmax over queries": (
        "block_tp",
        [("softmax(%masked) {dim=2}", "softmax(%masked) {dim=1}")],
    ),
    "attention not reduced": (
        "block_tp",
        [(f"%attn_sum = all_reduce(%attn) {SUM}", "%attn_sum = scale(%attn) {by=1}")],
    ),
    "MLP reduced twice": (
        "block_tp",
        [("%y = add(%res1, %down_sum)", f"%d = all_reduce(%down_sum) {SUM}\n%y = add(%res1, %d)")],
    ),
    "MLP averaged": (
        "block_tp",
        [('%down_sum = all_reduce(%down) {op="sum"', '%down_sum = all_reduce(%down) {op="avg"')],
    ),
    "another eps": (
        "block_tp",
        [("(%res1, %g2) {naxes=1, eps=1/100000}", "(%res1, %g2) {naxes=1, eps=1/10}")],
    ),
    "mask before the scale": (
        "block_tp",
        [
            (SCALE, "%pre = masked_fill(%scores, %hidden) {value=-1}"),
            (f"masked_fill(%scaled, %hidden) {MASK}", "scale(%pre) {by=1/8}"),
        ],
    ),
    "SP: scatter averages": (
        "block_tp_sp",
        [('reduce_scatter(%down) {op="sum"', 'reduce_scatter(%down) {op="avg"')],
    ),
    "SP: another rank's rows": (
        "block_tp_sp",
        [
            (
                f"%down_sum = reduce_scatter(%down) {SCATTER}",
                f"%whole = all_reduce(%down) {SUM}\n%down_sum = " + FIRST_ROWS,
            )
        ],
    ),
    "SP: norm gathered from one rank": (
        "block_tp_sp",
        [
            (
                '%n2_all = all_gather(%n2) {dim=0, group=("tp",)}',
                REPEATED,
            )
        ],
    ),
}


@pytest.mark.parametrize(("graph", "edits"), BLOCK_TWINS.values(), ids=BLOCK_TWINS)
def test_faulty_blocks_are_refuted(graph: str, edits: list[tuple[str, str]]) -> None:
    verdict = block(graph, *edits)
    assert verdict.status == "refuted"
    assert verdict.findings


# ------------------------------------------------------------------ two mesh axes

TWO_SEQ = """\
graph seq
sizes D, T, b, s
%x = input f32[D*b, T*s]
%w = input f32[T*s, 4]
%y = matmul(%x, %w)
%z = sum(%y) {dims=(0,), keepdim=false}
return %z
"""
TWO_DIST = """\
graph dist
mesh dp=D, tp=T
sizes b, s
%x = input f32[b, s]
%w = input f32[s, 4]
%p = matmul(%x, %w)
"""


def two_axes(body: str) -> Verdict:
    """A product cut over ``tp`` summed over a batch cut over ``dp``; the body makes %z of %p."""
    return Spec.from_graphs(
        name="two axes",
        sequential=TWO_SEQ,
        distributed=f"{TWO_DIST}{body}\nreturn %z\n",
        inputs={"x": {"dp": ROWS, "tp": COLUMNS}, "w": {"tp": ROWS}},
        outputs={"z": Replicate()},
    ).check()


BATCH = "{dims=(0,), keepdim=false}"
BOTH = '{op="sum", group=("dp", "tp")}'
DP = '{op="sum", group=("dp",)}'


@pytest.mark.parametrize(
    "body",
    [
        f"%y = all_reduce(%p) {SUM}\n%l = sum(%y) {BATCH}\n%z = all_reduce(%l) {DP}",
        f"%l = sum(%p) {BATCH}\n%z = all_reduce(%l) {BOTH}",
        f"%l = sum(%p) {BATCH}\n%m = all_reduce(%l) {DP}\n%z = all_reduce(%m) {SUM}",
    ],
    ids=["tp then dp", "both at once", "dp then tp"],
)
def test_two_axes(body: str) -> None:
    holds_for_all(two_axes(body), "D", "T", "b", "s")


@pytest.mark.parametrize(
    "body",
    [
        f"%y = all_reduce(%p) {SUM}\n%z = sum(%y) {BATCH}",
        f"%y = all_reduce(%p) {SUM}\n%l = sum(%y) {BATCH}\n%z = all_reduce(%l) {BOTH}",
        f"%y = all_reduce(%p) {SUM}\n%l = sum(%y) {BATCH}\n%z = all_reduce(%l) {SUM}",
        f"%r = relu(%p)\n%l = sum(%r) {BATCH}\n%z = all_reduce(%l) {BOTH}",
    ],
    ids=["no dp", "tp twice", "wrong axis", "relu of partial sums"],
)
def test_two_axes_with_a_fault(body: str) -> None:
    assert two_axes(body).status == "refuted"


# ------------------------------------------------------------------ built problems


def test_built_mlp_claims_are_true() -> None:
    sizes = {"N": 3, "w": 2, "S": 2, "h": 3}
    cut = problems.all_ranks()
    used = proved(problems.mlp(cut, symbol("S"), symbol("h")), sizes=sizes)
    assert used[names.RANK_TILES] == 1
    for fault in problems.MLP_FAULTS:
        refused(problems.mlp(cut, symbol("S"), symbol("h"), fault), sizes=sizes)


def test_data_parallel_mean_needs_the_global_count() -> None:
    sizes = {"N": 3, "w": 2, "h": 3}
    cut = problems.all_ranks()
    proved(problems.data_parallel(cut, symbol("h")), sizes=sizes)
    for fault in problems.DATA_FAULTS:
        problem = problems.data_parallel(cut, symbol("h"), fault)
        refused(problem, sizes=sizes)
        assert verify(problem).status == "refuted"


@pytest.mark.parametrize(
    "make",
    [
        lambda cut: problems.mlp(cut, 2, 3),
        lambda cut: problems.data_parallel(cut, 3),
        lambda cut: masked_lookup(cut, 3, 2),
    ],
    ids=["mlp", "data parallel", "lookup"],
)
def test_rank_by_rank_and_rank_as_an_index_agree(make) -> None:  # type: ignore[no-untyped-def]
    problem = make(problems.even(3, 2))
    folded = infer(problem)
    assert folded.holds
    assert folded.symbolic_ranks
    apart = infer(problem, symbolic_ranks=False)
    assert apart.holds
    assert not apart.symbolic_ranks


@pytest.mark.parametrize("symbolic_ranks", [True, False], ids=["index", "rank by rank"])
def test_one_column_a_rank(symbolic_ranks: bool) -> None:
    problem = problems.mlp(problems.even(3, 1), 2, 2)
    if not symbolic_ranks:
        assert Runner(problem).run().holds
    assert infer(problem).holds


# ------------------------------------------------------------------ sizes at which nothing is left


def others(kind: str) -> Problem:
    """A program that divides by what the other ranks hold, which is nothing on one rank."""
    cut, rows = problems.all_ranks(), symbol("R")

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        return {"y": b.emit("scale", v["x"], by=1)}

    def distributed(b: Builder, v: dict[str, Value], rank: problems.Rank) -> dict[str, Value]:
        rest = b.emit("slice", v["z"], dim=1, start=rank.width, stop=rank.total)
        if kind == "count":
            by = b.emit("full", value=rank.size - 1, shape=(), dtype="f32")
        elif kind == "mean":
            by = b.emit("mean", b.emit("exp", rest), dims=(1,), keepdim=True)
        else:
            by = b.emit("sum", b.emit("exp", rest), dims=(1,), keepdim=True)
        return {"y": b.emit("div", b.emit("mul", v["x"], by), by)}

    shape = (rows, cut.total)
    inputs: problems.Spec = {"x": ("f32", shape, 1), "z": ("f32", shape, None)}
    return problems.sharded("others", cut, inputs, sequential, distributed, {"y": 1})


@pytest.mark.parametrize("deep", [False, True], ids=["closed", "deep"])
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("count", "N - 1 is not zero (the program divides by it)"),
        ("sum", "sum is nowhere zero (the program divides by it)"),
        ("mean", "N*w - w is not zero (the program divides by it)"),
    ],
)
def test_a_divisor_that_one_rank_makes_zero_is_listed(kind: str, text: str, deep: bool) -> None:
    found = Runner(others(kind), deep=deep).run()
    assert found.holds
    assert text in found.evaluator.products.assumed


def test_a_divisor_that_is_never_zero_is_not_listed() -> None:
    for deep in (False, True):
        found = Runner(problems.data_parallel(problems.all_ranks(), symbol("h")), deep=deep).run()
        assert found.holds
        assert not found.evaluator.products.assumed
