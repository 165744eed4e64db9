"""Lemmas of the row algebra: exponentials, logarithms, powers, definitions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph
from shardproof.ir.sizes import Size, Symbol, substitute, symbols
from shardproof.lemmas import names
from shardproof.lemmas.base import Array, Condition, Lemma, Pair, Rng, declare, entries, values


def _small(rng: Rng, *shape: int) -> Array:
    """Arguments of exponentials: up to about 50 either way."""
    return np.asarray(rng.uniform(-50, 50, size=shape))


def _exp_sum(rng: Rng) -> Pair:
    a, b, c = _small(rng, 3, 4), _small(rng, 3, 1), float(rng.integers(-2, 3))
    return np.exp(a + c * b), np.exp(a) * np.exp(c * b)


declare(
    Lemma(
        names.EXP_OF_SUM,
        "the exponential of a sum is the product of exponentials",
        "exp(sum of c_i a_i) = product of exp(c_i a_i)",
        "real",
        "exp is a homomorphism from addition to multiplication. With factor-out-of-sum this is "
        "the shift of a softmax: exp(-m) leaves the sum, whatever m is, and cancels.",
        "algebra",
        "handbook C1, 2.4",
        "exp(x[b,k] - m[b])",
        _exp_sum,
    )
)


def _exp_product(rng: Rng) -> Pair:
    a = _small(rng, 5) / 4
    c, d, e = (float(k) for k in rng.integers(-2, 3, size=3))
    return np.exp(c * a) ** e * np.exp(d * a), np.exp((c * e + d) * a)


declare(
    Lemma(
        names.EXP_PRODUCT,
        "powers of exponentials of one value join",
        "exp(c a) ** e * exp(d a) = exp((c e + d) a)",
        "real",
        "exp(c a) is positive, so its powers are exp(c e a); exponents of one base add up.",
        "algebra",
        "handbook 2.4, C2 (merge of shifted sums)",
        "exp(m1 - m) * exp(-m1) * Z1 in a merge of attention blocks",
        _exp_product,
        (
            Condition(
                "both exponentials read the same value, without a partial sum",
                "infer/simplify.py: _join_exponentials",
            ),
        ),
        None,
        lambda rng: (np.exp(np.array([1.0])) * np.exp(np.array([3.0])), np.exp(np.array([2.0]))),
        "exponentials of two values (two local maxima)",
    )
)


def _exp_log(u: Array, n: int) -> Pair:
    with np.errstate(invalid="ignore"):
        return np.exp(n * np.log(u)), u ** float(n)


declare(
    Lemma(
        names.EXP_OF_LOG,
        "the exponential of a multiple of a logarithm is a power",
        "exp(n log u) = u ** n for an integer n, where log u is defined",
        "real",
        "log u is defined for u > 0 only; there exp is its inverse and exp(n y) = exp(y) ** n.",
        "algebra",
        "handbook 2.4, trap T24",
        "exp(x - logsumexp(x)) = softmax(x)",
        lambda rng: _exp_log(np.exp(_small(rng, 5) / 4), int(rng.integers(-3, 4))),
        (
            Condition("n is an integer", "infer/rows.py: exp"),
            Condition(
                "the program takes the logarithm of u, so u > 0 wherever it is defined",
                "infer/rows.py: _argument",
            ),
        ),
        None,
        lambda rng: _exp_log(np.array([-2.0]), 2),
        "u = -2: the left side has no value",
    )
)


def _log_product(rng: Rng) -> Pair:
    u, v = np.exp(_small(rng, 4)), np.exp(_small(rng, 4)) + 1
    e = float(rng.integers(-2, 3))
    return np.log(3 * u * v**e), np.log(3) + np.log(u) + e * np.log(v)


def _wrong_log(rng: Rng) -> Pair:
    x = np.array([-2.0])
    with np.errstate(invalid="ignore"):
        return np.log(x * x), 2 * np.log(x)


declare(
    Lemma(
        names.LOG_OF_PRODUCT,
        "the logarithm of a product of positives is the sum of logarithms",
        "log(c * product of f_i ** e_i) = log c + sum of e_i log f_i, and log(exp a) = a, "
        "where c and every f_i are positive",
        "real",
        "log is the inverse of exp on positive numbers and turns products into sums there.",
        "algebra",
        "handbook 2.4, C2 (log-sum-exp), trap T24",
        "log(exp(-m) * sum exp(x)) = log(sum exp(x)) - m",
        _log_product,
        (
            Condition(
                "every factor is shown to be positive: exponentials, their products, and sums of "
                "such over ranges that are empty for no sizes",
                "infer/simplify.py: positive, _never_empty; infer/rows.py: log",
            ),
        ),
        None,
        _wrong_log,
        "log of x * x with x = -2",
    )
)


def _cancelled(x: Array, y: Array) -> Pair:
    with np.errstate(invalid="ignore", divide="ignore"):
        return (x * y) / x, y


declare(
    Lemma(
        names.CANCELLED,
        "equal factors cancel where they are not zero",
        "x ** a * x ** b = x ** (a + b), and x * y / x = y, where x is not zero",
        "real",
        "Exponents of one base add up. Where the exponent vanishes the value is 1 wherever the "
        "quotient is defined; that x is not zero is shown (positive) or assumed and printed.",
        "algebra",
        "handbook 2.4 (division), P7",
        "exp(-m) / exp(-m) in a softmax with shifted sums",
        lambda rng: _cancelled(values(rng, 5), values(rng, 5)),
        (
            Condition(
                "the factor is positive, or the report lists that it is nowhere zero",
                "infer/simplify.py: _assume_nonzero",
            ),
            Condition(
                "a size by which the program divides is never zero, or the report lists it",
                "infer/simplify.py: assume_divisor",
            ),
        ),
        None,
        lambda rng: _cancelled(np.array([0.0]), np.array([3.0])),
        "x = 0: the quotient has no value",
    )
)


def _powered(c: float, x: Array, a: float, e: float) -> Pair:
    with np.errstate(invalid="ignore"):
        return (c * x**a) ** e, c**e * x ** (a * e)


def _cases_powered() -> Iterator[Pair]:
    x = entries("x", 2)
    for c, n in itertools.product(range(-3, 4), range(1, 4)):
        left = right = np.array([1, 1], dtype=object)
        for _ in range(n):
            left, right = left * (x * c), right * x
        yield left, right * c**n


def _draw_powered(rng: Rng) -> Pair:
    c = float(rng.choice([-3.0, -0.5, 2.0]))
    return _powered(c, rng.normal(size=5), float(rng.integers(1, 4)), float(rng.integers(-3, 4)))


declare(
    Lemma(
        names.POWER_OF_MULTIPLE,
        "an integer power of a product is the product of the powers",
        "(c * product of f_i ** a_i) ** n = c ** n * product of f_i ** (a_i n) for an integer n",
        "real",
        "Multiplication is commutative; a negative n needs what is divided by not to be zero, "
        "where both programs are defined.",
        "exhaustive",
        "handbook D5, 2.4 (square roots)",
        "(x / sqrt(H)) ** 2",
        _draw_powered,
        (
            Condition(
                "the outer exponent is an integer; a root stays a name",
                "infer/products.py: _powered; infer/simplify.py: _flatten",
            ),
        ),
        _cases_powered,
        lambda rng: _powered(1.0, np.array([-2.0]), 2.0, 0.5),
        "the square root of x ** 2 with x = -2",
    )
)


def _rooted(x: Array, p: float, q: float) -> Pair:
    with np.errstate(invalid="ignore"):
        return (x ** (p / q)) ** q, x**p


declare(
    Lemma(
        names.POWER_OF_ROOT,
        "the q-th power of a q-th root is what is under it",
        "(x ** (p / q)) ** q = x ** p where x is nowhere negative",
        "real",
        "The root is by definition the number whose q-th power this is. Where x is negative only "
        "the right side has a value, so that x >= 0 is shown from its form (squares, "
        "exponentials, sums of such), never assumed.",
        "algebra",
        "handbook 2.4 (square roots)",
        "norms over shards: sqrt(sum g ** 2) ** 2, summed over ranks, under a root again",
        lambda rng: _rooted(values(rng, 5) ** 2, float(rng.integers(-2, 3)), 2.0),
        (
            Condition(
                "what is under the root is shown to be nowhere negative",
                "infer/roots.py: nonnegative",
            ),
        ),
        None,
        lambda rng: _rooted(np.array([-2.0]), 1.0, 2.0),
        "the square of the square root of -2",
    )
)


# ------------------------------------------------------------------ definitions

SAMPLED = (
    "softmax log_softmax softmax_grad log_softmax_grad logsumexp layer_norm layer_norm_affine "
    "layer_norm_grad rms_norm rms_norm_grad attention attention_grad silu silu_grad gelu "
    "gelu_grad sigmoid sigmoid_grad tanh tanh_grad softplus mean"
).split()
WIDTHS = (1, 2, 3, 5)


def opened_sides(name: str, rng: Rng) -> tuple[list[Array], list[Array]]:
    """An operator on random operands of small sizes, evaluated and by its definition."""
    import shardproof.ops  # noqa: F401 - declares the operators
    from shardproof.ops.base import infer_types, lookup
    from shardproof.ops.examples import example

    op, call = lookup(name), example(lookup(name))
    assert op.evaluate is not None
    assert op.define is not None
    sizes: dict[Symbol, Size] = {}

    def concrete(n: Size) -> int:
        for s in sorted(symbols(n)):
            sizes.setdefault(s, int(rng.choice(WIDTHS)))
        out = substitute(n, sizes)
        assert isinstance(out, int)
        return 2 if out == 8 else min(out, 12)

    shapes = [tuple(concrete(n) for n in t.shape) for t in call.inputs]
    attrs = dict(call.attrs)
    if name in ("gelu", "gelu_grad") and rng.random() < 0.5:
        attrs["approximate"] = "tanh"
    arrays = tuple(np.asarray(rng.normal(size=shape) * 3) for shape in shapes)
    b = Builder(Graph(name), infer_types)
    ins = tuple(b.input(f"x{k}", "f64", shape) for k, shape in enumerate(shapes))
    outs = op.define(b, ins, attrs)
    found = dict(zip(ins, arrays, strict=True))
    for node in b.graph.nodes:
        run = lookup(node.op).evaluate
        assert run is not None
        results = run(tuple(found[v] for v in node.inputs), node.attrs)
        found.update(zip(node.outputs, results, strict=True))
    return list(op.evaluate(arrays, attrs)), [found[v] for v in outs]


def _draw_opened(rng: Rng) -> Pair:
    left, right = opened_sides(SAMPLED[int(rng.integers(len(SAMPLED)))], rng)
    return _flat(left), _flat(right)


def _flat(arrays: list[Array]) -> Array:
    return np.concatenate([np.ravel(x).astype(float) for x in arrays])


def _wrong_opened(rng: Rng) -> Pair:
    """The two gelu functions."""
    import shardproof.ops  # noqa: F401 - declares the operators
    from shardproof.ops.base import lookup

    run = lookup("gelu").evaluate
    assert run is not None
    x = (np.array([-2.0, 1.5]),)
    return run(x, {"approximate": "none"})[0], run(x, {"approximate": "tanh"})[0]


declare(
    Lemma(
        names.OPENED,
        "a fused operator equals its definition by simpler operators",
        "op(x, ..; attributes) = define(op)(x, ..; attributes)",
        "real",
        "The definition is part of the operator's declaration; every one is compared with the "
        "reference evaluation on random operands, and that with PyTorch.",
        "algebra",
        "handbook 1 (open lazily), C, D; tests of operators",
        "layer_norm_affine(x[T, N*h]) as mean, difference, mean square, rsqrt, products",
        _draw_opened,
        (
            Condition(
                "the attributes are those of the call: eps, axes, approximation, scale",
                "infer/run.py: _opened",
            ),
        ),
        None,
        _wrong_opened,
        "gelu by erf and gelu by tanh are two functions",
    )
)


# ------------------------------------------------------------------ functions of whole axes


def _in_pieces(cuts: tuple[int, ...], n: int) -> Pair:
    """A row that is x, then y, in turns between cuts; and the one formula with thresholds of the
    position."""
    parts = entries("x", n), entries("y", n)
    at = np.arange(n)
    pieces, formula = [], np.zeros(n, dtype=object)
    for k, (a, b) in enumerate(itertools.pairwise((0, *cuts, n))):
        pieces.append(parts[k % 2][a:b])
        inside = (at >= a) & (at < b)
        formula = formula + inside.astype(object) * parts[k % 2]
    return np.concatenate(pieces), formula


def _all_pieces() -> Iterator[Pair]:
    for n in range(1, 6):
        for cuts in itertools.combinations_with_replacement(range(n + 1), 2):
            yield _in_pieces(cuts, n)


def _draw_in_pieces(rng: Rng, shift: int = 0) -> Pair:
    n = int(rng.integers(2, 6))
    x, y = values(rng, n), values(rng, n)
    k = int(rng.integers(1, n))
    at = np.arange(n) + shift
    return np.concatenate([x[:k], y[k:]]), (at < k) * x + (at >= k) * y


def _misplaced(rng: Rng) -> Pair:
    return _draw_in_pieces(rng, 1)


declare(
    Lemma(
        names.PIECES_OF_AXIS,
        "an operand in pieces along an axis is one formula",
        "x[i] = l[i] for i < k, m[i] for i >= k: x[i] = [i < k] * l[i] + [i >= k] * m[i]",
        "exact",
        "At each position the guard of exactly one piece is 1. The formula of a piece stands for "
        "positions outside of it as well, but there it is multiplied by zero.",
        "exhaustive",
        "rotary embeddings before a fused attention",
        "q[b, h, t, d] = concat(-q2, q1) along d, a whole axis of attention",
        _draw_in_pieces,
        (
            Condition("the pieces do not overlap and make up the axis", "infer/whole.py: _one"),
            Condition("positions count from the start of the axis", "infer/whole.py: _inside"),
        ),
        _all_pieces,
        _misplaced,
        "cuts at other positions",
    )
)
