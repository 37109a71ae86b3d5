"""Datasets from raw ids, and what must hold of every split."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st
from scipy import sparse

from recbench.data.dataset import Dataset, ids_from
from recbench.errors import DataError
from recbench.splits.base import SplitRule
from recbench.splits.types import Part, Split

Raw = list[tuple[Any, Any, int]]
"""Rows of a raw file: user, item and time."""


def dataset_of(raw: Raw, timed: bool = False, part: Sequence[int] | None = None) -> Dataset:
    """Number the users and items of raw rows by ascending id; keep the order of the rows."""
    user_ids, item_ids = (sorted({row[side] for row in raw}) for side in (0, 1))
    user_of = {name: number for number, name in enumerate(user_ids)}
    item_of = {name: number for number, name in enumerate(item_ids)}
    return Dataset(
        name="toy",
        user=np.array([user_of[row[0]] for row in raw], dtype=np.int32),
        item=np.array([item_of[row[1]] for row in raw], dtype=np.int32),
        user_ids=ids_from(user_ids),
        item_ids=ids_from(item_ids),
        time=np.array([row[2] for row in raw], dtype=np.int64) if timed else None,
        part=None if part is None else np.array(part, dtype=np.int8),
    )


def random_raw(seed: int, users: int, items: int, density: float, text: bool = False) -> Raw:
    """Unique pairs in shuffled file order, with gaps between the ids and few distinct times."""
    rng = np.random.default_rng(seed)
    mask = rng.random((users, items)) < density
    mask[:, 0] |= ~mask.any(axis=1)
    pairs = rng.permutation(np.argwhere(mask)).tolist()
    # As text, 10 comes before 9.
    name = (lambda number: f"id{7 * number}") if text else (lambda number: 7 * number + 3)
    return [(name(u), name(i), int(rng.integers(5))) for u, i in pairs]


@st.composite
def raws(draw: st.DrawFn, users: int = 30, items: int = 25) -> Raw:
    """Raw files of up to so many users and items."""
    return random_raw(
        draw(st.integers(0, 2**32 - 1)),
        draw(st.integers(12, users)),
        draw(st.integers(8, items)),
        draw(st.sampled_from([0.35, 0.5, 0.8])),
        draw(st.booleans()),
    )


def applied(rule: SplitRule, data: Dataset) -> Split:
    """The split, unless the random data are too small for the rule to hold anything out."""
    try:
        return rule.apply(data)
    except DataError:
        reject()


def pairs_of(matrix: sparse.csr_array, users: np.ndarray, items: np.ndarray) -> set[tuple]:
    """The (user, item) pairs of the dataset that a matrix of a split holds."""
    coo = matrix.tocoo()
    return set(zip(users[coo.row].tolist(), items[coo.col].tolist(), strict=True))


def parts_of(split: Split) -> list[Part]:
    return [split.valid, split.test]


def train_users(split: Split) -> np.ndarray:
    return np.arange(split.train.shape[0]) if split.users is None else split.users


def check_split(split: Split, data: Dataset) -> None:
    """What every rule must keep, whatever it divides by."""
    everything = set(zip(data.user.tolist(), data.item.tolist(), strict=True))
    for matrix in (split.train, split.stage("test")[0]):
        _check_matrix(matrix, len(split.items))
        assert pairs_of(matrix, train_users(split), split.items) <= everything
    for part in parts_of(split):
        _check_part(part, len(split.items))
        known = part.train_rows[part.train_rows >= 0]
        assert train_users(split)[known].tolist() == part.users[part.train_rows >= 0].tolist()
        for matrix in (part.history, part.target, part.seen):
            assert pairs_of(matrix, part.users, split.items) <= everything
    for fitted, part in (split.stage("valid"), split.stage("test")):
        trained = pairs_of(fitted, train_users(split), split.items)
        assert not trained & pairs_of(part.target, part.users, split.items)


def _check_part(part: Part, width: int) -> None:
    for matrix in (part.history, part.target, part.seen):
        _check_matrix(matrix, width)
    assert np.diff(part.target.indptr).min() > 0
    assert len(set(part.users.tolist())) == len(part.users)
    assert part.users.dtype == part.train_rows.dtype == np.int32
    assert part.target.multiply(part.seen).nnz == 0
    assert part.history.multiply(part.seen).nnz == part.history.nnz


def _check_matrix(matrix: sparse.csr_array, width: int) -> None:
    assert isinstance(matrix, sparse.csr_array)
    assert matrix.shape[1] == width
    assert matrix.dtype == np.float32
    assert matrix.indices.dtype == matrix.indptr.dtype == np.int32
    assert np.all(matrix.data == 1)
    # The flag of a matrix may be wrong; a fresh one looks at the indices.
    fresh = sparse.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
    assert fresh.has_canonical_format


def same_split(one: Split, other: Split) -> bool:
    """Whether two splits are equal in every matrix and number."""
    return _content(one) == _content(other)


def _content(split: Split) -> list[Any]:
    matrices = [split.train, split.stage("test")[0]]
    lists: list[Any] = [split.items.tolist(), train_users(split).tolist(), dict(split.notes)]
    for part in parts_of(split):
        matrices += [part.history, part.target, part.seen]
        lists += [part.users.tolist(), part.train_rows.tolist()]
    return [(m.shape, m.indptr.tolist(), m.indices.tolist()) for m in matrices] + lists
