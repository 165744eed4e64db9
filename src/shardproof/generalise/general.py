"""Write a problem that was captured at one number of ranks with symbols for its sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from shardproof.generalise.errors import NotGeneral
from shardproof.generalise.instance import reproduces
from shardproof.generalise.symbols import SymbolicSizes
from shardproof.infer.prepare import fold_problem
from shardproof.infer.spmd import NotUniform
from shardproof.ir.graph import Attrs, Graph, Mesh, Node, Program, TensorType, Value
from shardproof.ir.sizes import Size, Undecided, format_size
from shardproof.ops.base import ShapeError, infer_types
from shardproof.replay.errors import NotReplayable
from shardproof.replay.instantiate import instantiate_problem
from shardproof.replay.resize.analysis import Analysis, analyse
from shardproof.replay.resize.apply import Writer
from shardproof.replay.resize.domains import Reading
from shardproof.replay.resize.scales import Dim
from shardproof.replay.rewrite import copy_graph, copy_obligation
from shardproof.spec.problem import Assumption, Problem


@dataclass(slots=True)
class General:
    """A problem over symbols. ``values`` are the numbers of the captured instance, ``table``
    says how each captured size is written, ``kept`` which stay at their numbers, ``instances``
    names the captures that came back by substitution."""

    problem: Problem
    values: dict[str, int]
    table: dict[int, list[str]] = field(default_factory=dict)
    kept: list[int] = field(default_factory=list)
    instances: list[str] = field(default_factory=list)


def generalise(problem: Problem, axis: str, symbol: str = "N", sizes: bool = True) -> General:
    """The problem for every extent of mesh axis ``axis`` and all sizes.

    Args:
        sizes: without, only what the number of ranks divides changes with it, and all else keeps
            its captured number.

    Raises:
        NotGeneral: the ranks are not one program, other mesh axes have several ranks, a size is
            tied to its number, or the captured instance does not come back.
    """
    mesh = problem.distributed.mesh
    if any(n != 1 for a, n in mesh.axes if a != axis):
        raise NotGeneral("only a mesh with one axis of several ranks generalises so far")
    ranks = mesh.extent(axis)
    if not isinstance(ranks, int) or ranks < 2:
        raise NotGeneral("an instance with at least two ranks is needed")
    try:
        if problem.distributed.spmd:
            problem = instantiate_problem(problem, {})
        folded = fold_problem(problem)
        analysis = analyse(problem, exact=True)
    except (NotUniform, NotReplayable) as e:
        raise NotGeneral(str(e)) from None
    try:
        polynomials = SymbolicSizes(analysis, ranks, symbol, sizes)
        write = _Symbolic(problem, folded, analysis, polynomials, axis)
        out = write.run()
    except (ShapeError, Undecided, NotReplayable) as e:
        raise NotGeneral(str(e)) from None
    general = General(out, polynomials.values, *_table(analysis, polynomials))
    if not reproduces(out, problem, polynomials.values):
        raise NotGeneral("the captured instance does not come back by substitution")
    general.instances.append(f"{symbol}={ranks}")
    out.assumptions += [Assumption("condition", text) for text in _statements(general)]
    return general


SHOWN = 6  # ways of writing one captured number that are listed


def _statements(general: General) -> list[str]:
    """What was generalised and what was not, for the verdict."""
    rows = []
    for n, texts in sorted(general.table.items()):
        more = f" or {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
        rows.append(f"{n} = {' or '.join(texts[:SHOWN])}{more}")
    out = ["sizes generalised from the captured instance: " + ", ".join(rows)]
    if general.kept:
        out.append(f"sizes kept at the captured number: {', '.join(map(str, general.kept))}")
    return out


def _table(a: Analysis, sizes: SymbolicSizes) -> tuple[dict[int, list[str]], list[int]]:
    found: dict[int, set[str]] = {}
    kept: set[int] = sizes.ones()
    for d in {d for t in a.tensors.values() for d in t.dims}:
        n, text = a.scales.size[d], format_size(sizes.size(d))
        if text != str(n):
            found.setdefault(n, set()).add(text)
        elif n > 1:
            kept.add(n)
    table = {n: sorted(texts, key=lambda t: (len(t), t)) for n, texts in found.items()}
    return table, sorted(kept)


class _Writer(Writer):
    """Writes polynomials."""

    def bounds(self, node: Node) -> tuple[Any, Any]:
        # A stop is the start and the length of the piece, whatever the sizes.
        start = self.bound(self.analysis.bounds[node][0])
        return start, start + self.length(node)

    def length(self, node: Node) -> Size:
        """How much a slice takes."""
        return self.type_of(node.output).shape[int(node.attrs["dim"])]  # type: ignore[arg-type]

    def literal(self, r: Reading) -> int:
        if r.dim is None:
            return r.value
        sizes: SymbolicSizes = self.solution  # type: ignore[assignment]
        return sizes.literal(r.base, r.dim) + r.offset  # type: ignore[return-value]


class _Symbolic:
    def __init__(
        self,
        problem: Problem,
        folded: Problem,
        analysis: Analysis,
        sizes: SymbolicSizes,
        axis: str,
    ) -> None:
        self.old, self.folded, self.a, self.sizes, self.axis = (
            problem,
            folded,
            analysis,
            sizes,
            axis,
        )
        # The writer asks its solution for sizes and positions only; these may be polynomials.
        self.writer = _Writer(analysis, sizes, counts=False)  # type: ignore[arg-type]
        self.mesh = Mesh(
            tuple((a, sizes.n if a == axis else n) for a, n in problem.distributed.mesh.axes)
        )
        self.index = self.mesh.index(axis)

    def run(self) -> Problem:
        old, folded = self.old, self.folded
        (graph,) = folded.distributed.graphs
        obligations = []
        for ob, f in zip(old.obligations, folded.obligations, strict=True):
            ranks = [g for g in ob.expected if g is not None]
            (mine,) = f.expected
            assert mine is not None
            obligations.append(copy_obligation(ob, [self.all_ranks(mine, ranks)]))
        return Problem(
            old.name,
            self.checked(self.writer.graph(old.sequential)),
            Program(self.mesh, [self.all_ranks(graph, old.distributed.graphs)], spmd=True),
            [self.all_ranks(folded.relation[0], old.relation)],
            obligations,
            list(old.assumptions),
            old.left_out,
            old.notes,
        )

    def all_ranks(self, folded: Graph, ranks: Sequence[Graph]) -> Graph:
        """A folded graph with symbolic sizes; ``ranks`` are the graphs that it was folded from."""
        values = dict(zip(folded.values(), ranks[0].values(), strict=True))
        nodes = {n: [g.nodes[k] for g in ranks] for k, n in enumerate(folded.nodes)}

        def type_of(v: Value) -> TensorType:
            return self.writer.type_of(values[v])

        return self.checked(copy_graph(folded, type_of, lambda n: self.attrs(n, nodes[n])))

    def attrs(self, folded: Node, twins: Sequence[Node]) -> Attrs:
        out: dict[str, Any] = dict(self.writer.attrs_of(twins[0]))
        for name in ("group", "src", "dst"):
            if name in folded.attrs:
                out[name] = folded.attrs[name]
        if "group_size" in out:
            out["group_size"] = self.sizes.n if folded.attrs.get("group") else 1
        if any((t, name) in self.a.lists for t in twins for name in t.attrs):
            raise NotGeneral("parts of listed sizes")
        for name in folded.attrs:
            differs = any(t.attrs[name] != twins[0].attrs[name] for t in twins)
            if name == "stop" and twins[0] in self.a.bounds:
                continue  # follows from the start
            if differs and name not in ("group", "src", "dst"):
                out[name] = self.affine(name, twins)
        if twins[0] in self.a.bounds:
            out["stop"] = out["start"] + self.writer.length(twins[0])
        return out

    def affine(self, name: str, twins: Sequence[Node]) -> Size:
        """``a + b * rank`` through a position that differs between ranks."""
        found = [self.position(name, t) for t in twins]
        dims = {self.a.scales.find(d) for _, d, _ in found if d is not None}
        offsets = {o for _, _, o in found}
        if len(dims) != 1 or len(offsets) != 1:
            raise NotGeneral(
                f"{name} of {twins[0].source or twins[0].op} is no position of one dim"
            )
        d = next(d for _, d, _ in found if d is not None)
        base = [b for b, _, _ in found]
        step = base[1] - base[0]
        if any(b != base[0] + r * step for r, b in enumerate(base)):
            raise NotGeneral(
                f"{name} of {twins[0].source or twins[0].op} is not affine in the rank"
            )
        at, move = self.sizes.scaled, self.sizes.step
        if name != "start" or twins[0] not in self.a.bounds:
            at = move = self.sizes.literal
        return at(base[0], d) + move(step, d) * self.index + offsets.pop()

    def position(self, name: str, node: Node) -> tuple[int, Dim | None, int]:
        """``(multiple, dim, offset)`` of a literal."""
        if node in self.a.bounds and name in ("start", "stop"):
            b = self.a.bounds[node][name == "stop"]
            return b.value, b.dim, 0
        reading = self.a.readings.get((node, name))
        if reading is None:
            raise NotGeneral(f"{name} of {node.source or node.op} differs between ranks")
        if reading.dim is None:
            return 0, None, reading.value
        return reading.base, reading.dim, reading.offset

    @staticmethod
    def checked(graph: Graph) -> Graph:
        """Every node's types must be what the shape rule gives."""
        for n in graph.nodes:
            types = infer_types(n.op, tuple(v.type for v in n.inputs), n.attrs)
            if types != tuple(v.type for v in n.outputs):
                raise NotGeneral(f"{n.source or n.op} holds for the captured sizes only")
        return graph
