"""Eigenpairs against matrices whose eigenvalues are known by construction."""

import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from recbench.linalg import eigen
from recbench.linalg.thin import GramProduct

N = 600


def slow_decay(n: int) -> np.ndarray:
    return 1000.0 / np.arange(1, n + 1) ** 0.7


def many_copies() -> np.ndarray:
    """Thirty copies of the largest eigenvalue and forty of a smaller one, then a tail."""
    tail = np.linspace(5, 0, N - 80)
    return np.r_[np.full(30, 9.0), np.linspace(8, 7, 10), np.full(40, 6.5), tail]


@cache
def rotation(n: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(0).standard_normal((n, n)))[0]


def spread(values: np.ndarray) -> np.ndarray:
    """A symmetric matrix with these eigenvalues."""
    return _spread(tuple(values.tolist()))


@cache
def _spread(values: tuple[float, ...]) -> np.ndarray:
    vectors = rotation(len(values))
    matrix = (vectors * values) @ vectors.T
    return (matrix + matrix.T) / 2


def true_residual(matrix: np.ndarray, pairs: eigen.Eigenpairs) -> float:
    missed = matrix @ pairs.vectors - pairs.vectors * pairs.values
    return np.linalg.norm(missed, axis=0).max() / pairs.values[0]


def found(matrix: np.ndarray, k: int, **options) -> eigen.Eigenpairs:
    return eigen.leading(lambda z: matrix @ z, len(matrix), k, **options)


@pytest.mark.parametrize("k", [1, 7, 30])
@pytest.mark.parametrize("n", [30, N])
def test_the_largest_pairs_are_found_in_order(n, k):
    matrix = spread(slow_decay(n))
    assert eigen.in_full(n, k) == (n == 30)
    pairs = found(matrix, k, tolerance=1e-12)
    assert pairs.vectors.shape == (n, k)
    assert np.allclose(pairs.values, slow_decay(n)[:k], rtol=1e-10)
    assert np.allclose(pairs.vectors.T @ pairs.vectors, np.eye(k), atol=1e-12)
    assert true_residual(matrix, pairs) < 2e-12


@pytest.mark.parametrize("values", ["slow_decay", "many_copies"])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-5, 1e-8])
def test_the_stated_residual_is_the_true_one(tolerance, values):
    """Also where a second look found more, as it does among copies."""
    matrix = spread(slow_decay(N) if values == "slow_decay" else many_copies())
    pairs = found(matrix, 20, tolerance=tolerance)
    assert pairs.residual <= tolerance
    rounding = 30 * float(np.finfo(eigen.precision(tolerance)).eps)
    assert true_residual(matrix, pairs) == pytest.approx(pairs.residual, rel=1e-3, abs=rounding)


@pytest.mark.parametrize("k", [20, 60, 85])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-4])
def test_a_loose_tolerance_is_met_in_single_precision(tolerance, k):
    assert not eigen.in_full(N, k)
    for exact in (slow_decay(N), many_copies(), np.r_[100.0, np.linspace(10, 5, N - 1)]):
        matrix = spread(exact)
        pairs = found(matrix, k, tolerance=tolerance)
        assert pairs.vectors.dtype == np.float32
        assert pairs.values.dtype == np.float64
        assert np.abs(pairs.values - exact[:k]).max() <= tolerance * exact[0]
        assert np.allclose(pairs.vectors.T @ pairs.vectors, np.eye(k), atol=1e-5)
        assert true_residual(matrix, pairs) <= 1.01 * tolerance


def test_eigenvalues_repeated_more_often_than_a_block_is_wide_are_all_found():
    matrix, exact = spread(many_copies()), many_copies()
    assert eigen.block_size(75) < 30
    for k in (5, 30, 75, 85):
        assert not eigen.in_full(N, k)
        pairs = found(matrix, k)
        assert np.allclose(pairs.values, exact[:k], rtol=1e-7)
        assert true_residual(matrix, pairs) < 1e-8


def test_without_the_second_look_copies_would_be_overlooked(monkeypatch):
    """The test above can fail."""
    monkeypatch.setattr(eigen._Krylov, "_overlooked", lambda self, found, limit: found[:, :0])
    pairs = found(spread(many_copies()), 75, tolerance=1e-5)
    assert not np.allclose(pairs.values, many_copies()[:75], rtol=1e-3)


def test_one_eigenvalue_alone():
    pairs = eigen.leading(lambda z: 3.0 * z, N, 20)
    assert np.allclose(pairs.values, 3.0)
    assert np.allclose(pairs.vectors.T @ pairs.vectors, np.eye(20), atol=1e-12)


@pytest.mark.parametrize("rank", [0, 1, 5])
def test_beyond_the_rank_eigenvalues_are_zero_and_vectors_still_orthonormal(rank):
    matrix = spread(np.r_[np.linspace(5, 4, rank), np.zeros(N - rank)])
    pairs = found(matrix, 12)
    assert np.allclose(pairs.values[:rank], np.linspace(5, 4, rank))
    assert np.abs(pairs.values[rank:]).max() < 1e-12
    assert np.allclose(pairs.vectors.T @ pairs.vectors, np.eye(12), atol=1e-12)


