"""Conjugate gradients for one large system, preconditioned and cut short.

The unknowns are a table: rows are vectors of some factors. Inner products are taken by rows and
added up in float64.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from recbench.linalg import tall
from recbench.linalg.normal import ROUNDING
from recbench.linalg.types import Floats, Vector

Apply = Callable[[Floats], Floats]


class Answer(NamedTuple):
    """What conjugate gradients have come to."""

    x: Floats
    steps: int
    """Products with the matrix."""
    residual: float
    """|b - A x| / |b|."""


def dot(a: Floats, b: Floats) -> float:
    """Σ of the products of two tables."""
    return float(np.einsum("ik,ik->i", a, b).sum(dtype=np.float64))


def solve(times: Apply, precondition: Apply, b: Floats, accuracy: float, steps: int) -> Answer:
    """The x of A x = b to a relative residual, or after so many steps, from 0.

    A is symmetric. Where a step shows that it has an eigenvalue that is not positive, what was
    found before is returned; if that is nothing, the preconditioned b. So x·b is positive.
    """
    size, x, rest, made = np.sqrt(dot(b, b)), np.zeros_like(b), b.copy(), 0
    towards = precondition(rest)
    now = dot(rest, towards)
    while made < steps and now > 0 and np.sqrt(dot(rest, rest)) > accuracy * size:
        product, made = times(towards), made + 1
        bend = dot(towards, product)
        if not bend > 0:
            if made == 1:
                x = towards
            break
        length = np.asarray(now / bend, b.dtype)
        x += length * towards
        rest -= length * product
        better = precondition(rest)
        before, now = now, dot(rest, better)
        towards = better + np.asarray(now / before, b.dtype) * towards
    return Answer(x, made, float(np.sqrt(dot(rest, rest)) / size) if size else 0.0)


@dataclass(frozen=True)
class Scaling:
    """Rows divided by w G + r, with a weight w and a penalty r for each and one Gram matrix G."""

    basis: Floats
    """The eigenvectors of G."""
    inverse: Floats
    """One over w λ + r, by row and eigenvalue; 0 where that is nothing but rounding."""

    @classmethod
    def of(cls, gram: Vector, weights: Vector, ridge: Vector, like: Floats) -> "Scaling":
        """In the precision of `like`."""
        spectrum, vectors = np.linalg.eigh(gram)
        scale = np.outer(weights, np.maximum(spectrum, 0.0)) + ridge[:, None]
        least = ROUNDING * np.finfo(like.dtype).eps * scale.max(initial=0.0)
        inverse = np.zeros(scale.shape, like.dtype)
        np.divide(1.0, scale, out=inverse, where=scale > least, casting="same_kind")
        return cls(vectors.astype(like.dtype), inverse)

    def divide(self, pool: Executor, x: Floats) -> Floats:
        """Those rows."""
        turned = tall.times(pool, x, self.basis)
        turned *= self.inverse
        return tall.times(pool, turned, np.ascontiguousarray(self.basis.T))
