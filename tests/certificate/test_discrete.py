"""Conditions, choices and lookups step by step: what they are, and near misses."""

from __future__ import annotations

from fractions import Fraction
from itertools import product as choices
from types import SimpleNamespace
from typing import Any

import pytest
from tests.certificate.test_rules import HERE, N, algebra, defined, one, read, term
from tests.certificate.test_steps import tagged

from shardproof.certificate.claimed import Claimed
from shardproof.certificate.claims import Atom, Cell, Claims, Meaning, Piece, Term
from shardproof.certificate.discrete import Discrete, _constant, _linear
from shardproof.certificate.exact import NotChecked, const, quotient, variable
from shardproof.certificate.functions import Functions
from shardproof.certificate.pieces import WHOLE
from shardproof.certificate.products import AtLeast, Equal, Read, Sum
from shardproof.certificate.region import Region, Split
from shardproof.certificate.rules import Moved, Source
from shardproof.ir.graph import TensorType
from shardproof.ops import base as alg

X, Y = term((read(2), 1)), term((read(3), 1))
IDS = 6
MORE = [Atom("t", "", (), (), (), (), 0, ())]


def discrete(*more: Atom, stating: bool = False, known: Any = None) -> Discrete:
    """``t`` is atom 6."""
    at = algebra(*MORE, *more)
    out = Discrete(at, Functions(at))
    out.stating = stating
    if known is not None:
        at.known[IDS] = known
    return out


# ------------------------------------------------------------------ conditions as arithmetic


def minus(x: Sum, by: Any = -1) -> Sum:
    return [(p, c * by) for p, c in x]


ONE = term()
BOTH = term((read(2), 1), (read(3), 1))
LOGIC: dict[str, tuple[list[Sum], Sum]] = {
    "not": ([X], [*ONE, *minus(X)]),
    "and": ([X, Y], BOTH),
    "or": ([X, Y], [*X, *Y, *minus(BOTH)]),
    "xor": ([X, Y], [*X, *Y, *minus(BOTH, -2)]),
}


@pytest.mark.parametrize("kind", LOGIC)
def test_logic(kind: str) -> None:
    operands, expected = LOGIC[kind]
    run = discrete()
    for other in LOGIC.values():
        found = run._arithmetic(alg.Logic(kind), operands, HERE, other[1])
        assert found == (other[1] == expected)


Z = term((read(5), 1))
SEVEN = term(c=7)


def chosen(mask: Sum, yes: Sum, no: Sum) -> Sum:
    def times(a: Sum, b: Sum) -> Sum:
        return [(p._replace(factors=(*p.factors, *q.factors)), c * d) for p, c in a for q, d in b]  # type: ignore[operator]

    return [*times(mask, yes), *no, *minus(times(mask, no))]


def test_choices() -> None:
    run = discrete()
    filled = alg.Select(Fraction(7))
    assert run._arithmetic(filled, [X, Y], HERE, chosen(Y, SEVEN, X))
    assert not run._arithmetic(filled, [X, Y], HERE, chosen(X, SEVEN, Y))
    assert not run._arithmetic(filled, [X, Y], HERE, chosen(Y, X, SEVEN))
    where = alg.Select()
    for order in choices((X, Y, Z), repeat=3):
        right = list(order) == [X, Y, Z]
        if len({id(o) for o in order}) == 3:
            assert run._arithmetic(where, [X, Y, Z], HERE, chosen(*order)) == right
    assert not run._arithmetic(alg.Identity(), [X], HERE, X)


PAIRS = [
    defined("compare_ge", one(2), one(3)), defined("compare_ge", one(3), one(2)),
    defined("compare_eq", one(2), one(3)), defined("compare_ge", one(2), attrs=(3,)),
    defined("compare_gt", one(2), attrs=(3,)), defined("compare_eq", one(2), attrs=(3,)),
]  # fmt: skip
GE, LE, EQ, GE_3, GT_3, EQ_3 = range(7, 13)


