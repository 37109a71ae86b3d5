"""Responses to blocks of scores against the same in plain NumPy, all scores at once."""

import numpy as np
import pytest
from scipy.special import expit

from recbench.linalg import blas, responses
from recbench.linalg import responses_kernel as kernel
from recbench.linalg.responses import Block, Own, Response, Room, Shared, Squares
from recbench.linalg.topk import kernel_threads

KINDS = ("exponential", "hinge", "softplus", "square", "excess", "hardest")
SCALE, TOTAL = 1.7, 40.0
EXACT = {"rtol": 1e-11, "atol": 1e-11}


@pytest.fixture
def pool():
    with blas.workers() as found:
        yield found


@pytest.fixture(params=[1, 7, 100], ids=["panels of 1", "panels of 7", "one panel"])
def panels(request, monkeypatch):
    """The 90 columns of these tests in many panels, the last one smaller, or in one."""
    monkeypatch.setattr(responses, "PANEL", request.param)
    monkeypatch.setattr(responses, "SCORES", 1)
    return request.param


@pytest.fixture(params=[1, 10**9], ids=["few", "many"])
def few(request, monkeypatch):
    """Responses that are not 0 are few enough to be gone through one by one, or never are."""
    monkeypatch.setattr(responses, "FEW", request.param)


