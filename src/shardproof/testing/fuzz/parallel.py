"""Steps of random programs that the two sides spell differently: micro-batches, rings, whole-axis
functions of a cut axis, experts, collectives that change nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Value
from shardproof.testing.fuzz.generate import Generator, Lay, Layout, Tensor
from shardproof.testing.fuzz.rearrange import ids_input
from shardproof.testing.fuzz.steps import EXTENTS, Skip, pick, some_dim

BUFFERED: dict[str, Any] = {"async": True}
Part = Callable[[Builder, Value], Value]


def with_axis(lay: Layout, axis: int, what: Lay) -> Layout:
    """A layout with another entry for one mesh axis."""
    return (*lay[:axis], what, *lay[axis + 1 :])


def cut_tensor(g: Generator) -> tuple[Tensor, int, int]:
    """A tensor that one mesh axis cuts, the axis, and the dim."""
    t = g.mended(pick(g))
    axis = int(g.rng.integers(len(g.size)))
    dims = [d for d in range(len(t.shape)) if g.can_cut(axis, t.shape[d])]
    if not dims:
        raise Skip
    # Parts of one element are a corner, so they are drawn less often.
    wide = [d for d in dims if min(g.parts(axis, t.shape[d])) > 1]
    if not wide and g.rng.random() < 0.8:
        raise Skip
    d = int(g.rng.choice(wide or dims))
    for other in range(len(g.size)):
        if other != axis and t.lay[other] == d:
            t = g.to(t, other, "R")
    return g.to(t, axis, d), axis, d


# ------------------------------------------------------------------ collectives


def broadcast(g: Generator) -> Tensor:
    """One rank's value for all; what the others hold before does not matter."""
    t = pick(g)
    axis = int(g.rng.integers(len(g.size)))
    t = g.to(t, axis, "R") if t.lay[axis] != "R" else t
    source = int(g.rng.integers(g.size[axis]))
    other = int(g.rng.integers(1, 3))

    def step(b: Builder, x: Value, r: int) -> Value:
        group = g.group(axis, r)
        y = b.emit("scale", x, by=1 if g.coords[r][axis] == source else other)
        return b.emit("broadcast", y, src=group["group"][source], **group)

    return g.on_ranks(t, t.lay, step)


def ring(g: Generator) -> Tensor:
    """Parts passed round until every rank has all of them, and joined in order."""
    t, axis, d = cut_tensor(g)
    n = g.size[axis]
    blocks = [{g.coords[r][axis]: t.dist[r]} for r in range(g.ranks)]
    for step in range(n - 1):
        for r, b in enumerate(g.dist):
            group = g.group(axis, r)
            k = g.coords[r][axis]
            to, source = group["group"][(k + 1) % n], group["group"][(k - 1) % n]
            b.emit_all("send", blocks[r][(k - step) % n], dst=to, tag=step, **group, **BUFFERED)
            want = (k - 1 - step) % n
            shape = [*t.dist[r].shape]
            shape[d] = g.parts(axis, t.shape[d])[want]
            blocks[r][want] = b.emit(
                "recv", src=source, tag=step, shape=tuple(shape), dtype=t.seq.dtype, **group
            )
    lay = with_axis(t.lay, axis, "R")
    return g.on_ranks(
        t, lay, lambda b, x, r: b.emit("concat", *(blocks[r][k] for k in range(n)), dim=d)
    )


def joint(g: Generator) -> Tensor:
    """One collective over all ranks in place of one for each axis."""
    t = pick(g)
    everyone: dict[str, Any] = {"group": tuple(range(g.ranks)), "group_size": g.ranks}
    whole: Layout = ("R",) * len(g.size)
    if all(w == "P" for w in t.lay):
        return g.on_ranks(t, whole, lambda b, x, r: b.emit("all_reduce", x, op="sum", **everyone))
    d = t.lay[0]
    if isinstance(d, int) and all(w == d for w in t.lay) and not g.uneven:
        return g.on_ranks(t, whole, lambda b, x, r: b.emit("all_gather", x, dim=d, **everyone))
    raise Skip


