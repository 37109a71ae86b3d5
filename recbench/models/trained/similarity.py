"""From vectors to vectors whose products are the scores: as they are, by cosine, by distance.

Every one has its adjoint: from the derivatives by what it gives to those by what it was given.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import numpy as np

from recbench.linalg import blas
from recbench.linalg.types import Floats

Adjoint = Callable[[Floats], Floats]
"""It may do its work in the place of what it is given."""
LEAST = 1e-12
"""The least norm that is divided by."""
CHUNK = 4096
"""Rows that one thread works on at a time."""


def shorten(pool: Executor, x: Floats, longest: float) -> None:
    """Cut rows that are longer than that, in place."""
    from recbench.linalg import responses_kernel as kernel

    chunks = ((first, min(first + CHUNK, len(x))) for first in range(0, len(x), CHUNK))
    blas.finish(pool, kernel.shorten, ((*chunk, x, x.dtype.type(longest)) for chunk in chunks))


def _same(x: Floats, pool: Executor) -> tuple[Floats, Adjoint]:
    return x, lambda gradient: gradient


def _normalised(x: Floats, pool: Executor) -> tuple[Floats, Adjoint]:
    """Vectors of length 1; those of no length stay, and nothing moves them."""
    from recbench.linalg import responses_kernel as kernel

    unit, inverse = np.empty_like(x), np.empty(len(x), x.dtype)
    chunks = [(first, min(first + CHUNK, len(x))) for first in range(0, len(x), CHUNK)]
    given = x, x.dtype.type(LEAST), unit, inverse
    blas.finish(pool, kernel.normalise, ((*chunk, *given) for chunk in chunks))

    def adjoint(gradient: Floats) -> Floats:
        work = ((*chunk, gradient, unit, inverse) for chunk in chunks)
        blas.finish(pool, kernel.normalise_back, work)
        return gradient

    return unit, adjoint


def _with_square(x: Floats, pool: Executor, *, users: bool) -> tuple[Floats, Adjoint]:
    """Two columns more, so that products are -|p - q|² = 2 p·q - |p|² - |q|²."""
    square = np.einsum("ik,ik->i", x, x)[:, None]
    one = np.ones_like(square)
    parts = (2 * x, -square, -one) if users else (x, one, square)
    k = x.shape[1]

    def adjoint(gradient: Floats) -> Floats:
        if users:
            result: Floats = 2 * gradient[:, :k] - 2 * gradient[:, k : k + 1] * x
        else:
            result = gradient[:, :k] + 2 * gradient[:, k + 1 :] * x
        return result

    return np.concatenate(parts, axis=1), adjoint


@dataclass(frozen=True)
class Similarity:
    """How users' and items' vectors become factors of scores."""

    users: Callable[[Floats, Executor], tuple[Floats, Adjoint]]
    items: Callable[[Floats, Executor], tuple[Floats, Adjoint]]


SIMILARITIES = {
    "dot": Similarity(_same, _same),
    "cosine": Similarity(_normalised, _normalised),
    "distance": Similarity(partial(_with_square, users=True), partial(_with_square, users=False)),
}