def named(k: int, flip: bool = False) -> Sum:
    found = term((read(k), 1))
    return [*ONE, *minus(found)] if flip else found


@pytest.mark.parametrize(
    ("kind", "k", "flip"),
    [("ge", GE, False), ("le", LE, False), ("gt", LE, True), ("lt", GE, True), ("eq", EQ, False),
     ("ne", EQ, True)],
)  # fmt: skip
def test_comparisons(kind: str, k: int, flip: bool) -> None:
    for other, turned in choices((GE, LE, EQ), (False, True)):
        try:
            found = discrete(*PAIRS)._arithmetic(
                alg.Compare(kind), [X, Y], HERE, named(other, turned)
            )
        except NotChecked:
            found = False
        assert found == ((other, turned) == (k, flip))


def test_equality_has_no_order() -> None:
    run = discrete(*PAIRS)
    assert run._arithmetic(alg.Compare("eq"), [Y, X], HERE, named(EQ))
    for kind, k in (("ge", GE), ("le", LE)):
        with pytest.raises(NotChecked):
            run._arithmetic(alg.Compare(kind), [Y, X], HERE, named(k))


@pytest.mark.parametrize(("kind", "k"), [("ge", GE_3), ("gt", GT_3), ("eq", EQ_3)])
def test_comparisons_with_a_number(kind: str, k: int) -> None:
    """They are named as they are."""
    for other, flip in choices((GE, GE_3, GT_3, EQ_3), (False, True)):
        try:
            found = discrete(*PAIRS)._arithmetic(
                alg.Compare(kind, Fraction(3)), [X], HERE, named(other, flip)
            )
        except NotChecked:
            found = False
        assert found == ((other, flip) == (k, False))


# ------------------------------------------------------------------ functions of integers

LOW = (Piece(None, 2, 0, 1), Piece(2, None, 0, 0))  # [t < 2]
SHIFTED = (Piece(None, None, 1, -3),)  # t - 3


def worked(rule: Any, *parts: Any) -> list[Piece]:
    """The function of the base, on pieces of one value each (0 to 5)."""
    views = [(tagged(4, 1), p) for p in parts]
    bases, found = discrete()._worked_out(rule, views, None)  # type: ignore[arg-type]
    assert bases == [b for b, _ in views]
    return found


def at(found: list[Piece], t: int) -> Any:
    (p,) = [p for p in found if (p.lo is None or p.lo <= t) and (p.hi is None or t < p.hi)]  # type: ignore[operator]
    return p.a * t + p.c


@pytest.mark.parametrize(
    ("rule", "parts", "value"),
    [
        (
            alg.Linear((Fraction(1), Fraction(2)), Fraction(5)),
            (WHOLE, SHIFTED),
            lambda t: 3 * t - 1,
        ),
        (alg.Linear((Fraction(-2),)), (SHIFTED,), lambda t: 6 - 2 * t),
        (alg.Monomial((Fraction(1),) * 2), (WHOLE, LOW), lambda t: t if t < 2 else 0),
        (alg.Logic("not"), (LOW,), lambda t: int(t >= 2)),
        (alg.Logic("and"), (LOW, LOW), lambda t: int(t < 2)),
        (alg.Compare("lt", Fraction(1)), (SHIFTED,), lambda t: int(t < 4)),
        (alg.Compare("ge", Fraction(1)), (SHIFTED,), lambda t: int(t >= 4)),
        (alg.Select(Fraction(9)), (SHIFTED, LOW), lambda t: 9 if t < 2 else t - 3),
        (alg.Select(), (LOW, WHOLE, SHIFTED), lambda t: t if t < 2 else t - 3),
    ],
)
def test_functions_of_an_integer(rule: Any, parts: Any, value: Any) -> None:
    found = worked(rule, *parts)
    assert [at(found, t) for t in range(-3, 8)] == [value(t) for t in range(-3, 8)]


