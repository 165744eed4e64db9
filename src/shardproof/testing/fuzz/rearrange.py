"""Steps of random programs: views, integers, booleans, lookups, changes of layout."""

from __future__ import annotations

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Value
from shardproof.testing.fuzz.generate import Generator, Lay, Layout, Tensor
from shardproof.testing.fuzz.steps import EXTENTS, Skip, pick, some_dim


def permute(g: Generator) -> Tensor:
    t = pick(g)
    if len(t.shape) < 2:
        raise Skip
    perm = tuple(int(p) for p in g.rng.permutation(len(t.shape)))
    lay = tuple(perm.index(w) if isinstance(w, int) else w for w in t.lay)
    return g.emit("permute", [t], lay, {"perm": perm}, positive=t.positive)


def merge_dims(g: Generator) -> Tensor:
    """Two neighbouring dims become one; the inner one must be whole."""
    t = pick(g)
    if len(t.shape) < 2:
        raise Skip
    d = int(g.rng.integers(len(t.shape) - 1))
    for axis, where in enumerate(t.lay):
        if where == d + 1 or (where == d and axis in g.uneven):
            t = g.to(t, axis, "R")
    shape = (*t.shape[:d], t.shape[d] * t.shape[d + 1], *t.shape[d + 2 :])
    lay = tuple(w - 1 if isinstance(w, int) and w > d else w for w in t.lay)
    return _reshape(g, t, shape, lay)


