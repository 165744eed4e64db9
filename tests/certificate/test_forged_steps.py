"""Single steps with a false claim, forged by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest
from tests.certificate.corpus import PROBLEMS, as_data, certificate, inferred
from tests.certificate.forge import forged, vanished, wrong
from tests.support.problems import Rank, even, sharded

from shardproof.certificate.check import Checker
from shardproof.certificate.claims import Claims
from shardproof.certificate.document import MeaningRow
from shardproof.certificate.exact import NotChecked
from shardproof.certificate.reading import check_file, check_proof
from shardproof.certificate.write import proof_of
from shardproof.infer.run import infer
from shardproof.ir.builder import Builder
from shardproof.ir.graph import TensorType, Value
from shardproof.spec.problem import Problem

# ------------------------------------------------------------------ undefined contents


def noise(reduced: bool) -> Problem:
    """The input plus undefined contents minus themselves."""

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        return {"y": b.emit("shift", v["x"], by=0)}

    def ranks(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        e = b.emit("undefined", shape=(2,), dtype="f32")
        d = b.emit("sub", e, e)
        d = rank.reduce(b, e) if reduced else d
        return {"y": b.emit("add", v["x"], d)}

    return sharded("noise", even(2, 1), {"x": ("f32", (2,), None)}, sequential, ranks, {"y": None})


@pytest.mark.parametrize(
    ("reduced", "message"), [(False, "undefined contents that cancel"), (True, "undefined")]
)
def test_undefined_contents_do_not_cancel(reduced: bool, message: str) -> None:
    """Claims that the noise is zero and that the output is the input."""
    problem = noise(reduced)
    inf = infer(problem, symbolic_ranks=False)
    proof = vanished(inf, "all_reduce" if reduced else "sub", "add")
    found = check_proof(problem, inf.problem, proof, {}, [])
    assert message in found.problem


def test_two_undefined_values_are_not_one() -> None:
    """A claim that both are one unknown, so that their difference is zero."""

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        return {"y": b.emit("shift", v["x"], by=0)}

    def ranks(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        e, f = (b.emit("undefined", shape=(2,), dtype="f32") for _ in range(2))
        return {"y": b.emit("add", v["x"], b.emit("sub", e, f))}

    inputs: Any = {"x": ("f32", (2,), None)}
    problem = sharded("two", even(2, 1), inputs, sequential, ranks, {"y": None})
    inf = infer(problem, symbolic_ranks=False)
    proof = proof_of(inf)
    for graph, row in zip(problem.distributed.graphs, proof.distributed, strict=True):
        row[len(graph.inputs) + 1] = row[len(graph.inputs)]
    found = check_proof(problem, inf.problem, proof, {}, []).problem
    assert "(undefined): the rule Undefined" in found


PLACES = ("lower border", "upper border", "local ids", "")


def two_lookups(place: str) -> Problem:
    """Rows by two tensors of ids, of a table that is cut; ``place`` reads the ids of the other."""

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        return {k: b.emit("take_rows", v["W"], v[k]) for k in ("ids", "other")}

    def looked_up(b: Builder, v: dict[str, Value], rank: Rank, k: str, at: str) -> Value:
        read = {p: v["other"] if p == at else v[k] for p in PLACES}
        below = b.emit("compare", read["lower border"], kind="lt", value=rank.lo)
        above = b.emit("compare", read["upper border"], kind="ge", value=rank.lo + rank.width)
        mask = b.emit("logic", below, above, kind="or")
        local = b.emit("shift", read["local ids"], by=-rank.lo)
        rows = b.emit("take_rows", v["W"], b.emit("masked_fill", local, mask, value=0))
        wide = b.emit("reshape", mask, shape=(*mask.shape, 1))
        return rank.reduce(b, b.emit("masked_fill", rows, wide, value=0), "sum")

    def ranks(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        return {"ids": looked_up(b, v, rank, "ids", place or "none"),
                "other": looked_up(b, v, rank, "other", "none")}  # fmt: skip

    ids: Any = ("i64", (5,), None)
    inputs: Any = {"W": ("f32", (6, 2), 0), "ids": ids, "other": ids}
    outputs = {"ids": None, "other": None}
    return sharded("two lookups", even(2, 3), inputs, sequential, ranks, outputs)


@pytest.mark.parametrize("place", PLACES)
def test_the_ids_of_another_tensor(place: str) -> None:
    """The claims of the right program, which are about the right ids."""
    right = infer(two_lookups(""), symbolic_ranks=False)
    assert right.holds
    problem = two_lookups(place)
    listed = list(right.evaluator.lookups.assumed)
    found = check_proof(problem, problem, forged(right, proof_of(right), problem), {}, listed)
    assert found.agrees == (not place), found.problem
    if place:
        assert wrong(problem)
        assert "does not follow" in found.problem


def test_types_are_worked_out_again() -> None:
    """A graph that no reader has checked."""
    problem = PROBLEMS["uneven mlp"]()
    inf = inferred(problem, symbolic_ranks=False)
    proof = proof_of(inf)
    assert check_proof(problem, inf.problem, proof, {}, []).agrees
    last = problem.distributed.graphs[0].nodes[-1].outputs[0]
    last.type = TensorType("i64", last.shape)
    assert "graph" in check_proof(problem, inf.problem, proof, {}, []).problem


def test_the_text_of_an_attribute_hides_no_flaw() -> None:
    """The only flaw that is left out is that of a group without axes."""
    problem = PROBLEMS["uneven mlp"]()
    checker = Checker(problem, problem, Claims([], {}, []), {})
    graph = problem.distributed.graphs[0]
    checker.well_typed(graph)
    (reduced,) = [n for n in graph.nodes if n.op == "all_reduce"]
    reduced.attrs.update(group=(), group_size=1)
    checker.well_typed(graph)
    (gelu,) = [n for n in graph.nodes if n.op == "gelu"]
    gelu.attrs = {**gelu.attrs, "approximate": "the group ()"}
    with pytest.raises(NotChecked, match="the shape rule of gelu"):
        checker.well_typed(graph)


# ------------------------------------------------------------------ what is not explained


def unexplained() -> Problem:
    """An operator that nothing is known of, on both sides."""

    def run(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        return {"y": b.emit("opaque", v["x"], target="f", shape=(2,), dtype="f32")}

    inputs: Any = {"x": ("f32", (2,), None)}
    return sharded(
        "unexplained", even(2, 1), inputs, run, lambda b, v, rank: run(b, v), {"y": None}
    )


def test_two_calls_of_an_unknown_operator_may_differ() -> None:
    problem = unexplained()
    inf = infer(problem, symbolic_ranks=False)
    proof = proof_of(inf)
    for row in proof.distributed:
        row[-1] = proof.sequential[-1]
    assert "the rule Opaque" in check_proof(problem, inf.problem, proof, {}, []).problem


def test_a_result_that_is_not_the_definition() -> None:
    data: Any = as_data(certificate("fused cross entropy", symbolic_ranks=False))
    proof = data["proof"]
    graph, node, _ = proof["opened"][0]
    assert graph == 0
    row = proof["sequential"]
    row[2 + node] = row[0]
    problem = check_file(msgspec.json.encode(data))[0].problem
    assert "not that of the definition" in problem


def test_an_input_that_no_relation_gives() -> None:
    problem = PROBLEMS["uneven mlp"]()
    inf = inferred(problem, symbolic_ranks=False)
    proof = proof_of(inf)
    relation = problem.relation[0]
    name = relation.output_names.pop()
    relation.outputs.pop()
    names = [v.name for v in problem.distributed.graphs[0].inputs]
    proof.distributed[0][names.index(name)] = proof.sequential[0]
    found = check_proof(problem, inf.problem, proof, {}, [])
    assert "not that it is an unknown" in found.problem


def shifted(dtype: str) -> Problem:
    """The input plus one."""

    def run(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        return {"y": b.emit("shift", v["x"], by=1)}

    inputs: Any = {"x": (dtype, (2,), None)}
    return sharded("shifted", even(2, 1), inputs, run, lambda b, v, rank: run(b, v), {"y": None})


@pytest.mark.parametrize(
    ("dtype", "by", "message"),
    [
        ("f32", 5, "integer view of real numbers"),
        ("i64", 5, "of the ids is another"),
        ("i64", 1, ""),
    ],
)
def test_a_function_of_the_input_that_nothing_computes(dtype: str, by: int, message: str) -> None:
    """A claim that the result is the input plus ``by``, as a function of it."""
    problem = shifted(dtype)
    inf = infer(problem, symbolic_ranks=False)
    proof = proof_of(inf)
    last = proof.sequential[-1]
    assert last is not None
    (box,) = proof.meanings[last].cells
    lin: Any = [(t, c if proof.terms[t].atom else by) for t, c in box[2]]
    row = MeaningRow([[2]], [(*box[:2], lin)], proof.sequential[0], [(None, None, 1, by)])
    proof.meanings.append(row)
    for table in (proof.sequential, *proof.distributed):
        table[-1] = len(proof.meanings) - 1
    found = check_proof(problem, inf.problem, proof, {}, [])
    assert message in found.problem
    assert found.agrees == (not message)


# ------------------------------------------------------------------ each rule on its own

RULES: dict[str, Any] = {
    "exp": (("a",), {}),
    "log": (("a",), {}),
    "tanh": (("a",), {}),
    "softmax": (("a",), {"dim": 1}),
    "cumsum": (("a",), {"dim": 1}),
    "max": (("a",), {"dims": (1,), "keepdim": False}),
    "sum": (("a",), {"dims": (1,), "keepdim": False}),
    "rsqrt": (("a",), {}),
    "power": (("a",), {"exponent": Fraction(3)}),
    "scale": (("a",), {"by": Fraction(2)}),
    "add": (("a", "c"), {}),
    "mul": (("a", "c"), {}),
    "div": (("c", "a"), {}),
    "matmul": (("c", "a"), {}),
    "where": (("m", "a", "c"), {}),
    "compare": (("a", "c"), {"kind": "ge"}),
    "take_rows": (("a", "ids"), {}),
    "take_along": (("c", "ids"), {}),
    "put_along": (("c", "ids", "v"), {}),
    "add_rows": (("v", "ids"), {"rows": 3}),
}
INPUTS: dict[str, Any] = {
    "a": ("f32", (3, 3), None), "b": ("f32", (3, 3), None), "c": ("f32", (3, 3), None),
    "m": ("b8", (3, 3), None), "v": ("f32", (3,), None),
    "ids": ("i64", (3,), None), "other": ("i64", (3,), None),
}  # fmt: skip


def applied(op: str, wrongly: str) -> Problem:
    """One operator on both sides; the ranks read ``wrongly`` instead of the like of it."""
    names, attrs = RULES[op]

    def run(b: Builder, v: dict[str, Value], swap: dict[str, str]) -> dict[str, Value]:
        y = b.emit(op, *(v[swap.get(n, n)] for n in names), **attrs)
        return {"y": b.emit("cast", y, dtype="f32") if y.dtype == "b8" else y}

    swap = {"b": {"a": "b"}, "other": {"ids": "other"}}.get(wrongly, {})
    return sharded("applied", even(2, 1), INPUTS, lambda b, v: run(b, v, {}),
                   lambda b, v, rank: run(b, v, swap), {"y": None})  # fmt: skip


@pytest.mark.parametrize("op", RULES)
def test_a_result_of_other_operands(op: str) -> None:
    """The claims of the program that reads the right ones."""
    right = infer(applied(op, ""), symbolic_ranks=False)
    assert right.holds
    listed = [*right.evaluator.lookups.assumed, *right.evaluator.products.assumed]
    found = check_proof(right.problem, right.problem, proof_of(right), {}, listed)
    assert found.agrees, found.problem
    names = RULES[op][0]
    for like, other in (("a", "b"), ("ids", "other")):
        if like in names:
            problem = applied(op, other)
            claims = forged(right, proof_of(right), problem)
            found = check_proof(problem, problem, claims, {}, listed)
            assert "not checked: graph 0" in found.problem


def row_parallel() -> Problem:
    """A product whose inner axis is cut, summed over the ranks."""

    def ranks(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        return {"y": rank.reduce(b, b.emit("matmul", v["x"], v["w"]), "sum")}

    inputs: Any = {"x": ("f32", (3, 4), 1), "w": ("f32", (4, 2), 0)}
    return sharded(
        "row parallel", even(2, 2), inputs,
        lambda b, v: {"y": b.emit("matmul", v["x"], v["w"])}, ranks, {"y": None},
    )  # fmt: skip


@pytest.mark.parametrize("symbolic_ranks", [True, False])
@pytest.mark.parametrize("op", ["sum", "avg"])
def test_another_reduction(op: str, symbolic_ranks: bool) -> None:
    """The claims of the program that sums."""
    problem = row_parallel()
    inf = infer(problem, symbolic_ranks=symbolic_ranks)
    assert inf.holds
    assert inf.problem.distributed.spmd == symbolic_ranks
    proof = proof_of(inf)
    for g in {*problem.distributed.graphs, *inf.problem.distributed.graphs}:
        for n in g.nodes:
            n.attrs = {**n.attrs, "op": op} if n.op == "all_reduce" else n.attrs
    found = check_proof(problem, inf.problem, proof, {}, [])
    assert found.agrees == (op == "sum")
    assert op == "sum" or "(all_reduce): the claimed meaning does not follow" in found.problem
