"""Reference pages exist for every operator and say what the declaration says."""

from __future__ import annotations

import pytest

from shardproof.ops import docs
from shardproof.ops.base import infer_types, known
from shardproof.ops.examples import example


@pytest.mark.parametrize("op", sorted(known()))
def test_every_operator_has_a_page(op: str) -> None:
    page = docs.page(op)
    assert page.startswith(f"# {op}\n")
    assert known()[op].doc in page
    assert "output 0" in page or "-> no output" in page


@pytest.mark.parametrize("op", sorted(known()))
def test_examples_are_calls_with_symbolic_sizes(op: str) -> None:
    call = example(known()[op])
    outputs = infer_types(op, call.inputs, call.attrs)
    algebra = known()[op].algebra(call.inputs, call.attrs)
    assert len(algebra) == (len(outputs) or int(op == "send"))
    for t in outputs:
        assert all(str(n) for n in t.shape)


def test_page_of_softmax() -> None:
    assert docs.page("softmax") == (
        "# softmax\n\n    softmax(x) {dim}\n\nexp(x) / sum exp(x) along `dim`.\n\n"
        "Example, and what inference knows of it:\n\n"
        "    softmax(f32[B, V]) {dim=1} -> f32[B, V]\n"
        "    output 0: softmax: i0 i1! -> i0 i1!\n\n"
        "Reference evaluation: yes.\nSpelled with simpler operators: yes.\n"
    )


def test_index_names_every_operator() -> None:
    text = docs.index()
    assert all(f"`{op}(" in text for op in known())


def test_unknown_operator() -> None:
    with pytest.raises(KeyError):
        docs.page("no_such_operator")
