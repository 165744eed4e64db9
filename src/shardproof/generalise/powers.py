"""How often the number of ranks divides each size.

A captured number does not say whether it is a multiple of the number of ranks by construction or
by chance: with two ranks, four heads a rank are no ``2*N``. What says it is how a size is made. A
dim that is cut at positions which move with the rank is N times its piece, and so is a gathered
dim; sizes that are tied by an operator, a plain slice or a concatenation have the same power of N;
a reshape adds the powers of its factors. Where that leaves a choice, sizes that look tied are
taken as tied, and the rest has no power of N.

The result is a reading of one instance, not yet a claim: the shape rules, the substitution of the
captured numbers and the proof are what make it one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shardproof.generalise.errors import NotGeneral
from shardproof.ir.graph import Graph, Node
from shardproof.ops import base as alg
from shardproof.replay.resize.analysis import Analysis
from shardproof.replay.resize.scales import Dim


class Powers:
    """The exponent of N in the size of every dim."""

    def __init__(self, analysis: Analysis, ranks: int) -> None:
        self.a, self.ranks = analysis, ranks
        count = len(analysis.scales.size)
        self._parent = list(range(count))
        self._above = [0] * count  # power of a dim less that of its parent
        self._linked: set[Dim] = set()
        self._base: dict[Dim, int] = {}  # power of a representative, where it is known
        for a, b in analysis.scales.same[: analysis.firm]:
            self._tie(a, b, 0)
        self._tie_graphs()
        self._settle()

    def of(self, d: Dim) -> int:
        """The exponent of N in the size of a dim."""
        root, above = self._find(d)
        return self._base.get(root, 0) + above

    # ---- ties between dims: union-find with differences

    def _find(self, d: Dim) -> tuple[Dim, int]:
        path = []
        while self._parent[d] != d:
            path.append(d)
            d = self._parent[d]
        above = 0
        for x in reversed(path):
            above += self._above[x]
            self._parent[x], self._above[x] = d, above
        return d, above

    def _tie(self, a: Dim, b: Dim, more: int) -> None:
        """The power of ``a`` is that of ``b`` plus ``more``."""
        (ra, da), (rb, db) = self._find(a), self._find(b)
        if ra != rb:
            self._parent[ra], self._above[ra] = rb, db + more - da
            if ra in self._linked:
                self._linked.add(rb)
        elif da != db + more:
            sizes = self.a.scales.size
            raise NotGeneral(
                f"sizes {sizes[a]} and {sizes[b]} belong together at the captured number of "
                "ranks only"
            )
        if more:
            self._linked.add(self._find(a)[0])

    def _tie_graphs(self) -> None:
        p = self.a.problem
        expected = [[g for g in ob.expected if g is not None] for ob in p.obligations]
        for graphs in ([p.sequential], p.distributed.graphs, p.relation, *expected):
            self._tie_twins(graphs)

    def _tie_twins(self, graphs: Sequence[Graph]) -> None:
        for nodes in zip(*(g.nodes for g in graphs), strict=True):
            for node in nodes:
                algebra = alg.lookup(node.op).algebra(
                    tuple(v.type for v in node.inputs), node.attrs
                )[0]
                self._tie_node(node, algebra, nodes)

    def _tie_node(self, node: Node, algebra: object, twins: Sequence[Node]) -> None:
        a = self.a
        if isinstance(algebra, alg.Slice):
            whole = a.tensor(node.inputs[0]).dims[algebra.dim]
            piece = a.tensor(node.output).dims[algebra.dim]
            moves = len({t.attrs["start"] for t in twins}) > 1
            self._tie(whole, piece, 1 if moves else 0)
        elif isinstance(algebra, alg.Concat):
            whole = a.tensor(node.output).dims[algebra.dim]
            for v in node.inputs:
                self._tie(whole, a.tensor(v).dims[algebra.dim], 0)
        elif isinstance(algebra, alg.Collective) and node.inputs and node.outputs:
            self._tie_collective(node)

    def _tie_collective(self, node: Node) -> None:
        size = self.a.scales.size
        x, y = self.a.tensor(node.inputs[0]), self.a.tensor(node.outputs[0])
        for d, e in zip(x.dims, y.dims, strict=True):
            if size[e] == size[d] * self.ranks:
                self._tie(e, d, 1)
            elif size[d] == size[e] * self.ranks:
                self._tie(d, e, 1)

    # ---- powers of what is tied

    def _settle(self) -> None:
        lowest = self._lowest()
        for root in {self._find(d)[0] for d in self._linked}:
            self._base[root] = -lowest[root]
        shared = self._shared()
        wholes = {
            self._find(side[0])[0] for e in self.a.scales.products for side in e if len(side) == 1
        }
        order = sorted(lowest, key=lambda r: (r in wholes, r not in shared, r))
        while True:
            while self._by_products() or self._by_likeness():
                pass
            left_over = [r for r in order if r not in self._base]
            if not left_over:
                return
            self._base[left_over[0]] = -lowest[left_over[0]]

    def _lowest(self) -> dict[Dim, int]:
        out: dict[Dim, int] = {}
        for d in range(len(self._parent)):
            root, above = self._find(d)
            out[root] = min(out.get(root, 0), above)
        return out

    def _shared(self) -> set[Dim]:
        """Representatives of sizes that occur on both sides."""
        p = self.a.problem
        one = self._roots([p.sequential])
        return one & self._roots(p.distributed.graphs)

    def _roots(self, graphs: Iterable[Graph]) -> set[Dim]:
        return {self._find(d)[0] for g in graphs for v in g.values() for d in self.a.tensor(v).dims}

    def _by_products(self) -> bool:
        """What the equations of reshapes say about sizes whose power is not known."""
        return any(self._by_product(left, right) for left, right in self.a.scales.products)

    def _by_product(self, left: tuple[Dim, ...], right: tuple[Dim, ...]) -> bool:
        open_left, open_right = self._open(left), self._open(right)
        if not open_left and not open_right:
            return False
        rest = self._sum(right) - self._sum(left)
        unknown = {self._find(d)[0] for d in (*open_left, *open_right)}
        times = len(open_left) - len(open_right)
        if len(unknown) == 1 and times and rest % times == 0 and rest // times >= 0:
            self._base[unknown.pop()] = rest // times
            return True
        one_side = not open_left or not open_right
        if rest == 0 and one_side:
            self._base.update(dict.fromkeys(unknown, 0))  # none is negative
            return True
        return False

    def _open(self, dims: tuple[Dim, ...]) -> list[Dim]:
        return [d for d in dims if self._find(d)[0] not in self._base]

    def _sum(self, dims: tuple[Dim, ...]) -> int:
        """The powers of dims, as far as known."""
        return sum(self._base.get(r, 0) + above for r, above in map(self._find, dims))

    def _by_likeness(self) -> bool:
        """Take one size that looks tied to one of known power as tied."""
        for a, b in self.a.scales.same[self.a.firm :]:
            (ra, da), (rb, db) = self._find(a), self._find(b)
            if (ra in self._base) == (rb in self._base):
                continue
            known, open_root, above = (self.of(a), rb, db) if ra in self._base else (
                self.of(b), ra, da,
            )  # fmt: skip
            if self.a.scales.size[a] % self.ranks**known == 0:
                self._base[open_root] = known - above
                return True
        return False