@pytest.mark.parametrize(
    ("message", "rule", "parts"),
    [
        ("of real numbers", alg.Logic("not"), ((),)),
        ("of real numbers", alg.Logic("and"), (LOW, ())),
        ("of another operator", alg.Monomial((Fraction(2), Fraction(1))), (WHOLE, LOW)),
        ("of another operator", alg.Monomial((Fraction(1),) * 3), (LOW, LOW, LOW)),
        ("of another operator", alg.Monomial((Fraction(1),)), (LOW,)),
        ("of another operator", alg.Compare("ge"), (WHOLE, LOW)),
        ("of another operator", alg.Compare("ge", float("inf")), (WHOLE,)),
        ("of another operator", alg.Pointwise("abs"), (WHOLE,)),
        ("infinite integer", alg.Select(float("-inf")), (WHOLE, LOW)),
        ("with a fraction", alg.Select(Fraction(1, 2)), (WHOLE, LOW)),
        ("product of two indices", alg.Monomial((Fraction(1),) * 2), (WHOLE, WHOLE)),
    ],
)
def test_no_functions_of_an_integer(message: str, rule: Any, parts: Any) -> None:
    with pytest.raises(NotChecked, match=message):
        worked(rule, *parts)


def test_a_linear_function() -> None:
    assert _linear([2, 3], 1, [(1, 5), (0, 7)]) == (2, 32)
    assert _linear([N], 0, [(0, 2)]) == (0, 2 * N)
    assert _linear([-1], 4, [(3, 5)]) == (-3, -1)


def constant(*lins: Any, base: Any = None) -> int | None:
    cells = tuple(Cell((k,), (k + 1,), lin) for k, lin in enumerate(lins))
    return _constant(Meaning(((len(lins),),), cells, base))


UNIT = Term.of(0, (None,), (), ())


def test_a_tensor_of_one_integer() -> None:
    assert constant(((UNIT, 3),)) == 3
    assert constant(((UNIT, 3),), ((UNIT, 3),)) == 3
    assert constant(()) == 0
    some = Meaning(((1,),), (Cell((0,), (1,), ((UNIT, 3),)),))
    assert constant(((UNIT, 3),), base=some) is None
    assert constant(((UNIT, 3),), ((UNIT, 4),)) is None
    assert constant(((Term.of(2, (None,), (), ()), 3),)) is None
    assert constant(((UNIT, Fraction(1, 2)),)) is None
    assert constant(((UNIT, quotient(N, 1)),)) is None
    assert constant(((UNIT, 1), (UNIT, 2))) is None
    view = Moved(alg.Reshape((1,)), tagged(4, 1), (some,))
    assert _constant(view) == 3
    assert _constant(Moved(alg.Concat(0), tagged(4, 2), (some, some))) is None


# ------------------------------------------------------------------ what is known of ids


def ids(k: int = IDS, c: Any = 1, more: Any = (), base: Any = None, pieces: Any = ()) -> Meaning:
    lin = ((Term.of(k, (None,), (), ()), c), *more)
    return Meaning(((4,),), (Cell((0,), (4,), lin),), base, pieces)


def test_a_lookup_states_a_range() -> None:
    run = discrete(stating=True)
    run.state(5, ids(), {IDS})
    assert run.algebra.known[IDS] == (0, 5)
    assert list(run.assumed) == ["0 <= t < 5 (it indexes a table of 5 rows)"]
    run.state(9, ids(), {IDS})  # says no more
    assert run.algebra.known[IDS] == (0, 5)
    assert len(run.assumed) == 1
    run.state(3, ids(), {IDS})
    assert run.algebra.known[IDS] == (0, 3)
    assert len(run.assumed) == 2


@pytest.mark.parametrize(
    "m", [ids(k=2), ids(c=2), ids(more=((UNIT, 1),)), ids(k=7)]
)  # fmt: skip
def test_a_lookup_that_states_nothing(m: Meaning) -> None:
    run = discrete(defined("f", one(2)), stating=True)
    run.state(5, m, {IDS})
    assert not run.algebra.known
    assert not run.assumed


