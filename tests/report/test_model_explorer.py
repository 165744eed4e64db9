"""The export for Model Explorer: well-formed graphs, a mapping between them, node data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.html import small

from shardproof.report.model_explorer import COLOURS, GRAPHS, STATUS, collection, mapping, write
from shardproof.report.view import View


@pytest.fixture(scope="module")
def view() -> View:
    return small.checked(small.block(total=False))[1]


def test_edges_lead_between_nodes_of_their_graph(view: View) -> None:
    graphs = collection(view)["graphs"]
    assert [g["id"] for g in graphs] == ["sequential", "rank 0", "rank 1", "rank 2", "rank 3"]
    for g in graphs:
        ids = [n["id"] for n in g["nodes"]]
        assert len(ids) == len(set(ids))
        sources = {e["sourceNodeId"] for n in g["nodes"] for e in n["incomingEdges"]}
        assert sources
        assert sources <= set(ids)


def test_the_mapping_pairs_nodes_that_answer_to_each_other(view: View) -> None:
    entries = mapping(view, 1)["mappingEntries"]
    pairs = {e["leftNodeIds"][0]: e["rightNodeIds"] for e in entries}
    assert pairs["h"] == ["h"]
    assert pairs["o"] == ["p"]  # the partial product answers to the whole one
    assert "z" not in pairs  # nothing of the sequential program is what the wrong output holds
    left = {r.name for r in view.graphs[0].rows}
    right = {r.name for r in view.graphs[1].rows}
    assert set(pairs) <= left
    assert {n for names in pairs.values() for n in names} <= right


def test_files(view: View, tmp_path: Path) -> None:
    write(tmp_path / "me", view)
    names = {p.name for p in (tmp_path / "me").iterdir()}
    assert names == {GRAPHS, STATUS, *(f"mapping-{k}.json" for k in range(1, 5))}
    status = json.loads((tmp_path / "me" / STATUS).read_text())
    values = {x["value"] for x in status["rank 0"]["results"].values()}
    assert values <= set(COLOURS)
    assert status["rank 0"]["results"]["y"]["value"] == 4  # blamed
    assert status["rank 0"]["results"]["p"]["value"] == 2  # a term of a sum
