"""What a step looks at: every user, or every interaction, once; draws from what they should be."""

import numpy as np
import pytest
from scipy import sparse

import papers
from recbench.linalg.normal import Pattern
from recbench.models.contract import example
from recbench.models.trained.batches import Draws, has, of_users, users_at_once


def draw(seed=0):
    return np.random.default_rng(seed)


def pairs(train, batch):
    """The interactions of a batch."""
    users = np.repeat(batch.users, np.diff(batch.starts))
    return list(zip(users.tolist(), batch.items_of_cells.tolist(), strict=True))


def all_pairs(train):
    return sorted(zip(*(where.tolist() for where in train.nonzero()), strict=True))


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_every_user_comes_once_with_all_he_has(size):
    train = papers.world()
    batches = list(users_at_once(Pattern.of(train), size, draw()))
    users = np.concatenate([batch.users for batch in batches])
    assert sorted(users) == list(range(papers.USERS))
    assert sorted(pair for b in batches for pair in pairs(train, b)) == all_pairs(train)
    sizes = [len(batch.users) for batch in batches]
    assert max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1


def test_some_users_with_all_they_have():
    train = papers.world()
    batch = of_users(Pattern.of(train), np.array([4, 3, 1]))
    assert pairs(train, batch) == [
        (u, i) for u in (4, 3, 1) for i in train[[u]].nonzero()[1].tolist()
    ]


@pytest.mark.parametrize("negatives", ["all", "shared", "own", "batch"])
@pytest.mark.parametrize("size", [1, 4, 100])
def test_every_interaction_comes_once(size, negatives):
    train = papers.world()
    batches = list(Draws(size, False, negatives, 3, False).batches(Pattern.of(train), draw()))
    assert sorted(pair for b in batches for pair in pairs(train, b)) == all_pairs(train)
    assert max(batch.interactions for batch in batches) <= size
    for batch in batches:
        rows = batch.interactions
        if negatives == "all":
            assert batch.items is batch.columns is None
            continue
        assert (np.diff(batch.items) > 0).all()
        shape = {"shared": (3,), "own": (rows, 3), "batch": (rows,)}[negatives]
        assert batch.columns.shape == shape
        if negatives == "batch":
            assert np.array_equal(batch.items[batch.columns], batch.items_of_cells)
        seen = np.union1d(batch.cells, batch.columns)
        assert np.array_equal(seen, np.arange(len(batch.items)))  # none is there for nothing


def test_by_users_all_who_have_something_come_as_often_and_so_does_what_they_have():
    train = sparse.csr_array(np.array([[1, 1, 1, 1, 1], [1, 0, 0, 0, 0], [0] * 5, [0, 1, 1, 0, 0]]))
    counts = np.zeros(train.shape)
    generator, draws = draw(), Draws(4, True, "all", 1, False)
    for _ in range(300):
        epoch = list(draws.batches(Pattern.of(train), generator))
        assert sum(batch.interactions for batch in epoch) == train.nnz == 8
        for batch in epoch:
            np.add.at(counts, (batch.users, batch.cells), 1)
    expected = train.toarray() / np.maximum(train.sum(axis=1), 1)[:, None] * 2400 / 3
    assert np.abs(counts - expected).max() < 5 * np.sqrt(800)
    assert (counts[expected == 0] == 0).all()


@pytest.mark.parametrize("negatives", ["shared", "own"])
@pytest.mark.parametrize("chances", [None, [0.5, 0.0, 0.3, 0.2]])
def test_items_are_drawn_by_their_chances(negatives, chances):
    train = sparse.csr_array(np.eye(4))
    given = None if chances is None else np.array(chances)
    draws = Draws(4, False, negatives, 3, False, given)
    counts, generator = np.zeros(4), draw()
    for _ in range(400):
        (batch,) = draws.batches(Pattern.of(train), generator)
        np.add.at(counts, batch.items[batch.columns], 1)
    expected = counts.sum() * (np.full(4, 0.25) if chances is None else given)
    assert np.abs(counts - expected).max() < 5 * np.sqrt(counts.sum() / 4)
    assert (counts[expected == 0] == 0).all()


@pytest.mark.parametrize("negatives", ["shared", "own"])
@pytest.mark.parametrize("number", [papers.ITEMS, papers.ITEMS + 3])
def test_where_as_many_would_be_drawn_as_there_are_all_are_faced_once(negatives, number):
    for batch in Draws(4, False, negatives, number, True).batches(
        Pattern.of(papers.world()), draw()
    ):
        assert batch.columns is batch.items is None


def test_what_a_user_has_is_not_drawn_for_him_unless_he_has_everything():
    dense = example(20, 6).toarray()
    dense[4] = 1
    train = sparse.csr_array(dense)
    met = []
    for seed in range(5):
        (batch,) = Draws(1000, False, "own", 4, True).batches(Pattern.of(train), draw(seed))
        drawn = batch.items[batch.columns]
        found = dense[batch.users[:, None], drawn] > 0
        met.append(found.any(axis=1))
        assert not found[batch.users != 4].any()
        assert found[batch.users == 4].all()
    assert np.any(met)


def test_who_has_what():
    train = papers.world()
    users, items = (x.ravel() for x in np.indices(train.shape))
    found = has(Pattern.of(train), users, items.astype(np.int32))
    assert np.array_equal(found.reshape(train.shape), train.toarray() > 0)
