"""The text report against golden files; set SHARDPROOF_UPDATE=1 to write them anew."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.report import verdicts

from shardproof.report import text
from shardproof.report.diagnostic import Counterexample, OutputRelation, Verdict

GOLDEN = Path(__file__).parent / "golden"
CASES: list[tuple[str, Callable[[], Verdict], bool]] = [
    ("refines", verdicts.refines, False),
    ("refines_full", verdicts.refines, True),
    ("refuted", verdicts.refuted, False),
    ("unproved", verdicts.unproved, False),
]


@pytest.mark.parametrize(("name", "make", "full"), CASES, ids=[c[0] for c in CASES])
def test_golden(name: str, make: Callable[[], Verdict], full: bool) -> None:
    found = text.plain(make(), full=full)
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("SHARDPROOF_UPDATE"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(found)
    assert found == path.read_text()


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("make", [c[1] for c in CASES])
def test_lines_fit(make: Callable[[], Verdict], width: int) -> None:
    assert all(len(line) <= width for line, _ in text.render(make(), width=width))


def test_first_line_is_the_verdict() -> None:
    first = [text.plain(c[1]()).split("\n")[0] for c in CASES]
    assert first == ["refines (certificate not checked)"] * 2 + ["refuted", "unproved"]
    assert text.headline(Verdict("a", "refines", certificate="")) == "refines"


def test_piped_output_has_no_colours() -> None:
    out = io.StringIO()
    text.write(verdicts.refuted(), out)
    assert "\x1b" not in out.getvalue()
    assert out.getvalue() == text.plain(verdicts.refuted())


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_colours_on_a_terminal_unless_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = Terminal()
    text.write(verdicts.refuted(), coloured)
    assert "\x1b[1;31mrefuted" in coloured.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    text.write(verdicts.refuted(), plain)
    assert "\x1b[1;31m" not in plain.getvalue()
    assert "31m" not in plain.getvalue()


def test_markup_in_names_is_not_read_as_style() -> None:
    verdict = Verdict("a[bold]b", "refines", left_out=["[red]x[/red]", ":smile:"])
    out = io.StringIO()
    text.write(verdict, out)
    assert "a[bold]b" in out.getvalue()
    assert "[red]x[/red], :smile:" in out.getvalue()


def test_long_lists_are_cut_and_shown_in_full() -> None:
    outputs = [OutputRelation(f"o{k}", f"rank0.o{k}", "proved") for k in range(20)]
    verdict = Verdict("long", "refines", outputs=outputs)
    assert "and 12 more (--full shows all)" in text.plain(verdict)
    assert "o19" not in text.plain(verdict)
    assert "o19" in text.plain(verdict, full=True)


def test_values_keep_full_precision() -> None:
    verdict = verdicts.refuted()
    verdict.findings[0].counterexample = Counterexample(
        "y", [0], {}, 1, [], 0.1 + 0.2, {"rank 0": 1 / 3}, 0.25
    )
    found = text.plain(verdict)
    assert "0.30000000000000004" in found
    assert "0.3333333333333333" in found
