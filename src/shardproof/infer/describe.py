"""Meanings in words: ``h[:, 512:1024], partial over k in [0, 256) of 512``."""

from __future__ import annotations

from shardproof.infer.blocks import Box, Term, Val
from shardproof.infer.coef import Coef, format_coef
from shardproof.infer.evaluate import Evaluator
from shardproof.infer.naming import UNIT
from shardproof.ir.sizes import Size

MAX_CELLS = 3
MAX_TERMS = 4


def describe(ev: Evaluator, v: Val, max_cells: int = MAX_CELLS) -> str:
    """The meaning of a value in terms of named sequential values."""
    if not v.cells:
        return "empty"
    cells = []
    for c in v.cells[:max_cells]:
        terms = [term(ev, c.lo, c.hi, t, k) for t, k in c.lin[:MAX_TERMS]]
        text = " + ".join(terms) if terms else "0"
        if len(c.lin) > MAX_TERMS:
            text += f" + {len(c.lin) - MAX_TERMS} more"
        cells.append(text)
    more = f" | {len(v.cells) - max_cells} more pieces" if len(v.cells) > max_cells else ""
    return " | ".join(cells) + more


def term(ev: Evaluator, lo: Box, hi: Box, t: Term, c: Coef) -> str:
    """One term over a box."""
    if t.atom == UNIT:
        return format_coef(c)
    a = ev.table.atoms[t.atom]
    name = a.name if not a.foreign else f"<{a.name}>"
    text = name + index_text(lo, hi, t)
    if c != 1:
        text = f"{format_coef(c)}*{text}"
    if t.restr:
        text += "{" + ", ".join(_partial(ev, r) for r in t.restr) + "}"
    return text


def index_text(lo: Box, hi: Box, t: Term) -> str:
    """The index ranges that a term reads, one an atom axis."""
    if not t.off:
        return ""
    spans = []
    for q, first in enumerate(t.off):
        low, high = first, first
        for j, w in enumerate(t.ax):
            if w is not None and w[0] == q:
                low, high = low + w[1] * lo[j], high + w[1] * (hi[j] - 1)
        spans.append(f"{low}:{high + 1}")
    return "[" + ", ".join(spans) + "]"


def _partial(ev: Evaluator, r: tuple[object, Size, Size]) -> str:
    label, lo, hi = r
    full = ev.table.full(label)  # type: ignore[arg-type]
    of = f" of {full[1] - full[0]}" if full is not None else ""
    return f"partial {lo}:{hi}{of}"