def split_dim(g: Generator) -> Tensor:
    """One dim becomes two; a cut stays with the outer one, where that divides."""
    t = pick(g)
    d = some_dim(g, t)
    inner = [q for q in (2, 3) if t.shape[d] % q == 0 and t.shape[d] > q]
    if not inner or len(t.shape) > 3:
        raise Skip
    q = int(g.rng.choice(inner))
    shape = (*t.shape[:d], t.shape[d] // q, q, *t.shape[d + 1 :])
    for axis, where in enumerate(t.lay):
        if where == d and (axis in g.uneven or not g.fits(shape, t.lay[: axis + 1])):
            t = g.to(t, axis, "R")
    lay = tuple(w + 1 if isinstance(w, int) and w > d else w for w in t.lay)
    return _reshape(g, t, shape, lay)


def _reshape(g: Generator, t: Tensor, shape: tuple[int, ...], lay: Layout) -> Tensor:
    return g.emit(
        "reshape", [t], lay, {"shape": shape},
        lambda r: {"shape": g.local(shape, lay, r)}, positive=t.positive,
    )  # fmt: skip


def cut(g: Generator) -> Tensor:
    t = pick(g)
    d = some_dim(g, t)
    if d in t.lay:
        t = g.to(t, t.lay.index(d), "R")
    even = [n for n in EXTENTS if n < t.shape[d]]
    if not even:
        raise Skip
    n = int(g.rng.choice(even))
    a = int(g.rng.integers(t.shape[d] - n + 1))
    return g.emit("slice", [t], t.lay, {"dim": d, "start": a, "stop": a + n}, positive=t.positive)


def concat(g: Generator) -> Tensor:
    a = pick(g)
    if not a.shape or max(a.shape) > 8:
        raise Skip
    fits = [t for t in g.pool if t.kind == "f" and t.shape == a.shape]
    b = fits[int(g.rng.integers(len(fits)))]
    d = some_dim(g, a)
    a = g.mended(a, keep=(d,)) if g.rng.random() < 0.7 or "P" not in a.lay else a
    if d in a.lay:
        a = g.to(a, a.lay.index(d), "R")
    b = g.relay(b, a.lay)
    return g.emit("concat", [a, b], a.lay, {"dim": d}, positive=a.positive and b.positive)


def expand(g: Generator) -> Tensor:
    t = pick(g)
    if len(t.shape) > 2:
        raise Skip
    n = int(g.rng.choice(EXTENTS))
    shape = (n, *t.shape)
    lay: Layout = tuple(w + 1 if isinstance(w, int) else w for w in t.lay)
    return g.emit(
        "expand", [t], lay, {"shape": shape}, lambda r: {"shape": g.local(shape, lay, r)},
        positive=t.positive,
    )  # fmt: skip


def relayout(g: Generator) -> Tensor:
    t = pick(g)
    t = g.mended(t) if g.rng.random() < 0.8 else t
    axis = int(g.rng.integers(len(g.size)))
    lay = t.lay
    free = [
        d for d in range(len(t.shape))
        if d not in lay[axis + 1 :] and g.fits(t.shape, (*lay[:axis], d, *lay[axis + 1 :]))
    ]  # fmt: skip
    choices: list[Lay] = ["R", *free]
    if t.lay[axis] == "R":
        choices.append("P")
    return g.to(t, axis, choices[int(g.rng.integers(len(choices)))])


def to_self(g: Generator) -> Tensor:
    """A collective over groups of one: nothing happens."""
    t = pick(g)
    return g.on_ranks(
        t, t.lay, lambda b, x, r: b.emit("all_reduce", x, op="sum", group=(r,), group_size=1)
    )


# ------------------------------------------------------------------ positions and booleans


def positions(g: Generator) -> Tensor:
    """Numbers 0, 1, ... along the last dim, added with each rank's own offset."""
    t = pick(g)
    if not t.shape:
        raise Skip
    t = g.mended(t)
    d, n = len(t.shape) - 1, t.shape[-1]
    lay: Layout = tuple(0 if w == d else "R" for w in t.lay)

    def own(r: int) -> dict[str, object]:
        start, stop = 0, n
        for a, w in enumerate(lay):
            if w == 0:
                lo, hi = g.own(a, stop - start, r)
                start, stop = start + lo, start + hi
        return {"size": stop - start, "start": start, "step": 1, "dtype": "i64"}

    i = g.emit("iota", [], lay, {"size": n, "start": 0, "step": 1, "dtype": "i64"}, own)
    if g.rng.random() < 0.4:
        k = int(g.rng.integers(1, n + 1))
        mask = g.emit("compare", [i], lay, {"kind": "lt", "value": k})
        return g.emit("masked_fill", [t, mask], t.lay, {"value": int(g.rng.integers(-1, 2))})
    return g.emit("mul", [t, g.emit("cast", [i], lay, {"dtype": "f32"})], t.lay)


def choose(g: Generator) -> Tensor:
    a = g.mended(pick(g))
    other = [t for t in g.pool if t.kind == "f" and t.shape == a.shape]
    b = g.relay(other[int(g.rng.integers(len(other)))], a.lay)
    kind = str(g.rng.choice(["lt", "le", "gt", "ge", "eq", "ne"]))
    if g.rng.random() < 0.5:
        c = g.emit("compare", [a, b], a.lay, {"kind": kind})
    else:
        c = g.emit("compare", [a], a.lay, {"kind": kind, "value": int(g.rng.integers(-1, 2))})
    if g.rng.random() < 0.3:
        d = g.emit("compare", [b], a.lay, {"kind": "ge", "value": 0})
        word = str(g.rng.choice(["and", "or", "xor"]))
        c = g.emit("logic", [c, d], a.lay, {"kind": word})
    if g.rng.random() < 0.3:
        c = g.emit("logic", [c], a.lay, {"kind": "not"})
    if g.rng.random() < 0.3:
        return g.emit("cast", [c], a.lay, {"dtype": "f32"})
    return g.emit("where", [c, a, b], a.lay)


# ------------------------------------------------------------------ lookups


def ids_input(g: Generator, shape: tuple[int, ...], limit: int, lay: Layout) -> Tensor:
    t = g.input("i64", shape, lay)
    g.ranges[t.seq.name] = (0, limit)
    return t


def embed(g: Generator) -> Tensor:
    """Rows of a table by id: a plain table, columns cut, or the vocabulary cut and masked."""
    rows, width, count = (int(g.rng.choice(EXTENTS)) for _ in range(3))
    axis = int(g.rng.integers(len(g.size)))
    whole: Layout = ("R",) * len(g.size)
    ids = ids_input(g, (count,), rows, whole)
    how = str(g.rng.choice(["plain", "columns", "rows", "ids"]))
    if how == "ids" and g.can_cut(axis, count):
        ids = g.to(ids, axis, 0)
    where: Lay = {"columns": 1, "rows": 0}.get(how, "R")
    if isinstance(where, int) and not g.can_cut(axis, (rows, width)[where]):
        where = "R"
    lay = tuple(where if a == axis else "R" for a in range(len(g.size)))
    table = g.input("f32", (rows, width), lay)
    if where == 0:
        return _masked_embed(g, table, ids, axis, rows)
    out = tuple(1 if w == 1 else (0 if w == 0 else "R") for w in _join(table.lay, ids.lay))
    return g.emit("take_rows", [table, ids], out)


def _join(a: Layout, b: Layout) -> Layout:
    return tuple(x if x != "R" else y for x, y in zip(a, b, strict=True))


def _masked_embed(g: Generator, table: Tensor, ids: Tensor, axis: int, rows: int) -> Tensor:
    seq = g.seq.emit("take_rows", table.seq, ids.seq)
    cuts = g.cuts(axis, rows)

    def step(b: Builder, t: Value, i: Value, r: int) -> Value:
        low, high = cuts[g.coords[r][axis]], cuts[g.coords[r][axis] + 1]
        below = b.emit("compare", i, kind="lt", value=low)
        above = b.emit("compare", i, kind="ge", value=high)
        out = b.emit("logic", below, above, kind="or")
        j = b.emit("masked_fill", b.emit("shift", i, by=-low), out, value=0)
        y = b.emit("take_rows", t, j)
        return b.emit("masked_fill", y, b.emit("reshape", out, shape=(*out.shape, 1)), value=0)

    dist = tuple(step(b, table.dist[r], ids.dist[r], r) for r, b in enumerate(g.dist))
    lay = tuple("P" if a == axis else "R" for a in range(len(g.size)))
    return g.keep(Tensor(seq, dist, lay))


def along(g: Generator) -> Tensor:
    """One element of each row taken, or replaced."""
    t = pick(g)
    if len(t.shape) < 2:
        raise Skip
    d = len(t.shape) - 1
    t = g.mended(t, keep=(d,))
    ids = ids_input(g, t.shape[:-1], t.shape[-1], t.lay)
    if g.rng.random() < 0.5:
        return g.emit("take_along", [t, ids], t.lay)
    v = g.input("f32", t.shape[:-1], t.lay)
    return g.emit("put_along", [t, ids, v], t.lay)


def scatter(g: Generator) -> Tensor:
    """Rows added up by id; cut along the positions it is a partial sum."""
    t = pick(g, rank=2)
    t = g.mended(t)
    rows = int(g.rng.choice(EXTENTS))
    lay: Layout = tuple(0 if w == 0 else "R" for w in t.lay)
    ids = ids_input(g, t.shape[:1], rows, lay)
    out: Layout = tuple("P" if w == 0 else w for w in t.lay)
    return g.emit("add_rows", [t, ids], out, {"rows": rows})
