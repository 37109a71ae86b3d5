"""Adam against one number at a time."""

import numpy as np
import pytest

from recbench.linalg import adam, blas
from recbench.linalg.adam import Adam, norm
from recbench.linalg.topk import kernel_threads

BETAS, EPSILON, RATE = (0.8, 0.95), 1e-6, 0.1


@pytest.fixture
def pool():
    with blas.workers() as found:
        yield found


def some_table(rows=11, width=3, dtype=np.float64):
    return np.random.default_rng(0).standard_normal((rows, width)).astype(dtype)


def some_steps(rows=11, width=3, steps=9, dtype=np.float64):
    """Gradients of some rows, in any order."""
    rng = np.random.default_rng(1)
    for _ in range(steps):
        named = rng.permutation(rows)[: rng.integers(0, rows + 1)].astype(np.int32)
        yield named, rng.standard_normal((len(named), width)).astype(dtype)


def slow(table, steps, *, lazy):
    """What the formulas say."""
    table, (b1, b2) = table.astype(np.float64), BETAS
    m, v, touched = np.zeros_like(table), np.zeros_like(table), np.zeros(len(table))
    for rows, gradient in steps:
        for r in rows if lazy else range(len(table)):
            where = np.flatnonzero(rows == r)
            g = gradient[where[0]] if len(where) else 0.0
            touched[r] += 1
            m[r] = b1 * m[r] + (1 - b1) * g
            v[r] = b2 * v[r] + (1 - b2) * g**2
            corrected = m[r] / (1 - b1 ** touched[r]), v[r] / (1 - b2 ** touched[r])
            table[r] -= RATE * corrected[0] / (np.sqrt(corrected[1]) + EPSILON)
    return table


def new(table, *, lazy):
    return Adam(table, lazy=lazy, betas=BETAS, epsilon=EPSILON)


def fast(table, steps, pool, *, lazy):
    table = table.copy()
    mover = new(table, lazy=lazy)
    for rows, gradient in steps:
        mover.step(pool, gradient, RATE, rows)
    return table


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-13), (np.float32, 1e-5)])
def test_steps_are_what_the_formulas_say(lazy, dtype, tolerance, pool):
    table, steps = some_table(dtype=dtype), list(some_steps(dtype=dtype))
    found = fast(table, steps, pool, lazy=lazy)
    assert found.dtype == dtype
    assert np.allclose(found, slow(table, steps, lazy=lazy), atol=tolerance)


def test_the_rows_that_are_not_named_move_only_if_dense(pool):
    table, (first, second) = some_table(), [np.array([0, 1]), np.array([0])]
    gradient = np.ones((2, 3))
    before = fast(table, [(first, gradient)], pool, lazy=True)
    for lazy in (False, True):
        after = fast(table, [(first, gradient), (second, gradient[:1])], pool, lazy=lazy)
        assert (after[0] != before[0]).all()
        assert np.array_equal(after[1], before[1]) == lazy
        assert np.array_equal(after[2:], table[2:])


def test_naming_all_rows_is_naming_none(pool):
    """Dense and lazy are then the same, too."""
    tables = []
    for lazy in (False, True):
        for rows in (None, np.arange(11)):
            tables.append(some_table())
            mover = new(tables[-1], lazy=lazy)
            for factor in (1.0, -0.5):
                mover.step(pool, factor * some_table(), RATE, rows)
    for table in tables[1:]:
        assert np.array_equal(table, tables[0])


def test_vectors_move_as_tables_of_one_column(pool):
    steps = list(some_steps(width=1))
    for lazy in (False, True):
        table = some_table(width=1)
        found = fast(table[:, 0], [(rows, g[:, 0]) for rows, g in steps], pool, lazy=lazy)
        assert np.array_equal(found, fast(table, steps, pool, lazy=lazy)[:, 0])


