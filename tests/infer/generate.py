"""Random sequential programs together with a correct distribution of them.

Every tensor is tracked on both sides with its *layout*: for each mesh axis ``"R"`` (every rank
along it holds the same), ``"P"`` (the ranks' values add up to it) or the dim along which it is
cut. Operators are emitted on both sides at once; where their operands' layouts do not fit, the
collectives that mend it are inserted on the distributed side.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Union

import numpy as np
from tests.support.programs import Place, builder, relation_graph

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Mesh, Program, Value
from shardproof.spec.problem import Obligation, Problem

Rng = np.random.Generator
Lay = Union[str, int]  # noqa: UP007 - alias
Layout = tuple[Lay, ...]


@dataclass(frozen=True)
class Tensor:
    """One tensor on both sides; ``positive`` where all its elements are."""

    seq: Value
    dist: tuple[Value, ...]
    lay: Layout
    positive: bool = False
    limit: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.seq.shape  # type: ignore[return-value]

    @property
    def kind(self) -> str:
        return self.seq.dtype[0]


class Generator:
    """Builds one program pair on a mesh. With ``uneven`` (one axis) shards differ in size."""

    def __init__(self, rng: Rng, mesh: Mesh, *, uneven: bool = False) -> None:
        self.rng, self.mesh, self.uneven = rng, mesh, uneven
        self.axes = [a for a, _ in mesh.axes]
        self.size = [int(n) for _, n in mesh.axes]  # type: ignore[arg-type]
        self.ranks = int(np.prod(self.size))
        self.seq = builder("sequential")
        self.dist = [builder(f"rank{r}") for r in range(self.ranks)]
        self.coords = [list(mesh.coordinates(r).values()) for r in range(self.ranks)]
        self.inputs: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.places: dict[str, Layout] = {}
        self.ranges: dict[str, tuple[int, int]] = {}
        self.pool: list[Tensor] = []
        self._cuts: dict[int, list[int]] = {}

    # ---- cuts

    def cuts(self, axis: int, extent: int) -> list[int]:
        n = self.size[axis]
        if not self.uneven:
            return [extent * k // n for k in range(n + 1)]
        if extent not in self._cuts:
            inner = sorted(self.rng.choice(np.arange(1, extent), size=n - 1, replace=False))
            self._cuts[extent] = [0, *map(int, inner), extent]
        return self._cuts[extent]

    def can_cut(self, axis: int, extent: int) -> bool:
        n = self.size[axis]
        return extent >= n if self.uneven else extent % n == 0

    def local(self, shape: Sequence[int], lay: Layout, rank: int) -> tuple[int, ...]:
        """The shape that a rank holds."""
        out = list(shape)
        for axis, where in enumerate(lay):
            if isinstance(where, int):
                cuts = self.cuts(axis, out[where])
                k = self.coords[rank][axis]
                out[where] = cuts[k + 1] - cuts[k]
        return tuple(out)

    def place(self, lay: Layout) -> Place:
        """The rearrangement that a rank holds, as a relation."""

        def cut(b: Builder, x: Value, rank: int) -> Value:
            for axis, where in enumerate(lay):
                if isinstance(where, int):
                    cuts = self.cuts(axis, int(x.shape[where]))  # type: ignore[arg-type]
                    k = self.coords[rank][axis]
                    x = b.emit("slice", x, dim=where, start=cuts[k], stop=cuts[k + 1])
            return x

        return cut

    # ---- tensors

    def input(self, dtype: str, shape: tuple[int, ...], lay: Layout | None = None) -> Tensor:
        if lay is None:
            lay = self.random_layout(shape)
        name = f"x{len(self.inputs)}"
        self.inputs[name] = (dtype, shape)
        self.places[name] = lay
        seq = self.seq.input(name, dtype, shape)
        dist = tuple(
            b.input(name, dtype, self.local(shape, lay, r)) for r, b in enumerate(self.dist)
        )
        return self.keep(Tensor(seq, dist, lay))

    def random_layout(self, shape: Sequence[int], keep: Sequence[int] = ()) -> Layout:
        """Any layout without partial sums; dims in ``keep`` stay whole."""
        out: list[Lay] = []
        for axis in range(len(self.size)):
            dims = [
                d for d, n in enumerate(shape)
                if d not in keep and d not in out and self.can_cut(axis, n)
            ]  # fmt: skip
            out.append(int(self.rng.choice(dims)) if dims and self.rng.random() < 0.6 else "R")
        return tuple(out)

    def keep(self, t: Tensor) -> Tensor:
        self.pool.append(t)
        return t

    def emit(
        self,
        op: str,
        operands: Sequence[Tensor],
        lay: Layout,
        attrs: dict[str, Any] | None = None,
        rank_attrs: Callable[[int], dict[str, Any]] | None = None,
        positive: bool = False,
    ) -> Tensor:
        """One operator on both sides; ``rank_attrs`` where the ranks' attributes differ."""
        own = rank_attrs or (lambda r: attrs or {})
        seq = self.seq.emit(op, *(t.seq for t in operands), **(attrs or {}))
        dist = tuple(
            b.emit(op, *(t.dist[r] for t in operands), **own(r)) for r, b in enumerate(self.dist)
        )
        return self.keep(Tensor(seq, dist, lay, positive))

    def on_ranks(
        self, t: Tensor, lay: Layout, step: Callable[[Builder, Value, int], Value]
    ) -> Tensor:
        """A step of the distributed side alone: the same tensor in another layout."""
        dist = tuple(step(b, t.dist[r], r) for r, b in enumerate(self.dist))
        return self.keep(replace(t, dist=dist, lay=lay))

    # ---- collectives

    def group(self, axis: int, rank: int) -> dict[str, Any]:
        mine = self.coords[rank]
        members = tuple(
            r for r, c in enumerate(self.coords)
            if all(x == y for a, (x, y) in enumerate(zip(c, mine, strict=True)) if a != axis)
        )  # fmt: skip
        return {"group": members, "group_size": len(members)}

    def _sizes(self, axis: int, extent: int, rank: int, share: bool) -> dict[str, Any]:
        if not self.uneven:
            return {}
        cuts = self.cuts(axis, extent)
        sizes = tuple(b - a for a, b in itertools.pairwise(cuts))
        return {"sizes": sizes, **({"extent": sizes[self.coords[rank][axis]]} if share else {})}

    def to(self, t: Tensor, axis: int, want: Lay) -> Tensor:
        """``t`` with another layout along one mesh axis."""
        have = t.lay[axis]
        if have == want:
            return t
        lay = (*t.lay[:axis], want, *t.lay[axis + 1 :])
        if isinstance(want, int) and want in t.lay:
            # Cut along another axis already: two cuts of one dim are not generated.
            return self.to(self.to(t, t.lay.index(want), "R"), axis, want)
        if have == "R":
            return self._from_whole(t, axis, want, lay)
        if have == "P":
            return self._from_partial(t, axis, want, lay)
        assert isinstance(have, int)
        extent = t.shape[have]
        if isinstance(want, int) and not self.uneven:
            return self.on_ranks(
                t, lay,
                lambda b, x, r: b.emit(
                    "all_to_all", x, split_dim=want, concat_dim=have, **self.group(axis, r)
                ),
            )  # fmt: skip
        whole = self.on_ranks(
            t, (*t.lay[:axis], "R", *t.lay[axis + 1 :]),
            lambda b, x, r: b.emit(
                "all_gather", x, dim=have, **self.group(axis, r),
                **self._sizes(axis, extent, r, False),
            ),
        )  # fmt: skip
        return self.to(whole, axis, want)

    def _from_whole(self, t: Tensor, axis: int, want: Lay, lay: Layout) -> Tensor:
        if want == "P":
            from fractions import Fraction

            share = Fraction(1, self.size[axis])
            return self.on_ranks(t, lay, lambda b, x, r: b.emit("scale", x, by=share))
        assert isinstance(want, int)
        cuts = self.cuts(axis, t.shape[want])

        def step(b: Builder, x: Value, r: int) -> Value:
            k = self.coords[r][axis]
            return b.emit("slice", x, dim=want, start=cuts[k], stop=cuts[k + 1])

        return self.on_ranks(t, lay, step)

    def _from_partial(self, t: Tensor, axis: int, want: Lay, lay: Layout) -> Tensor:
        if want == "R":
            return self.on_ranks(
                t, lay, lambda b, x, r: b.emit("all_reduce", x, op="sum", **self.group(axis, r))
            )
        assert isinstance(want, int)
        extent = t.shape[want]
        return self.on_ranks(
            t, lay,
            lambda b, x, r: b.emit(
                "reduce_scatter", x, op="sum", dim=want, **self.group(axis, r),
                **self._sizes(axis, extent, r, True),
            ),
        )  # fmt: skip

    def relay(self, t: Tensor, lay: Sequence[Lay]) -> Tensor:
        """``t`` in a given layout; partial sums and whole axes are mended first."""
        for axis, want in enumerate(lay):
            if want == "R" or t.lay[axis] == "P":
                t = self.to(t, axis, "R" if want == "R" else want)
        for axis, want in enumerate(lay):
            t = self.to(t, axis, want)
        for axis, want in enumerate(lay):  # making room for one cut may have undone another
            t = self.to(t, axis, want)
        return t

    def mended(self, t: Tensor, keep: Sequence[int] = ()) -> Tensor:
        """``t`` without partial sums, and with the dims in ``keep`` whole."""
        for axis, have in enumerate(t.lay):
            if have == "P":
                free = [
                    d for d, n in enumerate(t.shape)
                    if d not in keep and d not in t.lay and self.can_cut(axis, n)
                ]  # fmt: skip
                scatter = bool(free) and self.rng.random() < 0.4
                t = self.to(t, axis, int(self.rng.choice(free)) if scatter else "R")
            elif have in keep:
                t = self.to(t, axis, "R")
        return t

    # ---- the problem

    def problem(self, outputs: Sequence[Tensor], name: str = "fuzz") -> Problem:
        """Owe the given tensors in the layouts that they have."""
        names = tuple(f"y{k}" for k in range(len(outputs)))
        seq = self.seq.returns(*(t.seq for t in outputs), names=names)
        graphs = []
        for r, b in enumerate(self.dist):
            g = b.returns(*(t.dist[r] for t in outputs), names=names)
            g.rank = r
            graphs.append(g)
        places = {k: self.place(lay) for k, lay in self.places.items()}
        relations = [relation_graph(self.inputs, places, r) for r in range(self.ranks)]
        obligations = []
        for label, t in zip(names, outputs, strict=True):
            expected: list[Graph | None] = []
            for r in range(self.ranks):
                e = builder("expected")
                v = e.input(label, t.seq.dtype, t.seq.shape)
                expected.append(e.returns(self.place(t.lay)(e, v, r), names=(label,)))
            partial = tuple(a for a, k in zip(self.axes, t.lay, strict=True) if k == "P")
            obligations.append(Obligation(label, label, expected, "", partial))
        return Problem(name, seq, Program(self.mesh, graphs), relations, obligations)
