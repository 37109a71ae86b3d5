"""Conjugate gradients on a table of unknowns, against a dense solve."""

import numpy as np
import pytest

from recbench.linalg import blas, conjugate

ROWS, FACTORS = 7, 3
DRAW = np.random.default_rng(0)
ROOT = DRAW.standard_normal((ROWS * FACTORS,) * 2)
MATRIX = ROOT @ ROOT.T + np.eye(ROWS * FACTORS)
B = DRAW.standard_normal((ROWS, FACTORS))
ZERO = np.zeros_like(B)


def times(matrix):
    return lambda x: (matrix @ x.ravel()).reshape(x.shape)


def solved(matrix, accuracy=1e-12, steps=200):
    return conjugate.solve(times(matrix), lambda x: x, B, accuracy, steps)


def test_it_solves_and_says_how_well():
    exact = np.linalg.solve(MATRIX, B.ravel()).reshape(B.shape)
    assert np.allclose(solved(MATRIX).x, exact, rtol=1e-7)
    rough = solved(MATRIX, accuracy=0.1)
    left = np.linalg.norm(B - times(MATRIX)(rough.x)) / np.linalg.norm(B)
    assert rough.residual == pytest.approx(left)
    assert rough.residual <= 0.1
    assert 0 < rough.steps < solved(MATRIX).steps


def test_cut_short_it_returns_what_it_has():
    cut = solved(MATRIX, steps=2)
    assert cut.steps == 2
    assert cut.residual > 0.1
    assert np.vdot(cut.x, B) > 0


def test_where_the_matrix_bends_down_what_is_found_still_leads_up_b():
    values, vectors = np.linalg.eigh(MATRIX)
    values[:3] *= -1
    found = solved(vectors @ np.diag(values) @ vectors.T)
    assert np.vdot(found.x, B) > 0
    nowhere = solved(-MATRIX)
    assert (nowhere.steps, nowhere.residual) == (1, 1.0)
    assert np.array_equal(nowhere.x, B)


def test_nothing_to_solve_is_solved():
    found = conjugate.solve(times(MATRIX), lambda x: x, ZERO, 0.1, 5)
    assert (found.steps, found.residual, found.x.any()) == (0, 0.0, False)


def test_scaling_divides_by_weights_of_one_gram_matrix_and_leaves_out_what_is_flat():
    factors = DRAW.standard_normal((9, FACTORS))
    factors[:, 2] = 0
    gram, weights, ridge = factors.T @ factors, DRAW.random(ROWS), DRAW.random(ROWS)
    with blas.workers() as pool:
        found = conjugate.Scaling.of(gram, weights, ridge, B).divide(pool, B)
        flat = conjugate.Scaling.of(gram, weights, 0 * ridge, B).divide(pool, B)
    for row in range(ROWS):
        system = weights[row] * gram + ridge[row] * np.eye(FACTORS)
        assert np.allclose(found[row], np.linalg.solve(system, B[row]))
        assert np.allclose(flat[row], np.linalg.pinv(weights[row] * gram) @ B[row])