def test_ids_under_a_mask() -> None:
    """Where they are not masked they index the table."""
    masked = (Piece(None, 0, 0, 0), Piece(0, None, 1, 0))
    run = discrete(stating=True)
    run.state(5, ids(k=2, base=ids(), pieces=masked), {IDS})
    assert run.allowed[IDS] == [Piece(None, 0, 0, 0), Piece(0, 5, 1, 0)]
    (text,) = run.assumed
    assert text.endswith("0 <= t < 5 (it indexes a table of 5 rows)")
    assert not run.algebra.known
    with pytest.raises(NotChecked, match="do not cover"):
        discrete(stating=True).state(5, ids(base=ids(), pieces=masked[:1]), {IDS})


def test_only_the_sequential_program_states() -> None:
    run = discrete()
    assert run._stated(IDS, WHOLE, 5) == list(WHOLE)
    masked = (Piece(None, 0, 0, 0), Piece(0, None, 1, 0))
    assert run._stated(IDS, masked, 5) == list(masked)
    assert not run.algebra.known
    assert not run.allowed
    assert not run.assumed
    named_ids = discrete(defined("f", one(2)), stating=True)
    assert named_ids._stated(7, WHOLE, 5) == list(WHOLE)
    assert named_ids._stated(7, masked, 5) == list(masked)
    assert not named_ids.assumed
    out = (Piece(None, 0, 0, 9), Piece(0, None, 1, 0))  # masked ids that leave the table
    assert discrete(stating=True)._stated(IDS, out, 5) == list(out)
    place = discrete(stating=True)
    assert place._stated(1, masked, 5) == list(masked)
    ranged = discrete(stating=True, known=(-2, 9))
    assert ranged._stated(IDS, masked, 5) == [Piece(-2, 0, 0, 0), Piece(0, 9, 1, 0)]
    assert not place.assumed
    assert not ranged.assumed
    both = discrete(known=(0, 4))
    assert both._stated(IDS, masked, 5) == [Piece(0, 4, 1, 0)]


def inside(pieces: Any, rows: Any, **how: Any) -> bool:
    try:
        discrete(**how)._inside(term((read(IDS), 1)), pieces, rows)
    except NotChecked:
        return False
    return True


def test_ids_inside_a_table() -> None:
    assert inside(WHOLE, 4, known=(0, 4))
    assert inside(WHOLE, 5, known=(0, 4))
    assert not inside(WHOLE, 3, known=(0, 4))
    assert not inside(WHOLE, 4, known=(-1, 4))
    assert not inside(WHOLE, 4)
    assert inside(SHIFTED, 4, known=(3, 7))
    assert not inside(SHIFTED, 4, known=(2, 7))
    assert not inside(SHIFTED, 4, known=(3, 8))
    partly = (Piece(None, 2, 1, 0), Piece(2, None, 0, 9))
    assert not inside(partly, 4, known=(0, 4))
    assert inside(partly, 4, known=(0, 2))
    assert not inside(WHOLE, 4, known=(4, 4))  # no id at all


# ------------------------------------------------------------------ lookups

REGION = Region({8: (0, 4)}, ())
V = variable(8)
T = read(IDS)


def hits(pieces: Any, v: Any, known: Any = (0, 4), region: Region = REGION) -> Sum:
    return discrete(known=known)._hits(term((T, 1)), pieces, 4, v, region)


