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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, tall.NARROW, tall.NARROW + 1, 70])
@pytest.mark.parametrize("kind", ["random", "uneven", "dependent", "zero"])
def test_orthonormal_columns(kind, columns, dtype):
    block = RNG.standard_normal((3000, columns)).astype(dtype)
    if kind == "uneven":  # in size, not in direction
        block *= np.geomspace(1, 1e6, columns, dtype=dtype)
    elif kind == "dependent":
        block[:, -1] = block[:, 0] * (1 + 1e-6)
    elif kind == "zero":
        block[:] = 0
    with blas.workers() as pool:
        q, r = tall.orthonormal(pool, block.copy())
    rounding = 50 * np.finfo(dtype).eps
    assert q.dtype == dtype
    assert np.allclose(q.T @ q, np.eye(columns), rtol=0, atol=rounding)
    assert np.array_equal(r, np.triu(r))
    size = np.linalg.norm(block, axis=0)
    assert (np.linalg.norm(q @ r - block, axis=0) <= rounding * size).all()


def test_reflections_are_left_for_few_columns_and_for_dependent_ones(monkeypatch):
    asked = []
    monkeypatch.setattr(np.linalg, "qr", lambda block: asked.append(block.shape) or (block, block))
    wide = RNG.standard_normal((3000, tall.NARROW + 1))
    with blas.workers() as pool:
        tall.orthonormal(pool, wide)
        assert not asked
        tall.orthonormal(pool, wide[:, : tall.NARROW])
        wide[:, 1] = wide[:, 0] + 1e-7 * wide[:, 1]
        tall.orthonormal(pool, wide)
    assert asked == [(3000, tall.NARROW), (3000, tall.NARROW + 1)]
