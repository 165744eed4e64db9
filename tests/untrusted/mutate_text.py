"""Random changes of texts and of JSON documents, for Hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

PIECES = [
    "", " ", "\n", "0", "-1", "1", "7", "99999999999999999999", "[", "]", "(", ")", "{", "}", '"',
    "'", ",", ";", ":", "=", "%", "@", "->", "None", "true", "f32", "s32", "i64", "b8", "N", "x",
    ".", "1e400", "nan", "inf", "\x00", "\x1b[0m", "é", "\ud7ff", "#", "//", "*", "/", "1/0", "+",
    "graph", "return", "input", "mesh", "rank", "ENTRY", "ROOT", "calls=",
]  # fmt: skip


@st.composite
def changed_text(draw: st.DrawFn, texts: Sequence[str]) -> str:
    """A text with some pieces put in or taken out, lines moved, or cut short."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        how = draw(st.sampled_from(["piece", "piece", "piece", "copy", "line", "cut"]))
        if how == "piece":
            drop = draw(st.integers(0, 8))
            text = text[:at] + draw(st.sampled_from(PIECES)) + text[at + drop :]
        elif how == "copy":
            source = draw(st.integers(0, len(text)))
            text = text[:at] + text[source : source + draw(st.integers(1, 40))] + text[at:]
        elif how == "line":
            lines = text.split("\n")
            i, j = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
            lines[i], lines[j] = lines[j], lines[i]
            text = "\n".join(lines)
        elif draw(st.booleans()):
            text = text[:at]
    return text


LEAVES: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 10), st.just(10**30), st.floats(allow_nan=False),
    st.text(max_size=6), st.sampled_from(["N", "@tp", "1/0", "f32", "sum", "in"]), st.just([]),
    st.just({}),
)  # fmt: skip


@st.composite
def changed_data(draw: st.DrawFn, document: Any) -> Any:
    """A JSON document with a value in it replaced, repeated or left out, at some depth."""
    if not isinstance(document, dict | list) or not document:
        return draw(LEAVES)
    how = draw(st.sampled_from(["inside"] * 12 + ["drop", "repeat", "leaf"]))
    if how == "leaf":
        return draw(LEAVES)
    items = list(document.items()) if isinstance(document, dict) else list(enumerate(document))
    k = draw(st.integers(0, len(items) - 1))
    key, value = items[k]
    if how == "drop":
        del items[k]
    elif how == "repeat" and isinstance(document, list):
        items.insert(k, (key, value))
    else:
        items[k] = key, draw(changed_data(value))
    if isinstance(document, dict):
        return dict(items)
    return [v for _, v in items]