def test_which_element_an_index_hits() -> None:
    assert hits(WHOLE, V) == term((Equal(T, V), 1), (AtLeast(T, 0), 1)) + term(
        (Equal(T, V), 1), (AtLeast(T, 4), 1), c=-1
    )
    shifted = hits(SHIFTED, V, known=(3, 7))
    assert {p.factors[0][0] for p, _ in shifted} == {Equal(T, (3, ((8, 1),)))}
    always = (Piece(None, None, 0, 2),)
    where = [*term((AtLeast(T, 0), 1)), *term((AtLeast(T, 4), 1), c=-1)]
    assert hits(always, const(2)) == where
    assert hits(always, const(1)) == hits(always, const(3)) == []
    assert hits(always, (3, ((8, 1),))) == hits(always, (-4, ((8, 1),))) == []
    assert hits(always, V, region=Region({8: (3, 9)}, ())) == []
    assert hits(always, V, region=Region({8: (0, 2)}, ())) == []
    for v, at_ in ((V, 2), ((1, ((8, 1),)), 1), ((2, ((8, 1),)), 1), ((-1, ((8, 1),)), 3)):
        with pytest.raises(Split) as cut:
            hits(always, v)
        assert (cut.value.var, cut.value.points, cut.value.radix) == (8, (at_,), None)
    for v in ((0, ((8, 2),)), (0, ((8, 1), (9, 1)))):
        with pytest.raises(NotChecked, match="no single variable"):
            hits(always, v, region=Region({8: (0, 4), 9: (0, 4)}, ()))


def looked_up(pieces: Any, t: Read, known: Any = (0, 4), dim: int = 0, at_: Any = ()) -> Sum:
    table = tagged(4, *(5, 3) if at_ else (5,))
    run = discrete(known=known)
    return run._take(table, dim, at_, term((t, 1)), pieces, 5, REGION)


def test_rows_at_a_position() -> None:
    place = Read(1, (V,))
    assert looked_up(WHOLE, place) == term((Read(4, (V,)), 1))
    later = (Piece(None, None, 1, 1),)
    assert looked_up(later, place) == term((Read(4, ((1, ((8, 1),)),)), 1))
    assert looked_up(WHOLE, place, at_=[const(2)]) == term((Read(4, (V, const(2))), 1))
    assert looked_up(WHOLE, place, dim=1, at_=[const(2)])[0][0].factors == (
        (Read(4, (const(2), V)), 1),
    )
    for pieces in ((Piece(None, None, 1, 2),), (Piece(None, None, 1, -1),)):
        with pytest.raises(NotChecked, match="position that may leave"):
            looked_up(pieces, place)
    with pytest.raises(NotChecked, match="may leave its table"):
        looked_up((Piece(None, 2, 1, 0), Piece(2, None, 1, 9)), place)


def test_rows_by_ids() -> None:
    ((p, c),) = looked_up(WHOLE, T)
    ((v, lo, hi),) = p.ranges
    assert (lo, hi, c) == (0, 4, 1)
    assert p.factors == ((Equal(T, variable(v)), 1), (Read(4, (variable(v),)), 1))
    ((p, _),) = looked_up(SHIFTED, T, known=(3, 7))
    (v, lo, hi) = p.ranges[0]
    assert (lo, hi) == (0, 4)
    assert p.factors == ((Equal(T, (3, ((v, 1),))), 1), (Read(4, (variable(v),)), 1))
    masked = (Piece(None, 2, 0, 3), Piece(2, None, 1, 0))
    first, second, third = looked_up(masked, T)
    row = (Read(4, (const(3),)), 1)
    assert [first, second] == [*term((AtLeast(T, 0), 1), row), *term((AtLeast(T, 2), 1), row, c=-1)]
    assert third[0].ranges[0][1:] == (0, 2)
    with pytest.raises(NotChecked, match="may leave its table"):
        looked_up(WHOLE, T, known=(0, 6))


def test_the_one_term_of_ids() -> None:
    assert Discrete.single(term((T, 1))) == T
    for x in ([*X, *Y], term((T, 1), c=2), []):
        with pytest.raises(NotChecked, match="combination of several"):
            Discrete.single(x)


def test_the_value_of_a_function_of_ids() -> None:
    run = discrete()
    base = term((T, 1))
    assert run.value(base, WHOLE) == base + term(c=0)
    assert run.value(base, (Piece(None, 2, 0, 0), Piece(2, None, 0, 1))) == term((AtLeast(T, 2), 1))
    line = run.value(base, (Piece(None, 2, 3, 5), Piece(2, None, 0, 0)))
    full = [*term((T, 1), c=3), *term(c=5)]
    expected = chosen([*ONE, *term((AtLeast(T, 2), 1), c=-1)], full, [])
    assert run.algebra.equal(line, expected, HERE)


