"""The picture of a protocol violation: what each rank involved does before and after."""

from __future__ import annotations

from shardproof.collectives.errors import ProtocolError
from shardproof.collectives.match import is_collective
from shardproof.ir.graph import Node, Program
from shardproof.report.view import BLAMED, PLAIN, Picture, PictureBox

LANES = 4
AROUND = 3


def protocol_picture(program: Program, error: ProtocolError) -> Picture | None:
    """The collectives of the ranks around the calls that do not fit; the calls share a row."""
    sites = [s for s in error.sites if s.node is not None]
    lanes: dict[int, Node] = {}
    for s in sites:
        if s.node is not None:
            lanes.setdefault(s.rank, s.node)
    boxes = []
    for column, (rank, node) in enumerate(list(lanes.items())[:LANES], 1):
        graph = next((g for k, g in enumerate(program.graphs) if rank in (k, g.rank)), None)
        calls = [n for n in graph.nodes if is_collective(n) or n is node] if graph else [node]
        at = next((k for k, n in enumerate(calls) if n is node), 0)
        for k in range(max(0, at - AROUND), min(len(calls), at + AROUND + 1)):
            boxes.append(_box(column, AROUND + k - at, calls[k], calls[k] is node))
    if not boxes:
        return None
    first = min(b.row for b in boxes)
    for b in boxes:
        b.row -= first
    rows = 1 + max(b.row for b in boxes)
    names = ["", *(f"rank {r}" for r in list(lanes)[:LANES])]
    left = len(lanes) - LANES
    return Picture(names, rows, boxes, [], f"{left} more ranks not drawn" if left > 0 else "")


def _box(column: int, row: int, n: Node, blamed: bool) -> PictureBox:
    v = n.outputs[0] if n.outputs else (n.inputs[0] if n.inputs else None)
    name = n.source or (v.name if v is not None else "")
    group = n.attrs.get("group")
    text = f"over {', '.join(map(str, group))}" if isinstance(group, tuple) else ""
    state = BLAMED if blamed else PLAIN
    return PictureBox(column, row, n.op, name, str(v.type) if v is not None else "", text, state)
