"""Products by pieces against NumPy's."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from recbench.linalg import blas, tall

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("rows", [1, 5, 15])
@pytest.mark.parametrize(("left", "right"), [(1, 1), (3, 11), (11, 3), (8, 8), (4, 0)])
def test_products(monkeypatch, rows, left, right):
    monkeypatch.setattr(tall, "ROWS", 5)
    monkeypatch.setattr(tall, "COLUMNS", 4)
    a, b = RNG.standard_normal((rows, left)), RNG.standard_normal((rows, right))
    with blas.workers() as pool:
        assert np.allclose(tall.inner(pool, a, b), a.T @ b, rtol=0, atol=1e-13)
        assert np.allclose(tall.times(pool, a, a.T @ b), a @ (a.T @ b), rtol=0, atol=1e-12)


def test_the_number_of_threads_changes_no_bit():
    a, b = RNG.standard_normal((5000, 40)), RNG.standard_normal((5000, 300))
    found = []
    for threads in (1, 2, 2):
        with threadpool_limits(threads, user_api="blas"), blas.workers() as pool:
            small = tall.inner(pool, a, b)
            found.append((small, tall.times(pool, a, small)))
    for other in found[1:]:
        assert all(map(np.array_equal, found[0], other))
