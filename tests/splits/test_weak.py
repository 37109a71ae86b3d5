"""Weak generalisation: what is kept, what is dropped, and that both are counted."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from split_toys import (
    applied,
    check_split,
    dataset_of,
    pairs_of,
    parts_of,
    random_raw,
    raws,
    same_split,
)

from recbench.errors import DataError, UsageError
from recbench.splits.weak import Weak


def numbered(split):
    return np.arange(split.train.shape[0])


@settings(max_examples=40, deadline=None)
@given(raws(), st.sampled_from([(0.1, 0.1), (0.25, 0.25), (0.1, 0.3)]), st.integers(0, 99))
def test_the_parts_are_disjoint_and_nothing_is_lost_uncounted(raw, ratios, seed):
    data = dataset_of(raw)
    split = applied(Weak(*ratios, seed), data)
    check_split(split, data)
    sets = [pairs_of(split.train, numbered(split), split.items)]
    sets += [pairs_of(part.target, part.users, split.items) for part in parts_of(split)]
    dropped = sum(n for note, n in split.notes.items() if "absent" in note)
    assert len(set.union(*sets)) == sum(map(len, sets)) == len(data) - dropped
    missing = set(range(data.n_items)) - set(split.items.tolist())
    assert dropped == np.count_nonzero(np.isin(data.item, list(missing)))


@settings(max_examples=30, deadline=None)
@given(raws())
def test_the_columns_are_the_items_of_train(raw):
    split = applied(Weak(0.3, 0.3), dataset_of(raw))
    assert np.all(split.train.sum(axis=0) > 0)
    assert split.items.tolist() == sorted(split.items.tolist())


@settings(max_examples=30, deadline=None)
@given(raws())
def test_validation_hides_train_and_test_hides_validation_too(raw):
    split = applied(Weak(0.25, 0.25), dataset_of(raw))
    train = split.train.toarray()
    valid = np.zeros_like(train)
    valid[split.valid.users] = split.valid.target.toarray()
    assert split.full is None
    assert split.valid.hidden is None
    assert np.array_equal(split.valid.history.toarray(), train[split.valid.users])
    assert np.array_equal(split.test.history.toarray(), train[split.test.users])
    assert np.array_equal(split.test.seen.toarray(), (train + valid)[split.test.users])
    for part in parts_of(split):
        assert part.train_rows.tolist() == part.users.tolist()


@settings(max_examples=20, deadline=None)
@given(raws(), st.randoms())
def test_the_order_of_the_file_does_not_matter(raw, random):
    shuffled = dataset_of(random.sample(raw, len(raw)))
    assert same_split(applied(Weak(), dataset_of(raw)), applied(Weak(), shuffled))


def test_the_seed_decides():
    data = dataset_of(random_raw(0, 30, 30, 0.6))
    assert same_split(Weak().apply(data), Weak(seed=0).apply(data))
    assert not same_split(Weak().apply(data), Weak(seed=1).apply(data))


@pytest.mark.parametrize(
    ("ratios", "count", "sizes"),
    [
        ((0.1, 0.1), 0, [0, 0, 0]),
        ((0.1, 0.1), 1, [1, 0, 0]),
        ((0.1, 0.1), 2, [1, 0, 1]),
        ((0.1, 0.1), 5, [4, 0, 1]),
        ((0.1, 0.1), 6, [4, 1, 1]),
        ((0.1, 0.1), 9, [7, 1, 1]),
        ((0.1, 0.1), 10, [8, 1, 1]),
        ((0.1, 0.1), 13, [10, 1, 2]),
        ((0.1, 0.1), 100, [80, 10, 10]),
        ((0.15, 0.15), 10, [7, 1, 2]),
        ((0.05, 0.05), 10, [9, 0, 1]),
        ((0.1, 0.2), 10, [7, 1, 2]),
        ((0.9, 0.05), 2, [1, 0, 1]),
    ],
)
def test_shares_are_rounded_towards_test(ratios, count, sizes):
    assert Weak(*ratios).sizes(np.array([count])).tolist() == [sizes]


def test_rows_of_the_data_are_left_alone():
    data = dataset_of(random_raw(5, 20, 20, 0.5), timed=True)
    before = [column.copy() for column in (data.user, data.item, data.time)]
    Weak().apply(data)
    for column, copy in zip((data.user, data.item, data.time), before, strict=True):
        assert np.array_equal(column, copy)


@pytest.mark.parametrize(
    "raw",
    [
        [(0, i, 0) for i in range(9)],  # what the only user loses, nobody else has
        [(u, 0, 0) for u in range(9)],
        [],
    ],
)
def test_too_little_data_is_refused_in_a_sentence(raw):
    with pytest.raises(DataError, match=r"user-ratio|no interactions"):
        Weak().apply(dataset_of(raw))


def test_ratios_must_leave_something():
    with pytest.raises(UsageError, match="less than 1"):
        Weak(0.5, 0.5)
    with pytest.raises(UsageError, match="ratio-test"):
        dataclasses.replace(Weak(), ratio_test=0)
    assert Weak().text == "weak[ratio-test=0.1,ratio-valid=0.1,seed=0]"
