"""Walks against products with the dense matrix of the graph."""

import numpy as np
import pytest
from scipy import sparse

from recbench.linalg import blas, walk
from recbench.linalg.topk import kernel_threads
from recbench.linalg.walk import Graph


def some_train(users=30, items=20, density=0.3, seed=0):
    """A matrix with a popular item, and with users and items that have nothing."""
    train = np.random.default_rng(seed).random((users, items)) < density
    train[:, 0] = True
    train[[3, users - 1]] = False
    train[:, [2, items - 1]] = False
    return sparse.csr_array(train.astype(np.float32))


def dense(train):
    """Â."""
    users, items = train.shape
    found = np.zeros((users + items, users + items))
    found[:users, users:] = train.toarray()
    found += found.T
    degrees = found.sum(axis=1)
    roots = np.divide(1.0, np.sqrt(degrees), out=np.zeros(len(found)), where=degrees > 0)
    return found * roots[:, None] * roots


def mean(step, hops):
    """G."""
    powers = [np.linalg.matrix_power(step, k) for k in range(hops + 1)]
    return sum(powers) / (hops + 1)


def some_table(graph, width=5, dtype=np.float64):
    return np.random.default_rng(1).standard_normal((graph.nodes, width)).astype(dtype)


@pytest.fixture
def pool():
    with blas.workers() as found:
        yield found


WORLDS = {
    "some": some_train(),
    "sparse": some_train(density=0.02),
    "full": sparse.csr_array(np.ones((4, 9))),
    "one edge": sparse.csr_array(([1.0], ([1], [2])), shape=(3, 4)),
    "no edge": sparse.csr_array((3, 4)),
    "no user": sparse.csr_array((0, 4)),
}


