"""Splits distributed as files: what is used as is, and what is carved for tuning."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from split_toys import applied, check_split, dataset_of, pairs_of, random_raw, raws, same_split

from recbench.data.dataset import Dataset, ids_from
from recbench.data.interactions import PARTS
from recbench.errors import DataError, UsageError
from recbench.splits.given import Given

GOWALLA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "gowalla"
TRAIN, VALID, TEST = range(3)


def in_parts(raw, seed, valid=False):
    """Put every row into a random part; train gets the most."""
    shares = [0.7, 0.15, 0.15] if valid else [0.8, 0.0, 0.2]
    part = np.random.default_rng(seed).choice(3, size=len(raw), p=shares)
    part[:3] = [TRAIN, VALID if valid else TRAIN, TEST]
    return dataset_of(raw, part=part)


def rows(data: Dataset, *codes):
    mine = np.isin(data.part, codes)
    return set(zip(data.user[mine].tolist(), data.item[mine].tolist(), strict=True))


@settings(max_examples=40, deadline=None)
@given(raws(), st.integers(0, 99), st.booleans(), st.booleans())
def test_the_files_are_used_as_they_are(raw, seed, valid, refit):
    data = in_parts(raw, seed, valid)
    split = applied(Given(minimum=2, refit=refit), data)
    check_split(split, data)
    everybody = np.arange(data.n_users)
    train = pairs_of(split.train, everybody, split.items)
    tuned_on = pairs_of(split.valid.target, split.valid.users, split.items)
    assert train | tuned_on == rows(data, TRAIN, VALID)
    assert not train & tuned_on
    if valid:
        assert tuned_on == rows(data, VALID)
    assert pairs_of(split.test.target, split.test.users, split.items) == rows(data, TEST)
    full = pairs_of(split.stage("test")[0], everybody, split.items)
    assert full == (train | tuned_on if refit else train)
    assert split.items.tolist() == list(range(data.n_items))


@settings(max_examples=30, deadline=None)
@given(raws(), st.integers(0, 99), st.booleans())
def test_the_test_hides_everything_else_that_was_given(raw, seed, refit):
    data = in_parts(raw, seed, valid=True)
    split = applied(Given(refit=refit), data)
    tested = set(split.test.users.tolist())
    hidden = {pair for pair in rows(data, TRAIN, VALID) if pair[0] in tested}
    shown = {
        pair for pair in rows(data, *([TRAIN, VALID] if refit else [TRAIN])) if pair[0] in tested
    }
    assert pairs_of(split.test.seen, split.test.users, split.items) == hidden
    assert pairs_of(split.test.history, split.test.users, split.items) == shown


@pytest.mark.parametrize(
    ("rule", "count", "carved"),
    [
        (Given(), 4, 0),
        (Given(), 5, 1),
        (Given(), 19, 1),
        (Given(), 20, 2),
        (Given(), 30, 3),
        (Given(minimum=2), 1, 0),
        (Given(minimum=2), 2, 1),
        (Given(minimum=2, valid=0.99), 2, 1),
        (Given(valid=0.3), 10, 3),
        (Given(valid=0.999), 6, 5),
    ],
)
def test_validation_gets_its_share_but_leaves_one(rule, count, carved):
    assert rule.sizes(np.array([count])).tolist() == [[count - carved, carved]]


@settings(max_examples=20, deadline=None)
@given(raws(), st.randoms())
def test_the_order_of_the_files_does_not_matter(raw, random):
    part = [TEST if k % 4 == 0 else TRAIN for k in range(len(raw))]
    order = random.sample(range(len(raw)), len(raw))
    data = dataset_of(raw, part=part)
    shuffled = dataset_of([raw[k] for k in order], part=[part[k] for k in order])
    assert same_split(applied(Given(minimum=2), data), applied(Given(minimum=2), shuffled))


def test_the_seed_decides_what_is_carved_and_nothing_else():
    data = in_parts(random_raw(0, 30, 30, 0.6), 1)
    one, other = Given().apply(data), Given(seed=1).apply(data)
    assert same_split(one, Given(seed=0).apply(data))
    assert not same_split(one, other)
    assert (one.full != other.full).nnz == 0
    assert (one.test.target != other.test.target).nnz == 0


def test_users_without_test_items_are_left_out_and_strangers_have_no_history():
    raw = [(0, i, 0) for i in range(6)] + [(1, i, 0) for i in range(6)] + [(2, 0, 0), (2, 1, 0)]
    part = [TRAIN] * 5 + [TEST] + [TRAIN] * 6 + [TEST] * 2
    split = Given().apply(dataset_of(raw, part=part))
    assert split.test.users.tolist() == [0, 2]
    assert split.test.train_rows.tolist() == [0, -1]
    assert split.test.history.toarray().sum(axis=1).tolist() == [5, 0]
    assert split.notes == {
        "validation users without an item to find": 1,
        "test users without an item to find": 1,
        "test users absent from train": 1,
    }


def test_data_without_parts_name_their_own_default():
    data = dataset_of(random_raw(0, 9, 9, 0.5))
    with pytest.raises(UsageError, match="give --split strong, or weak"):
        Given().apply(data)
    with pytest.raises(UsageError, match=r"its own default is strong\[heldout=3\]"):
        Given().apply(dataclasses.replace(data, provenance={"split": "strong[heldout=3]"}))


@pytest.mark.parametrize(
    ("part", "advice"),
    [
        ([TRAIN] * 8, "the test part"),
        ([TEST] * 8, "the train part"),
        ([TRAIN, TRAIN, TRAIN, TEST] * 2, "minimum below 5, or a validation file"),
    ],
)
def test_too_little_data_is_refused_in_a_sentence(part, advice):
    with pytest.raises(DataError, match=advice):
        Given().apply(dataset_of([(u, i, 0) for u in range(2) for i in range(4)], part=part))


def test_parameters_are_checked():
    for wrong in ({"valid": 0}, {"valid": 1}, {"minimum": 1}, {"seed": -1}, {"refit": "maybe"}):
        with pytest.raises(UsageError):
            Given(**wrong)
    assert Given().text == "given[minimum=5,refit=true,seed=0,valid=0.1]"


def read_lines(path: Path):
    """Users and items of a file of `user item item …` lines."""
    lines = [np.array(line.split(), dtype=np.int32) for line in path.read_text().splitlines()]
    user = np.concatenate([np.full(len(line) - 1, line[0], dtype=np.int32) for line in lines])
    return user, np.concatenate([line[1:] for line in lines])


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.skipif(not GOWALLA.is_dir(), reason="needs data/gowalla beside the repository")
def test_gowalla_has_its_published_shape():
    files = [read_lines(GOWALLA / f"{part}.txt") for part in ("train", "test")]
    user, item = (np.concatenate(side) for side in zip(*files, strict=True))
    part = np.repeat([TRAIN, TEST], [len(users) for users, _ in files]).astype(np.int8)
    ids = [ids_from(range(int(side.max()) + 1)) for side in (user, item)]
    split = Given().apply(Dataset("gowalla", user, item, *ids, part=part))
    assert PARTS[TEST] == "test"
    assert split.full.shape == (29_858, 40_981)
    assert split.full.nnz == 810_128
    assert split.test.target.nnz == 217_242
    assert len(split.test.users) == 29_858
    assert split.test.history is split.full
    assert split.train.nnz + split.valid.target.nnz == 810_128
    assert len(split.valid.users) == 29_858
    assert np.diff(split.train.indptr).min() > 0
