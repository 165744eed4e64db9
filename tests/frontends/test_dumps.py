"""All published dumps import without an unknown operator, and quickly."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.frontends.dumps import FILES, load, name, packaged, text_of

from shardproof.errors import InputError
from shardproof.frontends.fx_lines import parse_line
from shardproof.frontends.fx_text import read_fx
from shardproof.ir.check import check_graph
from shardproof.ops.base import infer_types


@pytest.mark.parametrize("path", FILES, ids=name)
def test_imports(path: Path) -> None:
    result = load(path)
    assert result.unknown == {}
    assert check_graph(result.graph, infer_types) == []
    assert result.constant_inputs == []
    assert all(n.origin.file for n in result.graph.nodes if n.source.startswith("mm"))


def test_output_names_are_those_of_the_dump() -> None:
    result = load(packaged("gpt/tp2_layers1", 1))
    (loss, value), *rest = result.outputs
    assert loss == "div_2"
    assert value is result.names["div_2"]
    assert value.name == "div_2"
    assert value.type.shape == ()
    assert len(rest) == 44


def test_dropout_masks_are_inputs_in_order() -> None:
    path = packaged("gpt/tp2_layers1")
    result = load(path)
    assert result.random_inputs == [f"dropout_mask_{k}" for k in range(4)]
    assert str(result.graph.input("dropout_mask_0").type) == "b8[768, 8, 768]"
    off = load(path, dropout="off")
    assert off.random_inputs == []
    assert len(off.graph.inputs) == len(result.graph.inputs) - 4


def test_ranks_have_one_form() -> None:
    paths = [packaged("gpt/tp8_layers1", r) for r in range(8)]
    forms = {tuple((n.op, n.source) for n in load(p).graph.nodes) for p in paths}
    assert len(forms) == 1


def test_joint_graph_has_its_parts() -> None:
    result = load(packaged("bugs/missing_layernorm_allreduce/distributed", 0, "both"))
    assert result.phase == "joint"
    assert [v.name for v in result.graph.inputs][:2] == ["primals_1", "primals_2"]
    assert [v.name for v in result.graph.inputs][-1] == "tangents_21"
    ops = {n.op for n in result.graph.nodes}
    assert {"layer_norm_grad", "softmax_grad", "gelu_grad", "add_rows", "put_along"} <= ops
    assert {"all_gather", "reduce_scatter", "all_reduce", "wait"} <= ops
    assert [v for _, v in result.outputs].count(None) == 5


def test_reading_and_lowering_are_quick() -> None:
    paths = [packaged("gpt/tp8_layers8", r) for r in range(8)]
    texts = [text_of(path) for path in paths]
    parse_line.cache_clear()
    started = time.process_time()
    for text in texts:
        read_fx(text)
    parsed = time.process_time()
    for path in paths:
        load(path)
    done = time.process_time()
    # Bounds are for a loaded machine: about ten times what it takes.
    assert parsed - started < 0.6
    assert done - parsed < 1.5


def test_a_dump_cut_anywhere_gives_one_error() -> None:
    text = text_of(packaged("gpt/tp2_layers1"))
    end = text.index("return [")
    for cut in range(0, end, 997):
        with pytest.raises(InputError) as e:
            read_fx(text[:cut] + "\n")
        assert len(str(e.value).splitlines()) == 4
