"""Proofs of lemmas for any size, as SMT-LIB: each goal is a set of assertions that has no model.

A sum over an interval is a recursive function; a claim about it is shown by induction over its
upper end: it holds at the first one, and from ``n`` follows ``n + 1``. A line that ends in
``; condition`` is a side condition of the lemma; without it the goal has a model. The tests have
Z3 solve every goal (``tests/lemmas/test_smt.py``); the package itself does not need Z3.

Numbers are integers and reals of any size. The exponential and the logarithm are functions of
which only the stated laws are used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shardproof.lemmas import names

CONDITION = "; condition"


@dataclass(frozen=True, slots=True)
class Goal:
    """Assertions that contradict each other; ``about`` says which part of a proof they are."""

    about: str
    lines: tuple[str, ...]

    @property
    def script(self) -> str:
        """The SMT-LIB text."""
        return "\n".join((*self.lines, "(check-sat)"))

    def without_conditions(self) -> str | None:
        """The text without its side conditions, or None where there is none."""
        kept = [x for x in self.lines if not x.endswith(CONDITION)]
        return "\n".join((*kept, "(check-sat)")) if len(kept) < len(self.lines) else None


def ints(text: str) -> list[str]:
    """Integers of any value."""
    return [f"(declare-const {x} Int)" for x in text.split()]


def reals(text: str) -> list[str]:
    """Reals of any value."""
    return [f"(declare-const {x} Real)" for x in text.split()]


def series(name: str, body: str) -> str:
    """``(name a b)``: the sum of ``body``, a term in k, over [a, b)."""
    k = f"(let ((k (- b 1))) (+ ({name} a k) {body}))"
    return f"(define-fun-rec {name} ((a Int) (b Int)) Real (ite (<= b a) 0.0 {k}))"


def power(name: str, base: str) -> str:
    """``(name n)``: the n-th power of ``base``, n >= 0."""
    return f"(define-fun-rec {name} ((n Int)) Real (ite (<= n 0) 1.0 (* ({name} (- n 1)) {base})))"


def given(*terms: str) -> list[str]:
    """What the lemma takes for granted, or an earlier goal has shown."""
    return [f"(assert {x})" for x in terms]


def condition(*terms: str) -> list[str]:
    """Side conditions."""
    return [f"(assert {x}) {CONDITION}" for x in terms]


def shows(lines: Iterable[str], claim: str, about: str = "directly") -> Goal:
    """A claim that follows without induction."""
    return Goal(about, (*lines, f"(assert (not {claim}))"))


def induction(lines: Iterable[str], claim: str, start: str, more: str = "") -> list[Goal]:
    """A claim in N for every N >= start. ``more`` holds in the step alone (an instance of an
    earlier lemma, or what bounds N)."""
    lines = list(lines)
    step = [*lines, *ints("n"), *given(f"(>= n {start})", claim.replace("N", "n"))]
    if more:
        step += given(more)
    return [
        shows(lines, claim.replace("N", start), f"at {start}"),
        shows(step, claim.replace("N", "(+ n 1)"), "from n to n + 1"),
    ]


ONE_F = ["(declare-fun f (Int) Real)"]
SUM = [*ONE_F, series("S", "(f k)")]
HIT = "(ite (= t k) (f k) 0.0)"  # [t == k] f(k)
HITS = [*ints("t"), *ONE_F, series("H", HIT)]
EXP = [
    "(declare-fun exp (Real) Real)",
    "(assert (forall ((x Real) (y Real)) (= (exp (+ x y)) (* (exp x) (exp y)))))",
    "(assert (= (exp 0.0) 1.0))",
    "(assert (forall ((x Real)) (> (exp x) 0.0)))",
]
LOG = [
    *EXP,
    "(declare-fun log (Real) Real)",
    "(assert (forall ((x Real)) (= (log (exp x)) x)))",
    "(assert (forall ((x Real)) (=> (> x 0.0) (= (exp (log x)) x))))",
]
MAX = [
    *ONE_F,
    "(define-fun larger ((x Real) (y Real)) Real (ite (>= x y) x y))",
    # Over [a, b), which is not empty.
    (
        "(define-fun-rec M ((a Int) (b Int)) Real "
        "(ite (<= b (+ a 1)) (f a) (larger (M a (- b 1)) (f (- b 1)))))"
    ),
]
GE = ["(define-fun ge ((x Int) (k Int)) Int (ite (>= x k) 1 0))"]
EQ = ["(define-fun eq ((x Int) (k Int)) Int (ite (= x k) 1 0))"]


def _contraction() -> list[Goal]:
    """Products of two rows, each of which is a concatenation cut at m (the second one at m2)."""
    lines = [
        *ints("m m2"),
        *(f"(declare-fun {x} (Int) Real)" for x in ("x1", "x2", "w1", "w2")),
        "(define-fun x ((k Int)) Real (ite (< k m) (x1 k) (x2 (- k m))))",
        "(define-fun w ((k Int)) Real (ite (< k m2) (w1 k) (w2 (- k m2))))",
        series("P", "(* (x k) (w k))"),
        series("P1", "(* (x1 k) (w1 k))"),
        series("P2", "(* (x2 k) (w2 k))"),
        *given("(>= m 0)"),
        *condition("(= m2 m)"),
    ]
    first = induction(lines, "(=> (<= N m) (= (P 0 N) (P1 0 N)))", "0")
    joined = [*lines, *given("(= (P 0 m) (P1 0 m))")]
    return first + induction(joined, "(= (P 0 N) (+ (P1 0 m) (P2 0 (- N m))))", "m")


def _nested() -> list[Goal]:
    """Index q = i n + k counts all pairs (i, k), and the sums agree after every pair."""
    digits = [
        *ints("w i j k l"),
        *given("(<= 0 k)", "(< k w)", "(<= 0 l)", "(< l w)", "(= (+ (* i w) k) (+ (* j w) l))"),
        # Where i and j differ, their multiples of w are at least w apart.
        *given("(=> (< i j) (>= (* (- j i) w) w))", "(=> (< j i) (>= (* (- i j) w) w))"),
    ]
    lines = [
        *ints("i w"),
        "(declare-fun g (Int Int) Real)",
        "(declare-fun flat (Int) Real)",
        "(define-fun-rec R ((k Int)) Real (ite (<= k 0) 0.0 (+ (R (- k 1)) (g i (- k 1)))))",
        series("U", "(flat k)"),
        *reals("before"),
        *given("(>= w 0)", "(>= i 0)", "(>= (* i w) 0)", "(= (U 0 (* i w)) before)"),
    ]
    place = "(=> (< n w) (= (flat (+ (* i w) n)) (g i n)))"
    claim = "(=> (<= N w) (= (U 0 (+ (* i w) N)) (+ before (R N))))"
    return [
        shows(digits, "(and (= i j) (= k l))", "digits are unique"),
        *induction(lines, claim, "0", place),
    ]


def _extrema() -> list[Goal]:
    bound = "(=> (and (<= a i) (< i N)) (<= (f i) (M a N)))"
    upper = induction([*MAX, *ints("a i")], bound, "(+ a 1)")
    lines = [
        *MAX, *ints("a b c"), *given("(< a b)", "(<= a c)"), *condition("(<= c b)"),
        # From the induction before, at the end b.
        *given("(forall ((i Int)) (=> (and (<= a i) (< i b)) (<= (f i) (M a b))))"),
    ]  # fmt: skip
    claim = "(= (larger (M a b) (M c N)) (M a (ite (>= b N) b N)))"
    return [*upper, *induction(lines, claim, "(+ c 1)")]


def _tiles() -> list[Goal]:
    """Of the sums over intervals, S, it is used only that adjacent ones join."""
    lines = [
        "(declare-fun S (Int Int) Real)", *ints("a b w"), *condition("(= w b)"),
        *given("(= (S a a) 0.0)"),
        ("(define-fun-rec T ((r Int)) Real (ite (<= r 0) 0.0 "
        "(let ((p (- r 1))) (+ (T p) (S (+ a (* b p)) (+ a (* b p) w))))))"),
    ]  # fmt: skip
    join = "(= (+ (S a (+ a (* b n))) (S (+ a (* b n)) (+ a (* b n) b))) (S a (+ a (* b n) b)))"
    return induction(lines, "(= (T N) (S a (+ a (* b N))))", "0", join)


def _sums() -> dict[str, list[Goal]]:
    constant = [*reals("c"), series("C", "c"), *ints("a")]
    factor = [*ONE_F, "(declare-fun c (Int) Real)", series("S", "(f k)")]
    return {
        names.PARTIAL_SUMS: induction(
            [*SUM, *ints("a b"), *condition("(<= a b)")], "(= (+ (S a b) (S b N)) (S a N))", "b"
        ),
        names.SPLIT_CONTRACTION: _contraction(),
        names.FACTOR_OUT: induction(
            [*factor, series("F", "(* (c k) (f k))"), *ints("a"),
             *condition("(forall ((k Int)) (= (c k) (c 0)))")],
            "(= (F a N) (* (c 0) (S a N)))", "a",
        ),
        names.SINGLE_SUMMAND: [
            shows([*SUM, *MAX[1:], *ints("c d"), *condition("(= d (+ c 1))")],
                  "(and (= (S c d) (f c)) (= (M c d) (f c)))")
        ],
        names.CONSTANT_SUM: induction(constant, "(= (C a N) (* (to_real (- N a)) c))", "a"),
        names.MEAN: [
            shows([*SUM, *ints("m n d"), *given("(> n 0)", "(= (+ (S 0 m) (S m n)) (S 0 n))"),
                   *condition("(= d n)")],
                  "(= (/ (+ (S 0 m) (S m n)) (to_real d)) (/ (S 0 n) (to_real n)))")
        ],
        names.SUM_OF_SUMS: _nested(),
        names.SUM_RESPELLED: [
            shows(reals("x y z"), "(and (= (+ (+ x y) z) (+ x (+ y z))) (= (+ x y) (+ y x)))")
        ],
        names.EXTREMA: _extrema(),
        names.EXTREMUM_OF_CONSTANT: induction(
            [*MAX, *reals("c"), *ints("a"), *condition("(forall ((k Int)) (= (f k) c))")],
            "(= (M a N) c)", "(+ a 1)",
        ),
        names.RANK_TILES: _tiles(),
        names.REPLICAS: induction(
            [*SUM, *reals("x"), *condition("(forall ((k Int)) (= (f k) x))")],
            "(= (S 0 N) (* (to_real N) x))", "0",
        ),
    }  # fmt: skip


def _indices() -> dict[str, list[Goal]]:
    part = ["(define-fun y ((k Int)) Real (ite (< k m) (f (+ a k)) (f (+ b (- k m)))))"]
    return {
        names.GATHERED: [
            shows([*ONE_F, *ints("a b m k"), *part, *condition("(= b (+ a m))")],
                  "(= (y k) (f (+ a k)))", "two adjacent slices, at any index"),
        ],
        names.CONGRUENCE: [
            shows([*ONE_F, "(declare-fun F (Real) Real)", *ints("i a b"), *condition("(= b a)"),
                   "(define-fun named ((j Int)) Real (F (f j)))",
                   "(define-fun mine ((j Int)) Real (F (f (+ j b))))"],
                  "(= (mine i) (named (+ i a)))", "one operand and one index"),
        ],
        names.POSITIONS: [
            shows([*ONE_F, *ints("a i step"), *condition("(= step 1)")],
                  "(= (f (+ a (* step i))) (f (+ a i)))"),
        ],
    }  # fmt: skip


def _guards() -> dict[str, list[Goal]]:
    return {
        names.GUARD_MEET: [
            shows([*GE, *ints("t u a b"), *condition("(= u t)")],
                  "(= (* (ge t a) (ge u b)) (ge t (ite (>= a b) a b)))")
        ],
        names.THRESHOLD_MOVED: [
            shows([*GE, *ints("t low high k"), *given("(< low high)"),
                   *condition("(or (< t low) (>= t high))", "(<= low k)", "(<= k high)")],
                  "(= (ge t k) (ge t high))", "a gap in the values [low, high)"),
        ],
        names.GUARD_ONEHOT: [
            shows([*GE, *EQ, *ints("t k u v")],
                  "(= (* (ge t k) (eq t u)) (ite (>= u k) (eq t u) 0))", "a threshold"),
            shows([*EQ, *ints("t u v"), *condition("(not (= u v))")],
                  "(= (* (eq t u) (eq t v)) 0)", "two one-hots"),
        ],
        names.GUARD_OF_SUM: induction(
            [*HITS, *ints("a q s"), *condition("(= s t)")],
            "(= (ite (>= s q) (H a N) 0.0) (H (ite (>= a q) a q) N))", "a",
        ),
        names.ONEHOT_SELECTS: induction(
            [*HITS, *ints("a u")],
            "(= (ite (= t u) (H a N) 0.0) (ite (and (= t u) (<= a u) (< u N)) (f u) 0.0))", "a",
        ),
        names.ONEHOT_TOTAL: [
            *induction([*ints("t a"), series("H", "(ite (= t k) 1.0 0.0)")],
                       "(= (H a N) (ite (and (<= a t) (< t N)) 1.0 0.0))", "a"),
        ],
        names.PIECES: [
            shows([*GE, *ints("t p q r c1 c2 c3 c4 a1 a2 a3 a4"),
                   *given("(<= q r)"), *condition("(<= p q)"),
                   "(define-fun piece ((a Int) (c Int)) Int (+ (* a t) c))"],
                  "(= (ite (< t p) (piece a1 c1) (ite (< t q) (piece a2 c2) "
                  "(ite (< t r) (piece a3 c3) (piece a4 c4)))) "
                  "(+ (* (- 1 (ge t p)) (piece a1 c1)) (* (- (ge t p) (ge t q)) (piece a2 c2)) "
                  "(* (- (ge t q) (ge t r)) (piece a3 c3)) (* (ge t r) (piece a4 c4))))",
                  "four pieces"),
        ],
        names.SELECT: [
            shows([*reals("c x y"), *condition("(or (= c 0.0) (= c 1.0))")],
                  "(= (ite (= c 1.0) x y) (+ (* c x) (* (- 1.0 c) y)))")
        ],
        names.INDICATOR_POWER: induction(
            [*reals("g"), power("P", "g"), *condition("(or (= g 0.0) (= g 1.0))")],
            "(= (P N) g)", "1",
        ),
        names.PIECES_OF_AXIS: [
            shows(["(declare-fun l (Int) Real)", "(declare-fun m (Int) Real)", *ints("i k j"),
                   *condition("(= j k)"),
                   "(define-fun from ((x Int)) Real (ite (>= i x) 1.0 0.0))"],
                  "(= (ite (< i k) (l i) (m i)) "
                  "(+ (* (- 1.0 (from j)) (l i)) (* (from k) (m i))))"),
        ],
        names.LOOKUP: [
            *induction([*HITS], "(= (H 0 N) (ite (and (<= 0 t) (< t N)) (f t) 0.0))", "0"),
            shows([*HITS, *ints("v"), *given("(= (H 0 v) (ite (and (<= 0 t) (< t v)) (f t) 0.0))"),
                   *condition("(and (<= 0 t) (< t v))")], "(= (H 0 v) (f t))", "inside the table"),
        ],
        names.LOOKUP_PIECES: induction(
            [*HITS, *ints("lo"), "(define-fun shard ((j Int)) Real (f (+ lo j)))"],
            "(= (H lo N) (ite (and (<= lo t) (< t N)) (shard (- t lo)) 0.0))", "lo",
        ),
        names.POSITION_GUARD: [
            shows([*GE, *ints("a b c d q k"),
                   *given("(<= a q)", "(< q b)", "(<= c k)", "(< k d)"),
                   *condition("(>= a (- d 1))")], "(= (ge q k) 1)", "a block in the past"),
            shows([*GE, *ints("a b c d q k"),
                   *given("(<= a q)", "(< q b)", "(<= c k)", "(< k d)"),
                   *condition("(> c (- b 1))")], "(= (ge q k) 0)", "a block in the future"),
        ],
        names.MASKED_SUM: induction(
            [*ints("q b c"), *ONE_F, series("G", "(ite (>= q k) (f k) 0.0)"),
             *given("(< q b)"), *condition("(>= c b)")],
            "(= (G 0 N) (G 0 c))", "c",
        ),
        names.SCATTER: induction(
            ["(declare-fun ids (Int) Int)", *ONE_F, *ints("v"),
             series("S", "(* (ite (= (ids k) v) 1.0 0.0) (f k))"),
             ("(define-fun-rec row ((n Int)) Real (ite (<= n 0) 0.0 (let ((p (- n 1))) "
             "(ite (= (ids p) v) (+ (row p) (f p)) (row p)))))")],
            "(= (row N) (S 0 N))", "0",
        ),
        names.WRITE: [
            shows([*ONE_F, *ints("t j"), *reals("v"),
                   "(define-fun hit () Real (ite (= t j) 1.0 0.0))"],
                  "(= (ite (= j t) v (f j)) (+ (- (f j) (* hit (f j))) (* hit v)))")
        ],
    }  # fmt: skip


def _rows() -> dict[str, list[Goal]]:
    product = (
        "(define-fun-rec Q ((n Int)) Real (ite (<= n 0) 1.0 (* (Q (- n 1)) (exp (f (- n 1))))))"
    )
    times = "(= (* (to_real (+ n 1)) x) (+ (* (to_real n) x) x))"
    positive = [*reals("u"), *condition("(> u 0.0)")]
    return {
        names.EXP_OF_SUM: induction([*EXP, *SUM, product], "(= (exp (S 0 N)) (Q N))", "0"),
        names.EXP_PRODUCT: [
            *induction([*EXP, *reals("x"), power("P", "(exp x)")],
                       "(= (exp (* (to_real N) x)) (P N))", "0", times),
            shows([*EXP, *reals("x"), *given("(= (exp (+ x (- x))) (* (exp x) (exp (- x))))")],
                  "(= (exp (- x)) (/ 1.0 (exp x)))", "negative powers"),
            shows([*EXP, *reals("c d a b"), *condition("(= b a)")],
                  "(= (* (exp (* c a)) (exp (* d b))) (exp (* (+ c d) a)))", "two powers"),
        ],
        names.EXP_OF_LOG: induction(
            [*LOG, *positive, power("P", "u"), "(define-fun x () Real (log u))"],
            "(= (exp (* (to_real N) x)) (P N))", "0", times,
        ),
        names.MASKED_EXP: [
            # E is the exponential with 0 at minus infinity, which is the only value that is filled.
            shows([*EXP, *reals("c x"), "(declare-const hidden Bool)",
                   "(declare-const infinite Bool)",
                   "(define-fun E () Real (ite (and hidden infinite) 0.0 (exp (* c x))))",
                   *condition("infinite")],
                  "(= E (* (ite hidden 0.0 1.0) (exp (* c x))))"),
        ],
        names.LOG_OF_PRODUCT: [
            shows([*LOG, *positive, *reals("v"), *condition("(> v 0.0)")],
                  "(= (log (* u v)) (+ (log u) (log v)))", "two factors"),
            shows([*LOG, *reals("a")], "(= (log (exp a)) a)", "an exponential"),
        ],
        names.CANCELLED: [
            shows([*reals("x y"), *condition("(not (= x 0.0))")], "(= (/ (* x y) x) y)"),
            *induction([*reals("x"), power("P", "x"), power("Q", "(/ 1.0 x)"),
                        *condition("(not (= x 0.0))")], "(= (* (P N) (Q N)) 1.0)", "0"),
        ],
        names.POWER_OF_MULTIPLE: induction(
            [*reals("c x cx"), *given("(= cx (* c x))"), power("P", "cx"), power("C", "c"),
             power("X", "x")],
            "(= (P N) (* (C N) (X N)))", "0",
            "(= (* (C n) (X n) cx) (* (C n) c (X n) x))",
        ),
        names.POWER_OF_ROOT: [
            shows([*reals("x r"), "(define-fun root () Real (ite (>= x 0.0) r (- 1.0)))",
                   *given("(=> (>= x 0.0) (and (>= r 0.0) (= (* r r) x)))"),
                   *condition("(>= x 0.0)")],
                  "(= (* root root) x)", "the square root; -1 stands for no value"),
        ],
    }  # fmt: skip


GOALS: dict[str, list[Goal]] = {**_sums(), **_indices(), **_guards(), **_rows()}
"""The goals of every lemma that is proved so, by name."""
