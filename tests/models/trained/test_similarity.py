"""Scores are products of what similarities make of vectors, and derivatives come back."""

import numpy as np
import pytest

import papers
from recbench.linalg import blas
from recbench.models.trained.similarity import SIMILARITIES

EXACT = {"rtol": 1e-12, "atol": 1e-12}


@pytest.fixture
def pool():
    with blas.workers() as found:
        yield found


def some(rows, seed):
    return np.random.default_rng(seed).standard_normal((rows, 3))


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_products_are_scores(kind, pool):
    users, items = some(5, 0), some(4, 1)
    similarity = SIMILARITIES[kind]
    found = similarity.users(users, pool)[0] @ similarity.items(items, pool)[0].T
    assert np.allclose(found, papers.scores(kind, users, items), **EXACT)


@pytest.mark.parametrize("side", ["users", "items"])
@pytest.mark.parametrize("kind", SIMILARITIES)
def test_the_way_back_is_the_transpose_of_the_slope(kind, side, pool):
    """⟨g, f(x + h) - f(x - h)⟩ / 2 = ⟨back(g), h⟩."""
    x, h = some(5, 0), 1e-6 * some(5, 2)
    make = getattr(SIMILARITIES[kind], side)
    out, back = make(x, pool)
    g = np.random.default_rng(3).standard_normal(out.shape)
    expected = (g * (make(x + h, pool)[0] - make(x - h, pool)[0])).sum() / 2
    assert (back(g) * h).sum() == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", SIMILARITIES)
def test_a_vector_of_no_length_has_finite_scores_in_its_precision(kind, dtype, pool):
    x = np.array([[0, 0, 0], [3, 0, 4]], dtype)
    for side in ("users", "items"):
        out, back = getattr(SIMILARITIES[kind], side)(x, pool)
        bar = back(np.ones_like(out))
        assert out.dtype == bar.dtype == dtype
        assert np.isfinite(out).all()
        assert np.isfinite(bar).all()
    if kind == "cosine":
        assert np.array_equal(out[0], [0, 0, 0])
        assert np.array_equal(bar[0], [0, 0, 0])  # nothing says where to go
        assert np.allclose(out[1], [0.6, 0, 0.8])
