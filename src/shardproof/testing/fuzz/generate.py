"""Random sequential programs together with a correct distribution of them.

Every tensor is tracked on both sides with its *layout*: for each mesh axis ``"R"`` (every rank
along it holds the same), ``"P"`` (the ranks' values add up to it) or the dim along which it is
cut. Where two axes cut one dim, the first one cuts it and the second one cuts the parts.
Operators are emitted on both sides at once; where their operands' layouts do not fit, the
collectives that mend it are inserted on the distributed side.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Union

import numpy as np

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Mesh, Program, Value
from shardproof.spec.problem import Obligation, Problem
from shardproof.testing.fuzz.build import Place, builder, relation_graph

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

    @property
    def shape(self) -> tuple[int, ...]:
        return self.seq.shape  # type: ignore[return-value]

    @property
    def kind(self) -> str:
        """The first letter of the dtype: f, i or b."""
        return self.seq.dtype[0]


class Generator:
    """Builds one program pair on a mesh. ``uneven`` lists the axes along which parts differ."""

    def __init__(self, rng: Rng, mesh: Mesh, *, uneven: Collection[int] = ()) -> None:
        self.rng, self.mesh, self.uneven = rng, mesh, frozenset(uneven)
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
        self._cuts: dict[tuple[int, int], list[int]] = {}
        # Steps take turns on a second process group over the same ranks; not drawn from ``rng``, so
        # that a seed stays the same program but for that.
        self._steps = 0

    # ---- cuts

    def cuts(self, axis: int, extent: int) -> list[int]:
        """Where the parts of ``extent`` along an axis begin and end."""
        n = self.size[axis]
        if axis not in self.uneven:
            return [extent * k // n for k in range(n + 1)]
        key = axis, extent
        if key not in self._cuts:
            inner = sorted(self.rng.choice(np.arange(1, extent), size=n - 1, replace=False))
            self._cuts[key] = [0, *map(int, inner), extent]
        return self._cuts[key]

    def can_cut(self, axis: int, extent: int) -> bool:
        """Whether every rank along the axis gets a part."""
        n = self.size[axis]
        return extent >= n if axis in self.uneven else extent % n == 0

    def own(self, axis: int, extent: int, rank: int) -> tuple[int, int]:
        """First and last position of a rank's part."""
        cuts, k = self.cuts(axis, extent), self.coords[rank][axis]
        return cuts[k], cuts[k + 1]

    def local(self, shape: Sequence[int], lay: Layout, rank: int) -> tuple[int, ...]:
        """The shape that a rank holds."""
        out = list(shape)
        for axis, where in enumerate(lay):
            if isinstance(where, int):
                start, stop = self.own(axis, out[where], rank)
                out[where] = stop - start
        return tuple(out)

    def fits(self, shape: Sequence[int], lay: Layout) -> bool:
        """Whether a tensor of this shape can lie so."""
        left = list(shape)
        for axis, where in enumerate(lay):
            if isinstance(where, int):
                if not self.can_cut(axis, left[where]):
                    return False
                if lay.count(where) > 1:
                    if axis in self.uneven:
                        return False
                    left[where] //= self.size[axis]
        return True

    def place(self, lay: Layout) -> Place:
        """The rearrangement that a rank holds, as a relation."""

        def cut(b: Builder, x: Value, rank: int) -> Value:
            for axis, where in enumerate(lay):
                if isinstance(where, int):
                    start, stop = self.own(axis, int(x.shape[where]), rank)  # type: ignore[arg-type]
                    x = b.emit("slice", x, dim=where, start=start, stop=stop)
            return x

        return cut

    # ---- tensors

    def input(self, dtype: str, shape: tuple[int, ...], lay: Layout | None = None) -> Tensor:
        """A new input of both sides."""
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
        out: Layout = ()
        for _ in self.size:
            dims = [
                d for d in range(len(shape))
                if d not in keep and self.fits(shape, (*out, d))
                and (d not in out or self.rng.random() < 0.25)
            ]  # fmt: skip
            cut = bool(dims) and self.rng.random() < 0.6
            out = (*out, int(self.rng.choice(dims)) if cut else "R")
        return out

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
        output: int = 0,
    ) -> Tensor:
        """One operator on both sides; ``rank_attrs`` where the ranks' attributes differ."""
        own = rank_attrs or (lambda r: attrs or {})
        seq = self.seq.emit_all(op, *(t.seq for t in operands), **(attrs or {}))[output]
        dist = tuple(
            b.emit_all(op, *(t.dist[r] for t in operands), **own(r))[output]
            for r, b in enumerate(self.dist)
        )
        return self.keep(Tensor(seq, dist, lay, positive))

    def on_ranks(
        self, t: Tensor, lay: Layout, step: Callable[[Builder, Value, int], Value]
    ) -> Tensor:
        """A step of the distributed side alone: the same tensor in another layout."""
        dist = tuple(step(b, t.dist[r], r) for r, b in enumerate(self.dist))
        self._steps += 1
        return self.keep(replace(t, dist=dist, lay=lay))

    # ---- collectives

    def group(self, axis: int, rank: int) -> dict[str, Any]:
        """The ranks along an axis, as attributes of a collective."""
        mine = self.coords[rank]
        members = tuple(
            r for r, c in enumerate(self.coords)
            if all(x == y for a, (x, y) in enumerate(zip(c, mine, strict=True)) if a != axis)
        )  # fmt: skip
        second = {"comm": "1"} if self._steps % 4 == 3 else {}
        return {"group": members, "group_size": len(members), **second}

    def parts(self, axis: int, extent: int) -> tuple[int, ...]:
        """The sizes of the parts along an axis."""
        return tuple(b - a for a, b in itertools.pairwise(self.cuts(axis, extent)))

    def _sizes(self, axis: int, extent: int, rank: int, share: bool) -> dict[str, Any]:
        if axis not in self.uneven:
            return {}
        sizes = self.parts(axis, extent)
        return {"sizes": sizes, **({"extent": sizes[self.coords[rank][axis]]} if share else {})}

    def extent(self, t: Tensor, axis: int, dim: int) -> int:
        """The extent of a dim as the axis sees it: cut by the axes before it."""
        n = t.shape[dim]
        for a in range(axis):
            if t.lay[a] == dim:
                n //= self.size[a]
        return n

    def to(self, t: Tensor, axis: int, want: Lay) -> Tensor:
        """``t`` with another layout along one mesh axis."""
        have = t.lay[axis]
        if have == want:
            return t
        t = self._make_room(t, axis, want)
        lay = (*t.lay[:axis], want, *t.lay[axis + 1 :])
        if have == "R":
            return self._from_whole(t, axis, want, lay)
        if have == "P":
            return self._from_partial(t, axis, want, lay)
        assert isinstance(have, int)
        if isinstance(want, int) and self.rng.random() < 0.8:
            return self._exchanged(t, axis, have, want, lay)
        whole = (*t.lay[:axis], "R", *t.lay[axis + 1 :])
        return self.to(self.gathered(t, axis, have, whole), axis, want)

    def _make_room(self, t: Tensor, axis: int, want: Lay) -> Tensor:
        """Undo what must not stay when one axis changes: cuts of the parts that it makes."""
        for other, where in enumerate(t.lay):
            if other == axis or not isinstance(where, int):
                continue
            finer = other > axis and where == t.lay[axis]
            nested = (*t.lay[:axis], want, *t.lay[axis + 1 :])
            clash = where == want and (other > axis or not self.fits(t.shape, nested))
            if finer or clash:
                t = self.to(t, other, "R")
        return t

    def gathered(self, t: Tensor, axis: int, dim: int, lay: Layout) -> Tensor:
        """All parts along an axis joined."""
        extent = self.extent(t, axis, dim)
        return self.on_ranks(
            t, lay,
            lambda b, x, r: b.emit(
                "all_gather", x, dim=dim, **self.group(axis, r),
                **self._sizes(axis, extent, r, False),
            ),
        )  # fmt: skip

    def _exchanged(self, t: Tensor, axis: int, have: int, want: int, lay: Layout) -> Tensor:
        split, join = self.extent(t, axis, want), self.extent(t, axis, have)

        def step(b: Builder, x: Value, r: int) -> Value:
            sizes: dict[str, Any] = {}
            if axis in self.uneven:
                send = self.parts(axis, split)
                sizes = {
                    "send_sizes": send, "recv_sizes": self.parts(axis, join),
                    "extent": send[self.coords[r][axis]],
                }  # fmt: skip
            return b.emit(
                "all_to_all", x, split_dim=want, concat_dim=have, **self.group(axis, r), **sizes
            )

        return self.on_ranks(t, lay, step)

    def _from_whole(self, t: Tensor, axis: int, want: Lay, lay: Layout) -> Tensor:
        if want == "P":
            return self._spread(t, axis, lay)
        assert isinstance(want, int)
        extent = self.extent(t, axis, want)

        def step(b: Builder, x: Value, r: int) -> Value:
            start, stop = self.own(axis, extent, r)
            return b.emit("slice", x, dim=want, start=start, stop=stop)

        return self.on_ranks(t, lay, step)

    def _spread(self, t: Tensor, axis: int, lay: Layout) -> Tensor:
        """A whole value as a sum: every rank holds a share of it, or one of them holds it."""
        if self.rng.random() < 0.5:
            share = Fraction(1, self.size[axis])
            return self.on_ranks(t, lay, lambda b, x, r: b.emit("scale", x, by=share))
        only = int(self.rng.integers(self.size[axis]))
        return self.on_ranks(
            t, lay, lambda b, x, r: b.emit("scale", x, by=int(self.coords[r][axis] == only))
        )

    def _from_partial(self, t: Tensor, axis: int, want: Lay, lay: Layout) -> Tensor:
        if want == "R":
            return self.on_ranks(
                t, lay, lambda b, x, r: b.emit("all_reduce", x, op="sum", **self.group(axis, r))
            )
        assert isinstance(want, int)
        extent = self.extent(t, axis, want)
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
        for _ in range(2):  # making room for one cut may have undone another
            for axis, want in enumerate(lay):
                t = self.to(t, axis, want)
        return t

    def mended(self, t: Tensor, keep: Sequence[int] = ()) -> Tensor:
        """``t`` without partial sums, and with the dims in ``keep`` whole."""
        for axis in range(len(self.size)):
            if t.lay[axis] == "P":
                free = [
                    d for d, n in enumerate(t.shape)
                    if d not in keep and d not in t.lay and self.can_cut(axis, n)
                ]  # fmt: skip
                scatter = bool(free) and self.rng.random() < 0.4
                t = self.to(t, axis, int(self.rng.choice(free)) if scatter else "R")
            elif t.lay[axis] in keep:
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
        obligations = [self._owed(k, t) for k, t in zip(names, outputs, strict=True)]
        return Problem(name, seq, Program(self.mesh, graphs), relations, obligations)

    def _owed(self, label: str, t: Tensor) -> Obligation:
        expected: list[Graph | None] = []
        for r in range(self.ranks):
            e = builder("expected")
            v = e.input(label, t.seq.dtype, t.seq.shape)
            expected.append(e.returns(self.place(t.lay)(e, v, r), names=(label,)))
        partial = tuple(a for a, k in zip(self.axes, t.lay, strict=True) if k == "P")
        return Obligation(label, label, expected, "", partial)
