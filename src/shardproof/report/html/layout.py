"""Geometry of a sharding map: for each group of ranks the tensor as a sheet, the part they hold
filled in."""

from __future__ import annotations

from dataclasses import dataclass

from shardproof.report.view import Holding, Layout
from shardproof.report.words import ranges

WIDTH, HEIGHT, LOW = 64, 44, 16
SHOWN = 8


@dataclass(frozen=True, slots=True)
class Sheet:
    """One small picture. ``parts`` are (x, y, width, height); ``hatched`` where they are terms of
    a sum."""

    title: str
    note: str
    parts: list[tuple[float, float, float, float]]
    hatched: bool


@dataclass(frozen=True, slots=True)
class Map:
    """The sharding map of one tensor; ``more`` sheets are not drawn."""

    sheets: list[Sheet]
    width: int
    height: int
    caption: str
    more: int

    def key(self) -> object:
        """Equal for maps that look the same, whatever the sizes."""
        return tuple((s.title, s.note, tuple(s.parts), s.hatched) for s in self.sheets), self.height


def sheets(layout: Layout, total: int | None) -> Map:
    """The drawing of a layout over ``total`` ranks."""
    shape = layout.shape
    rows, columns = _axes(layout)
    height = HEIGHT if rows is not None else LOW
    found = []
    for h in layout.holdings[:SHOWN]:
        note = f"sums {h.sums}" if h.sums else ""
        parts = _parts(h, shape, rows, columns, height)
        found.append(Sheet(_title(h, total), note, parts, bool(h.sums)))
    return Map(found, WIDTH, height, _caption(shape, rows, columns), len(layout.holdings) - SHOWN)


def _axes(layout: Layout) -> tuple[int | None, int | None]:
    """The axes drawn downwards and across: those that are cut, then the last ones."""
    shape = layout.shape
    cut = [q for q in range(len(shape)) if _is_cut(layout, q)]
    if len(shape) < 2:
        return None, (0 if shape else None)
    if len(cut) >= 2:
        return cut[0], cut[1]
    last = len(shape) - 1
    if not cut:
        return last - 1, last
    return (cut[0], last) if cut[0] != last else (last - 1, last)


def _is_cut(layout: Layout, q: int) -> bool:
    return any((b.lo[q], b.hi[q]) != (0, layout.shape[q]) for h in layout.holdings for b in h.boxes)


def _parts(
    h: Holding, shape: list[int], rows: int | None, columns: int | None, height: int
) -> list[tuple[float, float, float, float]]:
    out = []
    for b in h.boxes:
        x, w = _span(b.lo, b.hi, shape, columns, WIDTH)
        y, d = _span(b.lo, b.hi, shape, rows, height)
        out.append((x, y, w, d))
    return out


def _span(
    lo: list[int], hi: list[int], shape: list[int], q: int | None, room: int
) -> tuple[float, float]:
    if q is None or not shape[q]:
        return 0.0, float(room)
    start, end = lo[q] / shape[q] * room, hi[q] / shape[q] * room
    return round(start, 2), round(max(end - start, 1.0), 2)


def _title(h: Holding, total: int | None) -> str:
    if total is not None and len(h.ranks) == total:
        return "every rank" if total > 1 else "the rank"
    text = ranges(h.ranks)
    return f"rank {text}" if len(h.ranks) == 1 else f"ranks {text}"


def _caption(shape: list[int], rows: int | None, columns: int | None) -> str:
    text = f"[{', '.join(map(str, shape))}]"
    if columns is None:
        return "one number"
    if rows is None or len(shape) == 2:
        return text
    return f"{text}, dim {rows} down, dim {columns} across"
