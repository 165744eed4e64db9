"""Every lowered ATen operator computes in float64 what PyTorch computes."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from tests.frontends import cases_elementwise, cases_models, cases_shapes
from tests.frontends.aten_cases import Case
from tests.frontends.support import check_call

from shardproof.frontends.aten import registered

FAMILIES = {
    **cases_elementwise.FAMILIES,
    **cases_shapes.FAMILIES,
    **cases_models.FAMILIES,
}
CASES = {name: list(make()) for name, make in FAMILIES.items()}
ALL = [
    pytest.param(case, id=f"{case.target}-{k}")
    for cases in CASES.values()
    for k, case in enumerate(cases)
]


@pytest.mark.parametrize("case", ALL)
def test_matches_torch(case: Case) -> None:
    check_call(case.target, case.args, case.kwargs, case.tolerance)


# Operators that need more than one call on the CPU can show; tested in the modules named.
ELSEWHERE = {
    "test_collectives": "_c10d_functional.* c10d_functional.* vllm.all_reduce.default",
    "test_idioms, test_facts": """aten.empty* aten.new_empty* prims.empty* aten.bernoulli*
        aten.dropout* aten.native_dropout.default aten.rand* aten.uniform* aten.normal*
        aten.exponential* aten.multinomial* aten.masked_scatter* aten.index_copy*
        aten._fused_* aten.log_sigmoid_forward* aten.sym_* aten._local_scalar_dense* aten.item*
        aten._assert_* aten.record_stream*""",
    "test_attention": """aten._scaled_dot_product_* aten._flash_attention_*
        aten._efficient_attention_*""",
    "test_end_to_end": "aten.view_as_complex* aten.polar* aten.complex.*",
    "the same rule as a tested operator": """aten.mm.dtype aten.bmm.dtype aten.pin_memory*
        aten._pin_memory* prims.device_put* aten.as_strided_copy* aten.index.Tensor_hacked_twin
        aten.index_put.hacked_twin""",
}


def test_all_covered() -> None:
    tested = {case.target for cases in CASES.values() for case in cases}
    patterns = " ".join(ELSEWHERE.values()).split()
    left = [t for t in registered() if t not in tested]
    assert [t for t in left if not any(fnmatchcase(t, p) for p in patterns)] == []
