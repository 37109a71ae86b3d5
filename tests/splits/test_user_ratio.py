"""The user_entry split against a literal re-implementation with pandas."""

import numpy as np
import pandas as pd
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

from recbench.data.dataset import Dataset
from recbench.errors import DataError, UsageError
from recbench.splits.user_ratio import UserRatio


def literal(raw, timed, ratios, seed):
    """Train, validation and test as sets of original (user, item), by the letter of the rule."""
    frame = pd.DataFrame(raw, columns=["user", "item", "time"])
    frame["number"] = pd.factorize(frame["user"])[0]
    if timed:
        frame = frame.sort_values(by=["number", "time"])
    else:
        frame = frame.sort_values(by="number", kind="stable")
    np.random.seed(seed)
    parts = [set(), set(), set()]
    for _, mine in frame.groupby("number", sort=True):
        mine = mine.iloc[np.random.permutation(len(mine))]
        valid, test = (int(ratio * len(mine)) for ratio in ratios)
        train = len(mine) - valid - test
        if test == 0 and train > 1:
            train, test = train - 1, test + 1
        if valid == 0 and train > 1:
            train, valid = train - 1, valid + 1
        rows = list(zip(mine["user"], mine["item"], strict=True))
        parts[0] |= set(rows[:train])
        parts[1] |= set(rows[train : train + valid])
        parts[2] |= set(rows[train + valid :])
    return parts


def original(pairs, data: Dataset):
    users, items = data.user_ids.to_pylist(), data.item_ids.to_pylist()
    return {(users[u], items[i]) for u, i in pairs}


@settings(max_examples=30, deadline=None)
@given(
    raws(),
    st.booleans(),
    st.sampled_from([(0.1, 0.1), (0.2, 0.3), (0.05, 0.5)]),
    st.sampled_from([2022, 0, 7]),
)
def test_every_row_goes_where_the_literal_rule_sends_it(raw, timed, ratios, seed):
    data = dataset_of(raw, timed)
    split = applied(UserRatio(*ratios, seed), data)
    check_split(split, data)
    everybody = np.arange(data.n_users)
    found = [pairs_of(split.train, everybody, split.items)]
    found += [pairs_of(part.target, part.users, split.items) for part in parts_of(split)]
    assert [original(pairs, data) for pairs in found] == literal(raw, timed, ratios, seed)


@pytest.mark.parametrize(
    ("count", "sizes"),
    [
        (1, (1, 0, 0)),
        (2, (1, 0, 1)),
        (3, (1, 1, 1)),
        (4, (2, 1, 1)),
        (5, (3, 1, 1)),
        (9, (7, 1, 1)),
        (10, (8, 1, 1)),
        (19, (17, 1, 1)),
        (20, (16, 2, 2)),
        (25, (21, 2, 2)),
        (30, (24, 3, 3)),
        (99, (81, 9, 9)),
    ],
)
def test_rounding(count, sizes):
    assert tuple(UserRatio().sizes(np.array([count]))[0].tolist()) == sizes


def test_a_tenth_of_any_count_is_the_whole_tens():
    counts = np.arange(200_001)
    assert np.array_equal(UserRatio().sizes(counts)[10:, 1], counts[10:] // 10)


@settings(max_examples=20, deadline=None)
@given(raws())
def test_all_items_are_columns_and_every_row_is_somewhere(raw):
    data = dataset_of(raw)
    split = UserRatio().apply(data)
    assert split.items.tolist() == list(range(data.n_items))
    assert split.train.nnz + sum(part.target.nnz for part in parts_of(split)) == len(data)
    assert split.full is None


def test_test_hides_train_and_validation():
    split = UserRatio().apply(dataset_of(random_raw(1, 20, 20, 0.5)))
    train, valid = split.train.toarray(), np.zeros(split.train.shape)
    valid[split.valid.users] = split.valid.target.toarray()
    assert split.valid.seen is split.valid.history
    assert np.array_equal(split.test.history.toarray(), train[split.test.users])
    assert np.array_equal(split.test.seen.toarray(), (train + valid)[split.test.users])


def test_users_with_an_empty_slice_are_left_out_and_counted():
    raw = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (2, 0, 0), (2, 1, 0), (2, 2, 0)]
    split = UserRatio().apply(dataset_of(raw))
    assert split.valid.users.tolist() == [2]
    assert split.test.users.tolist() == [1, 2]
    assert split.notes == {
        "validation users without an item to find": 2,
        "test users without an item to find": 1,
    }


def test_users_draw_in_order_of_first_appearance():
    raw = random_raw(2, 20, 20, 0.5)
    one, other = dataset_of(sorted(raw)), dataset_of(sorted(raw, key=lambda row: (-row[0], row)))
    assert not same_split(UserRatio().apply(one), UserRatio().apply(other))


def test_time_orders_the_rows_before_the_shuffle():
    raw = random_raw(2, 20, 20, 0.5)
    assert not same_split(
        UserRatio().apply(dataset_of(raw, timed=True)), UserRatio().apply(dataset_of(raw))
    )
    constant = [(user, item, 0) for user, item, _ in raw]
    assert same_split(
        UserRatio().apply(dataset_of(constant, timed=True)), UserRatio().apply(dataset_of(raw))
    )


def test_the_seed_decides_and_the_data_are_left_alone():
    data = dataset_of(random_raw(0, 30, 30, 0.6), timed=True)
    before = [column.copy() for column in (data.user, data.item, data.time)]
    assert same_split(UserRatio().apply(data), UserRatio(seed=2022).apply(data))
    assert not same_split(UserRatio().apply(data), UserRatio(seed=1).apply(data))
    for column, copy in zip((data.user, data.item, data.time), before, strict=True):
        assert np.array_equal(column, copy)


@pytest.mark.parametrize(
    "raw", [[], [(0, 0, 0)], [(0, 0, 0), (0, 1, 0)], [(u, 0, 0) for u in range(9)]]
)
def test_too_little_data_is_refused_in_a_sentence(raw):
    with pytest.raises(DataError, match=r"needs 3 interactions|no interactions"):
        UserRatio().apply(dataset_of(raw))


def test_ratios_must_leave_something():
    with pytest.raises(UsageError, match="less than 1"):
        UserRatio(0.5, 0.6)
    assert UserRatio().text == "user-ratio[ratio-test=0.1,ratio-valid=0.1,seed=2022]"
