"""The arithmetic the rules share: group rows by user, shuffle within users, deal into matrices.

All shuffles draw from the legacy `RandomState` stream, which NumPy keeps frozen: the published
splits are defined by it.
"""

from itertools import pairwise

import numpy as np
import scipy

from recbench.linalg.types import Counts, Indices, Integers, Sparse


def first_seen(index: Indices, size: int) -> Indices:
    """List the distinct values of `index`, all below `size`, in order of first appearance."""
    absent = len(index)
    first = np.full(size, absent, dtype=np.int32)
    # Of repeated indices an assignment keeps the last, so going backwards keeps the first.
    first[index[::-1]] = np.arange(absent - 1, -1, -1, dtype=np.int32)
    return np.argsort(first)[: np.count_nonzero(first < absent)].astype(np.int32)


def by_user(user: Indices, n_users: int) -> tuple[Indices, Counts]:
    """Give the positions of all rows, user by user, and how many rows each user has.

    Users ascend and each user's rows stay in file order. Transposing a matrix that has one
    entry per row of the file is a counting sort: stable and linear.
    """
    n = len(user)
    entries = (np.ones(n, dtype=np.int8), user, np.arange(n + 1, dtype=np.int32))
    table = scipy.sparse.csc_array(entries, shape=(n_users, n)).tocsr()
    return table.indices, np.diff(table.indptr).astype(np.int64)


def sort_by_time(rows: Indices, counts: Counts, time: Integers) -> None:
    """Sort each user's slice of row numbers by time, in place and stably.

    Sorting many short slices needs no memory to speak of; one sort by two keys needs gigabytes.
    """
    starts = offsets(counts).tolist()
    for start, stop in pairwise(starts):
        mine = rows[start:stop]
        mine[:] = mine[time[mine].argsort(kind="stable")]


def offsets(counts: Counts) -> Counts:
    """Where each user's slice starts; one more for where the last one ends."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])


def share(ratio: float, counts: Counts) -> Counts:
    """A part of each count, rounded down, but not past a whole number: 0.29 of 100 is 29."""
    return np.floor(ratio * counts.astype(np.float64) + 1e-9).astype(np.int64)


def shuffle_users(values: Indices, counts: Counts, seed: int, visit: Indices | None = None) -> None:
    """Shuffle the slice of every user in place; `visit` is the order of the draws, default 0, 1, …

    Shuffling a slice of m values draws exactly what `permutation(m)` draws, and leaves what
    indexing the slice by that permutation would give; so does the head of it for
    `choice(m, size, replace=False)`.
    """
    starts = offsets(counts)
    if visit is None:
        visit = np.arange(len(counts), dtype=np.int32)
    shuffle = np.random.RandomState(seed).shuffle
    slices = zip(starts[visit].tolist(), starts[visit + 1].tolist(), strict=True)
    for start, stop in slices:
        shuffle(values[start:stop])


def deal(items: Indices, sizes: Counts, n_items: int) -> list[Sparse]:
    """Deal each user's items, as they lie, into one matrix per column of `sizes`.

    `items` holds the users' slices one after the other; `sizes[u, k]` says how many of the
    slice of u go to matrix k.
    """
    n_users, n_parts = sizes.shape
    part = np.repeat(np.tile(np.arange(n_parts, dtype=np.int8), n_users), sizes.ravel())
    return [_rows_of_ones(items[part == k], sizes[:, k], n_items) for k in range(n_parts)]


def _rows_of_ones(items: Indices, counts: Counts, n_items: int) -> Sparse:
    ones = np.ones(len(items), dtype=np.float32)
    indptr = offsets(counts).astype(np.int32)
    matrix = scipy.sparse.csr_array((ones, items, indptr), shape=(len(counts), n_items))
    matrix.sort_indices()
    return matrix


def pick(matrix: Sparse, rows: Indices) -> Sparse:
    """Take some rows of a matrix of ones, in ascending order; all of them costs nothing."""
    if len(rows) == matrix.shape[0]:
        return matrix
    picked = matrix[rows]
    ones = matrix.data[: picked.nnz]  # shared: they would be half of what a part weighs
    return scipy.sparse.csr_array((ones, picked.indices, picked.indptr), shape=picked.shape)
