"""Exact top-k against sorting everything, for each way a matrix may be given."""

import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from threadpoolctl import threadpool_info

from recbench.errors import RecbenchError
from recbench.linalg import topk

few = settings(max_examples=40, deadline=None)


class Columns:
    """A square matrix that only hands out panels, with nothing to spare."""

    def __init__(self, array):
        self.array, self.n, self.dtype = array, len(array), array.dtype
        self.asked = []

    def panel(self, start, stop, out=None):
        self.asked.append((start, stop))
        if out is None:
            return np.ascontiguousarray(self.array[:, start:stop])
        assert out.shape == (self.n, stop - start)
        assert out.flags.c_contiguous
        assert out.dtype == self.dtype
        out[...] = self.array[:, start:stop]
        return out


@pytest.fixture(scope="module", autouse=True)
def small_blocks():
    """Make panels and blocks so small that small matrices have many, and uneven last ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topk, "PANEL_WIDTH", 2)
        patch.setattr(topk, "DENSE_ROWS", 3)
        patch.setattr(topk, "FACTOR_ROWS", 3)
        patch.setattr(topk, "BLOCK_BYTES", 320)
        yield


def sorted_everything(scores, hidden, k):
    """The same lists by a full sort: higher score first, then lower column."""
    items = np.full((len(scores), k), -1)
    best = np.full((len(scores), k), -np.inf, scores.dtype)
    for row, (given_scores, mask) in enumerate(zip(scores, hidden.toarray() != 0, strict=True)):
        order = [j for j in np.lexsort((np.arange(len(mask)), -given_scores)) if not mask[j]][:k]
        items[row, : len(order)] = order
        best[row, : len(order)] = given_scores[order]
    return items, best


def check(top, scores, hidden, k):
    items, best = sorted_everything(scores, hidden, k)
    np.testing.assert_array_equal(top.items, items)
    np.testing.assert_array_equal(top.scores, best)
    assert top.items.dtype == np.int32
    assert top.scores.dtype == scores.dtype


def same(one, other):
    """Bit for bit."""
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.items, b.items)
        assert a.scores.tobytes() == b.scores.tobytes()


def integers(draw, rows, columns, low=-2, high=2):
    flat = st.lists(st.integers(low, high), min_size=rows * columns, max_size=rows * columns)
    return np.array(draw(flat), np.float32).reshape(rows, columns)


@st.composite
def worlds(draw):
    """Few distinct numbers, so that most scores tie and every sum is exact in float32."""
    rows, columns = draw(st.integers(0, 9)), draw(st.integers(1, 14))
    left = sparse.csr_array(integers(draw, rows, columns, 0, 2))
    hidden = sparse.csr_array(integers(draw, rows, columns, 0, 1))
    scale = st.none() | st.lists(st.integers(-1, 2), min_size=columns, max_size=columns).map(
        lambda values: np.array(values, np.float64)
    )
    scales = draw(st.lists(scale, min_size=1, max_size=3))
    k = draw(st.integers(1, columns + 3))
    return left, integers(draw, columns, columns), hidden, k, scales


def scaled(scores, scale):
    return scores if scale is None else scores * scale.astype(scores.dtype)


@given(worlds())
@few
def test_all_ways_equal_a_full_sort(world):
    left, right, hidden, k, scales = world
    scores = np.asarray(left @ right)
    factors = left.toarray()
    blocks = topk.top_of_blocks(lambda a, b: scores[a:b], hidden, k, scales)
    product = topk.top_of_product(left, Columns(right), hidden, k, scales)
    thin = topk.top_of_factors(lambda a, b: factors[a:b], right.T, None, hidden, k, scales)
    turned = sparse.csr_array(right.T)
    dense = topk.top_of_dense_rows(lambda a, b: factors[a:b], turned, hidden, k, scales)
    for tops in (blocks, product, thin, dense):
        assert len(tops) == len(scales)
        for top, scale in zip(tops, scales, strict=True):
            check(top, scaled(scores, scale), hidden, k)


@given(worlds())
@few
def test_products_of_sparse_matrices_equal_a_full_sort(world):
    left, right, hidden, k, scales = world
    right = right.astype(np.float64)
    scores = np.asarray(left @ right)
    tops = topk.top_of_sparse(left, sparse.csr_array(right), hidden, k, scales)
    for top, scale in zip(tops, scales, strict=True):
        check(top, scaled(scores, scale), hidden, k)


@pytest.mark.parametrize("density", [0.02, 0.4])
@pytest.mark.parametrize("union", [False, True])
def test_what_is_most_alike_equals_a_full_sort(density, union):
    """Of integers, many are alike; with few of them columns are met out of order."""
    rng = np.random.default_rng(7)
    dense = (rng.random((50, 20)) < density).astype(np.float64)
    left, product = sparse.csr_array(dense), dense @ dense.T
    sizes = 1.0 + dense.sum(axis=1)
    itself = np.arange(50, dtype=np.int32)
    itself[::5] = -1
    likeness = topk.Likeness(sizes, sizes, 0.5, union)
    top = topk.top_alike(left, sparse.csr_array(left.T), itself, 6, likeness)
    both = np.add.outer(sizes, sizes) - product if union else np.multiply.outer(sizes, sizes)
    hidden = product == 0
    hidden[itself >= 0, itself[itself >= 0]] = True
    check(top, product / (both + 0.5), sparse.csr_array(hidden), 6)


def test_sparse_products_that_do_not_fit_together_are_refused():
    one, other = sparse.csr_array(np.ones((2, 3))), sparse.csr_array(np.ones((4, 3)))
    with pytest.raises(ValueError, match="is not of the shape that is searched"):
        topk.top_of_sparse(one, other, sparse.csr_array(np.ones((2, 3))), 1)
    with pytest.raises(ValueError, match="sizes of 3 rows and 3 columns"):
        topk.top_alike(
            one, sparse.csr_array(one.T), np.zeros(2, np.int32), 1,
            topk.Likeness(np.ones(3), np.ones(3)),
        )  # fmt: skip


@given(worlds())
@few
def test_several_scales_are_the_scales_one_by_one(world):
    left, right, hidden, k, scales = world
    together = topk.top_of_product(left, Columns(right), hidden, k, scales)
    alone = [topk.top_of_product(left, Columns(right), hidden, k, [scale])[0] for scale in scales]
    same(together, alone)


def real_numbers(rows=40, columns=37, rank=5, dtype=np.float32):
    """Sums that round, with rows of every length from none to all."""
    rng = np.random.default_rng(5)
    weights = rng.standard_normal((columns, columns)).astype(dtype)
    entries = rng.standard_normal((rows, columns)).astype(dtype)
    left = sparse.csr_array(
        entries * (rng.random((rows, columns)) < np.linspace(0, 1, rows)[:, None])
    )
    hidden = sparse.random_array((rows, columns), density=0.3, format="csr", rng=rng)
    factors = (
        rng.standard_normal((rows, rank)).astype(dtype),
        rng.standard_normal((columns, rank)).astype(dtype),
    )
    return left, weights, hidden, factors, rng.standard_normal(columns)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_product_and_its_lists_are_made_of_the_same_sums(dtype):
    left, weights, hidden, _, scale = real_numbers(dtype=dtype)
    in_full = topk.product(left, Columns(weights))
    by_hand = np.zeros_like(in_full)
    for row in range(left.shape[0]):
        for entry in range(left.indptr[row], left.indptr[row + 1]):
            by_hand[row] += left.data[entry] * weights[left.indices[entry]]
    assert in_full.tobytes() == by_hand.tobytes()
    fused = topk.top_of_product(left, Columns(weights), hidden, 6, [None, scale])
    same(fused, topk.top_of_blocks(lambda a, b: in_full[a:b], hidden, 6, [None, scale]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factors_with_a_bias_agree_with_the_full_matrix(dtype):
    _, _, hidden, (left, right), scale = real_numbers(dtype=dtype)
    bias = np.arange(37) / 37
    tops = topk.top_of_factors(lambda a, b: left[a:b], right, bias, hidden, 6, [None, scale])
    scores = left @ right.T + bias.astype(dtype)
    for top, whole in zip(tops, (scores, scores * scale.astype(dtype)), strict=True):
        items, best = sorted_everything(whole, hidden, 6)
        np.testing.assert_array_equal(top.items, items)
        np.testing.assert_allclose(top.scores, best, rtol=1e-5, atol=1e-6)


def test_results_do_not_depend_on_the_number_of_threads():
    left, weights, hidden, (a, b), scale = real_numbers(rows=90)

    def everything():
        scores = a @ b.T
        yield topk.top_of_product(left, Columns(weights), hidden, 6, [None, scale])
        yield topk.top_of_factors(lambda i, j: a[i:j], b, None, hidden, 6, [None, scale])
        yield topk.top_of_blocks(lambda i, j: scores[i:j], hidden, 6, [None, scale])

    with topk.kernel_threads(1):
        serial = list(everything())
    with topk.kernel_threads(2):
        for one, other in zip(serial, everything(), strict=True):
            same(one, other)


def test_kernel_threads_limits_blas_and_restores_it():
    def threads():
        return [
            library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
        ]

    before = threads()
    with topk.kernel_threads(1):
        assert set(threads()) == {1}
    assert threads() == before


@pytest.mark.parametrize("columns", [1, 127, 128, 129, 1024, 1025, 2500])
def test_long_rows_are_cut_where_the_loops_are(columns, monkeypatch):
    monkeypatch.setattr(topk, "PANEL_WIDTH", 200)
    monkeypatch.setattr(topk, "BLOCK_BYTES", 1 << 20)
    rng = np.random.default_rng(columns)
    factors = (
        rng.integers(-3, 4, (4, 2)).astype(np.float32),
        rng.integers(-9, 9, (columns, 2)).astype(np.float32),
    )
    scores = factors[0] @ factors[1].T
    hidden = sparse.random_array((4, columns), density=0.2, format="csr", rng=rng)
    diagonal = np.diag(scores[0])
    ones = sparse.csr_array(np.ones((4, columns), np.float32))
    for k in (1, 20, 1000):
        [top] = topk.top_of_blocks(lambda a, b: scores[a:b], hidden, k)
        check(top, scores, hidden, k)
        [top] = topk.top_of_factors(lambda a, b: factors[0][a:b], factors[1], None, hidden, k)
        check(top, scores, hidden, k)
        right = sparse.csr_array(factors[1])
        [top] = topk.top_of_dense_rows(lambda a, b: factors[0][a:b], right, hidden, k)
        check(top, scores, hidden, k)
    [top] = topk.top_of_product(ones, Columns(diagonal), hidden, 50)
    check(top, np.tile(scores[0], (4, 1)), hidden, 50)


@pytest.mark.parametrize(
    ("factors", "columns"), [(1, 15), (15, 16), (16, 300), (17, 33), (130, 900)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factors_of_any_number_are_cut_into_tiles(factors, columns, dtype, monkeypatch):
    monkeypatch.setattr(topk, "FACTOR_ROWS", 20)
    rng = np.random.default_rng(factors)
    left, right = (rng.integers(-3, 4, (n, factors)).astype(dtype) for n in (37, columns))
    bias = rng.integers(-9, 9, columns).astype(dtype)
    hidden = sparse.random_array((37, columns), density=0.2, format="csr", rng=rng)
    tops = topk.top_of_factors(
        lambda a, b: left[a:b], right[::-1], bias, hidden, 7, [None, -np.ones(columns)]
    )
    scores = left @ right[::-1].T + bias
    check(tops[0], scores, hidden, 7)
    check(tops[1], -scores, hidden, 7)


def test_equal_scores_are_ranked_by_column():
    hidden = sparse.csr_array(np.eye(3, 9))
    [top] = topk.top_of_blocks(lambda a, b: np.broadcast_to(np.float32(0), (b - a, 9)), hidden, 4)
    assert top.items.tolist() == [[1, 2, 3, 4], [0, 2, 3, 4], [0, 1, 3, 4]]


def test_a_hidden_entry_is_hidden_whatever_its_value():
    hidden = sparse.csr_array((np.zeros(1), ([0], [2])), shape=(1, 4))
    assert hidden.nnz == 1
    [top] = topk.top_of_blocks(lambda a, b: np.array([[1, 2, 3, 4]]), hidden, 4)
    assert top.items.tolist() == [[3, 1, 0, -1]]


def test_a_long_history_of_the_best_columns_is_walked_through_once():
    """They are what a model likes most: each is looked at once, not each for each."""
    columns, longest = 60_000, 50_000
    scores = np.arange(columns, 0, -1, dtype=np.float32)[None]

    def seconds(hidden_columns):
        row = np.arange(hidden_columns, dtype=np.int32)
        values, ends = np.ones(hidden_columns, np.float32), [0, hidden_columns]
        hidden = sparse.csr_array((values, row, ends), shape=(1, columns))
        taken = []
        for _ in range(3):
            search = topk.Search(hidden, 20, (None,), scores.dtype)
            start = time.process_time()
            search.block(scores, 0, 0)
            taken.append(time.process_time() - start)
        [top] = search.tops()
        assert np.array_equal(top.items[0], row.size + np.arange(20))
        return min(taken)

    assert seconds(longest) < 100 * seconds(longest // 25)  # squares would be 625


def test_a_row_with_everything_hidden_has_no_list():
    hidden = sparse.csr_array(np.ones((2, 5)))
    [top] = topk.top_of_blocks(lambda a, b: np.ones((b - a, 5)), hidden, 3)
    assert (top.items == -1).all()
    assert (top.scores == -np.inf).all()


def test_float64_scores_are_compared_as_float64():
    scores = np.array([[1.0, 1.0 + 1e-12, 1.0 - 1e-12]])
    [top] = topk.top_of_blocks(lambda a, b: scores[a:b], sparse.csr_array((1, 3)), 3)
    assert top.items.tolist() == [[1, 0, 2]]
    assert top.scores.dtype == np.float64


@pytest.mark.parametrize("dtype", [np.int64, np.float16, np.bool_])
def test_scores_of_any_real_type_are_ranked(dtype):
    scores = np.array([[0, 1, 0, 1]]).astype(dtype)
    [top] = topk.top_of_blocks(lambda a, b: scores[a:b], sparse.csr_array((1, 4)), 3)
    assert top.items.tolist() == [[1, 3, 0]]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("n", "place"), [(7, (0, 0)), (7, (3, 6)), (50, (3, 20))])
def test_scores_that_are_not_finite_are_an_error_even_where_hidden(bad, n, place):
    scores = np.ones((5, n), np.float32)
    scores[place] = bad
    for hidden in (sparse.csr_array(scores.shape), sparse.csr_array(np.ones(scores.shape))):
        with pytest.raises(topk.NotFinite, match="scores are not finite: the fitted model"):
            topk.top_of_blocks(lambda a, b: scores[a:b], hidden, 2)
        with pytest.raises(RecbenchError, match="not finite"):
            topk.top_of_factors(lambda a, b: np.eye(5)[a:b], scores.T, None, hidden, 2)
    weights = np.eye(n)
    weights[place] = bad
    left = sparse.csr_array(np.ones((2, n)))
    with pytest.raises(RecbenchError, match="not finite"):
        topk.top_of_product(left, Columns(weights), sparse.csr_array((2, n)), 2)


def test_a_bias_too_large_for_the_factors_makes_scores_that_are_not_finite():
    factors, bias = np.ones((3, 2), np.float32), np.array([0.0, 1e300, 0.0])
    with pytest.raises(topk.NotFinite):
        topk.top_of_factors(lambda a, b: factors[a:b], factors, bias, sparse.csr_array((3, 3)), 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_the_error_tells_which_scales_are_at_fault(bad):
    scales = [None, np.array([1.0, 1.0, bad, 1.0]), np.arange(4.0)]
    with pytest.raises(topk.NotFinite, match="for 1 of 3 models ranked together") as caught:
        topk.top_of_blocks(
            lambda a, b: np.ones((b - a, 4), np.float32), sparse.csr_array((2, 4)), 2, scales
        )
    assert caught.value.scales == [1]


def test_equal_scales_are_searched_once_and_listed_and_blamed_each(monkeypatch):
    scores = np.array([[3.0, 1.0, 2.0], [1.0, 2.0, 3.0]], np.float32)
    turned = np.array([1.0, 4.0, 1.0])
    searched = []
    monkeypatch.setattr(topk, "Search", _told(topk.Search, searched))

    def ranked(*scales):
        return topk.top_of_blocks(lambda a, b: scores[a:b], sparse.csr_array((2, 3)), 2, scales)

    tops = ranked(turned, None, turned.copy(), np.ones(3))
    assert [len(search.lists.scales) for search in searched] == [2]
    assert [top.items[0].tolist() for top in tops] == [[1, 0], [0, 2], [1, 0], [0, 2]]
    bad = np.array([1.0, np.nan, 1.0])
    with pytest.raises(topk.NotFinite) as caught:
        ranked(bad, None, bad.copy())
    assert caught.value.scales == [0, 2]


def _told(kind, made):
    def make(*args):
        made.append(kind(*args))
        return made[-1]

    return make


def spellings(matrix):
    """The same matrix as people may hand it over."""
    long = sparse.csr_matrix(matrix)
    long.indptr, long.indices = long.indptr.astype(np.int64), long.indices.astype(np.int64)
    yield long
    yield sparse.csc_array(matrix)
    shuffled = sparse.csr_array(matrix.tocsc().T.tocsr().T)  # row order of a column-major copy
    shuffled.indices, shuffled.data = shuffled.indices.copy(), shuffled.data.copy()
    for a, b in zip(shuffled.indptr, shuffled.indptr[1:], strict=False):
        shuffled.indices[a:b], shuffled.data[a:b] = (
            shuffled.indices[a:b][::-1].copy(),
            shuffled.data[a:b][::-1].copy(),
        )
    shuffled.has_sorted_indices = False
    yield shuffled
    strided = sparse.csr_array(matrix)
    strided.data = np.repeat(strided.data, 2)[::2]
    strided.indices = np.repeat(strided.indices, 2)[::2]
    yield strided
    frozen = matrix.copy()
    for part in (frozen.data, frozen.indices, frozen.indptr):
        part.flags.writeable = False
    yield frozen


def test_sparse_matrices_of_any_layout_are_understood_and_left_alone():
    left, weights, hidden, _, _ = real_numbers()
    expected = topk.top_of_product(left, Columns(weights), hidden, 6)
    for other_left, other_hidden in zip(spellings(left), spellings(hidden), strict=True):
        before = other_left.indices.copy(), other_left.data.copy(), other_hidden.indices.copy()
        same(topk.top_of_product(other_left, Columns(weights), other_hidden, 6), expected)
        after = other_left.indices, other_left.data, other_hidden.indices
        for one, other in zip(before, after, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("layout", ["F", "strided", "frozen", "float64"])
def test_dense_arrays_of_any_layout_are_understood(layout):
    left, weights, hidden, (a, b), _ = real_numbers()

    def spelt(array):
        if layout == "F":
            return np.asfortranarray(array)
        if layout == "strided":
            return np.repeat(array, 2, axis=1)[:, ::2]
        other = array.astype(np.float64 if layout == "float64" else np.float32)
        other.flags.writeable = layout != "frozen"
        return other

    scores = topk.product(left, Columns(weights))
    expected = topk.top_of_blocks(lambda i, j: scores[i:j], hidden, 6)
    tops = topk.top_of_blocks(lambda i, j: spelt(scores)[i:j], hidden, 6)
    np.testing.assert_array_equal(tops[0].items, expected[0].items)
    [top] = topk.top_of_product(left, topk.DensePanels(spelt(weights)), hidden, 6)
    np.testing.assert_array_equal(top.items, expected[0].items)
    [top] = topk.top_of_factors(lambda i, j: spelt(a)[i:j], spelt(b), None, hidden, 6)
    np.testing.assert_array_equal(
        top.items, topk.top_of_factors(lambda i, j: a[i:j], b, None, hidden, 6)[0].items
    )


def test_panels_are_read_once_from_left_to_right():
    matrix = Columns(np.eye(9, dtype=np.float32))
    empty = sparse.csr_array((2, 9))
    topk.top_of_product(empty, matrix, empty, 1)
    edges = [edge for pair in matrix.asked for edge in pair]
    assert edges[0] == 0
    assert edges[-1] == 9
    assert edges[1:-1:2] == edges[2::2]
    assert len(matrix.asked) > 2


def test_progress_rises_to_its_total():
    left, weights, hidden, (a, b), _ = real_numbers()
    scores = topk.product(left, Columns(weights))
    told = []

    def progress(done, total):
        told.append((done, total))

    topk.top_of_product(left, Columns(weights), hidden, 1, progress=progress)
    topk.top_of_blocks(lambda i, j: scores[i:j], hidden, 1, progress=progress)
    topk.top_of_factors(lambda i, j: a[i:j], b, None, hidden, 1, progress=progress)
    topk.top_of_dense_rows(lambda i, j: a[i:j], sparse.csr_array(b), hidden, 1, progress=progress)
    runs = "".join("." if done == total else "-" for done, total in told).split(".")
    assert len(runs) == 5
    assert all(len(run) > 2 for run in runs[:4])
    assert runs[4] == ""
    assert [total for done, total in told if done == total] == [37, 40, 40, 40]


def test_shapes_that_do_not_fit_are_refused():
    left, weights, hidden, (a, b), _ = real_numbers()
    matrix = Columns(weights)
    with pytest.raises(ValueError, match="best 0"):
        topk.top_of_product(left, matrix, hidden, 0)
    with pytest.raises(ValueError, match="scale of shape"):
        topk.top_of_product(left, matrix, hidden, 1, [np.ones(36)])
    with pytest.raises(ValueError, match="do not fit"):
        topk.top_of_product(left[:, :36], matrix, hidden, 1)
    with pytest.raises(ValueError, match="do not fit"):
        topk.top_of_product(left, matrix, hidden[:39], 1)
    with pytest.raises(ValueError, match="do not fit"):
        topk.product(left[:, :36], matrix)
    with pytest.raises(ValueError, match="do not fit"):
        topk.top_of_factors(lambda i, j: a[i:j], b[:36], None, hidden, 1)
    with pytest.raises(ValueError, match="do not fit"):
        topk.top_of_factors(lambda i, j: a[i : j - 1], b, None, hidden, 1)
    with pytest.raises(ValueError, match="do not fit"):
        topk.top_of_factors(lambda i, j: a[i:j], b, np.ones(1), hidden, 1)
    with pytest.raises(ValueError, match="do not fit"):
        topk.top_of_dense_rows(lambda i, j: a[i:j], sparse.csr_array(b[:36]), hidden, 1)
    with pytest.raises(ValueError, match="do not fit"):
        topk.top_of_dense_rows(lambda i, j: a[i : j - 1], sparse.csr_array(b), hidden, 1)
    with pytest.raises(ValueError, match="do not fit"):
        topk.top_of_blocks(lambda i, j: np.ones((j - i, 36)), hidden, 1)
    with pytest.raises(ValueError, match="square"):
        topk.DensePanels(np.ones((3, 4)))


def test_functions_are_compiled_even_where_nothing_can_be_kept():
    from recbench.linalg.topk_kernel import compiled

    nowhere = {}
    exec(compile("def add(a, b):\n    return a + b\n", "<nowhere>", "exec"), nowhere)
    assert compiled(nowhere["add"])(2, 3) == 5


def test_numba_is_imported_when_ranking_starts_and_not_before():
    program = "import sys, recbench.models.scorers; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
