"""The file form of a certificate: one JSON document that holds the problem and the proof.

Nothing in it is executed, and every number, index and label is checked before it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any

import msgspec

from shardproof.certificate.claims import Atom, Cell, Claims, Inner, Lin, Meaning, Piece, Term
from shardproof.certificate.copies import Copy, Layer, Template
from shardproof.certificate.exact import Coef, NotChecked, quotient, whole
from shardproof.ir.graph import Graph, Mesh, Program, Value
from shardproof.ir.lexer import TextError, tokenize
from shardproof.ir.parser import parse_graph, parse_size
from shardproof.ir.sizes import Poly, Size, Symbol, at_least, symbols
from shardproof.ir.terms import Terms
from shardproof.ops.base import infer_types
from shardproof.spec.problem import Assumption, Obligation, Problem

VERSION = 1
KIND = "shardproof certificate"
MAX_TEXT = 4000
MAX_DEPTH = 60

Number = int | str
Ratio = int | str | tuple[Number, Number]
Walk = tuple[int, Number] | None
Sizes = tuple[Number, ...]


class Row(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Base of the rows of the tables."""


class TermRow(Row):
    atom: int
    ax: list[Walk]
    off: Sizes
    restr: list[tuple[list[Any], Number, Number]]


Entry = Annotated[int, msgspec.Meta(ge=0)]
"""The number of a row of an earlier table; one past its end is an IndexError."""
LinRow = list[tuple[Entry, Ratio]]


class AtomRow(Row):
    name: str
    fn: str
    attrs: str
    operands: list[LinRow]
    lo: Sizes
    hi: Sizes
    n_free: int
    whole: list[int]


class MeaningRow(Row):
    dims: list[Sizes]
    cells: list[tuple[Sizes, Sizes, LinRow]]
    base: Entry | None = None
    pieces: list[tuple[Number | None, Number | None, int, Number]] = []


class InnerRow(Row):
    """The meanings of the results of one inner node of an opened operator, and of what that was
    opened to itself."""

    results: list[Entry | None]
    inner: list[InnerRow] | None = None


class TemplateRow(Row):
    """A layer that is checked once: its graph (0 is the sequential one), its nodes, the atoms that
    are made in it and those that its copies rename, and the sequential template that it follows."""

    graph: int
    at: int
    period: int
    made: list[int]
    moved: list[int]
    of: Entry | None = None


class CopyRow(Row):
    """A copy of a template from node ``at``, what its atoms are called, and the sequential copy
    that it follows."""

    template: Entry
    at: int
    new: list[int]
    of: Entry | None = None


class Proof(msgspec.Struct, forbid_unknown_fields=True):
    """Tables of atoms, terms and meanings, and which meaning each value has; none where a value
    is a rearrangement of others."""

    atoms: list[AtomRow]
    terms: list[TermRow]
    meanings: list[MeaningRow]
    sequential: list[Entry | None]
    distributed: list[list[Entry | None]]
    opened: list[tuple[Entry, Entry, list[InnerRow]]] = []
    templates: list[TemplateRow] = []
    copies: list[CopyRow] = []


class ObligationRow(msgspec.Struct, forbid_unknown_fields=True):
    sequential: str
    distributed: str
    expected: list[int | None]
    placement: str
    partial_over: list[str] = []


class Evaluated(msgspec.Struct, forbid_unknown_fields=True):
    """The folded problem: one graph (``inner`` empty) or one a class of ranks."""

    inner: list[str]
    graphs: list[int]
    relation: list[int]
    expected: list[list[int | None]]


class Document(msgspec.Struct, forbid_unknown_fields=True):
    """Graphs stand in ``texts``; all else refers to them by number."""

    kind: str
    version: int
    name: str
    texts: list[str]
    sequential: int
    mesh: list[tuple[str, Number]]
    spmd: bool
    graphs: list[int]
    relation: list[int]
    obligations: list[ObligationRow]
    assumptions: list[tuple[str, str]]
    left_out: list[str]
    fixed: dict[str, float]
    assumed: list[str]
    proof: Proof
    evaluated: Evaluated | None = None


def decode(data: bytes) -> Document:
    """Read a document.

    Raises:
        NotChecked: it is not one.
    """
    try:
        doc = msgspec.json.decode(data, type=Document)
    except (msgspec.MsgspecError, RecursionError, ValueError) as e:
        raise NotChecked(f"not a certificate: {e}") from None
    if doc.kind != KIND or doc.version != VERSION:
        raise NotChecked(f"not a certificate of version {VERSION}")
    return doc