@pytest.mark.parametrize("train", WORLDS.values(), ids=WORLDS)
def test_a_hop_is_a_product_with_the_normalised_matrix(train, pool):
    graph = Graph.of(train)
    x = some_table(graph)
    out = np.full_like(x, np.nan)
    graph.hop(pool, x, out)
    assert np.allclose(out, dense(train) @ x, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("hops", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("train", WORLDS.values(), ids=WORLDS)
def test_spreading_is_the_mean_of_powers(train, hops, pool):
    graph = Graph.of(train)
    x = some_table(graph)
    before = x.copy()
    assert np.allclose(graph.spread(pool, x, hops), mean(dense(train), hops) @ x, atol=1e-13)
    assert np.array_equal(x, before)


def test_no_hops_are_a_copy(pool):
    graph = Graph.of(some_train())
    x = some_table(graph)
    found = graph.spread(pool, x, 0)
    assert np.array_equal(found, x)
    assert not np.may_share_memory(found, x)


@pytest.mark.parametrize("width", [0, 1, 64, 66])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_width_in_either_precision(width, dtype, pool):
    train = some_train()
    graph = Graph.of(train)
    x = some_table(graph, width, dtype)
    found = graph.spread(pool, x, 3)
    assert found.dtype == dtype
    tolerance = 1e-6 if dtype == np.float32 else 1e-14
    assert np.allclose(found, mean(dense(train), 3) @ x.astype(np.float64), atol=tolerance)


@pytest.mark.parametrize("hops", [0, 1, 2, 3])
def test_some_rows_are_those_of_all_to_the_bit(hops, pool):
    graph = Graph.of(some_train())
    x, rows = some_table(graph, dtype=np.float32), np.array([49, 3, 0, 17, 3])
    assert np.array_equal(graph.spread(pool, x, hops, rows), graph.spread(pool, x, hops)[rows])
    out, whole = np.empty((5, 5), np.float32), np.empty_like(x)
    graph.hop(pool, x, out, rows)
    graph.hop(pool, x, whole)
    assert np.array_equal(out, whole[rows])


@pytest.mark.parametrize("count", [5, 45])
@pytest.mark.parametrize("hops", [0, 1, 2, 3])
def test_the_way_back_is_the_transpose(hops, count, pool):
    """⟨g, S G x⟩ = ⟨(S G)ᵀ g, x⟩, and without rows G is its own transpose."""
    graph = Graph.of(some_train())
    draw = np.random.default_rng(2)
    x, rows = some_table(graph), draw.permutation(graph.nodes)[:count]
    assert (walk.MANY * graph.degrees[rows].sum() > len(graph.neighbours)) == (count == 45)
    g = draw.standard_normal((count, 5))
    there, back = graph.spread(pool, x, hops, rows), graph.spread_back(pool, g, hops, rows)
    assert np.sum(g * there) == pytest.approx(np.sum(back * x), rel=1e-12)
    padded = np.zeros_like(x)
    padded[rows] = g
    assert np.allclose(back, graph.spread(pool, padded, hops), atol=1e-14)


def test_the_way_back_from_no_rows_is_zero(pool):
    graph = Graph.of(some_train())
    for hops in range(3):
        assert not graph.spread_back(pool, np.empty((0, 5)), hops, np.empty(0, np.int32)).any()


def test_only_some_interactions_are_the_graph_of_those():
    train = some_train()
    rng, graph = np.random.default_rng(3), Graph.of(train)
    for _ in range(2):  # the second time, of what is left
        keep = rng.random(train.nnz) < 0.7
        rows, columns = (where[keep] for where in train.nonzero())
        train = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=train.shape)
        graph, expected = graph.only(keep), Graph.of(train)
        for name in ("starts", "neighbours", "entries"):
            assert np.array_equal(getattr(graph, name), getattr(expected, name)), name


def test_all_interactions_may_go(pool):
    train = some_train()
    graph = Graph.of(train).only(np.zeros(train.nnz, bool))
    x = some_table(graph)
    assert np.array_equal(graph.spread(pool, x, 1), x / 2)


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    monkeypatch.setattr(walk, "LEAST", 1)
    graph = Graph.of(some_train(300, 200))
    x, rows = some_table(graph, 33), np.arange(0, graph.nodes, 5)

    def results(threads):
        with kernel_threads(threads), blas.workers() as pool:
            yield graph.spread(pool, x, 2)
            yield graph.spread(pool, x, 1, rows)
            yield graph.spread_back(pool, x[rows], 1, rows)
            yield graph.spread(pool, x.astype(np.float32), 2)

    for one, two in zip(results(1), results(2), strict=True):
        assert np.array_equal(one, two)


def test_nor_does_the_number_of_tasks(pool, monkeypatch):
    one, many = Graph.of(some_train()), Graph.of(some_train())
    x, rows = some_table(one), np.arange(0, one.nodes, 5)
    whole = one.spread(pool, x, 3), one.spread_back(pool, x[rows], 3, rows)
    monkeypatch.setattr(walk, "LEAST", 1)
    assert len(many._tasks) > len(one._tasks)
    assert np.array_equal(many.spread(pool, x, 3), whole[0])
    assert np.array_equal(many.spread_back(pool, x[rows], 3, rows), whole[1])


def test_what_is_not_binary_is_refused():
    train = some_train()
    train.data[4] = 2
    with pytest.raises(ValueError, match="binary"):
        Graph.of(train)


@pytest.mark.parametrize("items", [[1, 1], [2, 1]], ids=["repeated", "descending"])
def test_rows_that_do_not_ascend_are_refused(items):
    train = sparse.csr_array((np.ones(2), np.array(items), np.array([0, 2])), shape=(1, 3))
    with pytest.raises(ValueError, match="ascending columns, each of them once"):
        Graph.of(train)


def test_other_shapes_are_refused(pool):
    graph = Graph.of(some_train())
    x = some_table(graph)
    with pytest.raises(ValueError, match="50 rows in float32 or float64, not float64 of shape"):
        graph.spread(pool, x[1:], 1)
    with pytest.raises(ValueError, match="not int64"):
        graph.spread(pool, x.astype(np.int64), 1)
    with pytest.raises(ValueError, match="cannot hold"):
        graph.hop(pool, x, np.empty_like(x[1:]))
    with pytest.raises(ValueError, match="rows of its own"):
        graph.hop(pool, x, x)
    with pytest.raises(ValueError, match="a table of 2 rows"):
        graph.spread_back(pool, x, 1, np.array([0, 1]))
    with pytest.raises(ValueError, match="flag for each"):
        graph.only(np.ones(3, bool))


@pytest.mark.parametrize("rows", [[-1], [50], [0.5], [[1]]])
def test_rows_that_are_none_are_refused(rows, pool):
    graph = Graph.of(some_train())
    with pytest.raises(ValueError, match="rows"):
        graph.spread(pool, some_table(graph), 1, np.array(rows))


@pytest.mark.parametrize("hops", [0, 1, 2])
def test_the_way_back_names_a_row_once(hops, pool):
    graph = Graph.of(some_train())
    with pytest.raises(ValueError, match="twice"):
        graph.spread_back(pool, np.ones((2, 5)), hops, np.array([4, 4]))
