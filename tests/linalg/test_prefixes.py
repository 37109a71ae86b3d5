"""Ranking at many ranks at once against ranking the products one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from threadpoolctl import threadpool_limits

from recbench.linalg import prefixes, topk
from recbench.linalg.prefixes import top_of_prefixes


@pytest.fixture(scope="module", autouse=True)
def small_blocks():
    """Segments and blocks so small that small matrices have many, and uneven last ones."""
    with pytest.MonkeyPatch.context() as patch, threadpool_limits(1, user_api="blas"):
        patch.setattr(prefixes, "SEGMENT", 2)
        patch.setattr(prefixes, "GEMM_ROWS", 3)
        patch.setattr(prefixes, "GEMM_COLUMNS", 4)
        patch.setattr(topk, "BLOCK_BYTES", 320)
        yield


@st.composite
def worlds(draw):
    """Small whole numbers, so that every sum is exact in float32 and many scores tie."""
    rows, columns, rank = draw(st.integers(0, 9)), draw(st.integers(1, 11)), draw(st.integers(0, 7))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    a, b = (rng.integers(-2, 3, (n, rank)).astype(np.float32) for n in (rows, columns))
    hidden = sparse.csr_array(rng.integers(0, 2, (rows, columns)).astype(np.float32))
    ranks = draw(st.sets(st.integers(0, rank))) | {rank}
    scale = rng.integers(-1, 3, columns).astype(np.float32)
    wanted = {r: [None, scale][: draw(st.integers(1, 2))] for r in ranks}
    return a, b, hidden, wanted, draw(st.integers(1, columns + 2))


@given(worlds())
@settings(max_examples=60, deadline=None)
def test_every_rank_and_scale_is_what_it_is_alone_and_in_full(world):
    a, b, hidden, wanted, k = world
    found = top_of_prefixes(lambda x, y: a[x:y], b, wanted, hidden, k)
    assert set(found) == set(wanted)
    for rank, tops in found.items():
        scores = a[:, :rank] @ b[:, :rank].T
        expected = topk.top_of_blocks(
            lambda x, y, scores=scores: scores[x:y], hidden, k, wanted[rank]
        )
        for top, other in zip(tops, expected, strict=True):
            np.testing.assert_array_equal(top.items, other.items)
            np.testing.assert_array_equal(top.scores, other.scores)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rank", [1, 5, 8, 9])
def test_company_and_threads_do_not_change_a_single_bit(dtype, rank):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, 9)).astype(dtype) for n in (20, 30))
    hidden = sparse.csr_array((20, 30), dtype=np.float32)
    every = {r: [None] for r in range(10)}
    (alone,) = top_of_prefixes(lambda x, y: a[x:y, :rank], b[:, :rank], {rank: [None]}, hidden, 7)[
        rank
    ]
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            (top,) = top_of_prefixes(lambda x, y: a[x:y], b, every, hidden, 7)[rank]
        np.testing.assert_array_equal(top.items, alone.items)
        assert top.scores.tobytes() == alone.scores.tobytes()
        assert top.scores.dtype == dtype


def test_scores_that_overflow_are_an_error_at_whatever_rank():
    a = np.ones((4, 4), np.float32)
    b = np.ones((5, 4), np.float32)
    b[2, 3] = np.inf
    hidden = sparse.csr_array((4, 5), dtype=np.float32)
    assert top_of_prefixes(lambda x, y: a[x:y, :3], b[:, :3], {2: [None], 3: [None]}, hidden, 2)
    with pytest.raises(topk.NotFinite):
        top_of_prefixes(lambda x, y: a[x:y], b, {2: [None], 4: [None]}, hidden, 2)


def test_progress_ends_with_all_rows():
    steps, hidden = [], sparse.csr_array((10, 5), dtype=np.float32)
    a, b = np.ones((10, 2), np.float32), np.ones((5, 2), np.float32)
    top_of_prefixes(lambda x, y: a[x:y], b, {2: [None]}, hidden, 2, lambda *s: steps.append(s))
    assert steps[-1] == (10, 10)


def test_factors_that_do_not_fit_are_refused():
    hidden = sparse.csr_array((4, 5), dtype=np.float32)
    with pytest.raises(ValueError, match="do not fit"):
        top_of_prefixes(lambda x, y: np.ones((y - x, 2)), np.ones((6, 2)), {2: [None]}, hidden, 2)
    with pytest.raises(ValueError, match="of rank 2"):
        top_of_prefixes(lambda x, y: np.ones((y - x, 3)), np.ones((5, 2)), {2: [None]}, hidden, 2)
