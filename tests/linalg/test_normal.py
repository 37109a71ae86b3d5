"""Half a sweep against the normal equations solved one dense row at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from recbench.errors import RecbenchError
from recbench.linalg import blas, normal
from recbench.linalg.normal import Pattern, Terms, chances, column_weights, solve, turn
from recbench.linalg.topk import kernel_threads

TIGHT = {"rtol": 1e-9, "atol": 1e-9}
few = settings(max_examples=25, deadline=None)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Make sums over columns go through several blocks."""
    monkeypatch.setattr(normal, "BLOCK", 7)


class World:
    """Rows of very different lengths, factors of the columns, coefficients and weights."""

    def __init__(
        self, factors, rows=12, columns=60, seed=0, dtype=np.float64, entry=0.7, shared=False
    ):
        rng = np.random.default_rng(seed)
        chance = np.linspace(0.0, 1.0, rows)[:, None]
        self.matrix = (rng.random((rows, columns)) < chance).astype(np.float32)
        self.q = rng.standard_normal((columns, factors))
        self.grams, self.pushes = rng.random(columns), rng.standard_normal(columns)
        self.terms = Terms(
            rng.random(rows) + 0.1, rng.standard_normal(rows), rng.random(rows) + 0.1, entry, 1.3,
            rng.integers(0, 3, rows) / 1.5 if shared else None,
        )  # fmt: skip
        self.shares = rng.integers(0, 4, columns) / 1.5 if shared else None
        self.dtype = dtype

    @property
    def pattern(self):
        return Pattern.of(sparse.csr_array(self.matrix))

    def expected(self):
        """The solutions of the equations as they stand."""
        t = self.terms
        gram = self.q.T @ (self.q * self.grams[:, None])
        total = self.pushes @ self.q
        solutions = []
        terms = zip(self.matrix, t.gram, t.push, t.ridge, t.entries, t.pulls, strict=True)
        for row, c0, d0, r, c1, d1 in terms:
            some = self.q[row > 0]
            weighted = some.T * self.column_shares[row > 0]
            left = c0 * gram + c1 * weighted @ some + r * np.eye(len(gram))
            solutions.append(np.linalg.solve(left, d1 * weighted.sum(axis=1) - d0 * total))
        return np.array(solutions)

    @property
    def column_shares(self):
        return np.ones(len(self.q)) if self.shares is None else self.shares

    def objective(self, x):
        """(1) of every row, and its penalty."""
        t, scores = self.terms, x @ self.q.T
        squares = t.gram * (self.grams * scores**2).sum(axis=1)
        seen = t.entries[:, None] * scores**2 - 2 * t.pulls[:, None] * scores
        seen *= self.column_shares
        loss = squares + (self.matrix * seen).sum(axis=1) + 2 * t.push * (scores @ self.pushes)
        return loss, t.ridge * (x**2).sum(axis=1)

    def solved(self, start=None, steps=0, threads=1):
        """Scores, and what `solve` reports; the factors themselves are in another basis."""
        q = self.q.astype(self.dtype)
        x = np.zeros((len(self.matrix), q.shape[1]), self.dtype)
        if start is not None:
            x[...] = start
        with kernel_threads(threads), blas.workers() as pool:
            basis = turn(pool, q, self.grams, self.pushes, companion=x)
            report = solve(
                pool, self.pattern, basis, self.terms, x, columns=self.shares, steps=steps,
                loss=True,
            )  # fmt: skip
        self.squares = (x**2).sum(axis=1)
        return x @ q.T, report


shared = pytest.mark.parametrize("shared", [False, True])


@given(st.integers(1, 70), st.integers(0, 10**6), st.booleans())
@few
def test_every_row_solves_its_normal_equations(factors, seed, shared):
    """Rows with fewer entries than factors, as many, and more, side by side."""
    world = World(factors, seed=seed, shared=shared)
    scores, _ = world.solved()
    assert np.allclose(scores, world.expected() @ world.q.T, **TIGHT)


@shared
def test_rows_longer_than_a_stretch_do_too(shared):
    from recbench.linalg import normal_kernel

    world = World(9, rows=4, columns=3 * normal_kernel.STRETCH + 5, shared=shared)
    scores, _ = world.solved()
    assert np.allclose(scores, world.expected() @ world.q.T, **TIGHT)


@shared
@pytest.mark.parametrize("factors", [1, 8, 33])
def test_without_extra_weight_on_entries_nothing_is_left_to_solve(factors, shared):
    world = World(factors, entry=0.0, shared=shared)
    scores, _ = world.solved()
    assert np.allclose(scores, world.expected() @ world.q.T, **TIGHT)


@shared
@pytest.mark.parametrize("steps", [0, 2])
def test_the_reported_objective_is_the_objective(steps, shared):
    world = World(10, shared=shared)
    start = np.random.default_rng(1).standard_normal((12, 10))
    scores, report = world.solved(start, steps)
    x = np.linalg.lstsq(world.q, scores.T, rcond=None)[0].T
    loss, penalty = world.objective(x)
    assert report.loss == pytest.approx(loss.sum(), rel=1e-10)
    assert report.penalty == pytest.approx(penalty.sum(), rel=1e-10)