def made(rule: Any, sources: list[Source], pieces: Any, *at_: Any, n: int = 1) -> Sum:
    run = discrete(known=(0, 4))
    index = Source((3, 2)[:n], lambda r, at: term((T, 1)))

    class Shape:
        shape = (3,)

    s = run._lookup(rule, sources, (index, pieces), Shape)  # type: ignore[arg-type]
    return s.read(REGION, list(at_))


def test_rows_are_added_and_put() -> None:
    rows = alg.AddRows(4)
    terms = made(rows, [tagged(4, 3, 2)], WHOLE, V, const(1))
    assert {p.ranges[0][1:] for p, _ in terms} == {(0, 3)}
    assert all(len(p.ranges) == 1 for p, _ in terms)
    v = terms[0][0].ranges[0][0]
    assert (Equal(T, V), 1) in terms[0][0].factors
    assert (Read(4, (variable(v), const(1))), 1) in terms[0][0].factors

    wide = made(
        alg.PutAlong(), [tagged(4, 3, 2, 4), tagged(5, 3, 2), tagged(5, 3, 2)], WHOLE,
        const(2), const(1), V, n=2,
    )  # fmt: skip
    before = term((Read(4, (const(2), const(1), V)), 1))
    after = term((Read(5, (const(2), const(1))), 1))
    assert discrete(known=(0, 4)).algebra.equal(wide, chosen(hits(WHOLE, V), after, before), REGION)

    old, new = tagged(4, 3, 4), tagged(5, 3)
    terms = made(alg.PutAlong(), [old, old, new], WHOLE, const(2), V)
    run = discrete(known=(0, 4))
    before, after = term((Read(4, (const(2), V)), 1)), term((Read(5, (const(2),)), 1))
    assert run.algebra.equal(terms, chosen(hits(WHOLE, V), after, before), REGION)


def test_the_index_is_read_at_the_place_at_hand() -> None:
    run = discrete()
    run.algebra.known[4] = (0, 4)
    v = SimpleNamespace(shape=(3, 2, 4))
    sources = [tagged(5, 3, 2, 4), tagged(5, 3, 2), tagged(5, 3, 2)]
    for rule, at_ in ((alg.PutAlong(), (const(2), const(1), V)), (alg.TakeAlong(), (const(2), V))):
        s = run._lookup(rule, sources, (tagged(4, 3, 2), WHOLE), v)  # type: ignore[arg-type]
        read_at = {
            f.base.at
            for p, _ in s.read(REGION, list(at_)) for f, _ in p.factors
            if isinstance(f, Equal | AtLeast)
        }  # fmt: skip
        assert read_at == {at_[:2]}


def test_which_rows_are_taken() -> None:
    ((p, _),) = made(alg.TakeRows(), [tagged(4, 5, 7)], WHOLE, const(2), const(6))
    v = p.ranges[0][0]
    assert p.factors[1] == (Read(4, (variable(v), const(6))), 1)
    ((p, _),) = made(alg.TakeAlong(), [tagged(4, 3, 5)], WHOLE, const(2))
    v = p.ranges[0][0]
    assert p.factors[1] == (Read(4, (const(2), variable(v))), 1)
    ((p, _),) = made(alg.TakeAlong(), [tagged(4, 3, 2, 5)], WHOLE, const(2), const(1), n=2)
    v = p.ranges[0][0]
    assert p.factors[1] == (Read(4, (const(2), const(1), variable(v))), 1)
    for rule, shape in ((alg.TakeRows(), (3, 7)), (alg.TakeAlong(), (7, 3))):
        with pytest.raises(NotChecked, match="may leave its table"):
            made(rule, [tagged(4, *shape)], WHOLE, const(2), const(2))


