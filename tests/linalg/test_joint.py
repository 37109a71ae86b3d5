"""The objective of both sides against sums over all cells, and its derivatives by differences."""

import numpy as np
import pytest
from scipy import sparse

from recbench.linalg import blas
from recbench.linalg.joint import Sides, Surface, lowest
from recbench.linalg.normal import Diverged, Pattern, Terms

ROWS, COLUMNS, FACTORS = 11, 8, 3
DRAW = np.random.default_rng(0)
SEEN = DRAW.random((ROWS, COLUMNS)) < 0.4
SEEN[3], SEEN[:, 5] = False, False


def terms(**changed):
    given = {
        "gram": DRAW.random(ROWS), "push": DRAW.random(ROWS), "ridge": np.zeros(ROWS),
        "entry": 0.7, "pull": 1.3, "share": DRAW.random(ROWS),
    }  # fmt: skip
    return Terms(**{**given, **changed})


KINDS = {
    "rg2": terms(entry=0.0, share=None),
    "rg2 with alpha": terms(entry=0.2, share=None),
    "shares of rows": terms(),
    "centred": terms(centred=True),
    "no pushes": terms(push=np.zeros(ROWS)),
    "weights of columns": terms(power=0.7),
    "weights of columns alone": terms(entry=0.0, share=None, power=1.0),
}
each = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True, scope="module")
def pool():
    with blas.workers() as pool:
        yield pool


def drawn(seed):
    draw = np.random.default_rng(seed)
    return Sides(draw.standard_normal((ROWS, FACTORS)), draw.standard_normal((COLUMNS, FACTORS)))


def at(pool, kind, factors):
    matrix = sparse.csr_array(SEEN.astype(float))
    return Surface(pool, Pattern.of(matrix), KINDS[kind], np.dtype(float)).at(factors)


def by_cells(kind, factors, scores=None):
    """What the docstring of the module says, cell by cell."""
    given = KINDS[kind]
    s = factors[0] @ factors[1].T if scores is None else scores
    spread = s - s.mean(axis=1, keepdims=True) * given.centred
    v = SEEN.sum(axis=0) ** given.power
    v = v * COLUMNS / v.sum()
    total = (given.gram[:, None] * v * spread**2).sum() + 2 * (given.push[:, None] * v * s).sum()
    seen = given.entries[:, None] * s**2 - 2 * given.pulls[:, None] * s
    return total + seen[SEEN].sum()


def moved(factors, direction, length):
    return Sides(*(a + length * b for a, b in zip(factors, direction, strict=True)))


def inner(one, other):
    return sum(np.vdot(a, b) for a, b in zip(one, other, strict=True))


@each
def test_the_value_is_the_sum_over_all_cells(pool, kind):
    factors = drawn(1)
    assert at(pool, kind, factors).value() == pytest.approx(by_cells(kind, factors), rel=1e-12)


@each
def test_the_slope_is_that_of_the_value(pool, kind):
    """By differences of fourth order, which are exact for a polynomial of degree four."""
    factors, direction = drawn(1), drawn(2)
    values = {t: by_cells(kind, moved(factors, direction, t)) for t in (-2, -1, 1, 2)}
    expected = (8 * (values[1] - values[-1]) - (values[2] - values[-2])) / 12
    found = at(pool, kind, factors).slope()
    assert inner(found, direction) == pytest.approx(expected, rel=1e-10)


@each
def test_the_bend_in_full_is_how_the_slope_changes(pool, kind):
    factors, direction, other = drawn(1), drawn(2), drawn(3)
    slopes = {t: at(pool, kind, moved(factors, direction, t)).slope() for t in (-2, -1, 1, 2)}
    found = at(pool, kind, factors).bend(direction, full=True)
    for side in (0, 1):
        change = 8 * (slopes[1][side] - slopes[-1][side]) - (slopes[2][side] - slopes[-2][side])
        assert np.allclose(found[side], change / 12)
    turned = at(pool, kind, factors).bend(other, full=True)
    assert inner(found, other) == pytest.approx(inner(turned, direction))


@each
def test_the_bend_of_gauss_and_newton_is_that_of_scores_which_move_straight_on(pool, kind):
    """The differences of F with scores s + t σ, and so never negative."""
    factors, direction = drawn(1), drawn(2)
    scores = factors[0] @ factors[1].T
    begin = direction[0] @ factors[1].T + factors[0] @ direction[1].T
    values = [by_cells(kind, factors, scores + t * begin) for t in (-1, 0, 1)]
    found = at(pool, kind, factors).bend(direction, full=False)
    assert inner(found, direction) == pytest.approx(values[0] - 2 * values[1] + values[2])
    assert inner(found, direction) > 0


@each
def test_a_line_is_a_polynomial_of_degree_four(pool, kind):
    factors, direction = drawn(1), drawn(2)
    line = np.polynomial.Polynomial(at(pool, kind, factors).along(direction))
    for length in (-1.5, 0.0, 0.3, 2.0):
        expected = by_cells(kind, moved(factors, direction, length))
        assert line(length) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("kind", ["shares of rows", "weights of columns"])
def test_single_precision_is_the_same_to_fewer_digits(pool, kind):
    exact, direction = at(pool, kind, drawn(1)), drawn(2)
    matrix = sparse.csr_array(SEEN.astype(float))
    single, towards = (
        Sides(*(side.astype(np.float32) for side in sides)) for sides in (drawn(1), direction)
    )
    given = Surface(pool, Pattern.of(matrix), KINDS[kind], np.dtype(np.float32))
    place = given.at(single)
    assert place.value() == pytest.approx(exact.value(), rel=1e-5)
    ours = [*place.slope(), *place.bend(towards, full=True)]
    theirs = [*exact.slope(), *exact.bend(direction, full=True)]
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == np.float32
        assert np.allclose(one, other, rtol=1e-4, atol=1e-4)


def test_factors_that_are_not_finite_are_refused(pool):
    factors = drawn(1)
    factors.columns[2] = np.inf
    with pytest.raises(Diverged, match="larger l2"):
        at(pool, "rg2", factors)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ([5.0, -2.0, 1.0, 0.0, 0.0], 1.0),
        ([0.0, -1.0, 0.0, 0.0, 0.25], 1.0),
        ([0.0, 1.0, 1.0, 0.0, 0.0], 0.0),  # rises
        ([0.0, 0.0, 9.0, -20.0, 10.0], (60 + np.sqrt(3600 - 2880)) / 80),  # the far valley
        ([0.0, -1.0, 0.0, 0.0, 0.0], 0.0),  # falls for ever
        ([0.0, 0.0, 0.0, 0.0, 0.0], 0.0),
    ],
)
def test_the_lowest_point_of_a_line_is_ahead_and_below(line, expected):
    assert lowest(np.array(line)) == pytest.approx(expected)
