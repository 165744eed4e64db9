"""What a lemma declares, and how its declaration is tested.

Both sides of a lemma are given three times: on random values (:attr:`Lemma.draw`), on every case
of small sizes (:attr:`Lemma.cases`), and where a side condition fails (:attr:`Lemma.wrong`). In
:attr:`Lemma.cases` the entries of tensors are indeterminates, so that equality of the two sides is
equality of polynomials and holds for all values; where the entries are plain integers every value
that matters is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from shardproof.ir.sizes import symbol

Array = np.ndarray[Any, Any]
Rng = np.random.Generator
Pair = tuple[Array, Array]
Kind = Literal["exact", "real"]
Proof = Literal["exhaustive", "algebra", "normal form"]

TRIALS = 40
KINDS: dict[str, str] = {
    "exact": "Both sides are the same numbers bit for bit: entries are moved, compared or chosen.",
    "real": "The sides are equal over the real numbers; floats may round differently.",
}
PROOFS: dict[str, str] = {
    "exhaustive": "Every case of small sizes is compared, for all values of the entries; the "
    "argument given holds for any size.",
    "algebra": "A property of the function named in the argument; random values are compared.",
    "normal form": "Nothing is rewritten: both sides have one normal form by construction.",
}


@dataclass(frozen=True, slots=True)
class Condition:
    """What inference checks before it applies a lemma, and where."""

    text: str
    where: str


@dataclass(frozen=True, slots=True)
class Lemma:
    """One identity.

    ``source`` points into the handbook of lemmas or a paper, ``shapes`` is an example,
    ``instance`` says what ``wrong`` shows. ``cases`` is empty where sizes play no part, ``wrong``
    where there is no side condition.
    """

    name: str
    title: str
    statement: str
    kind: Kind
    why: str
    proof: Proof
    source: str
    shapes: str
    draw: Callable[[Rng], Pair]
    conditions: tuple[Condition, ...] = ()
    cases: Callable[[], Iterator[Pair]] | None = None
    wrong: Callable[[Rng], Pair] | None = None
    instance: str = ""

    def check(self, rng: Rng, trials: int = TRIALS) -> float:
        """Largest relative error of the two sides over random values that meet the conditions."""
        return max(error(*self.draw(rng)) for _ in range(trials))

    def broken(self, rng: Rng) -> float:
        """Relative error of the two sides where a condition fails.

        Raises:
            ValueError: the lemma has no side condition.
        """
        if self.wrong is None:
            raise ValueError(f"{self.name} has no side condition")
        return error(*self.wrong(rng))

    def prove(self) -> int:
        """Compare the two sides in every case of small sizes; the number of cases.

        Raises:
            AssertionError: a case in which they differ.
        """
        count = 0
        for count, (a, b) in enumerate(self.cases() if self.cases else (), 1):
            if not identical(a, b):
                raise AssertionError(f"{self.name} fails in case {count}: {a!r} and {b!r}")
        return count


_LEMMAS: dict[str, Lemma] = {}


def declare(lemma: Lemma) -> Lemma:
    """Add a declaration. A second one of a name is an error."""
    if lemma.name in _LEMMAS:
        raise ValueError(f"the lemma {lemma.name!r} is declared twice")
    _LEMMAS[lemma.name] = lemma
    return lemma


def declared() -> dict[str, Lemma]:
    """The declarations made so far, by name."""
    return dict(_LEMMAS)


# ------------------------------------------------------------------ comparing


def error(a: Any, b: Any) -> float:
    """Largest difference relative to the size of the numbers; infinite where one side has no
    value, or another shape."""
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if x.shape != y.shape or (np.isnan(x) != np.isnan(y)).any():
        return float("inf")
    same = (x == y) | np.isnan(x)
    if same.all():
        return 0.0
    if not np.isfinite(x[~same]).all() or not np.isfinite(y[~same]).all():
        return float("inf")
    gap = float(np.abs(x[~same] - y[~same]).max())
    return gap / max(float(np.abs(x[~same]).max()), float(np.abs(y[~same]).max()))


def identical(a: Any, b: Any) -> bool:
    """Whether two arrays of polynomials or integers are equal entry by entry."""
    x, y = np.asarray(a, dtype=object), np.asarray(b, dtype=object)
    return x.shape == y.shape and all(p == q for p, q in zip(x.flat, y.flat, strict=True))


# ------------------------------------------------------------------ values


def entries(name: str, *shape: int) -> Array:
    """A tensor of indeterminates."""
    out = np.empty(shape, dtype=object)
    for index in np.ndindex(*shape):
        out[index] = symbol(name + "_".join(map(str, index)))
    return out


def values(rng: Rng, *shape: int) -> Array:
    """Random reals whose common scale lies anywhere between 1e-30 and 1e30."""
    return np.asarray(rng.normal(size=shape) * 10.0 ** rng.uniform(-30, 30))


def cuts(rng: Rng, n: int, parts: int) -> list[int]:
    """Borders of ``parts`` adjacent shards of ``[0, n)``: uneven, some of them empty."""
    return [0, *sorted(int(x) for x in rng.integers(0, n + 1, size=parts - 1)), n]


def all_cuts(n: int, parts: int) -> Iterator[list[int]]:
    """Every way to cut ``[0, n)`` into ``parts`` adjacent shards, empty ones too."""
    if parts == 1:
        yield [0, n]
        return
    for rest in all_cuts(n, parts - 1):
        for last in range(rest[-2], n + 1):
            yield [*rest[:-1], last, n]
