"""Vectors of mf and lightgcn; their derivatives are in test_steps.py."""

import numpy as np
import pytest
from scipy import sparse

import papers
from recbench.linalg import blas
from recbench.models.context import Context
from recbench.models.contract import example
from recbench.models.trained.batches import Batch
from recbench.models.trained.encoders import LightGcn, Mf, by_row
from recbench.models.trained.models import Lightgcn
from recbench.models.trained.models import Mf as MfModel

BATCH = Batch(
    np.array([4, 0, 4]), np.array([0, 1, 2, 3]), np.array([0, 1, 2], np.int32),
    np.array([1, 3, 5], np.int32),
)  # fmt: skip


@pytest.fixture
def pool():
    with blas.workers() as found:
        yield found


def tables(encoder, train):
    made = encoder.tables(train.shape, 3, np.random.default_rng(0))
    return {name: table.astype(np.float64) for name, table in made.items()}


def test_mf_begins_where_its_parameter_says():
    made = Mf(init=0.3).tables((300, 200), 32, np.random.default_rng(0))
    for name, rows in (("users", 300), ("items", 200)):
        assert made[name].shape == (rows, 32)
        assert made[name].dtype == np.float32
        assert made[name].std() == pytest.approx(0.3, rel=0.03)


def test_mf_gives_rows_of_its_tables(pool):
    train = papers.world()
    made = tables(Mf(), train)
    bound = Mf().bind(made, train, pool)
    forward = bound.forward(BATCH)
    assert np.array_equal(forward.users, made["users"][[4, 0, 4]])
    assert np.array_equal(forward.items, made["items"][[1, 3, 5]])
    users, items = bound.everything()
    assert np.array_equal(users, made["users"])
    assert np.array_equal(items, made["items"])


@pytest.mark.parametrize("layers", [0, 1, 2, 3])
def test_lightgcn_gives_means_of_walks(layers, pool):
    train, encoder = papers.world(), LightGcn(layers=layers)
    nodes = tables(encoder, train)
    expected = papers.walked(train, nodes["nodes"], layers)
    bound = encoder.bind(nodes, train, pool)
    forward = bound.forward(BATCH)
    assert np.allclose(forward.users, expected[[4, 0, 4]], atol=1e-13)
    assert np.allclose(forward.items, expected[papers.USERS + np.array([1, 3, 5])], atol=1e-13)
    users, items = bound.everything()
    assert np.allclose(np.concatenate([users, items]), expected, atol=1e-13)


@pytest.mark.parametrize("layers", [0, 1, 2, 3])
def test_the_way_back_is_the_way_forward(layers, pool):
    """The operator is symmetric: of some derivatives it makes what it makes of some vectors."""
    train, encoder = papers.world(), LightGcn(layers=layers)
    bound = encoder.bind(tables(encoder, train), train, pool)
    users = np.arange(papers.USERS)
    starts = np.zeros(papers.USERS + 1, np.int64)
    batch = Batch(users, starts, np.zeros(0, np.int32))
    g = np.random.default_rng(1).standard_normal((papers.USERS + papers.ITEMS, 3))
    gradient = bound.forward(batch).back(g[users], g[papers.USERS :], None)["nodes"]
    assert gradient.rows is None
    assert np.allclose(gradient.values, papers.walked(train, g, layers), atol=1e-13)


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_a_stranger_of_lightgcn_is_what_his_items_pass_on(layers, pool):
    """As a node of the graph whose own vector is 0 and whose edges give his items nothing."""
    train, encoder = papers.world(), LightGcn(layers=layers)
    made = tables(encoder, train)
    find = encoder.bind(made, train, pool).strangers()
    history = np.array([[1, 0, 0, 1, 1, 0], [0] * 6])
    degrees = np.maximum(train.sum(axis=0), 1)
    hops = [papers.walked(train, made["nodes"], k) * (k + 1) for k in range(layers)]
    steps = [one - (hops[k - 1] if k else 0) for k, one in enumerate(hops)]
    reached = sum(steps, np.zeros((papers.USERS + papers.ITEMS, 3)))[papers.USERS :]
    expected = history / np.sqrt(3 * degrees) @ reached / (layers + 1)
    assert np.allclose(find(sparse.csr_array(history * 1.0)), expected, atol=1e-13)


def test_no_steps_are_mf():
    """One seed draws the same vectors for both, and whatever follows is the same: by user, where
    no row comes twice and is to be added up, to the bit.
    """
    settings = {"epochs": 5, "rate": 0.05, "factors": 8, "init": 0.1, "batch": 16, "l2": 1e-3}
    train, rows = example(), np.arange(40, dtype=np.int32)
    for loss, tolerance in (("softmax", 0), ("bpr", 1e-10)):
        one, other = (
            model.fit(train, Context(dtype=np.float64)).score(train, rows)
            for model in (
                MfModel.of(**settings, loss=loss),
                Lightgcn.of(**settings, loss=loss, layers=0, draw="interactions"),
            )
        )
        assert np.abs(one - other).max() <= tolerance
        assert one.std() > 0.1


def test_rows_that_come_again_are_added_up():
    values = np.arange(8.0).reshape(4, 2)
    for rows in (np.array([3, 1, 3, 0]), np.array([2, 0, 1, 5])):
        found = by_row(rows, values)
        dense = np.zeros((6, 2))
        np.add.at(dense, rows, values)
        assert (np.diff(found.rows) > 0).all()
        assert np.array_equal(found.values, dense[found.rows])
        assert np.array_equal(found.rows, np.unique(rows))
