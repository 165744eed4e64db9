"""A source line with the part underlined that an operator stands for."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from shardproof.report.diagnostic import Span

_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "scale": "*", "div": "/", "matmul": "@", "pow": "**",
}  # fmt: skip
_CALL = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)\s*\(")
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def extent(code: str, op: str) -> tuple[int, int]:
    """Start and length of the part of ``code`` that computes ``op``: the only call of that name,
    or the only sign for it; where neither is there the whole line."""
    name = op.rpartition(".")[2].strip("_")
    calls = [m for m in _CALL.finditer(code) if _means(m[1], name)]
    if len(calls) == 1:
        return calls[0].start(), _end(code, calls[0].end() - 1) - calls[0].start()
    sign = _SIGNS.get(name)
    if sign is not None and not calls:
        signs = list(re.finditer(rf"(?<=\s){re.escape(sign)}=?(?=\s)", code))
        if len(signs) == 1:
            return signs[0].start(), len(signs[0][0])
    return 0, len(code)


def _means(called: str, name: str) -> bool:
    """Whether a function of the user's stands for an operator: ``all_reduce_coalesced``,
    ``scaled_dot_product_attention`` for ``attention``."""
    words = called.strip("_").lower()
    return bool(name) and (words == name or f"_{name}_" in f"_{words}_")


def _end(code: str, opening: int) -> int:
    """Behind the bracket that closes the one at ``opening``; the end where it is on another line.
    Brackets in strings are few, and would only shorten or lengthen the underline."""
    expected = []
    for k in range(opening, len(code)):
        c = code[k]
        if c in _CLOSING:
            expected.append(_CLOSING[c])
        elif expected and c == expected[-1]:
            expected.pop()
            if not expected:
                return k + 1
    return len(code)


def snippet(
    s: Span, label: str, marked: tuple[str, str], gutter: int, width: int
) -> Iterator[tuple[str, str]]:
    """The line of a span, and under it the marked part with the label: lines with their styles,
    of at most ``width`` columns. ``marked`` is the sign to underline with, and its style."""
    mark, style = marked
    code = " ".join(s.code.split())
    room = width - gutter - 4
    code, start, length = _cut(code, *extent(code, s.op), room)
    yield f"{s.line:>{gutter}} |  {code}", "bold"
    lead = f"{' ' * gutter} |  "
    under = f"{' ' * start}{mark * length}"
    beside = start + length + 1 + len(label) <= room
    yield f"{lead}{under} {label if beside else ''}".rstrip(), style
    if label and not beside:
        indent = " " * min(start, max(0, room - len(label)))
        for part in textwrap.wrap(label, max(20, room - len(indent))):
            yield f"{lead}{indent}{part}", style


def _cut(code: str, start: int, length: int, room: int) -> tuple[str, int, int]:
    """A line cut to ``room`` columns so that the start of its marked part is in view."""
    if len(code) <= room:
        return code, start, length
    first = min(start, max(0, start + length - room + 6))
    if first:
        code, start = f"...{code[first:]}", start - first + 3
    code = code if len(code) <= room else f"{code[: room - 3]}..."
    return code, start, max(1, min(length, room - 3 - start))
