"""Which part of a line is underlined, and that lines stay inside their width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardproof.report.diagnostic import Span
from shardproof.report.snippet import extent, snippet


@pytest.mark.parametrize(
    ("code", "op", "marked"),
    [
        ("y = gelu(h)", "gelu", "gelu(h)"),
        ("y = torch.nn.functional.gelu(h) + 1", "gelu", "torch.nn.functional.gelu(h)"),
        ("x = x + self.norm(x)", "add", "+"),
        ("x += self.norm(x)", "add", "+="),
        ("loss = ((y - t) ** 2).mean()", "mean", "mean()"),
        (
            "dist.all_reduce(g, group=ctx.group)",
            "all_reduce",
            "dist.all_reduce(g, group=ctx.group)",
        ),
        ("return F.cross_entropy(self.head(", "cross_entropy", "F.cross_entropy(self.head("),
        ("y = F.scaled_dot_product_attention(q, k)", "attention", None),
        ("y = x @ w + b @ c", "matmul", "y = x @ w + b @ c"),
        ("y = x @ w + b", "aten.matmul", "@"),
        ("y = gelu(a) + gelu(b)", "gelu", "y = gelu(a) + gelu(b)"),
        ("y = wadd(a, b)", "add", "y = wadd(a, b)"),
        ("y = f(x)", "", "y = f(x)"),
        ("x = -1", "sub", "x = -1"),
        ("", "add", ""),
    ],
)
def test_the_part_that_computes_it(code: str, op: str, marked: str | None) -> None:
    start, length = extent(code, op)
    wanted = code[code.index("F.") :] if marked is None else marked
    assert code[start : start + length] == wanted


CODE = st.text(st.sampled_from("ab_.()[]+*@ ,'\"\\\t\nF"), max_size=200)


@given(CODE, st.sampled_from(["add", "a", "matmul", "ab", ""]), st.integers(60, 100), CODE)
def test_lines_fit_whatever_the_code(code: str, op: str, width: int, label: str) -> None:
    span = Span("distributed", "n", op, "f.py", 123, code=code)
    lines = list(snippet(span, " ".join(label.split()), ("^", "red"), 4, width))
    assert all(len(text) <= width for text, _ in lines)
    assert all("\n" not in text for text, _ in lines)
    assert len(lines) >= 2


def test_a_long_line_is_cut_around_the_mark() -> None:
    code = f"x = {'a + ' * 40}gelu(h)"
    span = Span("distributed", "n", "gelu", "f.py", 7, code=code)
    line, under = list(snippet(span, "", ("^", "red"), 2, 60))
    assert len(line[0]) <= 60
    start = under[0].index("^")
    assert line[0][start : start + 7] == "gelu(h)"
    assert "|  ..." in line[0]
