"""Row algebra: exponentials as monomials, logarithms of products as sums (lemmas.md 2.4).

    exp(sum_i c_i a_i) = prod_i exp(c_i a_i)        always
    log(c * prod_i f_i ** e_i) = log c + sum_i e_i log f_i   if every f_i and c is positive
    log(exp a) = a

Products of exponentials of one value are one exponential (:mod:`shardproof.infer.products`), and
a sum over an index lets go of factors that do not depend on it, so the shift by a maximum, or by
anything else, leaves a softmax by itself.
"""

from __future__ import annotations

from fractions import Fraction

from shardproof.infer.blocks import Box, Lin, Term
from shardproof.infer.coef import ONE, Coef
from shardproof.infer.fold import Folder
from shardproof.infer.naming import Instance
from shardproof.infer.products import Factor, Products, compose
from shardproof.infer.terms import lincomb
from shardproof.lemmas import names as lemmas
from shardproof.ops.base import EXP, LOG

MAX_SPLIT = 8


class Rows:
    """Exponentials and logarithms over a naming table."""

    def __init__(self, products: Products, folder: Folder) -> None:
        self.products, self.folder, self.table = products, folder, products.table

    def exp(self, lo: Box, hi: Box, lin: Lin) -> Lin:
        """``exp`` of a linear combination, split into a product."""
        factors: list[Factor] = []
        coef: Coef = ONE
        terms = self._shown(self._split(lin), factors)
        for t, c in terms:
            inner = self._argument(t, LOG)
            if inner is not None and isinstance(c, Fraction) and c.denominator == 1:
                # exp(n log u) = u ** n where log u is defined.
                if not all(self.products.positive(u) for u, _ in inner):
                    name = " + ".join(self.table.atoms[u.atom].name for u, _ in inner[:3])
                    self.products.assume(f"{name} is positive (the program takes its logarithm)")
                scale, more = self.products._powered(lo, hi, inner, c)
                coef = coef * scale
                factors += more
                self.products.fire(lemmas.EXP_OF_LOG)
                continue
            e = self._exponential(lo, hi, t, c)
            mask = self.products.positions.unmasked(e, lo, hi)
            factors += [(e, ONE), *([] if mask is None else [(mask, ONE)])]
        if len(terms) > 1:
            self.products.fire(lemmas.EXP_OF_SUM)
        if not factors:
            return ((self.products.product_term(lo, hi, []), ONE),)
        done = self.products.contract(lo, hi, factors, ())
        return () if done is None else ((done[0], done[1] * coef),)

    def _shown(self, terms: Lin, factors: list[Factor]) -> Lin:
        """The terms with filled scores replaced by the scores; what fills them goes to the
        factors, as the mask of what is seen."""
        out: list[tuple[Term, Coef]] = []
        for t, c in terms:
            found = self.products.positions.filled(t, c)
            if found is None:
                out.append((t, c))
                continue
            factors.append((found[0], ONE))
            out.extend(self._split(found[1]))
            self.products.fire(lemmas.MASKED_EXP)
        return lincomb(self.table, out) if factors else terms

    def rightly_filled(self, t: Term, lo: Box, hi: Box) -> bool:
        """Whether filled scores are filled where the sequential program hides their exponential."""
        positions = self.products.positions
        found = positions.filled(t, ONE) if positions.masked else None
        for u, c in self._split(found[1]) if found is not None else ():
            e = self.table.find(Instance(EXP, (), lo, hi, (((u, c),),)))
            if e is None or found is None or not positions.masks(e, found[0]):
                return False
        return found is not None

    def _split(self, lin: Lin) -> Lin:
        """A sum with the named sums in it opened, where that is short."""
        flat = self.folder.flatten(lin)
        return lin if flat is None or len(flat) > MAX_SPLIT else flat

    def _exponential(self, lo: Box, hi: Box, t: Term, c: Coef) -> Term:
        return self.products.name(Instance(EXP, (), lo, hi, (((t, c),),)))

    def _argument(self, t: Term, fn: str) -> Lin | None:
        """The operand of a function value, read through ``t``. Such a value is opened wherever it
        comes from: a saved log-sum-exp is of use to the gradient only as what it is the logarithm
        of. A layer that did so is not copied (:mod:`shardproof.infer.repeat`)."""
        d = self.table.definition(t.atom)
        if d is None or d.fn != fn or t.restr:
            return None
        return tuple((compose(u, t, d.n_free), k) for u, k in d.operands[0])

    def log(self, lo: Box, hi: Box, lin: Lin) -> Lin:
        """``log`` of a linear combination, split where every factor is known to be positive."""
        if len(lin) != 1 or not self._positive_coef(lin[0][1]):
            return self._plain(lo, hi, lin)
        t, c = lin[0]
        factors = self.products.simplify(lo, hi, [(t, ONE)])
        if factors is None or not all(self.products.positive(f) for f, _ in factors):
            return self._plain(lo, hi, lin)
        out: list[tuple[Term, Coef]] = []
        for f, e in factors:
            inner = self._argument(f, EXP)
            if inner is not None:
                out.extend((u, k * e) for u, k in inner)
            else:
                out.extend((u, k * e) for u, k in self._plain(lo, hi, ((f, ONE),)))
        if c != 1:
            unit = self.products.product_term(lo, hi, [])
            out.extend(self._plain(lo, hi, ((unit, c),)))
        if len(factors) > 1 or (factors and self._argument(factors[0][0], EXP) is not None):
            self.products.fire(lemmas.LOG_OF_PRODUCT)
        return lincomb(self.table, out)

    def _plain(self, lo: Box, hi: Box, lin: Lin) -> Lin:
        return ((self.products.name(Instance(LOG, (), lo, hi, (lin,))), ONE),)

    @staticmethod
    def _positive_coef(c: Coef) -> bool:
        return isinstance(c, Fraction) and c > 0