def problems(doc: Document) -> tuple[Problem, Problem]:
    """The problem, and the one that was evaluated (the same where nothing was folded).

    Raises:
        NotChecked: a graph is not well formed.
    """
    reader = _Graphs(doc.texts)
    mesh = Mesh(tuple((a, _mesh_size(n)) for a, n in doc.mesh))
    if len({a for a, _ in mesh.axes}) != len(mesh.axes):
        raise NotChecked("a mesh axis is named twice")
    sequential = reader.new(doc.sequential)
    obligations = [
        Obligation(o.sequential, o.distributed, [reader.shared(k) for k in o.expected],
                   o.placement, tuple(o.partial_over))
        for o in doc.obligations
    ]  # fmt: skip
    assumptions = [Assumption(k, t) for k, t in doc.assumptions]

    def problem(program: Program, relation: list[int], obs: list[Obligation]) -> Problem:
        graphs = [g for k in relation if (g := reader.shared(k)) is not None]
        return Problem(doc.name, sequential, program, graphs, obs, assumptions, list(doc.left_out))

    original = problem(
        Program(mesh, [reader.new(k) for k in doc.graphs], spmd=doc.spmd), doc.relation, obligations
    )
    e = doc.evaluated
    if e is None:
        return original, original
    graphs = [reader.new(k) for k in e.graphs]
    if e.inner:
        outer = Mesh(tuple((a, n) for a, n in mesh.axes if a not in e.inner))
        inner = Mesh(tuple((a, n) for a, n in mesh.axes if a in e.inner))
        program = Program(outer, graphs, inner=inner)
    else:
        program = Program(mesh, graphs, spmd=True)
    if len(e.expected) != len(obligations):
        raise NotChecked("an obligation is missing")
    folded = [
        Obligation(o.seq_output, o.dist_output, [reader.shared(k) for k in x], o.placement,
                   o.partial_over)
        for o, x in zip(obligations, e.expected, strict=True)
    ]  # fmt: skip
    return original, problem(program, e.relation, folded)


