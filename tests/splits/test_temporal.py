"""The split by time against a loop over rows."""

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from split_toys import applied, check_split, dataset_of, pairs_of, random_raw, raws

from recbench.errors import DataError, UsageError
from recbench.splits.temporal import Temporal

DAY = 86_400


def parts(split):
    """The pairs of train, validation and test."""
    everybody = np.arange(split.train.shape[0])
    found = [pairs_of(split.train, everybody, split.items)]
    return found + [pairs_of(p.target, p.users, split.items) for p in (split.valid, split.test)]


def literal(data, shares, cold, refit):
    """The same by going back in time until a share is full, whole moments at a time."""
    rows = set(range(len(data)))
    held = []
    for share in shares:
        taken = set()
        while len(taken) < max(1, round(share * len(data))):
            newest = max(data.time[row] for row in rows - taken)
            taken |= {row for row in rows - taken if data.time[row] == newest}
        rows -= taken
        held.append(taken)
    test, valid = held

    def pairs(chosen, known):
        users = {data.user[row] for row in known}
        items = {data.item[row] for row in known}
        keep = [r for r in chosen if cold or (data.user[r] in users and data.item[r] in items)]
        return {(int(data.user[r]), int(data.item[r])) for r in keep}

    return [pairs(rows, rows), pairs(valid, rows), pairs(test, rows | valid if refit else rows)]


def spread(raw, seed):
    """The same rows with more, and more different, times."""
    rng = np.random.default_rng(seed)
    return [(user, item, int(rng.integers(40))) for user, item, _ in raw]


@settings(max_examples=40, deadline=None)
@given(
    raws(), st.integers(0, 99), st.sampled_from([(0.1, 0.1), (0.3, 0.2)]), st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_every_row_goes_where_a_loop_sends_it(raw, seed, shares, cold, refit):
    data = dataset_of(spread(raw, seed), timed=True)
    rule = Temporal(test=str(shares[0]), valid=str(shares[1]), cold=cold, refit=refit)
    split = applied(rule, data)
    check_split(split, data)
    found, expected = parts(split), literal(data, shares, cold, refit)
    assert found == expected
    if not cold:
        kept = sum(len(pairs) for pairs in found)
        left_out = [split.notes[name] for name in split.notes if "without a past" in name]
        assert kept + sum(left_out) == len(data)


def test_a_day_begins_the_test():
    raw = [(u, i, (10 * i + u) * DAY // 4) for u in range(8) for i in range(6)]
    by_day = Temporal(valid="1970-01-08", test="1970-01-11", cold=True)
    data = dataset_of(raw, timed=True)
    train, valid, test = parts(by_day.apply(data))
    times = {(u, i): t for u, i, t in zip(data.user, data.item, data.time, strict=True)}
    assert max(times[pair] for pair in train) < 7 * DAY <= min(times[pair] for pair in valid)
    assert max(times[pair] for pair in valid) < 10 * DAY <= min(times[pair] for pair in test)


def test_times_in_milliseconds_mean_the_same_days():
    start = int(datetime(2015, 1, 1, tzinfo=UTC).timestamp())
    raw = [(u, i, start + (10 * i + u) * DAY // 4) for u in range(8) for i in range(6)]
    rule = Temporal(valid="2015-01-08", test="2015-01-11", cold=True)
    milli = [(u, i, 1000 * t) for u, i, t in raw]
    one, other = (rule.apply(dataset_of(rows, timed=True)) for rows in (raw, milli))
    assert parts(one) == parts(other)


def test_rows_of_one_time_stay_together_and_are_counted():
    raw = [(u, i, 5 * (i > 4)) for u in range(4) for i in range(6)]
    raw += [(u, 6, -1) for u in range(4)]
    split = Temporal(test="0.1", valid="0.1", cold=True).apply(dataset_of(raw, timed=True))
    name = "test rows beyond its share, of the same time as its first"
    assert split.notes[name] == 4 - round(0.1 * 28)
    assert split.notes[name.replace("test", "validation")] == 20 - round(0.1 * 28)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"test": "0"}, "'test' of temporal is 0; it must be a share"),
        ({"test": "1"}, "is 1; it must"),
        ({"valid": "nan"}, "is nan"),
        ({"valid": "soon"}, "a day such as"),
        ({"test": "0.5", "valid": "0.5"}, "leaves nothing to train on"),
        ({"test": "2015-01-01", "valid": "2015-01-01"}, "before the test"),
    ],
)
def test_moments_without_sense_are_refused(settings, words):
    with pytest.raises(UsageError, match=words):
        Temporal(**settings)


def test_data_that_cannot_be_cut_are_refused():
    raw = random_raw(3, 20, 20, 0.6)
    with pytest.raises(UsageError, match=r"no times.*--time.*recbench list splits"):
        Temporal().apply(dataset_of(raw))
    constant = [(user, item, 0) for user, item, _ in raw]
    with pytest.raises(DataError, match="the same time"):
        Temporal().apply(dataset_of(constant, timed=True))
    with pytest.raises(DataError, match="goes from 1970-01-01 to 1970-01-01"):
        Temporal(test="2015-01-01").apply(dataset_of(raw, timed=True))
