"""Bases rank as their scores say, however they come to their lists."""

import numpy as np
import pytest
from scipy import sparse

from recbench.errors import RecbenchError, Refused
from recbench.models.scorers import Base, Factors, ItemItem, Query, Scorer


class Plain(Base):
    """All that the author of a model has to write."""

    def __init__(self, score):
        self._score = score

    def score(self, history, rows):
        return self._score(history, rows)


def slow(base):
    """The same base, ranked through blocks of its scores."""
    return Plain(base.score)


@pytest.fixture
def world():
    rng = np.random.default_rng(3)
    history = sparse.random_array((50, 23), density=0.2, format="csr", rng=rng, dtype=np.float32)
    history.data[:] = 1
    seen = history + sparse.random_array((50, 23), density=0.1, format="csr", rng=rng)
    return rng, history, np.arange(50, dtype=np.int32), seen


def same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.items, b.items)
        assert a.scores.tobytes() == b.scores.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_item_item_ranks_its_scores_bit_for_bit(world, dtype):
    rng, history, rows, seen = world
    weights = rng.standard_normal((23, 23)).astype(dtype)
    base = ItemItem(weights)
    scales = [None, rng.standard_normal(23), np.zeros(23)]
    query = Query(history, rows, seen, 5)
    same(base.top(query, scales), slow(base).top(query, scales))
    np.testing.assert_allclose(base.score(history, rows), history @ weights, rtol=1e-5, atol=1e-6)
    assert base.score(history, rows).dtype == dtype


def test_item_item_takes_any_matrix_that_has_panels(world):
    rng, history, rows, seen = world
    weights = rng.standard_normal((23, 23)).astype(np.float32)

    class Panels:
        n, dtype = 23, weights.dtype

        def panel(self, start, stop, out=None):
            return np.ascontiguousarray(weights[:, start:stop])

    one, other = ItemItem(Panels()), ItemItem(weights)
    assert one.n_items == other.n_items == 23
    same(one.top(Query(history, rows, seen, 5)), other.top(Query(history, rows, seen, 5)))


def test_users_without_a_history_get_the_first_items(world):
    _, _, rows, _ = world
    nothing = sparse.csr_array((50, 23), dtype=np.float32)
    [top] = ItemItem(np.eye(23)).top(Query(nothing, rows, nothing, 3))
    assert top.items.tolist() == [[0, 1, 2]] * 50


@pytest.mark.parametrize("with_bias", [False, True])
def test_factors_rank_their_scores(world, with_bias):
    rng, history, rows, seen = world
    users = rng.integers(-4, 5, (60, 3)).astype(np.float32)  # whole numbers: sums are exact
    items = rng.integers(-4, 5, (23, 3)).astype(np.float32)
    bias = np.arange(23, dtype=np.float32) if with_bias else None
    base = Factors(users, items, bias)
    scales = [None, rng.standard_normal(23)]
    rows = rows[::-1] + np.int32(7)
    expected = users[rows] @ items.T + (0 if bias is None else bias)
    np.testing.assert_array_equal(base.score(history, rows), expected)
    query = Query(history, rows, seen, 4)
    same(base.top(query, scales), slow(base).top(query, scales))
    assert base.n_items == 23


def test_factors_may_be_folded_in_from_histories(world):
    rng, history, rows, seen = world
    items = rng.standard_normal((23, 4)).astype(np.float32)
    folded = Factors(lambda history, rows: history @ items, items)
    given = Factors(history @ items, items)
    same(
        folded.top(Query(history, np.full(50, -1), seen, 4)),
        given.top(Query(history, rows, seen, 4)),
    )


def test_factors_of_train_users_say_nothing_of_strangers(world):
    rng, history, rows, seen = world
    base = Factors(rng.standard_normal((50, 2)), rng.standard_normal((23, 2)))
    rows[[4, 6]] = -1
    with pytest.raises(Refused, match="2 users to rank were not trained on"):
        base.top(Query(history, rows, seen, 3))
    with pytest.raises(Refused, match="holds out interactions"):
        base.score(history, rows)


