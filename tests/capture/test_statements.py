"""What is said of a statement stays with it when an input takes its name."""

from __future__ import annotations

from shardproof.frontends.fx_types import FxType
from shardproof.frontends.torch_capture.statements import Statements

SCALAR = FxType("f32", ())


def test_marks_follow_a_statement_that_gives_its_name_to_an_input() -> None:
    st = Statements()
    sent = st.call("_c10d_functional.all_reduce.default", (), {}, SCALAR)
    st.keep(sent, how="barrier", **{"async": True})
    given = st.input("all_reduce", SCALAR)
    outputs = st.named({"x": sent, "y": given})
    assert [s.name for s in st.all] == ["all_reduce_1", "all_reduce"]
    assert [r.name for r in outputs.values()] == ["all_reduce_1", "all_reduce"]
    assert st.effects == {"all_reduce_1"}
    assert st.marks == {"all_reduce_1": {"how": "barrier", "async": True}}


def test_a_call_that_was_waited_for_is_not_in_flight() -> None:
    st = Statements()
    sent = st.keep(st.call("_c10d_functional.isend.default", (), {}, None), **{"async": True})
    st.landed(sent.name)
    st.landed("nothing")
    assert st.marks == {sent.name: {}}
