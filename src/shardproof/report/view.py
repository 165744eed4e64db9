"""What a report shows beside the verdict: graphs, pictures, layouts, costs. Plain data.

It is built by :mod:`shardproof.present` from what decided the verdict and is read by the renderers
only. Texts that occur often are kept once in ``View.texts`` and referred to by number, so that a
program of 100,000 operators is a few megabytes; text 0 is the empty one.
"""

from __future__ import annotations

import msgspec

SCHEMA = "shardproof-view/1"
NONE = -1
"""No row, no layout."""

# States of a value, see Row.state.
PLAIN, NAMED, PARTIAL, FOREIGN, BLAMED = range(5)


class Row(msgspec.Struct, array_like=True):
    """One value of a graph: an input or the result of an operator.

    ``op``, ``type``, ``attrs``, ``module``, ``origin``, ``code``, ``meaning`` and ``lemmas`` are
    numbers of texts. ``inputs`` and ``twin`` are numbers of rows: the operands, and the row of the
    sequential graph that it corresponds to. ``state`` says what it is in terms of the sequential
    program.
    """

    name: str
    op: int
    type: int
    inputs: list[int]
    attrs: int
    module: int
    origin: int
    code: int
    meaning: int
    layout: int
    twin: int
    state: int
    lemmas: int = 0


class GraphView(msgspec.Struct):
    """One program. ``ranks`` is empty for the sequential one; ``outputs`` are returned names with
    their rows."""

    label: str
    ranks: list[int]
    rows: list[Row]
    outputs: list[tuple[str, int]]


class Box(msgspec.Struct, array_like=True):
    """Indices ``lo <= i < hi`` along every axis."""

    lo: list[int]
    hi: list[int]


class Holding(msgspec.Struct):
    """What some ranks hold of a named sequential value. ``sums`` is not empty where they hold a
    sum over a part of a reduction only, such as ``k 0:4 of 8``."""

    ranks: list[int]
    boxes: list[Box]
    sums: str = ""


class Layout(msgspec.Struct):
    """How a tensor of this shape lies on the ranks."""

    shape: list[int]
    holdings: list[Holding]


class Related(msgspec.Struct):
    """One line of the input or output relation."""

    name: str
    sequential: str
    type: str
    local: str
    placement: str
    layout: int
    status: str = ""


class PictureBox(msgspec.Struct):
    """An operator in a picture; ``span`` columns wide from ``column``. A collective spans the
    lanes of its ranks, which are the columns ``members``."""

    column: int
    row: int
    op: str
    name: str
    type: str
    meaning: str
    state: int
    span: int = 1
    members: list[int] = msgspec.field(default_factory=list)


class PictureEdge(msgspec.Struct, array_like=True):
    """From one box to another, drawn in the lane ``column``."""

    source: int
    target: int
    column: int


class Picture(msgspec.Struct):
    """The neighbourhood of a finding: the sequential program in the first column, then ranks as
    lanes. ``left_out`` says what is not drawn."""

    columns: list[str]
    rows: int
    boxes: list[PictureBox]
    edges: list[PictureEdge]
    left_out: str = ""


class Heat(msgspec.Struct):
    """A cut of at most 16 by 16 elements of an output around the worst element, as one rank has
    it and as it should be. ``corner`` is the index of the first element shown, ``worst`` the place
    of the worst within the cut."""

    rank: str
    axes: str
    corner: list[int]
    worst: list[int]
    expected: list[list[float | None]]
    found: list[list[float | None]]


class FindingView(msgspec.Struct):
    """What is drawn of one finding; ``diff`` are the lines of the change that mends it, ``graph``
    and ``row`` say where it is."""

    picture: Picture | None = None
    heats: list[Heat] = msgspec.field(default_factory=list)
    diff: list[str] = msgspec.field(default_factory=list)
    graph: int = NONE
    row: int = NONE


class Memory(msgspec.Struct):
    """Bytes of one program: of its inputs, of its outputs, and the most that is alive at once
    when it runs in the order written and every value is freed after its last use."""

    label: str
    inputs: int
    outputs: int
    peak: int


class Traffic(msgspec.Struct):
    """Collectives of one kind over one set of ranks. ``payload`` is the size of the larger side,
    ``sent`` what a rank sends in a ring, both summed over ``count`` calls, of the rank that
    sends most."""

    kind: str
    over: str
    count: int
    payload: int
    sent: int


class View(msgspec.Struct):
    """Everything a report draws. ``sample`` says at which sizes layouts of a symbolic program are
    drawn; ``notes`` what was left out for size."""

    schema: str = SCHEMA
    version: str = ""
    mesh: list[tuple[str, str]] = msgspec.field(default_factory=list)
    ranks: str = ""
    texts: list[str] = msgspec.field(default_factory=lambda: [""])
    graphs: list[GraphView] = msgspec.field(default_factory=list)
    layouts: list[Layout] = msgspec.field(default_factory=list)
    inputs: list[Related] = msgspec.field(default_factory=list)
    outputs: list[Related] = msgspec.field(default_factory=list)
    findings: list[FindingView] = msgspec.field(default_factory=list)
    memory: list[Memory] = msgspec.field(default_factory=list)
    traffic: list[Traffic] = msgspec.field(default_factory=list)
    sample: str = ""
    notes: list[str] = msgspec.field(default_factory=list)


class ViewError(ValueError):
    """A document that is not a view of a known version."""


def to_json(view: View) -> bytes:
    """The view as one JSON document."""
    return msgspec.json.encode(view) + b"\n"


def from_json(data: bytes) -> View:
    """The view in a document made by :func:`to_json`.

    Raises:
        ViewError: the document is of another kind or version.
    """
    try:
        view = msgspec.json.decode(data, type=View)
    except msgspec.DecodeError as error:
        raise ViewError(f"not a view: {error}") from error
    if view.schema != SCHEMA:
        raise ViewError(f"schema {view.schema!r}, expected {SCHEMA!r}")
    return view
