"""Every check on its own: what it is there for is refused, and by its own words.

Altered certificates are mostly refused by several checks at once; a check that is missing would
not be seen there.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.certificate.corpus import as_data, certificate
from tests.support.programs import builder

from shardproof.certificate import pieces as pw
from shardproof.certificate.algebra import Algebra
from shardproof.certificate.canonical import _steps_vanish, ordered
from shardproof.certificate.claims import (
    Atom,
    Cell,
    Meaning,
    Piece,
    Term,
    well_formed,
    well_formed_atom,
)
from shardproof.certificate.communication import concrete, exact_part, reduction
from shardproof.certificate.copies import Copies, Copy, Table, Template, match, outside
from shardproof.certificate.discrete import Discrete, _linear, _whole
from shardproof.certificate.exact import NotChecked, Quotient, const, variable
from shardproof.certificate.functions import Functions
from shardproof.certificate.guards import confined
from shardproof.certificate.outputs import _all_ranks, _boxes, _covers, _image
from shardproof.certificate.products import AtLeast, Equal, Product, Read
from shardproof.certificate.ranks import Ranks
from shardproof.certificate.reading import check_file
from shardproof.certificate.region import Boxes, Region, Split, digits
from shardproof.certificate.rules import Moved, Source, added, label_sizes, number, sliced
from shardproof.certificate.schedule import Walk, waits
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Mesh, Node, Program, TensorType
from shardproof.ir.sizes import rank_symbol, symbol
from shardproof.ops import base as alg

N = symbol("N")
ALIVE: list[Any] = []  # copies do not keep what they check


class Run(SimpleNamespace):
    """What copies look at of a check; it can be referred to weakly."""


EMPTY = Region({}, ())


def unknown(axes: int = 1) -> Atom:
    return Atom("x", "", (), (), (), (), axes, ())


def atom(fn: str, *operands: Any, n_free: int = 1, size: int = 4, **how: Any) -> Atom:
    axes = how.pop("axes", 1)
    fields = {"lo": (0,) * axes, "hi": (size,) * axes, "whole": (), "attrs": (), **how}
    ops = tuple(((t, 1),) for t in operands)
    return Atom(fn, fn, fields["attrs"], ops, fields["lo"], fields["hi"], n_free, fields["whole"])


def term(k: int, *ax: Any, off: Any = (0,), restr: Any = ()) -> Term:
    return Term.of(k, ax or ((0, 1),), off, restr)


# 0 the constant, 1 the index, 2 an unknown of one axis, 3 its sum over [0, 4)
ATOMS = [unknown(0), unknown(1), unknown(1), atom("sum", term(2), n_free=0)]
SUM = ("sum", 3, 0)


def tensor(*cells: Any, dims: Any = ((4,),)) -> Meaning:
    made = tuple(Cell((a,), (b,), ((t, 1),)) for a, b, t in cells)
    return Meaning(dims, made)


X = tensor((0, 4, term(2)))


def several(fn: str, op: Any) -> Atom:
    return Atom(fn, fn, (), (op,), (0,), (4,), 1, ())


def checked_atom(a: Atom) -> None:
    well_formed_atom([*ATOMS, a], len(ATOMS))


FORM: list[tuple[str, Callable[[], Any]]] = [
    ("walks an axis its atom does not have", lambda: term(2, (1, 1))),
    ("walks an axis its atom does not have", lambda: term(2, (-1, 1))),
    ("first two atoms", lambda: well_formed_atom([atom("f", term(0)), unknown(1)], 0)),
    ("first two atoms", lambda: well_formed_atom([unknown(0), unknown(2)], 1)),
    ("unknown with a definition", lambda: checked_atom(atom("", n_free=1))),
    ("unknown with a definition", lambda: checked_atom(unknown(-1))),
    ("variables that do not fit", lambda: checked_atom(atom("f", term(2), n_free=2))),
    ("variables that do not fit", lambda: checked_atom(atom("f", term(2), n_free=-1))),
    ("variables that do not fit", lambda: checked_atom(atom("f", term(2), whole=(1,)))),
    ("variables that do not fit", lambda: checked_atom(atom("f", term(2), hi=()))),
    ("another number of operands", lambda: checked_atom(atom("ge", term(2), term(2)))),
    *(("another number of operands", lambda fn=fn: checked_atom(atom(fn, term(2), term(2))))
      for fn in ("max", "min", "lin", "power")),
    ("no function of whole axes", lambda: checked_atom(atom("sum", term(2), whole=(0,)))),
    *(("is no reduction", lambda fn=fn: checked_atom(atom(fn, term(2), n_free=0)))
      for fn in ("prod", "lin", "power", "ge", "f")),
    ("is no reduction", lambda: checked_atom(atom("f", term(2), n_free=0, axes=1, whole=()))),
    *(("other than terms", lambda fn=fn, op=op: checked_atom(several(fn, op)))
      for fn in ("sum", "prod") for op in ((), ((term(2), 1), (term(2), 1)))),
    ("ends before it starts", lambda: checked_atom(atom("sum", term(2), n_free=0, lo=(5,)))),
    ("not defined before", lambda: checked_atom(atom("f", term(4)))),
    ("not defined before", lambda: checked_atom(atom("f", term(-1)))),
    ("wrong number of axes", lambda: checked_atom(atom("f", term(2, None, (0, 1))))),
    ("wrong number of axes", lambda: checked_atom(atom("f", term(2, None, off=())))),
    ("two intervals for one", lambda: well_formed(ATOMS, part((SUM, 0, 1), (SUM, 1, 2)))),
    ("an interval that ends", lambda: well_formed(ATOMS, part((SUM, 2, 1)))),
    ("label of another atom", lambda: well_formed(ATOMS, part((("sum", 2, 0), 0, 1)))),
    ("label of another atom", lambda: well_formed(ATOMS, part((("sum", 3), 0, 1)))),
    ("that is no reduction", lambda: well_formed(ATOMS, part((("max", 3, 0), 0, 1)))),
    ("that is no reduction", lambda: well_formed(ATOMS, part((("sum", 3, 1), 0, 1)))),
    ("place that does not exist", lambda: well_formed(ATOMS, part((("in", 3, 1, SUM), 0, 1)))),
    ("digits of less", lambda: well_formed(ATOMS, digits_of(-2, -3))),
    ("digits of less", lambda: well_formed(ATOMS, digits_of(6, -1))),
    ("box with the wrong number", lambda: well_formed(ATOMS, Meaning(((4,), (4,)), X.cells))),
    ("not the whole tensor", lambda: well_formed(ATOMS, tensor((0, 3, term(2))))),
    ("not the whole tensor", lambda: well_formed(ATOMS, tensor((1, 4, term(2))))),
    ("leaves the tensor", lambda: well_formed(ATOMS, two((-1, 2), (2, 4)))),
    ("leaves the tensor", lambda: well_formed(ATOMS, two((0, 2), (2, 5)))),
    ("leaves the tensor", lambda: well_formed(ATOMS, two((0, 2), (4, 2)))),
    ("boxes that overlap", lambda: well_formed(ATOMS, two((0, 2), (1, 3)))),
    ("do not cover", lambda: well_formed(ATOMS, two((0, 2), (3, 4)))),
]  # fmt: skip


def part(*restr: Any) -> Meaning:
    """A part of the sum, as a tensor without axes."""
    t = Term.of(3, (), (), tuple(restr))
    return Meaning((), (Cell((), (), ((t, 1),)),))


def digits_of(*n: int) -> Meaning:
    return Meaning((n,), (Cell((0,) * len(n), n, ((Term.of(0, (None,) * len(n), (), ()), 1),)),))


def two(*spans: tuple[int, int]) -> Meaning:
    return tensor(*((a, b, term(2)) for a, b in spans))


def test_well_formed_claims_are_accepted() -> None:
    for k in range(len(ATOMS)):
        well_formed_atom(ATOMS, k)
    well_formed(ATOMS, X)
    well_formed(ATOMS, two((0, 2), (2, 4)))
    well_formed(ATOMS, part((SUM, 0, 2)))
    well_formed(ATOMS, digits_of(2, 3))
    well_formed(ATOMS, digits_of(N - 1, 3))
    well_formed(ATOMS, digits_of(N - 3))
    checked_atom(atom("f", term(2)))
    checked_atom(atom("f", term(2), whole=(0,)))
    checked_atom(atom("f", term(2), n_free=0, whole=(0,)))
    checked_atom(atom("max", term(2), n_free=0))
    checked_atom(several("lin", ((term(2), 1), (term(2), 1))))


# ------------------------------------------------------------------ copies


def nodes(op: str = "exp", attr: str = "", twice: bool = False, inner: bool = False) -> list[Node]:
    b = Builder(Graph("g"), alg.infer_types)
    x, y = b.input("x", "f32", (4,)), b.input("y", "f32", (4,))
    z = b.emit("gelu", x, approximate=attr) if attr else b.emit(op, x)
    b.emit("add", z, z if inner else x if twice else y)
    return b.graph.nodes


def retyped(k: int) -> list[Node]:
    """The result of one node says that it has another type."""
    made = nodes()
    made[k].outputs[0].type = TensorType("f32", (3,))
    return made


def reading(dtype: str, shape: tuple[int, ...]) -> list[Node]:
    """What is read from outside is of another type, and the results are not."""
    made = nodes()
    made[0].inputs[0].type = TensorType(dtype, shape)
    return made


def shorter() -> list[Node]:
    b = Builder(Graph("g"), alg.infer_types)
    x, y = b.input("x", "f32", (3,)), b.input("y", "f32", (3,))
    b.emit("add", b.emit("exp", x), y)
    return b.graph.nodes


def moved(*operands: Any, shape: Any = (4,)) -> Moved:
    source = Source(shape, lambda r, at: [])
    return Moved(alg.Reshape(shape), source, operands)


def turned(m: Meaning) -> Moved:
    return Moved(alg.Permute((0,)), Source((4,), lambda r, at: []), (m,))


def viewed(base: Meaning | None, *pieces: Piece) -> Meaning:
    return Meaning(X.dims, X.cells, base, pieces)


Y = tensor((0, 4, Term.of(1, ((0, 1),), (0,), ())))
COPIES: list[tuple[str, Callable[[], Any]]] = [
    ("of another length", lambda: outside(nodes(), nodes()[:1])),
    ("not the operator of the layer", lambda: outside(nodes(), nodes("tanh"))),
    ("not the operator", lambda: outside(nodes(attr="none"), nodes(attr="tanh"))),
    ("wired otherwise", lambda: outside(nodes(twice=True), nodes())),
    ("wired otherwise", lambda: outside(nodes(), nodes(inner=True))),
    ("wired otherwise|of other types", lambda: outside(nodes(), shorter())),
    ("wired otherwise", lambda: outside(nodes(), reading("f64", (4,)))),
    ("wired otherwise", lambda: outside(nodes(), reading("f32", (2, 2)))),
    ("of other types", lambda: outside(nodes(), retyped(0))),
    ("of other types", lambda: outside(nodes(), retyped(1))),
    ("of another meaning", lambda: match(viewed(X, END), viewed(Y, END), {}, {})),
    ("another rearrangement", lambda: match(moved(X), moved(X, X), {}, {})),
    ("another rearrangement", lambda: match(moved(X), turned(X), {}, {})),
    ("another rearrangement", lambda: match(moved(X), moved(X, shape=(2, 2)), {}, {})),
    ("a rearrangement, or does not", lambda: match(moved(X), X, {}, {})),
    ("a rearrangement, or does not", lambda: match(X, moved(X), {}, {})),
    ("reads another tensor", lambda: match(X, viewed(X, Piece(None, None, 1, 0)), {}, {})),
    ("reads another tensor", lambda: match(X, Meaning(((2, 2),), X.cells), {}, {})),
    ("of other pieces", lambda: match(X, two((0, 2), (2, 4)), {}, {})),
    ("of another meaning", lambda: match(X, Y, {2: 2}, {})),
    ("of another meaning", lambda: match(X, tensor((0, 4, term(2, off=(1,)))), {}, {})),
    ("of another meaning", lambda: match(X, Meaning(X.dims, (doubled(X),)), {}, {})),
    ("reads part of a sum", lambda: match(part((SUM, 0, 2)), renamed_part(), {3: 4}, {})),
]  # fmt: skip


def doubled(m: Meaning) -> Cell:
    (c,) = m.cells
    return c._replace(lin=tuple((t, 2) for t, _ in c.lin))


def renamed_part() -> Meaning:
    t = Term.of(4, (), (), ((("sum", 4, 0), 0, 2),))
    return Meaning((), (Cell((), (), ((t, 1),)),))


def test_copies_are_matched() -> None:
    assert len(outside(nodes(), nodes())) == 2
    atoms: dict[int, int] = {}
    match(moved(X), moved(Y), atoms, {})
    assert atoms == {2: 1}
    match(part((SUM, 0, 2)), renamed_part(), {}, {3: 4})


# Unknowns 2 and 3 are read from outside, 4 is made of 2 in the layer; 5 and 6 are free names.
LAYER = [unknown(0), unknown(1), unknown(), unknown(), atom("f", term(2)), unknown(), unknown(2)]


def layer(**facts: Any) -> tuple[Copies, Copy]:
    """A copy that renames 2 to 3 and makes 5 of 4, and what is known when it is checked."""
    t = Template(0, 0, 1, (4,), (2,), plain=True)
    c = Copy(t, 1, (facts.pop("new", 5),), atoms={0: 0, 1: 1, 2: 3})
    algebra = Algebra(list(facts.pop("atoms", LAYER)))
    for name in ("known", "boolean", "spans"):
        getattr(algebra, name).update(facts.pop(name, {}))
    ranks = facts.pop("ranks", {})
    infinite = facts.pop("infinite", ())
    run: Any = Run(
        claims=SimpleNamespace(atoms=algebra.full),
        algebra=algebra,
        functions=SimpleNamespace(axes=facts.pop("axes", {}), domains=SimpleNamespace(
            stated=facts.pop("stated", set()), divisors=facts.pop("divisors", set()))),
        infinite=SimpleNamespace(reads=lambda a: a in infinite),
        ranks=SimpleNamespace(symbols_of=lambda a, restr: frozenset(ranks.get(a, ()))),
        **{"undefined": set(), "owner": {0: 0, 1: 1}, "ready": {0, 1}, "differs": set(),
           "images": set(), **facts},
    )  # fmt: skip
    ALIVE.append(run)
    return Copies(run), c


def alike(**facts: Any) -> None:
    copies, c = layer(**facts)
    copies._alike(c)


def made(a: int = 4, **facts: Any) -> Atom:
    copies, c = layer(**facts)
    copies._make(c, a, c.new[0])
    copies._facts(c)
    return copies.atoms[c.new[0]]


def renaming_what_was_seen() -> None:
    copies, c = layer()
    c.atoms[5] = 3
    copies._alike(c)


def unchecked(**how: Any) -> None:
    copies, c = layer()
    for name, value in how.items():
        setattr(c.template if name == "plain" else c, name, value)
    copies.add(c, [], Table({}))


def entered(count: int = 1, **how: Any) -> None:
    copies, c = layer()
    for name, value in how.items():
        setattr(c.template, name, value)
    with copies.closed(c.template, nodes()[:count]):
        pass


def following_another(made: Template) -> None:
    """A copy of a layer that follows a sequential one, with a copy of ``made``."""
    copies, c = layer()
    c.template.of = FOLLOWED
    c.of = Copy(made, 1, (), atoms={0: 0} if made is not FOLLOWED else {})
    copies.add(c, [], Table({}))


def renaming_what_a_sequential_layer_is_spelled_with() -> None:
    copies, c = layer()
    c.template.of = Template(0, 0, 1, (4,), (2,), plain=True)
    c.of = Copy(c.template.of, 1, (5,))
    c.template.made = ()
    copies._alike(c)


def positions(n: int) -> Atom:
    return Atom("p", "argmax", (), (((term(2), 1),),), (0,), (n,), 0, (0,))


FOLLOWED = Template(0, 0, 1, (), (), plain=True)


def copied(claimed: bool) -> dict[Any, Any]:
    """A copy of ``f(x)``; perhaps something is claimed of its result."""
    copies, c = layer()
    mine, its = nodes()[:1], nodes()[:1]
    c.template.nodes, c.template.divisors = mine, frozenset({4})
    other = tensor((0, 4, term(3)))
    table = Table({mine[0].inputs[0]: X, its[0].inputs[0]: other})
    table[mine[0].outputs[0]] = tensor((0, 4, term(4)))
    if claimed:
        table[its[0].outputs[0]] = other
    copies.add(c, its, table)
    run: Any = copies.run
    assert run.images == run.algebra.divisors == {5}
    made = table[its[0].outputs[0]]
    assert isinstance(made, Meaning)
    return {t.atom: k for cell in made.cells for t, k in cell.lin}


def test_the_result_of_a_copy_is_renamed() -> None:
    assert copied(False) == {5: 1}
    assert not Template(0, 0, 1, (), ()).plain  # nothing is shown of it yet


IMAGES: list[tuple[str, Callable[[], Any]]] = [
    ("a claim about a value of a copy", lambda: copied(True)),
    ("a layer that is not there", lambda: entered(2)),
    ("a layer that is not there", lambda: entered(0)),
    ("a layer that is not there", lambda: entered(of=Template(0, 0, 1, (), ()))),
    ("not in the order", lambda: entered(made=(5, 4))),
    ("not in the order", lambda: entered(made=(4, 4))),
    ("what its layer has looked at", renaming_what_a_sequential_layer_is_spelled_with),
    ("sequential layer that was not checked", lambda: following_another(FOLLOWED)),
    ("with other names", lambda: following_another(Template(0, 0, 1, (), (), plain=True))),
    ("positions along another axis",
     lambda: alike(atoms=[*LAYER[:2], positions(3), positions(4), *LAYER[4:]])),
    ("not checked on its own", lambda: unchecked(plain=False)),
    ("not checked on its own", lambda: unchecked(of=layer()[1])),
    ("with other names", lambda: unchecked(new=())),
    ("that its layer has looked at|what its layer has looked at", renaming_what_was_seen),
    ("of a known range", lambda: alike(known={2: (0, 4)})),
    ("of a known range", lambda: alike(known={2: (0, 4), 3: (0, 5)})),
    ("of a known range", lambda: alike(spans={2: [END]})),
    ("renames a condition", lambda: alike(boolean={2})),
    ("what has a value", lambda: alike(stated={2})),
    ("what has a value", lambda: alike(divisors={2})),
    ("renames infinities", lambda: alike(infinite=(2,))),
    ("renames infinities", lambda: alike(infinite=(3,))),
    ("renames undefined contents", lambda: alike(undefined={2})),
    ("renames undefined contents", lambda: alike(undefined={3})),
    ("depends on the rank", lambda: alike(ranks={3: "r"})),
    ("another meaning already", lambda: made(owner={5: "x"})),
    ("another meaning already", lambda: made(ready={5})),
    ("another meaning already", lambda: made(images={5})),
    ("another meaning already", lambda: made(new=99)),
    ("another meaning already", lambda: made(new=-1)),
    ("another meaning already", lambda: made(new=4)),
    ("another meaning already", lambda: made(new=2)),
    ("read from outside", lambda: made(a=2)),
    ("read from outside", lambda: made(new=6)),
    ("defined by later atoms", lambda: made(new=5, atoms=LATER)),
    ("two declarations", lambda: made(axes={4: "scalar", 5: "other"})),
]  # fmt: skip
LATER = [*LAYER[:4], atom("f", term(2), term(5)), unknown(), unknown()]


def test_an_image_is_what_its_atom_is() -> None:
    alike(known={2: (0, 4), 3: (0, 4)}, boolean={2, 3}, undefined={2, 3}, ranks={2: "r", 3: "r"})
    alike(stated={2, 3}, divisors={2, 3})
    image = made(axes={4: "scalar"}, differs={4}, undefined={4})
    assert image.fn == "f"
    assert image.operands[0][0][0].atom == 3


def test_what_a_layer_does_not_see() -> None:
    """The atoms that copies rename, and what is spelled with these, but for those made there."""
    more = [atom("g", term(2)), atom("g", term(7)), atom("g", term(3)), atom("g", term(3))]
    copies, c = layer(atoms=[*LAYER, *more])
    c.template.moved = (2, 10)
    run: Any = copies.run
    run.facts, run.checked = lambda: 0, {"before": 1}
    with copies.closed(c.template, nodes()[:1]):
        assert [a.fn for a in run.algebra.atoms] == ["", "", "", "", "f", "", "", "", "", "g", ""]
        assert run.checked == {}
    assert [a.fn for a in run.algebra.atoms[4:]] == ["f", "", "", "g", "g", "g", "g"]
    assert run.checked == {"before": 1}
    assert c.template.plain


@pytest.mark.parametrize("what", ["facts", "assumed", "owned", "nothing"])
def test_a_layer_that_rests_on_more(what: str) -> None:
    copies, c = layer()
    run: Any = copies.run
    known: list[int] = []
    run.facts, run.checked = lambda: list(known), {}
    with copies.closed(c.template, nodes()[:1]):
        run.algebra.divides(3)
        run.algebra.noted.owned.add(4)
        if what == "facts":
            known.append(1)
        if what == "assumed":
            run.algebra.assume_of_atom("x")
        if what == "owned":
            run.algebra.noted.owned.add(3)
    assert c.template.plain == (what == "nothing")
    assert c.template.divisors == {3}


def test_facts_of_images() -> None:
    copies, c = layer(axes={4: "scalar"}, differs={4}, undefined={4}, owner={4: "x"}, stated={4})
    c.template.divisors = frozenset({2, 4})
    copies._make(c, 4, 5)
    copies._facts(c)
    run: Any = copies.run
    assert run.functions.domains.stated == {4, 5}
    assert run.functions.domains.divisors == run.algebra.divisors == {3, 5}
    assert 5 in run.differs
    assert 5 in run.undefined
    assert run.functions.axes[5] == "scalar"


# ------------------------------------------------------------------ regions, pieces, sums

BOX = Region({8: (0, 4), 9: (0, N)}, ())
HERE = rank_symbol("@r", N)
REGIONS: list[tuple[str, Callable[[], Any]]] = [
    ("sign of the stride", lambda: BOX.bounds((0, ((8, N - 5),)))),
    ("too many pieces", lambda: list(BOX.visit(always_split, 1, "it"))),
    ("depends on the rank", lambda: BOX.parts(Split(7, 1))),
    ("cut outside its range", lambda: BOX.parts(Split(8, 5))),
    ("cut outside its range", lambda: BOX.parts(Split(8, -1))),
    ("does not split into digits", lambda: digits(BOX, (0, ((9, 3),)), [4, 4])),
    ("no piece of the operand covers", lambda: Boxes([((0,), (4,))]).find(BOX, [const(5)])),
    ("cover the integers in order", lambda: pw.well_formed([Piece(None, 2, 1, 0), END])),
    ("cover the integers in order", lambda: pw.well_formed([END])),
    ("do not cover the integers", lambda: pw.well_formed([Piece(None, 3, 1, 0)])),
    ("do not cover the integers", lambda: pw.well_formed([])),
    ("order of", lambda: pw.compared([Piece(None, None, 0, N)], "lt", 3)),
    ("scaled index", lambda: pw.compared([Piece(None, None, 2, 0)], "lt", 3)),
    ("condition that is no constant", lambda: pw.truth((0, 2))),
    ("condition that is no constant", lambda: pw.truth((1, 0))),
    ("product of two indices", lambda: pw.times([(1, 0), (1, 0)])),
    ("product of two indices", lambda: pw.times([(1, 0), (0, N)])),
    ("too many intervals", lambda: _steps_vanish([*MANY, [(0, 30)] * 3], [1] * 31)),
    ("intervals whose order", lambda: ordered([N, 3])),
    ("along a diagonal|with gaps", lambda: _image(BOX, (0, ((8, 2),)))),
    ("do not tile", lambda: _all_ranks(((HERE, 2 * HERE + 1),), Mesh((("r", N),)))),
    ("the constant", lambda: number(0.5)),
    ("axes of one label", lambda: label_sizes([("i", "i")], [Source((2, 3), lambda r, at: [])])),
    ("equal parts", lambda: exact_part(5, 2)),
    ("index with a fraction", lambda: _whole(Fraction(1, 2))),
    ("two declarations", lambda: [FUNCTIONS._note(Read(2, ()), frozenset((k,))) for k in (0, 1)]),
    ("symbolic stride", lambda: _linear([N], 0, [(1, 0)])),
    ("combination of several", lambda: Discrete.single([])),
]  # fmt: skip
END = Piece(3, None, 1, 0)
FUNCTIONS = Functions(Algebra(ATOMS))
MANY: list[Any] = [[(k, k + 1)] * 3 for k in range(30)]


def always_split(r: Region) -> None:
    raise Split(next(iter(r.ranges)), 1)


def test_covers() -> None:
    assert _covers({((0, 2),), ((2, 4),)}, ((0, 4),))
    assert not _covers({((0, 2),), ((3, 4),)}, ((0, 4),))
    assert not _covers({((0, 2),), ((2, 3),)}, ((0, 4),))
    assert _covers({((0, 3),), ((2, 4),)}, ((0, 4),))


# ------------------------------------------------------------------ sums of products

HALF = Term.of(3, (), (), ((SUM, 0, 2),))
PRODUCTS = [
    *ATOMS,
    atom("prod", HALF, n_free=0, axes=0),
    Atom("p", "prod", (), (((Term.of(3, (), (), ()), 2),),), (), (), 0, ()),
]
PLACE = Read(2, (const(0),))


def zero(*factors: Any) -> bool:
    return Algebra(PRODUCTS).zero([(Product((), factors), 1)], EMPTY)


def of_part(k: int) -> Read:
    return Read(k, (), ((("in", k, 0, SUM), 1, 3),))


SUMS: list[tuple[str, Callable[[], Any]]] = [
    ("operand that has one already", lambda: zero((of_part(4), 1))),
    ("part of a sum under a power", lambda: zero((of_part(5), 1))),
    ("division by a condition", lambda: zero((AtLeast(PLACE, 3), -1))),
    ("division by a condition", lambda: zero((AtLeast(PLACE, 3), 1), (AtLeast(PLACE, 3), -1))),
    ("does not divide by", lambda: zero((PLACE, 1), (PLACE, -1))),
    ("power that is too large", lambda: Algebra(PRODUCTS).raised(2, 65)),
    ("power that is too large", lambda: Algebra(PRODUCTS).raised(2, -65)),
    ("division by zero", lambda: Algebra(PRODUCTS).raised(0, -1)),
]  # fmt: skip


def test_a_quotient_of_what_the_program_divides_by() -> None:
    at = Algebra(PRODUCTS)
    at.divides(2)
    one = Product((), ((PLACE, 1), (PLACE, -1)))
    assert at.equal([(one, 1)], [(Product((), ()), 1)], EMPTY)
    assert list(at.assumed) == ["x is nowhere zero (the program divides by it)"]


# ------------------------------------------------------------------ collectives


def source(*shape: int) -> Source:
    return Source(shape, lambda r, at: [])


def met(kind: str, *shapes: Any, types: Any = None, **attrs: Any) -> Any:
    sources = [source(*s) for s in shapes]
    types = types or [TensorType("f32", s) for s in shapes]
    every = attrs.pop("every", [attrs] * len(sources))
    return concrete(Algebra(ATOMS), kind, sources, every, types)


def reduced(*sources: Source) -> Source:
    return reduction(Algebra(ATOMS), "sum", sources, "f32")


UNLIKE = [{"op": "sum"}, {"op": "max"}]
SHORT: dict[str, Any] = {"op": "sum", "dim": 0, "sizes": (1, 2)}
F, B = TensorType("f32", (4,)), TensorType("b8", (4,))
COLLECTIVES: list[tuple[str, Callable[[], Any]]] = [
    ("of different shapes", lambda: reduced(source(2), source(3))),
    ("the reduction", lambda: met("all_reduce", (4,), (4,), types=[B, B], op="sum")),
    ("the reduction", lambda: met("all_reduce", (4,), (4,), op="xor")),
    ("members disagree", lambda: met("all_reduce", (4,), (4,), every=UNLIKE)),
    ("unlike tensors", lambda: met("all_gather", (4,), (4,), types=[F, B], dim=0)),
    ("unlike tensors", lambda: met("all_gather", (4,), (4, 1), dim=0)),
    ("the collective", lambda: met("gossip", (4,), (4,))),
    ("do not make up the tensor", lambda: met("reduce_scatter", (4,), (4,), **SHORT)),
]  # fmt: skip


HERE_ONLY = HERE.terms and next(iter(HERE.terms))[0]
OVER = Ranks(Algebra(ATOMS), Mesh((("r", N),)), set())


def gathered(**attrs: Any) -> Source:
    return OVER.run("all_gather", source(4), {"group": ("r",), "dim": 0, **attrs}, "f32")


def diagonal(r: Region, at: Any) -> Any:
    return [(Product((), ((Read(-1, (at[0], at[0])), 1),)), 1)]


OVER_RANKS: list[tuple[str, Callable[[], Any]]] = [
    ("uneven parts", lambda: gathered(sizes=(1, 2))),
    ("no set of mesh axes", lambda: gathered(group=("r", "r"))),
    ("no set of mesh axes", lambda: gathered(group_size=7)),
    ("with the rank as an index", lambda: OVER.run("gossip", source(4), {"group": ("r",)}, "f32")),
    ("coefficient that depends", lambda: OVER._plain_coef(Quotient(HERE, 2), (HERE_ONLY,))),
    ("along a diagonal", lambda: _boxes(Source((4,), diagonal))),
]  # fmt: skip


def program(*ranks: Callable[[Builder], None]) -> Program:
    graphs = []
    for k, run in enumerate(ranks):
        b = builder(f"rank{k}")
        b.graph.rank = k
        run(b)
        graphs.append(b.graph)
    return Program(Mesh.of(tp=len(ranks)), graphs)


def reduce(*ranks: int, op: str = "all_reduce", **how: Any) -> Callable[[Builder], None]:
    def run(b: Builder) -> None:
        x = b.input("x", "f32", (4,))
        given = {"group": ranks, "group_size": len(ranks), **how}
        b.emit(op, x, **({"op": "sum"} if op == "all_reduce" else {"dim": 0}), **given)

    return run


def nothing(b: Builder) -> None:
    b.input("x", "f32", (4,))


def flying(returned: bool) -> Graph:
    b = builder("g")
    x = b.input("x", "f32", (4,))
    attrs: Any = {"op": "sum", "group": (0, 1), "group_size": 2, "async": True}
    y = b.emit("all_reduce", x, **attrs)
    return b.returns(y) if returned else b.returns(b.emit("exp", y))


def walk(*ranks: Callable[[Builder], None]) -> Callable[[], Any]:
    return lambda: list(Walk(program(*ranks)).steps())


def message(
    *group: int, to: int | None = None, by: int = 0, **how: Any
) -> Callable[[Builder], None]:
    def run(b: Builder) -> None:
        given = {"group": group, "group_size": len(group), "tag": 0, **how}
        if to is not None:
            b.emit_all("send", b.input("x", "f32", (4,)), dst=to, **given)
        else:
            b.emit("recv", src=by, shape=(4,), dtype="f32", **given)

    return run


def swapped() -> Any:
    p = program(nothing, nothing)
    p.graphs.reverse()
    return Walk(p)


SCHEDULES: list[tuple[str, Callable[[], Any]]] = [
    ("was not waited for", lambda: waits(flying(True))),
    ("was not waited for", lambda: waits(flying(False))),
    ("not in the order of the ranks", swapped),
    ("does not answer", walk(reduce(0, 1), nothing)),
    ("that the rank is not in", walk(reduce(1, 2), nothing, nothing)),
    ("does not answer", walk(reduce(0, 1), reduce(0, 1, comm="1"))),
    ("does not answer", walk(message(0, 1, to=1), message(0, 1, comm="1"))),
    ("does not answer", walk(message(0, 1, to=1), message(0, 1, 2), nothing)),
    ("without one of its ends", walk(message(0, 2, to=1), message(0, 1), nothing)),
    ("that the rank is not in", walk(message(1, 2, to=1), message(0, 1), nothing)),
    ("call different operators", walk(reduce(0, 1), reduce(0, 1, op="all_gather"))),
]


def test_collectives_that_meet() -> None:
    assert len(walk(reduce(0, 1), reduce(0, 1))()) == 1
    assert len(walk(message(0, 1, to=1), message(0, 1))()) == 1
    assert len(met("all_reduce", (4,), (4,), op="sum")) == 2


# ------------------------------------------------------------------ guards


def test_a_guard_confines_a_summed_index() -> None:
    p = Product(((8, 0, 6),), ((Read(2, (variable(8),)), 1),))
    inside = Region({8: (0, 6)}, ())
    assert confined(p, variable(8), 2, 5, inside) == [(p._replace(ranges=((8, 2, 5),)), 1)]
    assert confined(p, variable(8), 6, None, inside) == []
    assert confined(p, variable(8), 0, 6, inside) == [(p, 1)]
    with pytest.raises(Split):
        confined(p._replace(ranges=()), variable(8), 2, None, inside)


def test_guards_of_one_tensor() -> None:
    t = Read(2, (const(0),))
    at = Algebra(ATOMS)
    low, high = (Product((), ((AtLeast(t, k), 1),)) for k in (2, 5))
    both = Product((), (*low.factors, *high.factors))
    assert at.equal([(both, 1)], [(high, 1)], EMPTY)
    assert not at.equal([(both, 1)], [(low, 1)], EMPTY)
    hot = [Product((), ((Equal(t, const(k)), 1),)) for k in (3, 4)]
    none = Product((), (*hot[0].factors, *hot[1].factors))
    assert at.zero([(none, 1)], EMPTY)
    one = Product((), (*hot[0].factors, *low.factors))
    assert at.equal([(one, 1)], [(hot[0], 1)], EMPTY)
    assert at.zero([(Product((), (*hot[0].factors, *high.factors)), 1)], EMPTY)


# ------------------------------------------------------------------ the whole


def edited(name: str, edit: Callable[[Any], None], **how: bool) -> Callable[[], Any]:
    def run() -> None:
        data: Any = as_data(certificate(name, **how))
        edit(data)
        problem = check_file(msgspec.json.encode(data))[0].problem
        if problem:
            raise NotChecked(problem)

    return run


def by_rank(name: str, edit: Callable[[Any], None]) -> Callable[[], Any]:
    return edited(name, edit, symbolic_ranks=False)


def claim(data: Any, value: int, change: Callable[[list[Any]], list[Any]]) -> None:
    """Give a value of the sequential graph another claim."""
    proof = data["proof"]
    row = list(proof["meanings"][proof["sequential"][value]])
    proof["meanings"].append(change(row))
    proof["sequential"][value] = len(proof["meanings"]) - 1


def on_itself(data: Any, pieces: list[Any]) -> None:
    base = data["proof"]["sequential"][1]
    claim(data, 1, lambda row: [*row[:2], base, pieces])


def unnamed(data: Any) -> None:
    for row in data["proof"]["terms"]:
        if row[0] == 2:
            row[0] = 0
            row[1:] = [[None] * len(row[1]), [], []]


def fewer_ranks(data: Any) -> None:
    for key in ("graphs", "relation"):
        data[key].pop()
    data["obligations"][0]["expected"].pop()
    data["proof"]["distributed"].pop()


def view_of_a_view(data: Any) -> None:
    on_itself(data, [[None, None, 1, 0]])
    on_itself(data, [[None, None, 1, 0]])


WHOLE: list[tuple[str, Callable[[], Any]]] = [
    ("nothing to prove", edited("uneven mlp", lambda d: d["obligations"].clear())),
    ("without its base, or its function", edited("lookup", lambda d: on_itself(d, []))),
    ("integer view of an integer view", edited("lookup", view_of_a_view)),
    ("not as many graphs as ranks", by_rank("uneven mlp", fewer_ranks)),
    ("integer view of an input", edited("lookup", lambda d: on_itself(d, [[None, None, 1, 0]]))),
    ("not a certificate of version", edited("mlp", lambda d: d.update(version=7))),
    ("not a certificate of version", edited("mlp", lambda d: d.update(kind="x"))),
    ("mesh axis is named twice", edited("mlp", lambda d: d["mesh"].append(["tp", 1]))),
    ("axis without ranks", edited("mlp", lambda d: d.update(mesh=[["tp", 0]]))),
    ("graph that is not in the document", edited("mlp", lambda d: d.update(sequential=99))),
    ("graph that is not in the document", edited("mlp", lambda d: d.update(sequential=-1))),
    ("as many tables of meanings", edited("mlp", lambda d: d["proof"]["distributed"].clear())),
    ("IndexError", edited("mlp", lambda d: d["proof"]["sequential"].__setitem__(0, 999))),
    ("Expected `int` >= 0", edited("mlp", lambda d: d["proof"]["sequential"].__setitem__(0, -1))),
    ("have a meaning", edited("mlp", lambda d: d["proof"]["sequential"].pop())),
    ("the claim is not that it is an unknown", edited("mlp", unnamed)),
    ("not as many", edited("uneven mlp", lambda d: d["graphs"].pop())),
]  # fmt: skip


@pytest.mark.parametrize(
    ("message", "refused"),
    [*FORM, *COPIES, *IMAGES, *REGIONS, *SUMS, *OVER_RANKS, *COLLECTIVES, *SCHEDULES, *WHOLE],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_it_is_refused(message: str, refused: Callable[[], Any]) -> None:
    with pytest.raises(NotChecked, match=message):
        refused()


def test_what_is_not_refused() -> None:
    assert [s.shape for s in (sliced(source(4), 0, 1, 2), added([source(4)], [1]))] == [(2,), (4,)]