def no_change(g: Generator) -> Tensor:
    """A mean, a maximum or a minimum of equal values, over one axis."""
    t = pick(g)
    axes = [axis for axis, w in enumerate(t.lay) if w == "R"]
    if not axes or "P" in t.lay:
        raise Skip
    axis, op = int(g.rng.choice(axes)), str(g.rng.choice(["avg", "max", "min"]))
    dims = [d for d, n in enumerate(t.shape) if d not in t.lay and g.can_cut(axis, n)]
    if not dims or g.rng.random() < 0.6:
        return g.on_ranks(
            t, t.lay, lambda b, x, r: b.emit("all_reduce", x, op=op, **g.group(axis, r))
        )
    d = int(g.rng.choice(dims))

    def scatter(b: Builder, x: Value, r: int) -> Value:
        sizes = g.parts(axis, t.shape[d])
        mine: dict[str, Any] = {"sizes": sizes, "extent": sizes[g.coords[r][axis]]}
        mine = mine if axis in g.uneven else {}
        return b.emit("reduce_scatter", x, op=op, dim=d, **g.group(axis, r), **mine)

    return g.on_ranks(t, with_axis(t.lay, axis, d), scatter)


# ------------------------------------------------------------------ micro-batches


def in_parts(b: Builder, x: Value, d: int, part: Part, parts: int) -> list[Value]:
    """``part`` of the consecutive pieces of ``x`` along a dim."""
    n = x.shape[d]
    assert isinstance(n, int)
    at = sorted({n * k // parts for k in range(parts + 1)})
    return [part(b, b.emit("slice", x, dim=d, start=i, stop=j)) for i, j in itertools.pairwise(at)]


def micro_batches(g: Generator) -> Tensor:
    """An operator of the whole; the ranks apply it to pieces and join the results."""
    t = pick(g)
    if len(t.shape) < 2:
        raise Skip
    d = int(g.rng.integers(len(t.shape) - 1))
    last = len(t.shape) - 1
    op = str(g.rng.choice(["tanh", "softmax", "matmul", "exp", "logsumexp", "cumsum", "norm"]))
    t = g.mended(t, keep=(last,))
    part = _row_operator(g, op, t, last)
    seq = part[0](g.seq, t.seq)
    parts = int(g.rng.integers(2, 4))
    dist = tuple(
        b.emit("concat", *in_parts(b, t.dist[r], d, part[r + 1], parts), dim=d)
        for r, b in enumerate(g.dist)
    )
    return g.keep(Tensor(seq, dist, t.lay))


def _row_operator(g: Generator, op: str, t: Tensor, last: int) -> list[Part]:
    """What the sequential side and each rank apply."""
    if op == "matmul":
        w = g.input("f32", (t.shape[-1], int(g.rng.choice(EXTENTS))), ("R",) * len(g.size))
        return [lambda b, x, w=w: b.emit("matmul", x, w) for w in (w.seq, *w.dist)]  # type: ignore[misc]
    attrs: dict[str, Any] = {"softmax": {"dim": last}, "cumsum": {"dim": last}}.get(op, {})
    if op == "logsumexp":
        attrs = {"dims": (last,), "keepdim": True}
    if op == "norm":
        op, attrs = "rms_norm", {"naxes": 1, "eps": Fraction(1, 100)}
    return [lambda b, x: b.emit_all(op, x, **attrs)[0]] * (g.ranks + 1)


def accumulated(g: Generator) -> Tensor:
    """A sum or a mean over a dim; the ranks add up pieces of what they hold."""
    t = pick(g)
    d = some_dim(g, t)
    op = str(g.rng.choice(["sum", "mean"]))
    parts = int(g.rng.integers(2, 4))
    for axis, where in enumerate(t.lay):
        if where == d:
            t = g.to(t, axis, "R")
    n = t.shape[d]
    lay = tuple(w - 1 if isinstance(w, int) and w > d else w for w in t.lay)
    seq = g.seq.emit(op, t.seq, dims=(d,), keepdim=False)

    def piece(b: Builder, x: Value) -> Value:
        y = b.emit(op, x, dims=(d,), keepdim=False)
        return y if op == "sum" else b.emit("scale", y, by=Fraction(int(x.shape[d]), n))  # type: ignore[arg-type]

    return g.keep(Tensor(seq, _added(g, t, d, piece, parts), lay))


def split_products(g: Generator) -> Tensor:
    """A matmul; the ranks add up products of pieces of the inner dim."""
    t = pick(g)
    if len(t.shape) < 2:
        raise Skip
    last = len(t.shape) - 1
    t = g.mended(t, keep=(last,))
    n = t.shape[-1]
    w = g.input("f32", (n, int(g.rng.choice(EXTENTS))), ("R",) * len(g.size))
    at = sorted({n * k // 3 for k in range(4)})
    seq = g.seq.emit("matmul", t.seq, w.seq)
    dist = []
    for r, b in enumerate(g.dist):
        total = None
        for i, j in itertools.pairwise(at):
            x = b.emit("slice", t.dist[r], dim=last, start=i, stop=j)
            y = b.emit("matmul", x, b.emit("slice", w.dist[r], dim=0, start=i, stop=j))
            total = y if total is None else b.emit("add", total, y)
        assert total is not None
        dist.append(total)
    return g.keep(Tensor(seq, tuple(dist), t.lay))


def _added(g: Generator, t: Tensor, d: int, piece: Part, parts: int) -> tuple[Value, ...]:
    out = []
    for r, b in enumerate(g.dist):
        first, *rest = in_parts(b, t.dist[r], d, piece, parts)
        for y in rest:
            first = b.emit("add", first, y)
        out.append(first)
    return tuple(out)


# ------------------------------------------------------------------ whole axes that are cut


def parallel_softmax(g: Generator) -> Tensor:
    """Softmax and its like over a cut axis: shifted by the common maximum, or not at all."""
    t, axis, d = cut_tensor(g)
    op = str(g.rng.choice(["softmax", "log_softmax", "logsumexp"]))
    shifted = bool(g.rng.random() < 0.7)
    attrs: dict[str, Any] = {"dims": (d,), "keepdim": True} if op == "logsumexp" else {"dim": d}
    lay = with_axis(t.lay, axis, "R") if op == "logsumexp" else t.lay

    def step(b: Builder, x: Value, r: int) -> Value:
        group = g.group(axis, r)
        low = x
        if shifted:
            m = b.emit("max", x, dims=(d,), keepdim=True)
            m = b.emit("all_reduce", m, op="max", **group)
            low = b.emit("sub", x, m)
        e = b.emit("exp", low)
        s = b.emit("all_reduce", b.emit("sum", e, dims=(d,), keepdim=True), op="sum", **group)
        if op == "softmax":
            return b.emit("div", e, s)
        if op == "log_softmax":
            return b.emit("sub", low, b.emit("log", s))
        return b.emit("add", b.emit("log", s), m) if shifted else b.emit("log", s)

    seq = g.seq.emit(op, t.seq, **attrs)
    dist = tuple(step(b, t.dist[r], r) for r, b in enumerate(g.dist))
    return g.keep(Tensor(seq, dist, lay, op == "softmax"))


def parallel_norm(g: Generator) -> Tensor:
    """A root-mean-square norm over a cut last dim."""
    t, axis, d = cut_tensor(g)
    if d != len(t.shape) - 1:
        raise Skip
    eps, n = Fraction(1, 100), t.shape[-1]

    def step(b: Builder, x: Value, r: int) -> Value:
        s = b.emit("sum", b.emit("mul", x, x), dims=(d,), keepdim=True)
        s = b.emit("all_reduce", s, op="sum", **g.group(axis, r))
        s = b.emit("shift", b.emit("scale", s, by=Fraction(1, n)), by=eps)
        return b.emit("mul", x, b.emit("rsqrt", s))

    seq = g.seq.emit_all("rms_norm", t.seq, naxes=1, eps=eps)[0]
    dist = tuple(step(b, t.dist[r], r) for r, b in enumerate(g.dist))
    return g.keep(Tensor(seq, dist, t.lay))


def cross_entropy(g: Generator) -> Tensor:
    """Log-probabilities at ids, the vocabulary cut: each rank looks in its own part."""
    t, axis, d = cut_tensor(g)
    if d != len(t.shape) - 1 or len(t.shape) < 2:
        raise Skip
    lead = with_axis(t.lay, axis, "R")
    ids = ids_input(g, t.shape[:-1], t.shape[-1], lead)
    shape = t.shape[:-1]

    def step(b: Builder, x: Value, i: Value, r: int) -> Value:
        low, high = g.own(axis, t.shape[-1], r)
        group = g.group(axis, r)
        out = b.emit(
            "logic", b.emit("compare", i, kind="lt", value=low),
            b.emit("compare", i, kind="ge", value=high), kind="or",
        )  # fmt: skip
        j = b.emit("masked_fill", b.emit("shift", i, by=-low), out, value=0)
        y = b.emit("masked_fill", b.emit("take_along", x, j), out, value=0)
        y = b.emit("all_reduce", y, op="sum", **group)
        s = b.emit("sum", b.emit("exp", x), dims=(d,), keepdim=False)
        return b.emit("sub", y, b.emit("log", b.emit("all_reduce", s, op="sum", **group)))

    seq = g.seq.emit("take_along", g.seq.emit("log_softmax", t.seq, dim=d), ids.seq)
    dist = tuple(step(b, t.dist[r], ids.dist[r], r) for r, b in enumerate(g.dist))
    assert len(seq.shape) == len(shape)
    return g.keep(Tensor(seq, dist, lead))


# ------------------------------------------------------------------ experts


def experts(g: Generator) -> Tensor:
    """A product for each expert: tokens [E, T, D], weights [E, D, F]. Tokens that are cut come
    to the ranks of their experts by an exchange."""
    e, n, k, f = (int(g.rng.choice(EXTENTS)) for _ in range(4))
    found = [t for t in g.pool if t.kind == "f" and len(t.shape) == 3]
    x = found[-1] if found and g.rng.random() < 0.6 else g.input("f32", (e, n, k))
    x = g.mended(x, keep=(2,))
    w = g.input("f32", (x.shape[0], x.shape[2], f), ("R",) * len(g.size))
    out: list[Lay] = []
    for axis in range(len(g.size)):
        free = g.can_cut(axis, x.shape[0]) and 0 not in (*x.lay[:axis], *x.lay[axis + 1 :])
        if free and g.rng.random() < 0.7:
            x, w = g.to(x, axis, 0), g.to(w, axis, 0)
        elif x.lay[axis] == 0:
            w = g.to(w, axis, 0)
        out.append(x.lay[axis])
    if tuple(w.lay) != tuple(0 if a == 0 else "R" for a in out) or tuple(out) != x.lay:
        raise Skip
    return g.emit("matmul", [x, w], tuple(out))


def routed(g: Generator) -> Tensor:
    """Each token through the expert that its id names; experts cut, results add up."""
    e, n, k = (int(g.rng.choice(EXTENTS)) for _ in range(3))
    axis = int(g.rng.integers(len(g.size)))
    if not g.can_cut(axis, e):
        raise Skip
    whole: Layout = ("R",) * len(g.size)
    cut = with_axis(whole, axis, 0)
    ids = ids_input(g, (n,), e, whole)
    x, w = g.input("f32", (n, k), whole), g.input("f32", (e, k, k), cut)

    def step(b: Builder, x: Value, w: Value, ids: Value, span: tuple[int, int]) -> Value:
        m = span[1] - span[0]
        h = b.emit("tanh", b.emit("matmul", b.emit("expand", x, shape=(m, n, k)), w))
        own = b.emit("iota", size=m, start=span[0], step=1, dtype="i64")
        own = b.emit("reshape", own, shape=(m, 1))
        hit = b.emit("compare", b.emit("reshape", ids, shape=(1, n)), own, kind="eq")
        gate = b.emit("reshape", b.emit("cast", hit, dtype="f32"), shape=(m, n, 1))
        return b.emit("sum", b.emit("mul", h, gate), dims=(0,), keepdim=False)

    seq = step(g.seq, x.seq, w.seq, ids.seq, (0, e))
    dist = tuple(
        step(b, x.dist[r], w.dist[r], ids.dist[r], g.own(axis, e, r)) for r, b in enumerate(g.dist)
    )
    return g.keep(Tensor(seq, dist, with_axis(whole, axis, "P")))
