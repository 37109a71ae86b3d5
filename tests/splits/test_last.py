"""Leave-last-out against a loop over users."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from split_toys import applied, check_split, dataset_of, pairs_of, random_raw, raws

from recbench.errors import DataError, UsageError
from recbench.splits.last import Last


def literal(data, count, by):
    """Train, validation and test as sets of (user, item), and how many users have a tie."""
    parts, ties = [set(), set(), set()], 0
    for user in range(data.n_users):
        mine = np.flatnonzero(data.user == user).tolist()
        if by == "time":
            mine.sort(key=lambda row: (data.time[row], row))
        cuts = [len(mine)] * 2
        if len(mine) > 2 * count:
            cuts = [len(mine) - 2 * count, len(mine) - count]
            ties += any(data.time[mine[cut - 1]] == data.time[mine[cut]] for cut in cuts)
        for part, rows in zip(parts, np.split(np.array(mine), cuts), strict=True):
            part |= {(user, int(data.item[row])) for row in rows}
    return parts, ties


@settings(max_examples=40, deadline=None)
@given(raws(), st.sampled_from([1, 2]), st.sampled_from(["time", "file"]), st.booleans())
def test_every_row_goes_where_a_loop_sends_it(raw, count, by, refit):
    data = dataset_of(raw, timed=True)
    split = applied(Last(count=count, by=by, refit=refit), data)
    check_split(split, data)
    everybody = np.arange(data.n_users)
    found = [pairs_of(split.train, everybody, split.items)]
    found += [pairs_of(p.target, p.users, split.items) for p in (split.valid, split.test)]
    (train, valid, test), ties = literal(data, count, by)
    assert found == [train, valid, test]
    shown = pairs_of(split.test.history, split.test.users, split.items)
    known = train | valid if refit else train
    assert shown == {pair for pair in known if pair[0] in split.test.users}
    assert (split.full is not None) == refit
    if by == "time":
        assert split.notes["users cut between items of one time, in file order"] == ties


def test_nothing_that_is_shown_is_newer_than_what_is_to_be_found():
    data = dataset_of(random_raw(3, 20, 20, 0.6), timed=True)
    time = {(u, i): t for u, i, t in zip(data.user, data.item, data.time, strict=True)}
    split = Last().apply(data)
    for part in (split.valid, split.test):
        for row, user in enumerate(part.users):
            (target,) = part.target[[row]].indices
            shown = part.history[[row]].indices
            assert max(time[user, item] for item in shown) <= time[user, target]


def test_users_with_two_items_are_only_trained_on():
    raw = [(0, i, i) for i in range(2)] + [(1, i, i) for i in range(3)]
    split = Last().apply(dataset_of(raw, timed=True))
    assert split.test.users.tolist() == split.valid.users.tolist() == [1]
    assert split.train.toarray().tolist() == [[1, 1, 0], [1, 0, 0]]
    assert split.notes["users with too few items to hold any out"] == 1


def test_without_times_a_sentence_says_what_to_do():
    data = dataset_of(random_raw(3, 20, 20, 0.6))
    with pytest.raises(UsageError, match=r"no times.*--time.* last\[by=file\]"):
        Last().apply(data)
    assert Last(by="file").apply(data).test.target.nnz == data.n_users


def test_too_little_is_refused():
    with pytest.raises(DataError, match="a user needs 3 items"):
        Last().apply(dataset_of([(0, 0, 0), (0, 1, 1)], timed=True))
