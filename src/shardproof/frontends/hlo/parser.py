"""Parser of HLO text. It reads data and evaluates nothing."""

from __future__ import annotations

import re

from shardproof.errors import InputError, shorten
from shardproof.frontends.hlo.module import Computation, Instruction, Module, Tables
from shardproof.frontends.hlo.shapes import HloSyntaxError, parse_shape

MAX_LINES = 1_000_000
_HEAD = re.compile(r"(ENTRY\s+)?%?([\w.\-]+)\s*(?:\(.*)?\{\s*$")
_LEFT = re.compile(r"\s*(ROOT\s+)?%?([\w.\-]+)\s*=\s*")
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\(")
_INDEX = re.compile(r"/\*i\d*(?:ndex)?=[\d,i=]*\*/")
_MARK = re.compile(r'"(?:[^"\\]|\\.)*"|[{}()\[\],]')
_TABLE_ROW = re.compile(r'(\d+)\s+(?:"((?:[^"\\]|\\.)*)"|\{(.*)\})\s*$')
_FIELD = re.compile(r"(\w+)=(\d+)")
_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
EXPECTED = "HLO text, as printed by jax.jit(f).lower(x).compile().as_text()"
NEXT_STEP = "print the module again, and pass the whole text"


def looks_like_hlo(text: str) -> bool:
    """Whether a text is an HLO module."""
    return text.lstrip()[:10] == "HloModule "


def parse_module(text: str, path: str = "<text>") -> Module:
    """Read one module.

    Raises:
        InputError: the text is no complete HLO module.
    """
    return _Parser(text, path).run()


class _Parser:
    def __init__(self, text: str, path: str) -> None:
        self.path = path
        self.lines = text.split("\n")
        self.tables = Tables()
        self.table = ""
        self.computations: dict[str, Computation] = {}
        self.entry: Computation | None = None
        self.open: Computation | None = None

    def run(self) -> Module:
        if len(self.lines) > MAX_LINES:
            raise self.error(MAX_LINES, f"the text has more than {MAX_LINES} lines")
        start = next((k for k, ln in enumerate(self.lines) if ln.strip()), 0)
        header = self.lines[start]
        if not header.startswith("HloModule "):
            raise self.error(start + 1, f"the text starts with {shorten(header, 60)!r}")
        k = start + 1
        while k < len(self.lines):
            line, number = self.lines[k], k + 1
            k += 1
            if self.open is None:
                self.outside(line, number)
            elif line.startswith("}"):
                self.close()
            elif line.strip():
                while not _balanced(line) and k < len(self.lines):
                    line = f"{line} {self.lines[k].strip()}"
                    k += 1
                self.instruction(line, number)
        return self.finish(header)

    def finish(self, header: str) -> Module:
        if self.open is not None:
            raise self.error(len(self.lines), f"the computation {self.open.name!r} does not end")
        entry = self.entry or (
            list(self.computations.values())[-1] if len(self.computations) == 1 else None
        )
        if entry is None:
            raise self.error(1, "the module has no ENTRY computation")
        name = re.split(r"[,\s]", header.split(None, 1)[1])[0] if " " in header else ""
        return Module(name, self.path, header, self.computations, entry)

    # ---------------------------------------------------------------- outside computations

    def outside(self, line: str, number: int) -> None:
        if not line.strip():
            return
        if line.strip() in _TABLES:
            self.table = line.strip()
            return
        row = _TABLE_ROW.match(line) if self.table and line[:1].isdigit() else None
        if row is not None:
            self.row(int(row[1]), row[2], dict(_FIELD.findall(row[3] or "")))
            return
        head = _HEAD.match(line)
        if head is None:
            raise self.error(number, f"{shorten(line, 60)!r} is no computation")
        self.table = ""
        self.open = Computation(head[2], number)
        if head[1]:
            self.entry = self.open

    def row(self, key: int, text: str | None, fields: dict[str, str]) -> None:
        numbers = {name: int(value) for name, value in fields.items()}
        if self.table == "FileNames":
            self.tables.files[key] = text or ""
        elif self.table == "FunctionNames":
            self.tables.functions[key] = text or ""
        elif self.table == "FileLocations":
            self.tables.locations[key] = numbers
        else:
            self.tables.frames[key] = numbers.get("file_location_id", 0)

    def close(self) -> None:
        assert self.open is not None
        done, self.open = self.open, None
        if done.root is None and done.instructions:
            done.root = done.instructions[-1]
        if done.root is None:
            raise self.error(done.line, f"the computation {done.name!r} is empty")
        self.computations[done.name] = done

    # ---------------------------------------------------------------- instructions

    def instruction(self, line: str, number: int) -> None:
        assert self.open is not None
        try:
            made, root = self.read(line, number)
        except HloSyntaxError as e:
            raise self.error(number, str(e)) from e
        self.open.instructions.append(made)
        if root:
            self.open.root = made

    def read(self, line: str, number: int) -> tuple[Instruction, bool]:
        if "/*i" in line:
            line = _INDEX.sub("", line)
        left = _LEFT.match(line)
        if left is None:
            raise HloSyntaxError(f"{shorten(line, 60)!r} is no instruction")
        shape, at = parse_shape(line, left.end())
        op = _OPCODE.match(line, at)
        if op is None:
            raise HloSyntaxError(f"{shorten(line[at:], 40)!r} is no operator")
        inside, at = _parts(line, op.end(), ")")
        attrs = _attributes(_parts(line, at, "")[0])
        literal = ""
        operands: tuple[str, ...] = ()
        if op[1] in ("constant", "parameter"):
            literal = ",".join(inside)
        else:
            operands = tuple(x.split()[-1].lstrip("%") for x in inside if x.strip())
        if op[1] == "parameter" and not literal.isdigit():
            raise HloSyntaxError("a parameter without number")
        origin = self.tables.origin(attrs.pop("metadata", ""))
        made = Instruction(left[2], op[1], shape, operands, literal, attrs, number, origin)
        return made, bool(left[1])

    def error(self, line: int, what: str) -> InputError:
        return InputError(what, f"{self.path}:{line}", EXPECTED, NEXT_STEP)


def _balanced(line: str) -> bool:
    """Whether an instruction ends on its line; literals may go on for several."""
    if line.count("{") == line.count("}") and line.count("(") == line.count(")"):
        return True
    depth = 0
    for m in _MARK.finditer(line):
        depth += {"{": 1, "(": 1, "[": 1, "}": -1, ")": -1, "]": -1}.get(m[0], 0)
    return depth <= 0


def _parts(line: str, at: int, end: str) -> tuple[list[str], int]:
    """The comma-separated parts from ``at`` to the closing ``end`` (or the end of the line)."""
    parts: list[str] = []
    depth, start = 0, at
    for m in _MARK.finditer(line, at):
        c = m[0]
        if c == "," and depth == 0:
            parts.append(line[start : m.start()].strip())
            start = m.end()
        elif c in ("{", "(", "["):
            depth += 1
        elif c == end and depth == 0:
            return [*parts, line[start : m.start()].strip()], m.end()
        elif c in ("}", ")", "]"):
            depth -= 1
    if end:
        raise HloSyntaxError(f"a missing {end!r}")
    return [*parts, line[start:].strip()], len(line)


def _attributes(parts: list[str]) -> dict[str, str]:
    out: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if equals:
            out[key.strip()] = value.strip()
    return out