@given(st.integers(1, 40), st.integers(0, 10**6), st.booleans())
@few
def test_conjugate_gradients_go_down_and_arrive(factors, seed, shared):
    world = World(factors, seed=seed, shared=shared)
    start = np.random.default_rng(seed).standard_normal((12, factors))
    values = [sum(map(np.sum, world.objective(start)))]
    for steps in (1, 2, 4, 200):
        scores, report = world.solved(start, steps)
        values.append(report.loss + report.penalty)
    assert (np.diff(values) <= 1e-9 * abs(values[-1])).all()
    assert np.allclose(scores, world.expected() @ world.q.T, rtol=1e-6, atol=1e-6)


def test_conjugate_gradients_started_at_the_solution_stay_there():
    world = World(10)
    scores, _ = world.solved(world.expected(), steps=1)
    assert np.allclose(scores, world.expected() @ world.q.T, **TIGHT)


@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_number_of_threads_changes_no_bit(steps, dtype):
    world = World(20, rows=90, columns=300, dtype=dtype)
    one, two = (world.solved(steps=steps, threads=threads) for threads in (1, 2))
    assert np.array_equal(one[0], two[0])
    assert one[1] == two[1]


def test_single_precision_is_close_to_double():
    double, _ = World(20, rows=30).solved()
    single, _ = World(20, rows=30, dtype=np.float32).solved()
    assert np.abs(single - double).max() < 1e-4 * np.abs(double).max()


def test_directions_that_the_factors_do_not_have_get_nothing():
    """A singular Gram matrix, no penalty: the solution of least length, as by pseudo-inverse."""
    world = World(6)
    world.q[:, 4] = world.q[:, 1] - world.q[:, 2]
    world.q[:, 5] = 0.0
    world.grams[:] = 1.0  # every entry then lies in the range of the Gram matrix
    world.pushes[:] = 1.0
    world.terms.ridge[:] = 0.0
    t, gram = world.terms, world.q.T @ world.q
    expected = []
    for row, c0, d0 in zip(world.matrix, t.gram, t.push, strict=True):
        some = world.q[row > 0]
        right = t.pull * some.sum(axis=0) - d0 * world.q.sum(axis=0)
        expected.append(np.linalg.pinv(c0 * gram + t.entry * some.T @ some, rcond=1e-10) @ right)
    assert np.allclose(world.solved()[0], np.array(expected) @ world.q.T, rtol=1e-6, atol=1e-6)
    assert np.allclose(world.squares, (np.array(expected) ** 2).sum(axis=1), rtol=1e-6, atol=1e-6)


def test_rows_that_nothing_determines_are_refused():
    world = World(6)
    world.terms.ridge[3] = world.terms.gram[3] = 0.0
    with pytest.raises(RecbenchError, match=r"1 users or items .* l2 > 0"):
        world.solved()


def test_a_row_without_entries_needs_no_penalty():
    world = World(6)
    world.terms.ridge[0] = world.terms.gram[0] = world.terms.push[0] = 0.0
    assert not world.solved()[0][0].any()


@pytest.mark.parametrize("steps", [0, 3])
def test_numbers_that_run_away_are_an_error_with_advice(steps):
    world = World(6, dtype=np.float32, entry=1e39)
    with pytest.raises(normal.Diverged, match="l2"):
        world.solved(np.ones((12, 6)), steps)
    world = World(6)
    world.q[5, 2] = np.inf
    with np.errstate(invalid="ignore"), pytest.raises(normal.Diverged, match="l2"):
        world.solved()


def test_a_transposed_pattern_holds_the_same_entries():
    matrix = World(1).matrix
    pattern = Pattern.of(sparse.csr_array(matrix)).transposed()
    expected = Pattern.of(sparse.csr_array(matrix.T))
    assert np.array_equal(pattern.starts, expected.starts)
    assert np.array_equal(pattern.columns, expected.columns)
    assert pattern.width == len(matrix)


def test_columns_weigh_by_a_power_of_their_entries_and_one_on_average():
    counts = np.array([4, 0, 1, 9])
    assert np.allclose(chances(counts, 0.5), [2 / 6, 0, 1 / 6, 3 / 6])
    assert np.allclose(column_weights(counts, 0.5), [8 / 6, 0, 4 / 6, 12 / 6])
    assert np.allclose(column_weights(counts, 1.0), [16 / 14, 0, 4 / 14, 36 / 14])


def test_columns_weigh_the_same_without_a_power_and_without_entries():
    assert column_weights(np.array([4, 0]), 0.0) is None
    assert column_weights(np.zeros(2, np.int64), 0.5) is None


def test_columns_are_not_centred_and_weighed():
    ones = np.ones(2)
    with pytest.raises(RecbenchError, match="centred or have a power"):
        Terms(ones, ones, ones, 1.0, 1.0, centred=True, power=0.5)
