"""Facts about whole programs that several lemmas give together, proved for any size."""

from __future__ import annotations

from shardproof.lemmas.smt import (
    EXP,
    HITS,
    ONE_F,
    SUM,
    Goal,
    condition,
    given,
    induction,
    ints,
    reals,
    series,
    shows,
)


def _derived() -> dict[str, list[Goal]]:
    """Facts about whole programs that several lemmas give together."""
    shifted = [
        *ONE_F, EXP[0], *reals("m p"), *ints("a"),
        series("Z", "(exp (- (f k) m))"), series("Y", "(exp (- (f k) p))"),
    ]  # fmt: skip
    law = "(= (* (exp (- m p)) (exp (- (f n) m))) (exp (- (f n) p)))"
    norm = [
        *reals("g1 g2 s1 s2 r1 r2 s"),
        *given("(= s (+ s1 s2))", "(>= s1 0.0)", "(>= s2 0.0)", "(>= r1 0.0)", "(>= r2 0.0)"),
        *given("(= (* r1 r1) s1)", "(= (* r2 r2) s2)"),
    ]
    part = [
        *HITS,
        *ints("c b"),
        *given("(<= 0 c)", "(<= c b)"),
        *condition("(and (<= 0 t) (< t b))"),
    ]
    dx = "(- (* r (* w dy)) (* x (* (* r (* r r)) (/ {} h))))"
    return {
        "log-sum-exp merge: a part shifted by its own maximum m, rescaled to the common p": [
            shows([*shifted, *EXP[1:], *ints("n")], law, "one summand"),
            *induction(shifted, "(= (* (exp (- m p)) (Z a N)) (Y a N))", "a", law),
        ],
        "norm of a gradient from the norms of its shards": [
            shows(norm, "(= (+ (* r1 r1) (* r2 r2)) s)", "two shards")
        ],
        "gradient of a root-mean-square norm whose rows are cut": [
            shows([*SUM, *reals("r w dy x h"), *ints("n c"), *given("(> h 0.0)"),
                   *given("(= (+ (S 0 c) (S c n)) (S 0 n))")],
                  f"(= {dx.format('(+ (S 0 c) (S c n))')} {dx.format('(S 0 n)')})", "two shards"),
        ],
        "masked lookup in a vocabulary cut at c": [
            shows([*part, *given("(= (H 0 c) (ite (and (<= 0 t) (< t c)) (f t) 0.0))",
                                 "(= (H c b) (ite (and (<= c t) (< t b)) (f t) 0.0))")],
                  "(= (+ (H 0 c) (H c b)) (f t))", "two shards, each by lookup-by-pieces"),
        ],
    }  # fmt: skip


DERIVED = _derived()
