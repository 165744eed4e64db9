"""Both graphs for Model Explorer (https://github.com/google-ai-edge/model-explorer).

A folder with ``graphs.json`` (one collection: the sequential graph, then those of ranks),
``status.json`` (node data: what every value is in terms of the sequential program) and for every
distributed graph ``mapping-K.json`` (navigation in step, sequential left, distributed right).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from shardproof.report.files import write_whole
from shardproof.report.view import BLAMED, FOREIGN, NAMED, PARTIAL, GraphView, Row, View

GRAPHS, STATUS = "graphs.json", "status.json"
LABEL = "shardproof"
COLOURS = {NAMED: "#cfe0f3", PARTIAL: "#f3dfae", FOREIGN: "#dcdcdc", BLAMED: "#f2b8b5"}
STATES = {NAMED: "piece of a sequential value", PARTIAL: "term of a sum",
          FOREIGN: "no sequential value", BLAMED: "blamed"}  # fmt: skip


def write(folder: Path, view: View) -> None:
    """Write all files.

    Raises:
        OSError: the folder cannot be written.
    """
    files = {GRAPHS: collection(view), STATUS: status(view)}
    files |= {f"mapping-{k}.json": mapping(view, k) for k in range(1, len(view.graphs))}
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        write_whole(folder / name, msgspec.json.encode(data) + b"\n")


def collection(view: View) -> dict[str, Any]:
    """The graph collection, in the form that the built-in JSON loader reads."""
    graphs = [{"id": g.label, "nodes": _nodes(view, g)} for g in view.graphs]
    return {"label": LABEL, "graphs": graphs}


def mapping(view: View, k: int) -> dict[str, Any]:
    """Which nodes of the sequential graph (left) answer to which of the k-th graph (right).

    Several distributed nodes may answer to one sequential node.
    """
    answers: dict[int, list[str]] = {}
    for r in view.graphs[k].rows:
        if r.twin >= 0:
            answers.setdefault(r.twin, []).append(r.name)
    left = view.graphs[0].rows
    entries = [
        {"leftNodeIds": [left[row].name], "rightNodeIds": names}
        for row, names in sorted(answers.items())
    ]
    return {"type": "sync_navigation", "mappingEntries": entries, "disableMappingFallback": True}


def status(view: View) -> dict[str, Any]:
    """Node data by graph: the state of every value, with a colour for each."""
    thresholds = [{"value": state, "bgColor": colour} for state, colour in COLOURS.items()]
    return {
        g.label: {
            "name": "Shardproof",
            "results": {r.name: {"value": r.state} for r in g.rows if r.state in COLOURS},
            "thresholds": thresholds,
        }
        for g in view.graphs
    }


def _nodes(view: View, g: GraphView) -> list[dict[str, Any]]:
    returned = {row: name for name, row in g.outputs}
    return [_node(view, g, k, r, returned.get(k)) for k, r in enumerate(g.rows)]


def _node(view: View, g: GraphView, k: int, r: Row, returned: str | None) -> dict[str, Any]:
    text = view.texts
    attrs = {
        "attributes": text[r.attrs], "source": text[r.origin], "code": text[r.code],
        "means": text[r.meaning], "state": STATES.get(r.state, ""), "returned as": returned or "",
    }  # fmt: skip
    return {
        "id": r.name,
        "label": text[r.op],
        "namespace": text[r.module].strip("/"),
        "attrs": [{"key": key, "value": value} for key, value in attrs.items() if value],
        "incomingEdges": [
            {"sourceNodeId": g.rows[i].name, "sourceNodeOutputId": "0", "targetNodeInputId": str(n)}
            for n, i in enumerate(r.inputs)
        ],
        "outputsMetadata": [
            {"id": "0", "attrs": [{"key": "__tensor_tag", "value": r.name},
                                  {"key": "tensor_shape", "value": text[r.type]}]}
        ],
    }  # fmt: skip
