"""From vectors to vectors whose products are the scores: as they are, by cosine, by distance.

Every one has its adjoint: from the derivatives by what it gives to those by what it was given.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from recbench.linalg.types import Floats

Adjoint = Callable[[Floats], Floats]
LEAST = 1e-12
"""The least norm that is divided by."""


def _same(x: Floats) -> tuple[Floats, Adjoint]:
    return x, lambda gradient: gradient


def _normalised(x: Floats) -> tuple[Floats, Adjoint]:
    """Vectors of length 1; those of no length stay, and nothing moves them."""
    from recbench.linalg import responses_kernel as kernel

    unit, inverse = np.empty_like(x), np.empty(len(x), x.dtype)
    kernel.normalise(x, x.dtype.type(LEAST), unit, inverse)

    def adjoint(gradient: Floats) -> Floats:
        result: Floats = np.empty_like(gradient)
        kernel.normalise_back(gradient, unit, inverse, result)
        return result

    return unit, adjoint


def _with_square(x: Floats, *, users: bool) -> tuple[Floats, Adjoint]:
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

    users: Callable[[Floats], tuple[Floats, Adjoint]]
    items: Callable[[Floats], tuple[Floats, Adjoint]]


SIMILARITIES = {
    "dot": Similarity(_same, _same),
    "cosine": Similarity(_normalised, _normalised),
    "distance": Similarity(
        lambda x: _with_square(x, users=True), lambda x: _with_square(x, users=False)
    ),
}
