"""Arguments for which a function has no value.

Identities hold where both programs are defined. Where the distributed program applies a root, a
logarithm or a division that the sequential one does not apply, it may lack a value that the
sequential one has, even if the result cancels later. What keeps it defined is shown from the form
of the argument, or listed in the verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from shardproof.infer.blocks import Lin, Term
from shardproof.infer.naming import Table
from shardproof.infer.roots import nonnegative
from shardproof.infer.terms import exponent
from shardproof.ops.base import PARTIAL

Test = Callable[[Term], bool]


def condition(table: Table, atom: int, positive: Test) -> str | None:
    """What the argument of a named instance must be for it to have a value, unless it is shown."""
    a = table.atoms[atom]
    d = a.definition
    if d is None:
        return None
    fn = d.fn.removesuffix(" operator")
    if fn == "power":
        return _of_root(table, a.name, d.operands[0], exponent(d.attrs[0]), positive)
    # A sum over no index is 0, and has no terms.
    if fn in PARTIAL and not (
        PARTIAL[fn] == "positive" and d.operands[0] and _all(d.operands[0], positive)
    ):
        return f"the argument of {a.name} is {PARTIAL[fn]}"
    if fn in ("prod", "sum"):
        factors = [(op[0][0], exponent(op[0][1])) for op in d.operands]
        if any(e < 0 and not positive(t) for t, e in factors):
            return f"{a.name} divides by what is nowhere zero"
    return None


def _of_root(table: Table, name: str, lin: Lin, power: Fraction, positive: Test) -> str | None:
    if not _all(lin, lambda t: nonnegative(table, t)):
        return f"what {name} takes a root of is {'nowhere negative' if power > 0 else 'positive'}"
    # Of terms that are nowhere negative a positive one is enough.
    if power < 0 and not any(positive(t) for t, _ in lin):
        return f"{name} divides by what is nowhere zero"
    return None


def _all(lin: Lin, test: Test) -> bool:
    return all(isinstance(c, Fraction) and c > 0 and test(t) for t, c in lin)
