"""The sequential operator that a distributed one was meant to be.

Among the named instances of the same function, the nearest one: same operands read elsewhere
(a wrong slice), same operands with other attributes, or sharing most operands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shardproof.diagnose.facts import is_partial
from shardproof.infer.blocks import Val
from shardproof.infer.naming import Atom, Def
from shardproof.infer.run import Inference
from shardproof.ir.graph import Node


@dataclass(slots=True)
class Near:
    """``difference`` is "index", "attribute" or "operand"."""

    atom: int
    node: Node | None
    difference: str
    operands: tuple[str, ...] = ()


def nearest(inf: Inference, foreign: int) -> Near | None:
    """The sequential value nearest to a value without meaning."""
    table = inf.evaluator.table
    d = table.definition(foreign)
    if d is None:
        return None
    best: tuple[float, int, Near] | None = None
    for k, atom in enumerate(table.atoms):
        if atom.foreign or atom.definition is None or atom.definition.fn != d.fn:
            continue
        score, why = _score(d, atom.definition)
        if score > 0 and (best is None or (score, -k) > (best[0], best[1])):
            best = (score, -k, Near(k, site_node(atom), why))
    return best[2] if best else None


def _score(a: Def, b: Def) -> tuple[float, str]:
    mine, other = _atoms(a), _atoms(b)
    shared = len(mine & other)
    if not shared:
        return 0.0, ""
    if mine == other:
        return (3.0, "index") if a.attrs == b.attrs else (2.5, "attribute")
    return shared / max(len(mine | other), 1), "operand"


def _atoms(d: Def) -> set[int]:
    return {t.atom for lin in d.operands for t, _ in lin}


def site_node(atom: Atom) -> Node | None:
    """The operator that first computed an atom."""
    site: Any = atom.site
    return site[1] if isinstance(site, tuple) and isinstance(site[1], Node) else None


def sequential_node(inf: Inference, v: Val | None) -> Node | None:
    """The sequential operator that computes what a value holds; of several, that of which it holds
    only a part of the sum."""
    table = inf.evaluator.table
    terms = [t for c in v.cells for t, _ in c.lin] if v is not None else []
    for t in sorted(terms, key=lambda t: not is_partial(t)):
        node = site_node(table.atoms[t.atom])
        if node is not None and not table.is_foreign(t.atom):
            return node
    return None
