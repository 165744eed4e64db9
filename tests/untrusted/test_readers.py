"""Whatever a file holds, a reader soon answers with its own error or something well formed."""

from __future__ import annotations

import json
import time
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.untrusted.mutate_text import changed_data, changed_text
from tests.untrusted.seeds import seeds

from shardproof.certificate.reading import check_file
from shardproof.errors import InputError
from shardproof.frontends.import_hlo import import_hlo
from shardproof.ir.check import check_graph
from shardproof.ir.text import TextError, parse_graph
from shardproof.ops.base import infer_types
from shardproof.report.json import ReportError, from_json
from shardproof.spec.mesh import Mesh
from shardproof.spec.placement import Replicate
from shardproof.spec.spec import Spec

LIMIT = 5.0  # CPU seconds
GRAPHS = [d.decode() for d in seeds("text")]
SMALL = """\
graph g
rank 0
mesh tp=2
%x = input f32[4, N]
%ids = input i64[4]
%y = matmul(%x, %w)
"""
HLO = [d.decode() for d in seeds("hlo")]
REPORTS = [json.loads(d) for d in seeds("report")]
PROOFS = [json.loads(d) for d in seeds("certificate")]

common = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example,
    ],
)  # fmt: skip


def encoded(document: Any) -> bytes:
    return json.dumps(document).encode()


def said(text: str, lines: int) -> None:
    """Check the text of an error: not empty, and of so many lines (0: any number)."""
    assert text
    assert lines in (0, len(text.splitlines()))


def within_limit(start: float) -> None:
    assert time.process_time() - start < LIMIT


@common
@given(changed_text([SMALL, *GRAPHS]))
@example(SMALL)
@example("graph g\n" + "%x = input f32[" + "(" * 3000 + "1\n")
@example("graph g\n%x = input f32[" + "*".join(["N"] * 400) + "]\nreturn %x\n")
@example("graph g\n%x = input f32[2]\n" + "%x = neg(%x)\n" * 2000)
def test_text_graphs(text: str) -> None:
    start = time.process_time()
    try:
        parsed = parse_graph(text)
    except TextError as e:
        said(str(e), lines=0)
    else:
        check_graph(parsed.graph, infer_types)
    within_limit(start)


@common
@given(changed_text(GRAPHS))
def test_specs_of_text_graphs(text: str) -> None:
    start = time.process_time()
    try:
        Spec.from_graphs(
            sequential=text, distributed=[GRAPHS[0], text], mesh=Mesh(tp=2),
            inputs={"*": Replicate()}, outputs={"*": Replicate()},
        ).resolve()  # fmt: skip
    except InputError as e:
        said(str(e), lines=4)
    within_limit(start)


@common
@given(changed_text(HLO), st.sampled_from([1, 2, 4]))
def test_hlo_modules(text: str, ranks: int) -> None:
    start = time.process_time()
    try:
        results = import_hlo(text, ranks=ranks)
    except InputError as e:
        said(str(e), lines=4)
    else:
        for result in results:
            assert check_graph(result.graph, infer_types) == []
    within_limit(start)


@common
@given(st.one_of(changed_data(REPORTS[0]), changed_data(REPORTS[1])))
def test_reports(document: Any) -> None:
    start = time.process_time()
    try:
        from_json(encoded(document))
    except ReportError as e:
        said(str(e), lines=0)
    within_limit(start)


@common
@given(st.binary(max_size=60))
@example(b"[" * 100_000)
@example(b"1" * 100_000)
def test_any_bytes_as_report_and_certificate(data: bytes) -> None:
    start = time.process_time()
    try:
        from_json(data)
    except ReportError as e:
        said(str(e), lines=0)
    outcome, _ = check_file(data)
    assert outcome.problem.startswith("not checked: ")
    within_limit(start)


@settings(common, max_examples=60)
@given(st.one_of(changed_data(PROOFS[0]), changed_data(PROOFS[1])))
def test_certificates(document: Any) -> None:
    start = time.process_time()
    outcome, _ = check_file(encoded(document))
    assert outcome.agrees or outcome.problem.startswith("not checked: ")
    within_limit(start)