# ------------------------------------------------------------------ claims about integers

ALONG = Term.of(4, ((0, 1),), (0,), ())
IDS_OF_4 = Meaning(((4,),), (Cell((0,), (4,), ((ALONG, 1),)),))


def number_of(c: int, *, of: Any = None, pieces: Any = ()) -> Meaning:
    """A tensor of one number, perhaps as a function of ids."""
    return Meaning(((4,),), (Cell((0,), (4,), ((UNIT, c),) if c else ()),), of, pieces)


def line(c: int, pieces: Any) -> Meaning:
    """The ids and a number."""
    return Meaning(((4,),), (Cell((0,), (4,), ((ALONG, 1), (UNIT, c))),), IDS_OF_4, pieces)


def claimed(rule: Any, operands: Any, m: Meaning) -> bool:
    run = Claimed(Claims(list(algebra().full), {}, []))
    mine = Discrete(run.algebra, Functions(run.algebra))
    types = [TensorType("i64", (4,)) for _ in operands]
    return mine.check(run, rule, operands, SimpleNamespace(shape=(4,)), types, m)  # type: ignore[arg-type]


def test_a_function_of_ids_covers_all_integers() -> None:
    """A claim that says nothing of the ids for which the condition holds, that it is zero."""
    below = alg.Compare("lt", Fraction(2))
    for pieces in ((Piece(2, None, 0, 0),), (Piece(5, None, 0, 0),), ()):
        with pytest.raises(NotChecked, match="cover the integers"):
            claimed(below, [IDS_OF_4], number_of(0, of=IDS_OF_4, pieces=pieces))


def test_the_values_of_a_function_of_ids_are_compared() -> None:
    shift = alg.Linear((Fraction(1),), Fraction(-3))
    assert claimed(shift, [IDS_OF_4], line(-3, SHIFTED))
    for c in (0, 7):
        with pytest.raises(NotChecked, match="does not follow"):
            claimed(shift, [IDS_OF_4], number_of(c, of=IDS_OF_4, pieces=SHIFTED))
    for pieces in ((Piece(None, None, 1, -2),), WHOLE, (Piece(None, None, 0, 0),)):
        with pytest.raises(NotChecked, match="another one"):
            claimed(shift, [IDS_OF_4], number_of(0, of=IDS_OF_4, pieces=pieces))
    other = Meaning(((4,),), (Cell((0,), (4,), ((ALONG._replace(off=(1,), plain=False), 1),)),))
    with pytest.raises(NotChecked, match="does not follow"):
        claimed(shift, [other], line(-3, SHIFTED))


def test_a_choice_between_numbers() -> None:
    """Constants are the same function of any ids."""
    always = number_of(1, of=IDS_OF_4, pieces=(Piece(None, None, 0, 1),))
    where = alg.Select()
    five = number_of(5, of=IDS_OF_4, pieces=(Piece(None, None, 0, 5),))
    assert claimed(where, [always, number_of(5), number_of(6)], five)
    assert claimed(where, [always, number_of(5), IDS_OF_4], five)
    wrong = [number_of(c, of=IDS_OF_4, pieces=(Piece(None, None, 0, c),)) for c in (6, 0)]
    for m in (*wrong, line(5, (Piece(None, None, 1, 5),))):
        with pytest.raises(NotChecked, match="another one"):
            claimed(where, [always, number_of(5), number_of(6)], m)


def test_what_is_an_integer() -> None:
    mine, run = discrete(), Claimed(Claims(list(algebra().full), {}, []))
    for dtype, pieces in (("i64", WHOLE), ("b8", WHOLE), ("f32", ())):
        assert mine.view(run, IDS_OF_4, dtype)[1] == pieces
    assert mine.view(run, number_of(1, of=IDS_OF_4, pieces=LOW), "f32")[1] == LOW
    assert not claimed(alg.Identity(), [IDS_OF_4], IDS_OF_4)
