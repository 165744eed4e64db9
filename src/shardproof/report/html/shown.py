"""A verdict and its view in the shape that the templates print. Grouping and formatting only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from shardproof.report.diagnostic import Finding, OutputRelation, Span, Uneven, Verdict
from shardproof.report.html import layout as maps
from shardproof.report.html.picture import Scene, scene
from shardproof.report.view import NONE, FindingView, Heat, Memory, Related, View
from shardproof.report.words import ranges

WORDS = {
    "refines": "Every output of the sequential model is rebuilt on the ranks as declared, "
    "for all inputs.",
    "refuted": "The distributed program computes something else.",
    "unproved": "No proof was found, and no input on which the two programs differ.",
}
UNEVEN = {
    "refines": "It also refines with unequal counts",
    "refuted": "But not with unequal counts",
    "unproved": "With unequal counts it is not proved",
    "not tried": "Unequal counts were not tried",
}
PLACEMENTS = {"R": "Replicate", "S": "Shard", "P": "Partial"}


@dataclass(slots=True)
class Group:
    """Tensors that lie on the ranks in the same way."""

    how: str
    map: maps.Map | None
    tensors: list[Related]


@dataclass(slots=True)
class Grid:
    """One heat map: values with a shade from 0 to 1, ``numbers`` where they can be read."""

    title: str
    rows: list[list[tuple[str, float, bool]]]
    columns: int
    numbers: bool


@dataclass(slots=True)
class HeatShown:
    """The maps of one rank; ``axes`` says which slice, ``corner`` where it starts."""

    axes: str
    corner: str
    grids: list[Grid]


@dataclass(slots=True)
class FindingShown:
    """One finding with its drawings."""

    number: int
    f: Finding
    scene: Scene | None
    heats: list[HeatShown]
    diff: list[tuple[str, str]]
    graph: int
    row: int


@dataclass(slots=True)
class OutputShown:
    """One line of the output relation with what the ranks return."""

    line: OutputRelation
    tensor: Related | None
    map: maps.Map | None


@dataclass(slots=True)
class Bar:
    """A labelled bar; ``share`` of the longest, from 0 to 1."""

    label: str
    text: str
    share: float


@dataclass(slots=True)
class Shown:
    """Everything that the templates read."""

    v: Verdict
    view: View
    word: str
    numbers: list[tuple[str, str]]
    findings: list[FindingShown]
    outputs: list[OutputShown]
    groups: list[Group]
    assumptions: list[tuple[str, list[str]]]
    seconds: list[Bar]
    lemmas: list[Bar]
    memory: list[tuple[Memory, float]]
    layouts: list[tuple[int, maps.Map]]


def prepare(verdict: Verdict, view: View, max_layouts: int) -> Shown:
    """Group and format; ``max_layouts`` of the maps beside the graphs are drawn."""
    total = int(view.ranks) if view.ranks.isdigit() else None
    drawn = _layouts(view, total)
    return Shown(
        v=verdict,
        view=view,
        word=_word(verdict),
        numbers=_numbers(verdict, view),
        findings=_findings(verdict, view),
        outputs=_outputs(verdict, view, drawn),
        groups=_groups(view, drawn),
        assumptions=_by_kind(verdict.assumptions),
        seconds=_bars(verdict.seconds.items(), lambda s: f"{s:.2f} s"),
        lemmas=_bars(sorted(verdict.lemmas.items(), key=lambda x: (-x[1], x[0])), count),
        memory=_memory(view.memory),
        layouts=list(enumerate(drawn))[:max_layouts],
    )


def _word(v: Verdict) -> str:
    """The verdict as a sentence; without a counterexample it was the protocol."""
    if v.status == "refuted" and not any(f.counterexample for f in v.findings):
        return "The collectives of the ranks do not fit together."
    return WORDS[v.status]


def _layouts(view: View, total: int | None) -> list[maps.Map]:
    return [maps.sheets(x, total) for x in view.layouts]


def _numbers(v: Verdict, view: View) -> list[tuple[str, str]]:
    """The figures at the top: number and what it counts."""
    proved = sum(o.status == "proved" for o in v.outputs)
    out = [(f"{proved}/{len(v.outputs)}", "outputs proved")]
    if v.findings:
        out.append((count(len(v.findings)), "finding" if len(v.findings) == 1 else "findings"))
    if view.ranks:
        mesh = " by ".join(f"{a}={n}" for a, n in view.mesh)
        out.append((view.ranks, f"ranks, {mesh}" if mesh else "rank"))
    nodes = v.nodes.get("sequential", 0) + v.nodes.get("distributed", 0)
    out += [(count(nodes), "operators")] if nodes else []
    out += [(f"{sum(v.seconds.values()):.2g} s", "CPU time")] if v.seconds else []
    return out


def _findings(v: Verdict, view: View) -> list[FindingShown]:
    out = []
    for k, f in enumerate(v.findings):
        w = view.findings[k] if k < len(view.findings) else FindingView()
        picture = scene(w.picture) if w.picture is not None and w.picture.boxes else None
        heats = [_heat(h) for h in w.heats if len(h.expected) * len(h.expected[0]) > 1]
        diff = [(_DIFF.get(line[:1], "same"), line) for line in w.diff]
        out.append(FindingShown(k + 1, f, picture, heats, diff, w.graph, w.row))
    return out


_DIFF = {"+": "added", "-": "removed", "@": "place"}


def _outputs(v: Verdict, view: View, drawn: list[maps.Map]) -> list[OutputShown]:
    order = {"refuted": 0, "open": 1, "proved": 2}
    out = []
    for k, line in enumerate(v.outputs):
        tensor = view.outputs[k] if k < len(view.outputs) else None
        laid = tensor is not None and tensor.layout != NONE
        out.append(OutputShown(line, tensor, drawn[tensor.layout] if tensor and laid else None))
    return sorted(out, key=lambda o: order[o.line.status])


def _groups(view: View, drawn: list[maps.Map]) -> list[Group]:
    out: dict[object, Group] = {}
    for r in view.inputs:
        m = drawn[r.layout] if r.layout != NONE else None
        key = (r.placement, m.key() if m is not None else None)
        out.setdefault(key, Group(r.placement, m, [])).tensors.append(r)
    return sorted(out.values(), key=lambda g: -len(g.tensors))


def _by_kind(pairs: list[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    out: dict[str, list[str]] = {}
    for kind, text in pairs:
        out.setdefault(kind, []).append(text)
    return list(out.items())


def _bars(items: Iterable[tuple[str, Any]], text: Callable[[Any], str]) -> list[Bar]:
    pairs = list(items)
    most = max((n for _, n in pairs), default=0) or 1
    return [Bar(label, text(n), n / most) for label, n in pairs]


def _memory(rows: list[Memory]) -> list[tuple[Memory, float]]:
    most = max((m.peak for m in rows), default=0) or 1
    return [(m, m.peak / most) for m in rows]


# ---------------------------------------------------------------- heat maps


def _heat(h: Heat) -> HeatShown:
    corner = f"from [{h.corner[0]}, {h.corner[1]}]" if any(h.corner) else ""
    both = [x for rows in (h.expected, h.found) for row in rows for x in row if x is not None]
    low, high = min(both, default=0.0), max(both, default=1.0)
    apart = [
        [None if a is None or b is None else abs(a - b) for a, b in zip(x, y, strict=True)]
        for x, y in zip(h.expected, h.found, strict=True)
    ]
    widest = max((x for row in apart for x in row if x is not None), default=0.0)
    grids = [
        _grid("sequential", h.expected, low, high, h.worst),
        _grid(h.rank, h.found, low, high, h.worst),
        _grid("difference", apart, 0.0, widest, h.worst),
    ]
    return HeatShown(h.axes, corner, grids)


def _grid(
    title: str, rows: list[list[float | None]], low: float, high: float, worst: list[int]
) -> Grid:
    width = (high - low) or 1.0
    shaded = [
        [
            (number(x), 1.0 if x is None else round((x - low) / width, 3), [i, j] == worst)
            for j, x in enumerate(row)
        ]
        for i, row in enumerate(rows)
    ]
    columns = len(rows[0]) if rows else 0
    return Grid(title, shaded, columns, columns <= 4)


# ---------------------------------------------------------------- filters


def number(x: float | None) -> str:
    """Four digits of a number."""
    if x is None or math.isnan(x):
        return "NaN"
    return f"{x:.4g}"


def count(n: int) -> str:
    """Thousands apart: ``12,345``."""
    return f"{n:,}"


def amount(n: int) -> str:
    """Bytes for people: ``1.5 GiB``."""
    size = float(n)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return ""


def where(s: Span) -> str:
    """The place of a span, the file by its last two folders."""
    if not s.file:
        return ""
    parts = s.file.split("/")
    return "/".join(parts[-3:]) + f":{s.line}"


def uneven(u: Uneven) -> str:
    """What was found with unequal counts, as a sentence."""
    return f"{UNEVEN[u.status]} ({u.counts})" + (f": {u.message}" if u.message else "")


def placement(text: str) -> str:
    """``Shard(0)`` for ``S(0)`` and so on, where the text is one placement."""
    head = text.split("(")[0]
    return text.replace(head, PLACEMENTS[head], 1) if head in PLACEMENTS else text


FILTERS: dict[str, Callable[..., Any]] = {
    "amount": amount,
    "count": count,
    "number": number,
    "placement": placement,
    "ranges": ranges,
    "uneven": uneven,
    "where": where,
}
