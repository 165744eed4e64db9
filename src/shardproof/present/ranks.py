"""Which ranks a graph of the evaluated program stands for, and the numbers of its symbols there."""

from __future__ import annotations

from dataclasses import dataclass

from shardproof.collectives.match import rank_of
from shardproof.ir.graph import Graph, Mesh, Program
from shardproof.ir.sizes import Poly, Size, Symbol, only_symbol, substitute, symbols

SHOWN_RANKS = 64
SAMPLE = 4
SHOWN_SIZES = 4


@dataclass(frozen=True, slots=True)
class Member:
    """One rank of a graph; ``values`` are numbers for rank symbols and sampled sizes."""

    rank: int
    values: dict[Symbol, Size]

    def number(self, size: Size) -> int | None:
        """The size on this rank, or None where a symbol has no number."""
        n = size if isinstance(size, int) else substitute(size, self.values)
        return n if isinstance(n, int) else None


class Ranks:
    """Members of each graph of a program whose ranks are numbered over ``mesh``.

    Symbolic sizes are sampled at ``SAMPLE``; at most ``SHOWN_RANKS`` ranks of a graph are listed.
    """

    def __init__(self, mesh: Mesh, program: Program, sequential: Graph) -> None:
        self.program = program
        self.sample = _sample(program, sequential)
        self.mesh = self.numbered(mesh)

    def members(self, k: int) -> list[Member]:
        """The ranks that run the k-th graph."""
        program = self.program
        if program.spmd:
            inner = self.numbered(program.mesh)
            return [
                Member(r, self.sample | _indices(program.mesh, inner.coordinates(r)))
                for r in range(min(_size(inner), SHOWN_RANKS))
            ]
        if program.inner is None:
            return [Member(rank_of(program, k), self.sample)]
        outer = program.mesh.coordinates(k)
        inner = program.inner
        out = []
        for place in range(min(_size(inner), SHOWN_RANKS)):
            here = inner.coordinates(place)
            rank = self.mesh.rank({**outer, **here})
            out.append(Member(rank, self.sample | _indices(inner, here)))
        return out

    @property
    def sample_text(self) -> str:
        """What was sampled, such as ``N = 4, f = 4``; empty for concrete programs."""
        names = sorted(s.name for s in self.sample)
        shown = names if len(names) <= SHOWN_SIZES else names[:1]
        text = ", ".join(f"{name} = {SAMPLE}" for name in shown)
        return text if shown == names else f"{text} and all other sizes {SAMPLE}"

    def numbered(self, mesh: Mesh) -> Mesh:
        """A mesh with numbers for its symbols."""
        return Mesh(tuple((a, substitute(n, self.sample)) for a, n in mesh.axes))


def _sample(program: Program, sequential: Graph) -> dict[Symbol, Size]:
    found: set[Symbol] = set()
    for _, n in program.mesh.axes:
        found |= symbols(n)
    for g in (sequential, *program.graphs):
        for v in g.values():
            for n in v.shape:
                if isinstance(n, Poly):
                    found |= symbols(n)
    return {s: SAMPLE for s in found if s.extent is None}


def _indices(mesh: Mesh, coordinates: dict[str, int]) -> dict[Symbol, Size]:
    return {only_symbol(mesh.index(a)): coordinates[a] for a, _ in mesh.axes}


def _size(mesh: Mesh) -> int:
    n = mesh.size
    return n if isinstance(n, int) else 1
