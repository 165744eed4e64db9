"""Finds printed FX graphs in a file: module files, logs, logs of several ranks in one stream."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from shardproof.errors import InputError, shorten

MAX_BYTES = 64 * 1024 * 1024
HEAD_BYTES = 4 * 1024 * 1024
"""A file whose first part holds no ``def forward(`` is refused without reading the rest."""
MAX_LINES = 1_000_000
_HEADER_LENGTH = 2000  # no line with a title or a class is longer

EXPECTED = "an FX graph as printed by GraphModule.print_readable() or TORCH_LOGS=aot_graphs"
NEXT_STEP = (
    "print the graph again with print_readable() (ATen operators, one file a rank) "
    "and pass that file"
)

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PREFIX = re.compile(
    r"(?:\[?(?:\w+\.)?rank(?P<rank>\d+)\]?:\s?)?"
    r"(?:[VDIWEF]\d{4} \d\d:\d\d:\d\d\.\d+ (?:\d+ )?[^ \]]+:\d+\] ?(?:\[[^\]\s]*\] ?)*"
    r"|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\] (?:\[[^\]\s]*\] )*[\w.]+: \[\w+\] ?)"
)
_RANK = re.compile(r"\[?(?:\w+\.)?rank(\d+)\]?:\s?")
_CLASS = re.compile(r"(?:\S+ )?class ([\w.<>]+)\(.*\):\s*$")
_TITLE = re.compile(r"={3,} (.+?) ={3,}")
_GRAPH_LABEL = re.compile(r"# Graph\[([^\]]*)\]\((\w+)")


class Line(NamedTuple):
    """One line of the file without log prefix and colours, and its number there."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class GraphText:
    """The lines of one printed graph, from ``def forward`` on."""

    name: str
    title: str
    phase: str
    path: str
    lines: tuple[Line, ...]
    indent: int

    def where(self, line: int | None = None) -> str:
        """``file:line`` for messages."""
        return f"{self.path}:{self.lines[0].number if line is None else line}"


def read_text(source: str | Path) -> tuple[str, str]:
    """``(text, name for messages)`` of a path, or of text that is given directly.

    A string with a line break is text, any other string a path.

    Raises:
        InputError: no such file, not text, too large, or no printed graph near its start.
    """
    if isinstance(source, str) and "\n" in source:
        _check_head(source[:HEAD_BYTES], "<text>")
        _check_size(len(source), "<text>")
        _check_lines(source, "<text>")
        return source, "<text>"
    path = str(source)
    try:
        with open(path, "rb") as f:
            head = f.read(HEAD_BYTES)
            # The head decides before anything large is read into memory.
            _check_head(_decode(head, path, partial=True), path)
            size = f.seek(0, 2)
            _check_size(size, path)
            f.seek(len(head))
            text = _decode(head + f.read(), path)
            _check_lines(text, path)
            return text, path
    except (OSError, ValueError) as e:
        raise InputError(
            f"cannot read {shorten(path)}: {getattr(e, 'strerror', None) or e}",
            shorten(path, 300),
            "a readable text file with a printed FX graph",
            "check the path",
        ) from e


def _decode(raw: bytes, path: str, partial: bool = False) -> str:
    if b"\0" in raw:
        raise InputError("the file is binary, not text", path, EXPECTED, NEXT_STEP)
    try:
        return raw.decode()
    except UnicodeDecodeError as e:
        if partial and e.start >= len(raw) - 4:
            return raw[: e.start].decode()
        line = raw.count(b"\n", 0, e.start) + 1
        raise InputError("the file is not UTF-8 text", f"{path}:{line}", EXPECTED, NEXT_STEP) from e


def _check_lines(text: str, path: str) -> None:
    if text.count("\n") > MAX_LINES:
        raise InputError(
            f"the file has more than {MAX_LINES} lines",
            f"{path}:{MAX_LINES + 1}",
            "one printed graph a file",
            "cut the file down to the graph, or print fewer graphs into it",
        )


def _check_size(size: int, path: str) -> None:
    if size > MAX_BYTES:
        raise InputError(
            f"the file has {size // 2**20} MiB, more than the limit of {MAX_BYTES // 2**20} MiB",
            path,
            "one printed graph a file",
            "cut the file down to the graph, or print fewer graphs into it",
        )


def _check_head(head: str, path: str) -> None:
    if "\x1b" in head:
        head = _ANSI.sub("", head)
    if "def forward(" in head:
        return
    first = next((ln for ln in head[:4000].splitlines() if ln.strip()), "")
    raise InputError(
        f"no printed FX graph found; the file starts with {shorten(first, 60)!r}",
        f"{path}:1",
        EXPECTED,
        NEXT_STEP,
    )


def clean_lines(text: str, rank: int | None = None) -> list[Line]:
    """Lines without colours and log prefixes. Where several ranks logged into one stream, only
    the lines of ``rank`` are kept; where graphs were logged, lines of other output are dropped.
    """
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    raw = text.split("\n")
    logged = any("def forward(" in ln and _PREFIX.match(ln) for ln in raw)
    if not logged and not (text.startswith(("[rank", "[default")) or "\n[rank" in text):
        return [Line(k, ln.rstrip("\r")) for k, ln in enumerate(raw, 1)]
    out: list[Line] = []
    for k, ln in enumerate(raw, 1):
        m = _PREFIX.match(ln) or (None if logged else _RANK.match(ln))
        if m is None:
            if not logged:
                out.append(Line(k, ln.rstrip("\r")))
            continue
        of_rank = m["rank"] if m.re is _PREFIX else m[1]
        if rank is None or of_rank is None or int(of_rank) == rank:
            out.append(Line(k, ln[m.end() :].rstrip("\r")))
    return out


def find_graphs(lines: list[Line], path: str) -> list[GraphText]:
    """All printed graphs; submodules that are printed inside another one are left out."""
    starts: list[tuple[int, str, str, str, int]] = []
    name, title, phase = "forward", "", ""
    for k, line in enumerate(lines):
        text = line.text
        if len(text) > _HEADER_LENGTH and "def forward(" not in text:
            continue
        if "===" in text and (m := _TITLE.search(text)):
            title, phase = m[1], m[1].split()[0].lower()
        elif text.startswith("# Graph[") and (m := _GRAPH_LABEL.match(text)):
            title, phase = f"{m[2]} ({m[1]})", _PHASES.get(m[2], m[2])
        elif text.lstrip().startswith("def forward("):
            starts.append((k, name, title, phase, len(text) - len(text.lstrip())))
            title = phase = ""
        elif "class " in text and (m := _CLASS.search(text)):
            name = m[1]
    graphs: list[GraphText] = []
    for n, (k, name, title, phase, indent) in enumerate(starts):
        end = starts[n + 1][0] if n + 1 < len(starts) else len(lines)
        if graphs and not title and indent > graphs[0].indent:
            continue
        graphs.append(GraphText(name, title, phase, path, tuple(lines[k:end]), indent))
    return graphs


_PHASES = {"fw": "forward", "bw": "backward", "both": "joint"}


def choose_graph(graphs: list[GraphText], wanted: str | int | None, path: str) -> GraphText:
    """The graph to read, by position or by (part of) its title or class name.

    Raises:
        InputError: there is no such graph, or there are several and none was named.
    """
    if isinstance(wanted, int) and 0 <= wanted < len(graphs):
        return graphs[wanted]
    found = graphs
    if isinstance(wanted, str):
        key = wanted.lower()
        exact = [g for g in graphs if g.title.lower() == key]
        found = exact or [g for g in graphs if key in g.title.lower() or key in g.name.lower()]
    if len(found) == 1 and not isinstance(wanted, int):
        return found[0]
    titles = ", ".join(repr(g.title or g.name) for g in graphs[:8])
    if not graphs:
        raise InputError("no printed FX graph found" + _other_rank(), path, EXPECTED, NEXT_STEP)
    if wanted is None:
        what = f"the file holds {len(graphs)} graphs and none was chosen"
    else:
        count = 0 if found is graphs else len(found)
        what = f"graph {wanted!r} names {count or 'none'} of them"
    raise InputError(
        what, graphs[0].where(), f"one of: {titles}", 'choose one with graph="<title>"'
    )


def _other_rank() -> str:
    return " (if several ranks logged into one stream, none of these lines is of this rank)"