def test_more_than_there_are_is_all():
    assert len(found(spread(slow_decay(20)), 50).values) == 20


def test_the_same_on_any_number_of_threads_and_again():
    matrix = sparse.random_array((500, N), density=0.02, rng=1, dtype=np.float64).tocsr()
    results = []
    for threads in (1, 2, 2):
        with threadpool_limits(threads, user_api="blas"):
            pairs = eigen.leading(GramProduct(matrix), N, 25)
        results.append(pairs)
    for other in results[1:]:
        assert np.array_equal(results[0].values, other.values)
        assert np.array_equal(results[0].vectors, other.vectors)


def test_another_seed_finds_the_same_with_the_same_signs():
    matrix = spread(slow_decay(N))
    one, other = (found(matrix, 10, seed=seed, tolerance=1e-13) for seed in (0, 1))
    assert np.allclose(one.vectors, other.vectors, atol=1e-9)


def test_the_largest_entry_of_a_vector_is_positive_and_the_first_of_equal_ones():
    pairs = eigen.decompose(np.array([[2.0, -1.0], [-1.0, 2.0]]), 2)
    assert np.allclose(pairs.vectors, np.array([[1, 1], [-1, 1]]) / np.sqrt(2))


def test_known_pairs_are_a_start():
    matrix, products = spread(slow_decay(N)), []

    def apply(z: np.ndarray) -> np.ndarray:
        products.append(z.shape[1])
        return matrix @ z

    scratch = eigen.leading(apply, N, 60)
    alone = sum(products)
    products.clear()
    resumed = eigen.leading(apply, N, 60, start=scratch.first(50))
    assert np.allclose(resumed.values, scratch.values, rtol=1e-8)
    assert true_residual(matrix, resumed) < 2e-8
    assert sum(products) < alone


def test_an_operator_of_single_precision_is_enough_for_its_own_digits():
    matrix = spread(slow_decay(N)).astype(np.float32)
    pairs = eigen.leading(lambda z: matrix @ z.astype(np.float32), N, 20, tolerance=2e-6)
    assert np.allclose(pairs.values, slow_decay(N)[:20], rtol=1e-5)
    assert pairs.vectors.dtype == np.float64


def test_what_is_not_found_is_an_error_with_advice(monkeypatch):
    monkeypatch.setattr(eigen, "CYCLES", 2)
    with pytest.raises(eigen.NotConverged, match=r"20 largest eigenvalues of 600 .* not 1e-30"):
        found(spread(slow_decay(N)), 20, tolerance=1e-30)


@pytest.mark.parametrize("n", [20, N])
def test_a_matrix_that_is_not_finite_is_an_error(n):
    with pytest.raises(eigen.NotConverged, match="not finite"):
        eigen.leading(lambda z: z * np.nan, n, 5)


def test_progress_never_falls_and_ends_where_it_says():
    steps = []
    found(spread(slow_decay(N)), 30, progress=lambda done, total: steps.append((done, total)))
    done = [step for step, _ in steps]
    assert done == sorted(done)
    assert all(step <= total for step, total in steps)


PEAK = """
import sys
import numpy as np
from recbench.environment import held_memory, recent_peak, restart_peak
from recbench.linalg import eigen

n, k = map(int, sys.argv[1:])
values = np.geomspace(100, 1e-3, n)
for small in (100, 600):  # what is loaded once
    eigen.leading(lambda x: values[:small, None] * x, small, 10)
restart_peak()
before = held_memory()
eigen.leading(lambda x: values[:, None] * x, n, k)
print(recent_peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel how much memory was held")
@pytest.mark.parametrize(
    ("n", "k", "in_full"),
    [(1500, 1200, True), pytest.param(6000, 300, False, marks=pytest.mark.slow)],
)
def test_the_memory_that_is_announced_covers_what_is_used(n, k, in_full):
    assert eigen.in_full(n, k) == in_full
    words = [sys.executable, "-c", PEAK, str(n), str(k)]
    used = int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    buffers = 16e6  # of BLAS and of threads
    assert eigen.bytes_needed(n, k) / 3 < used < eigen.bytes_needed(n, k) + buffers


@pytest.mark.parametrize("n", [60, 400])
def test_products_without_the_digits_asked_for_are_an_error_either_way(n):
    """A small matrix as the difference of large ones, in float32: also where all of it is made."""
    half = np.random.default_rng(0).standard_normal((n, n)) / np.sqrt(n)

    def products(large: float) -> eigen.Operator:
        def apply(z):
            most = np.float32(large) * z.astype(np.float32)
            return np.asarray(most + (half @ (half.T @ z)).astype(np.float32), float) - most

        return apply

    assert eigen.in_full(n, 5) == (n == 60)
    assert eigen.leading(products(1.0), n, 5, tolerance=1e-5).values[0] > 1.0
    with pytest.raises(eigen.NotConverged, match=r"5 largest .*, not 1e-05, of the largest; ask"):
        eigen.leading(products(1e6), n, 5, tolerance=1e-5)
