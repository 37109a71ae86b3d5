"""The contrast of SGL against the same in loops; its derivatives are in test_steps.py."""

import numpy as np
import pytest
from scipy import sparse

import papers
from recbench.linalg import blas
from recbench.linalg.normal import Pattern
from recbench.linalg.responses import Room
from recbench.models.trained.batches import Draws
from recbench.models.trained.contrast import SglEd


def setting(**given):
    encoder = SglEd(**{"layers": 2, "contrast": 0.3, "temperature": 0.4, "dropped": 0.4} | given)
    train = papers.world()
    made = encoder.tables(train.shape, 3, np.random.default_rng(0))
    return encoder, train, {"nodes": made["nodes"].astype(np.float64)}


def views(encoder, train, made):
    """What is spread on both graphs of an epoch: every edge stays by a number of its own."""
    draw, found = np.random.default_rng(1), []
    for _ in range(2):
        kept = draw.random(train.nnz, dtype=np.float32) >= encoder.dropped
        rows, columns = (where[kept] for where in train.nonzero())
        graph = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=train.shape)
        assert 0 < graph.nnz < train.nnz
        spread = papers.walked(graph, made["nodes"], encoder.layers)
        found.append(spread / np.linalg.norm(spread, axis=1, keepdims=True))
    return found


def batch_of(train, size):
    (batch, *_) = Draws(size, False, "own", 2, False).batches(
        Pattern.of(train), np.random.default_rng(2)
    )
    return batch


@pytest.mark.parametrize("size", [4, 100])
def test_nodes_of_the_batch_are_told_from_all_others_of_their_kind(size):
    encoder, train, made = setting()
    batch = batch_of(train, size)
    one, other = views(encoder, train, made)
    total, m = 0.0, papers.USERS
    for u, i in zip(batch.users, batch.items_of_cells, strict=True):
        for node, kind in ((u, slice(0, m)), (m + i, slice(m, None))):
            scores = one[node] @ other[kind].T / encoder.temperature
            total += np.log(np.exp(scores).sum()) - one[node] @ other[node] / encoder.temperature
    with blas.workers() as pool:
        bound = encoder.bind(made, train, pool)
        bound.begin(np.random.default_rng(1))
        aside = bound.aside(batch, Room())
    assert aside.value == pytest.approx(encoder.contrast * total / batch.interactions, rel=1e-11)


def test_ranking_is_by_the_whole_graph():
    encoder, train, made = setting()
    with blas.workers() as pool:
        bound = encoder.bind(made, train, pool)
        bound.begin(np.random.default_rng(1))
        users, items = bound.everything()
        forward = bound.forward(batch_of(train, 4))
    expected = papers.walked(train, made["nodes"], 2)
    assert np.allclose(np.concatenate([users, items]), expected, atol=1e-13)
    assert np.allclose(forward.users, users[batch_of(train, 4).users], atol=1e-13)


def test_every_epoch_draws_graphs_of_its_own():
    encoder, train, made = setting()
    with blas.workers() as pool:
        bound = encoder.bind(made, train, pool)
        starts = []
        for seed in (1, 2, 1):
            bound.begin(np.random.default_rng(seed))
            starts.append([view.neighbours for view in bound.views])
    assert not np.array_equal(starts[0][0], starts[0][1])
    assert not np.array_equal(starts[0][0], starts[1][0])
    assert np.array_equal(starts[0][0], starts[2][0])