def some(rows, width=3, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal((rows, width)).astype(dtype)


def response(kind):
    return Response(kind, SCALE if kind == "exponential" else 1.0, TOTAL)


def slow(kind, scores, shift, weights=None):
    """Value and slope of each row, and the derivative of the value by every score."""
    m, n = scores.shape
    if kind == "exponential":
        weights = np.full(n, 1 / n) if weights is None else weights
        grown = weights * np.exp(SCALE * scores)
        total = grown.sum(axis=1, keepdims=True)
        return np.log(total[:, 0]), np.ones(m), grown / total
    if kind == "excess":
        kept = np.array([_sparsemax(row) for row in scores])
        tau = np.array([(s[k > 0] - k[k > 0])[0] for s, k in zip(scores, kept, strict=True)])
        values = [
            (s[k > 0] ** 2 - t**2).sum() / 2 for s, k, t in zip(scores, kept, tau, strict=True)
        ]
        return np.array(values), np.ones(m), kept
    x = scores - shift[:, None]
    if kind == "hardest":
        weight = np.log1p(TOTAL * (x > 0).mean(axis=1))
        best = np.zeros(scores.shape)
        best[np.arange(m), x.argmax(axis=1)] = weight
        return weight * np.maximum(x.max(axis=1), 0), weight, best
    h, slope = {
        "hinge": (np.maximum(x, 0), (x > 0) * 1.0),
        "softplus": (np.logaddexp(0, x), expit(x)),
        "square": (scores**2 / 2, scores),
    }[kind]
    return h.mean(axis=1), slope.mean(axis=1), slope / n


def _sparsemax(row):
    """The nearest point of the simplex, by sorting."""
    z = -np.sort(-row)
    sums = np.cumsum(z)
    k = np.flatnonzero(1 + np.arange(1, len(z) + 1) * z > sums)[-1] + 1
    return np.maximum(row - (sums[k - 1] - 1) / k, 0)


def faced(engine, pool, room=None, dtype=np.float64, columns=90):
    """Some rows and what they face: a block, the vectors each row faces, how to add them up."""
    a, source = some(5, dtype=dtype), some(columns, seed=1, dtype=dtype)
    rng, room = np.random.default_rng(2), Room() if room is None else room
    if engine == "all":
        return a, source, np.tile(np.arange(columns), (5, 1)), Block(pool, a, source, room)
    if engine == "shared":
        drawn = rng.integers(columns // 2, size=columns).astype(np.int32)
        return a, source, np.tile(drawn, (5, 1)), Shared(pool, a, source, room, drawn)
    drawn = rng.integers(columns // 2, size=(5, columns)).astype(np.int32)
    return a, source, drawn, Own(pool, a, source, room, drawn)


@pytest.mark.parametrize("engine", ["all", "shared", "own"])
def test_panels_have_the_width_that_these_tests_want(engine, panels, pool):
    *_, block = faced(engine, pool)
    assert len(block.bounds) == (-(-90 // min(panels, 11)) if engine == "own" else -(-90 // panels))


@pytest.mark.parametrize("engine", ["all", "shared", "own"])
@pytest.mark.parametrize("kind", KINDS)
def test_means_and_both_ways_back(kind, engine, few, panels, pool):
    a, source, drawn, block = faced(engine, pool)
    scores = np.einsum("rk,rjk->rj", a, source[drawn])
    shift = some(5, 1, seed=3)[:, 0]
    value, slope, derivative = slow(kind, scores, shift)
    means = block.respond(response(kind), shift)
    assert np.allclose(means.value, value, **EXACT)
    assert np.allclose(means.slope, slope, **EXACT)

    c, b = some(5, 2, seed=4).T
    for alike in (None, b):
        g = c[:, None] * derivative + (0 if alike is None else alike[:, None])
        assert np.allclose(block.pull(c, alike), np.einsum("rj,rjk->rk", g, source[drawn]), **EXACT)
        expected = np.zeros_like(source)
        np.add.at(expected, drawn, g[:, :, None] * a[:, None])
        assert np.allclose(block.push(c, alike), expected, **EXACT)


def test_columns_may_weigh_in_the_mean_of_exponentials(panels, pool):
    a, source, _, block = faced("all", pool)
    weights = np.random.default_rng(5).random(90)
    weights[3] = 0
    weights /= weights.sum()
    value, _, derivative = slow("exponential", a @ source.T, None, weights)
    means = block.respond(response("exponential"), weights=weights)
    c = some(5, 1, seed=4)[:, 0]
    assert np.allclose(means.value, value, **EXACT)
    assert np.allclose(block.pull(c), (c[:, None] * derivative) @ source, **EXACT)
    assert np.allclose(block.push(c), (c[:, None] * derivative).T @ a, **EXACT)


def test_responses_that_are_few_are_collected_and_others_are_not(pool):
    *_, block = faced("all", pool)
    scores = np.sort((block.a @ block.c.T).ravel())
    for above, collected in ((len(scores) // responses.FEW, True), (len(scores) // 4, False)):
        block.respond(Response("hinge"), scores[-above - 1])
        assert (block._few[0] is not None) == collected


@pytest.mark.parametrize("kind", ["hinge", "softplus", "excess"])
def test_hidden_scores_count_as_columns_that_do_not_answer(kind, panels, pool):
    a, source, _, block = faced("all", pool)
    hidden = np.random.default_rng(6).random((5, 90)) < 0.3
    scores, shift = np.where(hidden, -1e3, a @ source.T), np.zeros(5)

    def hide(panel, start):
        panel[hidden[:, start : start + panel.shape[1]]] = -np.inf

    value, _, derivative = slow(kind, scores, shift)
    assert np.allclose(block.respond(response(kind), shift, hide=hide).value, value, **EXACT)
    assert np.allclose(block.pull(np.ones(5)), derivative @ source, **EXACT)


def test_the_hardest_may_not_be_hidden_and_may_be_missing(panels, pool):
    a, source, _, block = faced("all", pool)
    scores = a @ source.T
    hidden = scores > np.sort(scores, axis=1)[:, [-4]]  # the best three
    hidden[4] = True  # nobody is left

    def hide(panel, start):
        panel[hidden[:, start : start + panel.shape[1]]] = -np.inf

    shift = np.zeros(5)
    value, slope, derivative = slow("hardest", np.where(hidden, -1e3, scores), shift)
    means = block.respond(response("hardest"), shift, hide=hide)
    assert (value[:4] > 0).all()
    assert np.allclose(means.value, value, **EXACT)
    assert np.allclose(means.slope, slope, **EXACT)
    assert np.allclose(block.pull(np.ones(5)), derivative @ source, **EXACT)


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_is_the_same_to_seven_digits(kind, panels, pool):
    results = []
    for dtype in (np.float64, np.float32):
        *_, block = faced("all", pool, dtype=dtype)
        means = block.respond(response(kind), 0.5)
        c = np.ones(5)
        results.append([means.value, means.slope, block.pull(c, c), block.push(c, c)])
    assert results[1][2].dtype == np.float32
    for double, single in zip(*results, strict=True):
        assert np.abs(single - double).max() < 3e-6 * max(1, np.abs(double).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_scores_neither_overflow_nor_vanish(dtype, pool):
    a, source = np.array([[1.0], [-1.0]], dtype), np.array([[1e4], [0], [-1e4]], dtype)
    block = Block(pool, a, source, Room())
    logs = block.respond(Response("exponential", 1.0)).value
    assert np.allclose(logs, 1e4 - np.log(3))
    assert np.allclose(block.pull(np.ones(2)), [[1e4], [-1e4]])
    means = block.respond(Response("softplus"))
    assert np.allclose(means.value, (1e4 + np.log(2)) / 3)
    assert np.allclose(means.slope, 0.5)


@pytest.mark.parametrize("engine", ["all", "shared", "own"])
@pytest.mark.parametrize("length", [1e-3, 1.0, 20.0, 1e3])
def test_exponentials_of_vectors_of_any_length(length, engine, panels, pool):
    """Short rows are not searched for their largest score, long ones in the same block are."""
    a, source, drawn, _ = faced(engine, pool)
    a = (a * [[length], [1], [length / 7], [0], [5]]).astype(np.float32)
    source[:, 0] = -abs(source[:, 0])
    a[1] = [6, 0, 0]  # all scores are far below what lengths allow
    makes = {"all": Block, "shared": Shared, "own": Own}
    more = {"all": (), "shared": (drawn[0],), "own": (drawn,)}
    block = makes[engine](pool, a, source.astype(np.float32), Room(), *more[engine])
    scores = np.einsum("rk,rjk->rj", a.astype(np.float64), source[drawn])
    top = scores.max(axis=1)
    grown = np.exp(SCALE * (scores - top[:, None]))
    means = block.respond(response("exponential"))
    assert np.allclose(means.value, np.log(grown.mean(axis=1)) + SCALE * top, rtol=1e-5, atol=1e-5)
    shares = grown / grown.sum(axis=1, keepdims=True)
    close = {"rtol": 1e-3 if length > 100 else 1e-4, "atol": 1e-5}
    assert np.allclose(
        block.pull(np.ones(5)), np.einsum("rj,rjk->rk", shares, source[drawn]), **close
    )


def test_sparsemax_of_equal_scores_is_even(panels, pool):
    block = Block(pool, np.ones((2, 1)), np.full((90, 1), 0.3), Room())
    means = block.respond(Response("excess"))
    assert np.allclose(block.push(np.ones(2)), 2 / 90)
    tau = 0.3 - 1 / 90
    assert np.allclose(means.value, 90 * (0.3**2 - tau**2) / 2)


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_and_one_column(kind, pool):
    block = Block(pool, np.array([[2.0]]), np.array([[0.6]]), Room())
    means = block.respond(response(kind), np.array([0.4]))
    value, slope, derivative = slow(kind, np.array([[1.2]]), np.array([0.4]))
    assert np.allclose([means.value, means.slope], [value, slope])
    assert np.allclose(block.pull(np.ones(1)), derivative * 0.6)


def test_a_room_serves_blocks_of_any_size_one_after_the_other(pool):
    room = Room()
    for columns, dtype in ((90, np.float64), (600, np.float64), (20, np.float32), (90, np.float64)):
        a, source, _, block = faced("all", pool, room, dtype, columns)
        value, _, derivative = slow("softplus", a @ source.T, np.zeros(5))
        tolerance = {"atol": 1e-5 if dtype == np.float32 else 1e-12}
        assert np.allclose(block.respond(Response("softplus")).value, value, **tolerance)
        assert np.allclose(block.pull(np.ones(5)), derivative @ source, **tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_changes_no_bit(kind, monkeypatch):
    monkeypatch.setattr(responses, "PANEL", 7)
    monkeypatch.setattr(responses, "SCORES", 1)
    found = []
    for threads in (1, 2):
        with kernel_threads(threads), blas.workers() as pool:
            for engine in ("all", "shared", "own"):
                *_, block = faced(engine, pool, dtype=np.float32)
                means = block.respond(response(kind), 0.1)
                c = np.ones(5)
                found.append([means.value, means.slope, block.pull(c, c), block.push(c, c)])
    for one, two in zip(found[:3], found[3:], strict=True):
        for x, y in zip(one, two, strict=True):
            assert np.array_equal(x, y)


def test_the_fast_exponential_is_right_to_the_last_digits():
    """As right as x log2(e) can be; below -87 it may be anything that is nearly nothing."""
    x = -np.geomspace(1e-9, 86, 50_000, dtype=np.float32)
    x[0] = 0
    found, sums = x[None].copy(), np.empty(1, np.float32)
    none = np.empty(0, np.float32)
    kernel.exponentials(found, np.float32(1), none, np.zeros(1, np.float32), sums)
    relative = found[0] / np.exp(x.astype(np.float64)) - 1
    assert (np.abs(relative) < 2e-7 - 1.2e-7 * x).all()
    assert found[0, 0] == 1
    far = np.array([[-100.0, -1e30, -np.inf]], np.float32)
    kernel.exponentials(far, np.float32(1), none, np.zeros(1, np.float32), sums)
    assert (far >= 0).all()
    assert (far < 1e-37).all()


def test_stored_cells_are_scored_and_added_up():
    a, c = some(3), some(4, seed=1)
    starts, columns = np.array([0, 2, 2, 5]), np.array([0, 3, 1, 1, 2], np.int32)
    rows, values = np.repeat(np.arange(3), np.diff(starts)), some(5, 1)[:, 0]
    out = np.empty(5)
    kernel.dots(a, c, starts, columns, out)
    assert np.allclose(out, (a[rows] * c[columns]).sum(axis=1), **EXACT)
    a_bar, c_bar = some(3, seed=7), some(4, seed=8)
    expected = a_bar.copy(), c_bar.copy()
    np.add.at(expected[0], rows, values[:, None] * c[columns])
    np.add.at(expected[1], columns, values[:, None] * a[rows])
    kernel.add_to_rows(starts, columns, values, c, a_bar)
    kernel.add_to_columns(starts, columns, values, a, c_bar)
    assert np.allclose(a_bar, expected[0], **EXACT)
    assert np.allclose(c_bar, expected[1], **EXACT)


@pytest.mark.parametrize("scale", [1e-4, 1e-2, 1.0])
def test_thresholds_among_many_scores_that_hardly_differ_are_found_and_end(pool, scale):
    a, c = some(64, 8, dtype=np.float32), some(8000, 8, seed=1, dtype=np.float32)
    block = Block(pool, a * np.float32(scale), c, Room())
    block.respond(Response("excess"))
    excesses = block.room.scores.reshape(-1)
    assert excesses.min() >= 0
    assert excesses.sum(dtype=float) == pytest.approx(len(a), rel=1e-5)


def test_squares_need_no_scores(pool):
    a, c = some(13), some(90, seed=1)
    by_means, alike = np.random.default_rng(2).standard_normal((2, 13))
    slow, fast = Block(pool, a, c, Room()), Squares(pool, a, c)
    expected, found = (block.respond(response("square")) for block in (slow, fast))
    assert np.allclose(found.value, expected.value, **EXACT)
    assert np.allclose(found.slope, expected.slope, **EXACT)
    assert fast.width == slow.width
    for b in (None, alike):
        assert np.allclose(fast.pull(by_means, b), slow.pull(by_means, b), **EXACT)
        assert np.allclose(fast.push(by_means, b), slow.push(by_means, b), **EXACT)


def test_columns_may_weigh_in_the_means_of_squares(pool):
    a, c, (by_means, alike) = some(13), some(90, seed=1), some(2, 13, seed=2)
    weights = np.random.default_rng(5).random(90)
    weights[3] = 0
    weights /= weights.sum()
    scores, block = a @ c.T, Squares(pool, a, c)
    means = block.respond(response("square"), weights=weights)
    assert np.allclose(means.value, scores**2 / 2 @ weights, **EXACT)
    assert np.allclose(means.slope, scores @ weights, **EXACT)
    for b in (None, alike):
        # As if every score had its own derivative: of c times one mean, of 90 b times the other.
        own = by_means[:, None] * scores + (0 if b is None else 90 * b[:, None])
        assert np.allclose(block.pull(by_means, b), (own * weights) @ c, **EXACT)
        assert np.allclose(block.push(by_means, b), (own * weights).T @ a, **EXACT)


def test_squares_are_the_same_bits_on_any_number_of_threads(monkeypatch):
    monkeypatch.setattr("recbench.linalg.normal.BLOCK", 8)
    monkeypatch.setattr("recbench.linalg.tall.ROWS", 2)
    a, c, found = some(13, dtype=np.float32), some(90, seed=1, dtype=np.float32), []
    for threads in (1, 2):
        with kernel_threads(threads), blas.workers() as pool:
            block, parts = Squares(pool, a, c), []
            for weights in (None, np.arange(90) / 4005):
                means = block.respond(response("square"), weights=weights)
                parts += [means.value, means.slope, block.pull(a[:, 0]), block.push(a[:, 0])]
            found.append(parts)
    assert all(map(np.array_equal, *found))