@pytest.mark.parametrize("lazy", [False, True])
def test_a_restored_state_goes_on_to_the_same_bits(lazy, pool):
    steps = list(some_steps())
    table = some_table()
    mover = new(table, lazy=lazy)
    for rows, gradient in steps[:5]:
        mover.step(pool, gradient, RATE, rows)
    kept = {name: array.copy() for name, array in mover.state().items()}
    later = table.copy()
    other = new(later, lazy=lazy)
    other.restore(kept)
    for each in (mover, other):
        for rows, gradient in steps[5:]:
            each.step(pool, gradient, RATE, rows)
    assert np.array_equal(later, table)
    assert np.array_equal(table, fast(some_table(), steps, pool, lazy=lazy))


def test_a_state_of_another_kind_is_refused_whole(pool):
    mover = new(some_table(), lazy=False)
    mover.step(pool, some_table(), RATE)
    before = {name: array.copy() for name, array in mover.state().items()}
    with pytest.raises(ValueError, match="'steps' is of another table, or of another kind"):
        mover.restore(new(some_table(), lazy=True).state())
    assert all(np.array_equal(mover.state()[name], array) for name, array in before.items())


@pytest.mark.parametrize("lazy", [False, True])
def test_the_number_of_threads_changes_no_bit(lazy, monkeypatch):
    table, steps = some_table(300, 33), list(some_steps(300, 33))
    found = []
    for threads, least in ((1, adam.LEAST), (1, 1), (2, 1)):
        monkeypatch.setattr(adam, "LEAST", least)
        with kernel_threads(threads), blas.workers() as pool:
            found.append(fast(table, steps, pool, lazy=lazy))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_nan_comes_out_where_it_went_in(wrong, pool):
    table, gradient = some_table(), some_table()
    gradient[4, 1] = wrong
    new(table, lazy=False).step(pool, gradient, RATE)
    assert np.argwhere(np.isnan(table)).tolist() == [[4, 1]]


def test_no_rows_are_a_step_nevertheless(pool):
    table = some_table()
    mover = new(table, lazy=False)
    mover.step(pool, np.empty((0, 3)), RATE, np.empty(0, np.int32))
    assert mover.steps[0] == 1
    assert np.array_equal(table, some_table())


def test_what_does_not_fit_is_refused(pool):
    mover = new(some_table(), lazy=True)
    with pytest.raises(ValueError, match=r"gradient in float64 of shape \(2, 3\), not float64"):
        mover.step(pool, np.ones((3, 3)), RATE, np.array([1, 2]))
    with pytest.raises(ValueError, match="not float32"):
        mover.step(pool, np.ones((11, 3), np.float32), RATE)
    with pytest.raises(ValueError, match="a table of 11"):
        mover.step(pool, np.ones((1, 3)), RATE, np.array([11]))
    with pytest.raises(ValueError, match="twice"):
        mover.step(pool, np.ones((2, 3)), RATE, np.array([1, 1]))
    assert not mover.steps.any()
    for table in (some_table().T, some_table().astype(int), np.ones((2, 2, 2))):
        with pytest.raises(ValueError, match="Adam moves"):
            new(table, lazy=False)


def test_the_norm_is_that_of_all_as_one_vector(pool, monkeypatch):
    arrays = some_table(200, 7, np.float32), np.arange(5.0), np.empty((0, 3))
    together = np.concatenate([a.ravel().astype(np.float64) for a in arrays])
    for block in (adam.BLOCK, 64):
        monkeypatch.setattr(adam, "BLOCK", block)
        assert norm(pool, arrays) == pytest.approx(np.linalg.norm(together), rel=1e-14)
    assert norm(pool, []) == 0
    assert np.isnan(norm(pool, [np.array([1.0, np.nan])]))
    assert np.isinf(norm(pool, [np.array([1e200])]))
    many = np.full(1 << 20, 1e-4, np.float32)  # added up in float32, these would stop counting
    assert norm(pool, [np.ones(1, np.float32), many]) == pytest.approx(
        np.sqrt(1 + 2**20 * np.float64(np.float32(1e-4)) ** 2), rel=1e-12
    )