class _Graphs:
    """Parses texts; graphs that are only read through are parsed once."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self._made: dict[int, Graph] = {}

    def new(self, k: int) -> Graph:
        if not 0 <= k < len(self.texts):
            raise NotChecked("a graph that is not in the document")
        try:
            return parse_graph(self.texts[k], infer_types).graph
        except TextError as e:
            raise NotChecked(f"graph {k}: {e}") from None

    def shared(self, k: int | None) -> Graph | None:
        if k is None:
            return None
        if k not in self._made:
            self._made[k] = self.new(k)
        return self._made[k]


def _mesh_size(n: Number) -> Size:
    try:
        out = n if isinstance(n, int) else parse_size(n[:MAX_TEXT])
    except TextError as e:
        raise NotChecked(f"mesh: {e}") from None
    if not at_least(out, 1):
        raise NotChecked("a mesh axis without ranks")
    return out


# ------------------------------------------------------------------ the proof


def claims(proof: Proof, problem: Problem) -> Claims:
    """The claims about the evaluated problem.

    Raises:
        NotChecked: an entry refers to something that does not exist.
    """
    return _Reader(proof, problem).claims()


class _Reader:
    def __init__(self, proof: Proof, problem: Problem) -> None:
        self.proof, self.problem = proof, problem
        found = _symbols(problem)
        self.symbols = {s.name: s for s in found}
        if len(self.symbols) != len(found):
            raise NotChecked("two size symbols of one name")
        self._sizes: dict[str, Size] = {}
        self.assumed: dict[str, None] = {}

    def claims(self) -> Claims:
        terms = [self.term(t) for t in self.proof.terms]

        def lin(row: LinRow) -> Lin:
            return tuple([(terms[k], c if isinstance(c, int) else self.ratio(c)) for k, c in row])

        atoms = [
            Atom(a.name, a.fn, self.attrs(a.attrs), tuple(map(lin, a.operands)), self.box(a.lo),
                 self.box(a.hi), a.n_free, tuple(sorted(set(a.whole))))
            for a in self.proof.atoms
        ]  # fmt: skip
        made: list[Meaning] = []
        for m in self.proof.meanings:
            cells = tuple(Cell(self.box(lo), self.box(hi), lin(x)) for lo, hi, x in m.cells)
            base = None if m.base is None else made[m.base]
            pieces = tuple(
                Piece(self.bound(lo), self.bound(hi), a, self.size(c)) for lo, hi, a, c in m.pieces
            )
            made.append(Meaning(tuple(map(self.box, m.dims)), cells, base, pieces))
        graphs = [self.problem.sequential, *self.problem.distributed.graphs]
        rows = [self.proof.sequential, *self.proof.distributed]
        if len(rows) != len(graphs):
            raise NotChecked("there are not as many tables of meanings as graphs")
        tables = [_table(g, row, made) for g, row in zip(graphs, rows, strict=True)]
        opened: dict[Value, list[Inner]] = {}
        for g, k, inner in self.proof.opened:
            opened[graphs[g].nodes[k].outputs[0]] = _inner(inner, made)
        layers = self.layers()
        return Claims(atoms, tables[0], tables[1:], opened, tuple(self.assumed), layers)

    def layers(self) -> list[Layer]:
        """The layers that are checked once, and their copies."""
        templates: list[Template] = []
        for t in self.proof.templates:
            of = None if t.of is None else templates[t.of]
            row = (t.graph, t.at, t.period, tuple(t.made), tuple(t.moved))
            templates.append(Template(*row, of))
        copies: list[Copy] = []
        for c in self.proof.copies:
            like = None if c.of is None else copies[c.of]
            copies.append(Copy(templates[c.template], c.at, tuple(c.new), like))
        out: list[Layer] = [*templates, *copies]
        if len({(x.graph, x.at) for x in out}) != len(out) or any(x.period < 1 for x in out):
            raise NotChecked("layers that overlap")
        return out

    def term(self, t: TermRow) -> Term:
        ax = tuple(None if w is None else (w[0], self.size(w[1])) for w in t.ax)
        restr = tuple((_label(n), self.size(a), self.size(b)) for n, a, b in t.restr)
        return Term.of(t.atom, ax, self.box(t.off), restr)

    def box(self, row: Sizes) -> tuple[Size, ...]:
        return tuple(map(self.size, row)) if str in map(type, row) else tuple(row)  # type: ignore[arg-type]

    def bound(self, x: Number | None) -> Size | None:
        return None if x is None else self.size(x)

    def size(self, x: Number) -> Size:
        if isinstance(x, int):
            return x
        if x not in self._sizes:
            self._sizes[x] = self.terms(x).size()
        return self._sizes[x]

    def terms(self, text: str) -> Terms:
        if len(text) > MAX_TEXT or text.count("(") > 40 or text.count("[") > 40:
            raise NotChecked("a size that is too long")
        out = Terms(tokenize(text))
        out.symbols.update({n: Poly({(s,): 1}) for n, s in self.symbols.items()})
        return out

    def attrs(self, text: str) -> tuple[Any, ...]:
        found = self.terms(text).attribute() if text else ()
        if not isinstance(found, tuple):
            raise NotChecked("attributes that are no tuple")
        return found

    def ratio(self, c: str | tuple[Number, Number]) -> Coef:
        if isinstance(c, str):
            n, _, d = c[:MAX_TEXT].partition("/")
            return whole(Fraction(int(n), int(d or 1)))
        num, den = self.size(c[0]), self.size(c[1])
        if den == 0:
            raise NotChecked("a coefficient over zero")
        if not at_least(den, 1):
            self.assumed[f"{den} is not zero (the program divides by it)"] = None
        return quotient(num, den)


def _table(g: Graph, row: list[int | None], made: list[Meaning]) -> dict[Value, Meaning]:
    values = list(g.values())
    if len(values) != len(row):
        raise NotChecked(f"graph {g.name} has {len(values)} values, {len(row)} have a meaning")
    return {v: made[k] for v, k in zip(values, row, strict=True) if k is not None}


def _inner(rows: list[InnerRow], made: list[Meaning]) -> list[Inner]:
    return [
        Inner([None if k is None else made[k] for k in r.results],
              None if r.inner is None else _inner(r.inner, made))
        for r in rows
    ]  # fmt: skip


def _label(row: Any, depth: int = 0) -> tuple[Any, ...]:
    if not isinstance(row, list) or not 3 <= len(row) <= 4 or depth > MAX_DEPTH:
        raise NotChecked("a label of no known form")
    if not isinstance(row[0], str) or not all(type(x) is int for x in row[1:3]):
        raise NotChecked("a label of no known form")
    if (row[0] == "in") != (len(row) == 4):
        raise NotChecked("a label of no known form")
    return (*row[:3], _label(row[3], depth + 1)) if row[0] == "in" else tuple(row)


def _symbols(problem: Problem) -> set[Symbol]:
    """All size and rank symbols of a problem."""
    program = problem.distributed
    out: set[Symbol] = set()
    todo: list[Any] = []
    for mesh in (program.mesh, program.inner):
        for a, n in mesh.axes if mesh is not None else ():
            todo += [n, mesh.index(a)] if mesh is not None else []
    for g in (problem.sequential, *program.graphs, *problem.relation):
        todo += {v.shape for v in g.values()}
        todo += [tuple(n.attrs.values()) for n in g.nodes if n.attrs]
    seen: set[int] = set()
    while todo:
        x = todo.pop()
        if isinstance(x, tuple):
            todo += [y for y in x if type(y) is not int and isinstance(y, (tuple, Poly))]
        elif isinstance(x, Poly) and id(x) not in seen:
            seen.add(id(x))
            new = symbols(x) - out
            out |= new
            todo += [s.extent for s in new]
    return out