def test_a_plugin_needs_score_alone_and_is_given_matching_rows(world, monkeypatch):
    _, history, rows, seen = world
    monkeypatch.setattr("recbench.linalg.topk.BLOCK_BYTES", 7 * 8 * 23)
    given = []

    def score(histories, of_rows):
        given.append((histories.toarray(), of_rows.tolist()))
        return np.add.outer(of_rows, np.arange(23))

    [top] = Plain(score).top(Query(history, rows, seen, 23))
    assert [len(block) for block, _ in given] == [7] * 7 + [1]
    np.testing.assert_array_equal(np.concatenate([block for block, _ in given]), history.toarray())
    assert [row for _, of_rows in given for row in of_rows] == rows.tolist()
    for row, (items, scores) in enumerate(zip(top.items, top.scores, strict=True)):
        left = np.flatnonzero(seen.toarray()[row] == 0)[::-1]
        assert items[: len(left)].tolist() == left.tolist()
        assert scores[: len(left)].tolist() == (row + left).tolist()
        assert (items[len(left) :] == -1).all()


def test_a_block_of_another_shape_names_the_model(world):
    _, history, rows, seen = world
    query = Query(history, rows, seen, 3)
    for shape in [(50, 22), (49, 23), (50,)]:
        with pytest.raises(
            RecbenchError, match=r"Plain\.score gave a block of shape .* of \(50, 23\)"
        ):
            Plain(lambda history, rows, shape=shape: np.ones(shape)).top(query)


@pytest.mark.parametrize(
    "given",
    [
        lambda scores: scores * 1j,
        lambda scores: scores.astype(str),
        lambda scores: scores.astype(object),
        lambda scores: scores.astype("M8[s]"),
        lambda scores: np.ma.masked_array(scores, scores > 0),
    ],
)
def test_scores_that_are_no_real_numbers_name_the_model(world, given):
    _, history, rows, seen = world
    query = Query(history, rows, seen, 3)
    with pytest.raises(RecbenchError, match=r"Plain\.score gives must be real numbers, not \w+"):
        Plain(lambda history, rows: given(np.ones(history.shape))).top(query)


@pytest.mark.parametrize("kind", ["bool", "int8", "uint64", "float16", "longdouble"])
def test_real_numbers_of_any_kind_are_scores(world, kind):
    _, history, rows, seen = world
    [top] = Plain(lambda h, rows: np.ones(h.shape, kind)).top(Query(history, rows, seen, 3))
    assert top.items.shape == (len(rows), 3)


@pytest.mark.parametrize("scale", [np.full(23, 1j), np.ma.masked_array(np.ones(23), True)])
def test_so_must_scales_and_factors_be(world, scale):
    _, history, rows, seen = world
    base, query = Plain(lambda history, rows: np.ones(history.shape)), Query(history, rows, seen, 3)
    with pytest.raises(RecbenchError, match="a scale must be real numbers"):
        base.top(query, [scale])
    with pytest.raises(RecbenchError, match="scores must be real numbers"):
        Factors(np.ones((60, 2)), np.ones((23, 2)) * 1j).top(query)


def test_a_fact_or_a_trace_that_cannot_be_kept_is_an_error():
    with pytest.raises(RecbenchError, match="the fact 'n' of the fit is beyond all measure"):
        Scorer(Plain(None), facts={"n": 10**30}).plain_facts()
    with pytest.raises(RecbenchError, match="the trace of the fit is not made of numbers"):
        Scorer(Plain(None), trace=[{"round": "x"}]).plain_trace()
    trace = Scorer(Plain(None), trace=[{"round": np.float32(1)}]).plain_trace()
    assert trace == [{"round": 1.0}]


def test_no_users_is_no_error():
    nobody, none = sparse.csr_array((0, 4)), np.empty(0, np.int32)
    for base in (
        ItemItem(np.eye(4)),
        Factors(np.ones((1, 2)), np.ones((4, 2))),
        slow(ItemItem(np.eye(4))),
    ):
        [top] = base.top(Query(nobody, none, nobody, 3))
        assert top.items.shape == top.scores.shape == (0, 3)


def test_a_scorer_scales_what_its_base_says(world):
    rng, history, rows, _ = world
    base = ItemItem(rng.standard_normal((23, 23)).astype(np.float32))
    scale = rng.standard_normal(23)
    block = base.score(history, rows)
    np.testing.assert_array_equal(Scorer(base).score(history, rows), block)
    scaled = Scorer(base, scale).score(history, rows)
    np.testing.assert_array_equal(scaled, block * scale.astype(np.float32))
    assert scaled.dtype == np.float32


def test_a_scorer_without_rows_scores_strangers(world):
    _, history, _, _ = world
    told = []

    def score(histories, rows):
        told.append(rows)
        return np.zeros(histories.shape)

    Scorer(Plain(score)).score(history)
    assert told[0].tolist() == [-1] * 50
    assert told[0].dtype == np.int32
