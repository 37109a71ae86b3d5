"""Users who are what they have; derivatives are in test_steps.py."""

from itertools import product

import numpy as np
import pytest
from scipy import sparse

import papers
from recbench.linalg import blas
from recbench.models.trained.batches import Batch
from recbench.models.trained.histories import Simplex, YoutubeNet

# Of user 4, who has nearly all, of user 1, and of user 1 again; items 0, 1, 3, 4, 5 matter.
BATCH = Batch(
    np.array([4, 1, 1]), np.array([0, 1, 2, 3]), np.array([2, 0, 0], np.int32),
    np.array([0, 1, 3, 4, 5], np.int32),
)  # fmt: skip
SIMPLEX = [
    Simplex(own=0.3, gather=gather, tables_for=source)
    for gather, source in product(("mean", "attention"), ("shared", "own"))
]
each = pytest.mark.parametrize("encoder", [YoutubeNet(), *SIMPLEX], ids=lambda e: e.text)


@pytest.fixture
def pool():
    with blas.workers() as found:
        yield found


def tables(encoder, train):
    draw = np.random.default_rng(0)
    made = encoder.tables(train.shape, 3, draw)
    return {name: draw.standard_normal(table.shape) for name, table in made.items()}


def gathered(encoder, made, history, own):
    """One vector for a list of items."""
    table = made["histories" if "histories" in made else "items"][history]
    if len(history) == 0:
        return np.zeros(3)
    if "keys" not in made:
        return table.mean(axis=0)
    scores = np.array([np.tanh(made["keys"] @ q + made["bias"]) @ own for q in table])
    weights = np.exp(scores) / np.exp(scores).sum()
    return weights @ table


def vector(encoder, made, history, own):
    """What the papers make of a user."""
    if isinstance(encoder, YoutubeNet):
        return gathered(encoder, made, history, own)
    return encoder.own * own + (1 - encoder.own) * made["values"] @ gathered(
        encoder, made, history, own
    )


def own_vector(made, user):
    return made["users"][user] if "users" in made else None


@each
def test_in_training_an_interaction_is_not_in_its_own_history(encoder, pool):
    train = papers.world()
    made = tables(encoder, train)
    forward = encoder.bind(made, train, pool).forward(BATCH)
    assert np.array_equal(forward.items, made["items"][BATCH.items])
    for row, (user, item) in enumerate([(4, 3), (1, 0), (1, 0)]):
        mine = np.flatnonzero(train.toarray()[user])
        assert item in mine
        expected = vector(encoder, made, mine[mine != item], own_vector(made, user))
        assert np.allclose(forward.users[row], expected, atol=1e-13)


@each
def test_users_are_ranked_by_all_they_have(encoder, pool):
    train = papers.world()
    made = tables(encoder, train)
    users, items = encoder.bind(made, train, pool).everything()
    assert np.array_equal(items, made["items"])
    for user in range(papers.USERS):
        mine = np.flatnonzero(train.toarray()[user])
        expected = vector(encoder, made, mine, own_vector(made, user))
        assert np.allclose(users[user], expected, atol=1e-13)


@each
def test_a_stranger_is_what_he_has(encoder, pool):
    train = papers.world()
    made = tables(encoder, train)
    find = encoder.bind(made, train, pool).strangers()
    history = np.array([[1, 0, 0, 1, 1, 0], [0] * 6])
    kept = {name: table.copy() for name, table in made.items()}
    for table in made.values():
        table[...] = 0  # what training does next is nothing to him
    found = find(sparse.csr_array(history * 1.0))
    for row in range(2):
        expected = vector(encoder, kept, np.flatnonzero(history[row]), np.zeros(3))
        assert np.allclose(found[row], expected, atol=1e-13)


def test_attention_does_not_overflow(pool):
    train, encoder = papers.world(), SIMPLEX[2]
    made = tables(encoder, train)
    made["users"] *= 1e4
    with np.errstate(over="raise"):
        users, _ = encoder.bind(made, train, pool).everything()
    assert np.isfinite(users).all()


@each
def test_every_table_is_there_to_be_trained(encoder):
    made = encoder.tables((5, 4), 3, np.random.default_rng(0))
    shapes = {"items": (4, 3)}
    if isinstance(encoder, Simplex):
        shapes |= {"users": (5, 3), "values": (3, 3)}
        if encoder.tables_for == "own":
            shapes["histories"] = (4, 3)
        if encoder.gather == "attention":
            shapes |= {"keys": (3, 3), "bias": (3,)}
    assert {name: table.shape for name, table in made.items()} == shapes
