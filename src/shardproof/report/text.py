"""The report for people: one verdict as text, with colours where they can be shown.

The shape of a finding:

    SP110 partial value used as if it were replicated
      h is only this rank's term of the sum over tp
      --> model_tp.py:88 in forward      distributed: gelu = gelu
       |
    88 | y = gelu(h)
       |     ^^^^^^^ found: gelu of a partial value
      ::: model.py:40 in forward         sequential: gelu = gelu
       |
    40 | y = gelu(h)
       |     ------- expected: gelu(seq.h)
       = affects: y
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TextIO, TypeVar

from shardproof.report.diagnostic import (
    Counterexample,
    Finding,
    OutputRelation,
    Span,
    Uneven,
    Verdict,
)
from shardproof.report.snippet import snippet
from shardproof.report.words import ranges

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

T = TypeVar("T")
Line = tuple[str, str]
"""Text and rich style of one line."""

NARROWEST, WIDEST = 60, 100
"""Columns: narrower terminals wrap, wider ones are not filled."""

SHOWN = 8
"""How many entries of a long list are shown unless everything is asked for."""

_STATUS_STYLE = {"refines": "bold green", "refuted": "bold red", "unproved": "bold yellow"}

_ADVICE = {
    "refines": "",
    "refuted": "",
    "unproved": "No proof was found, and no input on which the two programs differ.",
}

SUGGESTED = "a suggestion, not checked"
_PARTIAL = "This report is partial: what is not listed as proved was not reached."


def render(verdict: Verdict, *, width: int = 80, full: bool = False) -> list[Line]:
    """The report as styled lines of at most ``width`` columns where words allow it."""
    return list(_Report(verdict, width, full).lines())


def plain(verdict: Verdict, *, width: int = 80, full: bool = False) -> str:
    """The report without styles."""
    return "".join(f"{text}\n" for text, _ in render(verdict, width=width, full=full))


def write(verdict: Verdict, file: TextIO, *, full: bool = False) -> None:
    """Print the report; colours only on a terminal, and not with NO_COLOR."""
    print_lines(lambda width: render(verdict, width=width, full=full), file)


def print_lines(make: Callable[[int], list[Line]], file: TextIO) -> None:
    """Print what ``make`` lays out for the width of ``file``: that of a terminal, else 80."""
    console = _console(file)
    width = max(NARROWEST, min(console.width, WIDEST)) if console.is_terminal else 80
    for text, style in make(width):
        console.print(_styled(text, style), soft_wrap=True)


def _console(file: TextIO) -> Console:
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            """Tell the caller, who knows the exit code; rich would end the process with 1."""
            raise BrokenPipeError("the reader went away")

    return Plain(file=file, highlight=False, markup=False, emoji=False)


def render_finding(finding: Finding, *, width: int = 80, full: bool = False) -> list[Line]:
    """One finding as styled lines."""
    return list(_Report(Verdict("", "refuted"), width, full).finding(finding))


def _styled(text: str, style: str) -> Text:
    from rich.text import Text

    return Text(text, style=style)


def headline(verdict: Verdict) -> str:
    """The first line of every report."""
    if verdict.status == "refines":
        return f"refines ({verdict.certificate})" if verdict.certificate else "refines"
    if not verdict.interrupted:
        return verdict.status
    word = "refuted" if verdict.status == "refuted" else "no verdict"
    return f"{word} (interrupted at: {verdict.interrupted})"


def counts(verdict: Verdict) -> str:
    """One line of numbers, such as ``1 of 1 outputs proved; 24 left out; 3,210 nodes; 1.2 s``."""
    proved = sum(o.status == "proved" for o in verdict.outputs)
    parts = [f"{proved} of {len(verdict.outputs)} outputs proved"]
    parts += [_count(len(verdict.findings), "finding")] if verdict.findings else []
    parts += [f"{len(verdict.left_out)} left out"] if verdict.left_out else []
    parts += [_count(len(verdict.assumptions), "assumption")] if verdict.assumptions else []
    nodes = verdict.nodes.get("sequential", 0) + verdict.nodes.get("distributed", 0)
    parts += [_count(nodes, "node")] if nodes else []
    seconds = sum(verdict.seconds.values())
    parts += [f"{seconds:.1f} s"] if verdict.seconds else []
    parts += ["from the cache"] if verdict.cached else []
    return "; ".join(parts)


class _Report:
    def __init__(self, verdict: Verdict, width: int, full: bool) -> None:
        self.verdict = verdict
        self.width = width
        self.full = full

    def lines(self) -> Iterator[Line]:
        v = self.verdict
        yield headline(v), _STATUS_STYLE[v.status]
        yield from self.wrapped(f"{v.name}: {counts(v)}", "  ")
        advice = _PARTIAL if v.interrupted else _ADVICE[v.status]
        if advice:
            yield from self.wrapped(advice, "  ")
        for note in v.notes:
            yield from self.wrapped(f"note: {note}", "  ", "bold yellow")
        if v.replay:
            yield from self.wrapped(v.replay, "  ")
        if v.certificate_note:
            yield from self.wrapped(f"certificate: {v.certificate_note}", "  ")
        yield from self.uneven(v.uneven)
        for finding in v.findings:
            yield "", ""
            yield from self.finding(finding)
        yield from self.section("output relation", self.outputs())
        yield from self.section("unknown operators", self.unknown())
        yield from self.section("input relation", self.listed(v.inputs))
        yield from self.section("assumptions", self.assumptions())
        yield from self.section("conditions", self.listed(v.conditions))
        yield from self.section("outputs without an expectation", self.names(v.left_out))
        yield from self.section("lemmas used", self.lemmas())
        yield from self.section("time", self.time())

    def uneven(self, u: Uneven | None) -> Iterator[Line]:
        if u is not None:
            style = "bold yellow" if u.status == "refuted" else ""
            yield from self.wrapped(unequal(u), "  ", style)

    def section(self, title: str, lines: Iterable[Line]) -> Iterator[Line]:
        body = list(lines)
        if body:
            yield "", ""
            yield title, "bold"
            yield from body

    def wrapped(
        self, text: str, first: str, style: str = "", rest: str | None = None
    ) -> Iterator[Line]:
        """``text`` after ``first``, later lines after as many spaces (or ``rest``)."""
        for k, part in enumerate(text.split("\n")):
            lead = first if k == 0 else (rest if rest is not None else " " * len(first))
            for line in textwrap.wrap(
                part,
                self.width,
                initial_indent=lead,
                subsequent_indent=rest if rest is not None else " " * len(first),
                break_long_words=False,
                break_on_hyphens=False,
            ) or [lead.rstrip()]:
                yield line, style

    # ---------------------------------------------------------------- findings

    def finding(self, f: Finding) -> Iterator[Line]:
        sure = "" if f.certain else " (might not hold)"
        yield from self.wrapped(
            f"{f.code} {f.title}{sure}", "", "bold red" if f.certain else "bold yellow"
        )
        yield from self.wrapped(f.message, "  ")
        gutter = self.gutter(f)
        said = []
        for s, arrow, label, text in (
            (f.primary, "-->", "found", f.found),
            (f.secondary, ":::", "expected", f.expected),
        ):
            if s is not None:
                under = s.label or (f"{label}: {text}" if text else "")
                under = under if s.label or self.fits(under, s, gutter) else ""
                said += [label] if under and not s.label else []
                yield from self.span(s, under, arrow, gutter)
        for label, text in _facts(f):
            if label not in said:
                yield from self.fact(label, text, gutter)
        yield from self.operands(f, gutter)
        if f.affected:
            yield from self.fact("affects", self.shortened(f.affected), gutter)
        if f.counterexample is not None:
            yield from self.fact("replayed", self.replayed(f.counterexample), gutter)
        last = [("fix", f.fix), ("checked", f.fix_checked)]
        last += [("or", f"{other} (checked too)") for other in f.other_fixes]
        for label, text in [*last, *(("note", note) for note in f.notes)]:
            if text:
                yield from self.fact(label, text, gutter)
            if label == "checked" and f.suggestion:
                yield from self.fact("source", SUGGESTED, gutter)
                yield from ((f"{' ' * (gutter + 5)}{line}", "") for line in f.suggestion)

    def gutter(self, f: Finding) -> int:
        lines = [s.line for s in (f.primary, f.secondary) if s is not None and s.code]
        return max([len(str(n)) for n in lines] + [2])

    def fits(self, label: str, s: Span, gutter: int) -> bool:
        """Whether a label has room on one line behind or below the mark of a snippet."""
        return bool(s.code) and len(label) <= self.width - gutter - 4

    def span(self, s: Span, label: str, arrow: str, gutter: int) -> Iterator[Line]:
        where = f"{s.file}:{s.line}" if s.file else "no source line known"
        where += f" in {s.function}" if s.function else ""
        yield from self.wrapped(where, f"{' ' * gutter}{arrow} ", "cyan", " " * (gutter + 4))
        if s.callers and arrow == "-->":
            called = f"called from {', '.join(s.callers[:3])}"
            yield from self.wrapped(called, f"{' ' * gutter} |  ")
        node = f"{s.graph} node {s.node}" + (f" ({s.op})" if s.op and s.op != s.node else "")
        yield from self.wrapped(node, f"{' ' * gutter} |  ")
        mark, style = ("^", "red") if arrow == "-->" else ("-", "cyan")
        if s.code:
            yield from snippet(s, label, (mark, style), gutter, self.width)
        elif label:
            yield from self.wrapped(f"{mark} {label}", f"{' ' * gutter} |  ", style)

    def fact(self, label: str, text: str, gutter: int) -> Iterator[Line]:
        yield from self.wrapped(f"{label}: {text}", f"{' ' * gutter} = ", "", " " * (gutter + 5))

    def replayed(self, c: Counterexample) -> str:
        sizes = self.shortened([f"{a} -> {b}" for a, b in c.sizes.items()])
        element = f"[{', '.join(map(str, c.element))}]" if c.element else ""
        lines = [f"{c.output}{element}, seed {c.seed}" + (f", sizes {sizes}" if sizes else "")]
        lines.append(f"sequential: {c.sequential_value!r}")
        lines += [f"{_on(rank)}: {value!r}" for rank, value in c.distributed_values.items()]
        lines.append(f"relative error: {c.relative_error:.3g}")
        if c.kept_constants:
            kept = list(dict.fromkeys(c.kept_constants))
            lines.append(f"constants kept as written: {self.shortened(kept)}")
        return "\n".join(lines)

    def operands(self, f: Finding, gutter: int) -> Iterator[Line]:
        if f.operands:
            yield f"{' ' * gutter} = operands:", ""
            for o in f.operands:
                yield from self.wrapped(
                    f"{o.name}: {o.meaning}", " " * (gutter + 5), "", " " * (gutter + 7)
                )

    # ---------------------------------------------------------------- lists

    def outputs(self) -> Iterator[Line]:
        order = {"refuted": 0, "open": 1, "proved": 2}
        outputs = sorted(self.verdict.outputs, key=lambda o: order[o.status])
        for o in self.some(outputs):
            yield from self.output(o)
        yield from self.more(outputs)

    def output(self, o: OutputRelation) -> Iterator[Line]:
        placement = f"   [{o.placement}]" if o.placement else ""
        if o.status == "proved":
            yield from self.wrapped(
                f"{o.seq_output} = {o.expression}{placement}", "  ", "", " " * 6
            )
        else:
            text = f"{o.seq_output}: {'does not hold' if o.status == 'refuted' else 'not proved'}"
            text += f", expected {o.placement}" if o.placement else ""
            text += f"; {o.expression}" if o.expression else ""
            yield from self.wrapped(text, "  ", "", " " * 6)

    def unknown(self) -> Iterator[Line]:
        unknown = self.verdict.unknown_operators
        if not unknown:
            return
        for name, count in sorted(unknown.items(), key=lambda kv: (-kv[1], kv[0])):
            yield from self.wrapped(f"{name} (x{count})", "  ")
        first = min(unknown)
        yield from self.wrapped(
            f'Say what an operator computes in the Spec: kernels={{"{first}": ...}}; '
            "see `shardproof explain SP200`.",
            "  ",
        )

    def assumptions(self) -> Iterator[Line]:
        kinds = dict.fromkeys(kind for kind, _ in self.verdict.assumptions)
        for kind in kinds:
            texts = [text for k, text in self.verdict.assumptions if k == kind]
            for text in self.some(texts):
                yield from self.wrapped(f"{kind}: {text}", "  ", "", " " * 6)
            yield from self.more(texts)

    def listed(self, texts: list[str]) -> Iterator[Line]:
        for text in self.some(texts):
            yield from self.wrapped(text, "  ", "", " " * 6)
        yield from self.more(texts)

    def names(self, names: list[str]) -> Iterator[Line]:
        if names:
            yield from self.wrapped(self.shortened(names), "  ")

    def lemmas(self) -> Iterator[Line]:
        used = sorted(self.verdict.lemmas.items(), key=lambda kv: (-kv[1], kv[0]))
        if used:
            texts = [f"{name} x{count}" for name, count in used]
            yield from self.wrapped(self.shortened(texts), "  ")

    def time(self) -> Iterator[Line]:
        if self.verdict.seconds:
            parts = [f"{stage} {s:.2f} s" for stage, s in self.verdict.seconds.items()]
            yield from self.wrapped(", ".join(parts), "  ")

    def shortened(self, names: list[str]) -> str:
        shown = names if self.full else names[:SHOWN]
        rest = len(names) - len(shown)
        return ", ".join(shown) + (f" and {rest} more" if rest else "")

    def some(self, items: list[T]) -> list[T]:
        return items if self.full else items[:SHOWN]

    def more(self, items: list[T]) -> Iterator[Line]:
        rest = len(items) - SHOWN
        if rest > 0 and not self.full:
            yield f"  and {rest} more (--full shows all)", "dim"


def unequal(u: Uneven) -> str:
    """What was found with unequal counts, as one sentence."""
    said = {
        "refines": f"also with unequal counts ({u.counts}): refines",
        "refuted": f"but not with unequal counts ({u.counts}): {u.message}",
        "unproved": f"with unequal counts ({u.counts}) it is not proved: {u.message}",
        "not tried": f"with unequal counts ({u.counts}) it was not tried: {u.message}",
    }
    return said[u.status]


def _facts(f: Finding) -> Iterator[tuple[str, str]]:
    if f.expected:
        yield "expected", f.expected
    if f.found:
        yield "found", f.found
    if f.ranks or f.axes:
        parts = [f"{ranges(f.ranks)}"] if f.ranks else []
        parts += [f"mesh axis {', '.join(f.axes)}"] if f.axes else []
        yield "ranks", "; ".join(parts)
    if f.collective:
        yield "collective", f.collective


def _on(rank: str) -> str:
    return f"rank {rank}" if rank.isdigit() else rank


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")
