"""Whether the declared outputs are what is expected of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardproof.certificate.claims import Cell, Meaning
from shardproof.certificate.communication import reduction
from shardproof.certificate.exact import NotChecked
from shardproof.certificate.outputs import check_cover
from shardproof.certificate.rules import Source
from shardproof.ir.graph import Value
from shardproof.spec.problem import Obligation

if TYPE_CHECKING:
    from shardproof.certificate.check import Checker


class Judge:
    """One obligation of a checked certificate."""

    def __init__(self, run: Checker, ob: Obligation) -> None:
        self.run, self.ob = run, ob

    def check(self) -> None:
        """Every rank that is expected to returns its part, and the parts make up the whole."""
        ob = self.ob
        seq = self.run.problem.sequential.output(ob.seq_output)
        if seq is None or all(g is None for g in ob.expected):
            raise NotChecked("no rank returns it")
        graphs = self.run.problem.distributed.graphs
        found: dict[int, Value] = {}
        for k, relation in enumerate(ob.expected):
            if relation is not None:
                self.run.well_typed(relation)
                v = graphs[k].output(ob.dist_output)
                if v is None:
                    raise NotChecked("a rank does not return it")
                found[k] = v
                if self.run.no_number(self.run.claims.distributed[k][v]):
                    raise NotChecked("an output with undefined contents")
        if len(ob.expected) != len(graphs):
            raise NotChecked("an obligation is not stated for every rank")
        for k, v in found.items():
            relation = ob.expected[k]
            assert relation is not None
            (one,) = relation.inputs
            (out,) = relation.outputs
            if one.shape != seq.shape or out is None:
                raise NotChecked("the expected output is a part of another tensor")
            want = self.run.through(
                relation, {one: self.run.source(self.run.claims.sequential[seq])}
            )[out]
            have = self.declared(k, found, v.dtype)
            if want.shape != have.shape:
                raise NotChecked("the output has another shape than is expected")
            self.compare(want, have)
        check_cover(ob, seq, self.run.mesh, self.run.through)

    def declared(self, k: int, found: dict[int, Value], dtype: str) -> Source:
        """The output of graph ``k``, summed over the axes along which it is partial."""
        tables = self.run.claims.distributed
        inner = [a for a in self.ob.partial_over if self.run.mesh and a in dict(self.run.mesh.axes)]
        outer = [a for a in self.ob.partial_over if a not in inner]

        def one(g: int) -> Source:
            s = self.run.source(tables[g][found[g]])
            return self.run.ranks.reduced("sum", s, inner, dtype) if inner else s

        if not outer:
            return one(k)
        mesh = self.run.problem.distributed.mesh
        if self.run.problem.distributed.spmd or any(a not in dict(mesh.axes) for a in outer):
            raise NotChecked("a sum over axes that the mesh does not have")
        mine = mesh.coordinates(k)
        group = [
            g
            for g in range(len(tables))
            if all(c == mine[a] for a, c in mesh.coordinates(g).items() if a not in outer)
        ]
        return reduction(self.run.algebra, "sum", [one(g) for g in group], dtype)

    def compare(self, want: Source, have: Source) -> None:
        """Whether two tensors are equal everywhere."""
        if want is have:
            return
        plain = tuple((n,) if n != 1 else () for n in want.shape)
        boxes = ((0,) * sum(map(len, plain)), tuple(n for d in plain for n in d))
        whole = Meaning(plain, (Cell(boxes[0], boxes[1], ()),))
        self.run.cells(
            whole, lambda r, at, x: self.run.algebra.equal(want.read(r, at), have.read(r, at), r)
        )
