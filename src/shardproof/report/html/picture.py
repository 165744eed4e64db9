"""Geometry of the picture of a finding: every operator has its own row in its lane, edges between
neighbours are straight, others go round on the right of the lane."""

from __future__ import annotations

from dataclasses import dataclass

from shardproof.report.view import Picture, PictureBox

LANE, GAP, ROW, HIGH, TOP, SIDE = 168, 32, 54, 40, 34, 12
TRACK = 7
LETTERS = 20
_STATES = ("plain", "named", "partial", "foreign", "blamed")


@dataclass(frozen=True, slots=True)
class Shape:
    """A box with its two lines of text; ``dots`` are x positions of the lanes that take part."""

    x: int
    y: int
    width: int
    height: int
    state: str
    op: str
    name: str
    below: str
    title: str
    bar: bool
    dots: list[int]


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything drawn; ``heads`` are lane titles (x, text), ``lines`` separate the lanes."""

    width: int
    height: int
    heads: list[tuple[int, str]]
    lines: list[int]
    shapes: list[Shape]
    paths: list[str]
    left_out: str
    states: list[str]


def scene(p: Picture) -> Scene:
    """Coordinates of a picture."""
    first = 0 if p.columns and p.columns[0] else 1
    shapes = [_shape(b, first) for b in p.boxes]
    tracks: dict[int, list[tuple[int, int]]] = {}
    paths = [_path(p, e.source, e.target, e.column, first, tracks) for e in p.edges]
    count = len(p.columns) - first
    heads = [(_left(k, 0), text) for k, text in enumerate(p.columns[first:])]
    lines = [_left(k, 0) - GAP // 2 for k in range(1, count)]
    states = [s for s in _STATES[1:] if any(x.state == s for x in shapes)]
    return Scene(
        _left(count, 0),
        TOP + p.rows * ROW,
        heads,
        lines,
        shapes,
        [x for x in paths if x],
        p.left_out,
        states,
    )


def _left(column: int, first: int) -> int:
    return SIDE + (column - first) * (LANE + GAP)


def _y(row: int) -> int:
    return TOP + row * ROW


def _shape(b: PictureBox, first: int) -> Shape:
    width = LANE + (b.span - 1) * (LANE + GAP)
    letters = LETTERS + (b.span - 1) * 30
    room = letters - len(b.op)
    dots = [_left(c, first) + LANE // 2 for c in b.members] if b.span > 1 else []
    title = f"{b.op} {b.name}: {b.type}" + (f"\nmeans {b.meaning}" if b.meaning else "")
    name = _cut(b.name, room) if room > 3 else ""
    below = _ends(b.meaning or b.type, letters + 3)
    place = (_left(b.column, first), _y(b.row), width, HIGH)
    return Shape(*place, _STATES[b.state], b.op, name, below, title, bool(b.members), dots)


def _path(
    p: Picture, source: int, target: int, column: int, first: int,
    tracks: dict[int, list[tuple[int, int]]],
) -> str:  # fmt: skip
    """An edge as the data of an SVG path."""
    a, b = p.boxes[source], p.boxes[target]
    if b.row <= a.row:
        return ""
    x = _left(column, first)
    start, end = _y(a.row) + HIGH, _y(b.row)
    between = [o for o in p.boxes if a.row < o.row < b.row and _covers(o, column)]
    if not between:
        middle = x + LANE // 2
        return f"M{middle} {start}V{end - 3}"
    side = x + LANE + 8 + TRACK * _track(tracks.setdefault(column, []), a.row, b.row)
    begin, finish = start - HIGH // 2, end + HIGH // 2
    right = x + LANE
    return f"M{right} {begin}H{side - 5}q5 0 5 5V{finish - 5}q0 5 -5 5H{right + 3}"


def _covers(o: PictureBox, column: int) -> bool:
    return o.column <= column < o.column + o.span


def _track(taken: list[tuple[int, int]], first: int, last: int) -> int:
    """The nearest track beside a lane that is free over these rows; three tracks are there."""
    used = taken[:]
    taken.append((first, last))
    level = sum(1 for a, b in used if a < last and first < b)
    return min(level, 2)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


def _ends(text: str, room: int) -> str:
    """A meaning cut in its middle: the name is at its front, what it sums over at its end."""
    if len(text) <= room:
        return text
    front = room // 3
    return f"{text[:front]}…{text[len(text) - (room - front - 1) :]}"
