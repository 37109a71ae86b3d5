"""Strong generalisation against a literal, slow re-implementation of the published protocol."""

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from split_toys import applied, check_split, dataset_of, parts_of, random_raw, raws, same_split

from recbench.data.dataset import Dataset, ids_from
from recbench.errors import DataError, UsageError
from recbench.splits.strong import Strong
from recbench.splits.types import Part, Split

ML20M = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "ml-20m" / "ratings.csv"
STAGES = ("validation", "test")


def literal(raw, heldout, target=0.2, minimum=5, seed=98765):
    """The six files of the protocol as lists, from rows of original ids in file order."""
    frame = pd.DataFrame([row[:2] for row in raw], columns=["user", "item"])
    users = np.array(sorted(frame["user"].unique()), dtype=object)
    np.random.seed(seed)
    users = users[np.random.permutation(len(users))]
    number = {user: position for position, user in enumerate(users)}
    end = len(users) - 2 * heldout
    trained, sids = set(users[:end]), {}
    for user, item in frame.itertuples(index=False):
        if user in trained:
            sids.setdefault(item, len(sids))
    files = {
        "unique_sid": list(sids),
        "train": [(number[u], sids[i]) for u, i in frame.itertuples(index=False) if u in trained],
    }
    groups = {"validation": users[end : end + heldout], "test": users[end + heldout :]}
    for stage, held in groups.items():
        rows = frame[frame["user"].isin(held) & frame["item"].isin(list(sids))]
        np.random.seed(seed)
        shown, asked = [], []
        for user, mine in rows.groupby("user", sort=True):
            drawn = np.zeros(len(mine), dtype=bool)
            if len(mine) >= minimum:
                size = int(target * len(mine))
                drawn[np.random.choice(len(mine), size=size, replace=False)] = True
            for item, to_find in zip(mine["item"], drawn, strict=True):
                (asked if to_find else shown).append((number[user], sids[item]))
        files[f"{stage}_tr"], files[f"{stage}_te"] = shown, asked
    return files


def ascending_rows(part: Part, matrix, first: int, split: Split):
    """The rows of a published file: users ascending by id, and so are the items of a user."""
    rows = []
    for row in np.argsort(part.users):
        mine = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
        rows += [(first + int(row), int(c)) for c in mine[np.argsort(split.items[mine])]]
    return rows


def published_files(split: Split):
    """The held-out files, for data whose file order is by user and item, and nobody left out."""
    files, first = {}, split.train.shape[0]
    for stage, part in zip(STAGES, parts_of(split), strict=True):
        files[f"{stage}_tr"] = ascending_rows(part, part.history, first, split)
        files[f"{stage}_te"] = ascending_rows(part, part.target, first, split)
        first += len(part.users)
    return files


def pairs(matrix, numbers):
    coo = matrix.tocoo()
    return sorted(zip(numbers[coo.row].tolist(), coo.col.tolist(), strict=True))


def check_literally(raw, heldout, rule):
    """Every number of a split is that of the literal protocol, or both have nobody to ask."""
    data = dataset_of(raw)
    expected = literal(raw, heldout, *rule)
    if not all(expected[f"{stage}_te"] for stage in STAGES):
        with pytest.raises(DataError, match="nobody"):
            Strong(heldout, *rule).apply(data)
        return
    split = Strong(heldout, *rule).apply(data)
    check_split(split, data)
    assert data.item_ids.take(split.items).to_pylist() == expected["unique_sid"]
    assert pairs(split.train, np.arange(split.train.shape[0])) == sorted(expected["train"])
    position = np.random.RandomState(98765).permutation(data.n_users).argsort()
    for stage, part in zip(STAGES, parts_of(split), strict=True):
        finding = {user for user, _ in expected[f"{stage}_te"]}
        shown = [row for row in expected[f"{stage}_tr"] if row[0] in finding]
        assert pairs(part.target, position[part.users]) == sorted(expected[f"{stage}_te"])
        assert pairs(part.history, position[part.users]) == sorted(shown)
        assert split.notes[f"{stage} users without an item to find"] == heldout - len(finding)


@settings(max_examples=40, deadline=None)
@given(raws(), st.integers(1, 5), st.sampled_from([(0.2, 5), (0.5, 3), (0.1, 1), (0.9, 8)]))
def test_random_data_are_divided_by_the_letter(raw, heldout, rule):
    check_literally(raw, heldout, rule)


@pytest.mark.parametrize("seed", range(12))
def test_many_users_with_too_few_rows_are_divided_by_the_letter(seed):
    raw = random_raw(seed, users=60, items=16, density=0.3, text=seed % 2 == 0)
    check_literally(raw, heldout=20, rule=(0.2, 5))


@settings(max_examples=30, deadline=None)
@given(raws())
def test_files_written_from_a_split_are_the_published_ones(raw):
    raw = sorted(raw)
    expected = literal(raw, 3, minimum=1, target=0.5)
    split = applied(Strong(3, 0.5, 1), dataset_of(raw))
    if all(n == 0 for note, n in split.notes.items() if "without" in note):
        for name, rows in published_files(split).items():
            assert rows == expected[name]


def users_of_two_items(n: int) -> Dataset:
    user = np.repeat(np.arange(n, dtype=np.int32), 2)
    item = np.tile(np.arange(2, dtype=np.int32), n)
    return Dataset("many", user, item, ids_from(range(n)), ids_from(range(2)))


@pytest.mark.parametrize(
    ("n", "head"),
    [
        (136_677, [104323, 11053, 111295, 50587, 126873]),
        (463_435, [73549, 4588, 373646, 74537, 3872]),
        (571_355, [135622, 434311, 184522, 512939, 266862]),
    ],
    ids=["ml-20m", "netflix", "msd"],
)
def test_the_permutation_of_users_is_the_published_one(n, head):
    split = Strong(heldout=1, target=0.5, minimum=2).apply(users_of_two_items(n))
    assert split.users is not None
    assert split.users[:5].tolist() == head


def test_users_of_the_published_movielens_files_come_in_this_order():
    split = Strong(10_000, target=0.5, minimum=2).apply(users_of_two_items(136_677))
    files = published_files(split)
    assert [user for user, _ in files["validation_te"][:3]] == [123737, 120983, 125128]
    assert files["test_te"][0][0] == 134677


@settings(max_examples=30, deadline=None)
@given(raws(), st.integers(0, 99))
def test_held_out_users_never_reach_training(raw, seed):
    data = dataset_of(raw)
    split = applied(Strong(heldout=4, target=0.5, minimum=2, seed=seed), data)
    assert split.users is not None
    groups = [split.users, split.valid.users, split.test.users]
    assert len(np.unique(np.concatenate(groups))) == sum(map(len, groups))
    assert split.full is None
    for part in parts_of(split):
        assert set(part.train_rows.tolist()) == {-1}
        assert part.hidden is None


@settings(max_examples=30, deadline=None)
@given(raws())
def test_every_row_is_somewhere_or_counted(raw):
    data = dataset_of(raw)
    split = applied(Strong(heldout=4, target=0.5, minimum=2), data)
    assert split.users is not None
    seen = split.train.nnz
    for stage, part in zip(STAGES, parts_of(split), strict=True):
        seen += part.history.nnz + part.target.nnz
        seen += split.notes[f"{stage} rows on items absent from train"]
    left_out = set(range(data.n_users)) - set(
        np.concatenate([split.users, split.valid.users, split.test.users]).tolist()
    )
    rows_left_out = np.isin(data.user, list(left_out)) & np.isin(data.item, split.items)
    assert seen + np.count_nonzero(rows_left_out) == len(data)


def test_columns_are_in_order_of_first_appearance_among_train_users():
    data = dataset_of(random_raw(3, 20, 12, 0.5))
    split = Strong(heldout=2).apply(data)
    in_train = np.isin(data.user, split.users)
    assert split.items.tolist() == list(dict.fromkeys(data.item[in_train].tolist()))
    assert split.items.tolist() != sorted(split.items.tolist())


def test_the_seed_decides():
    data = dataset_of(random_raw(0, 40, 20, 0.5))
    assert same_split(Strong().apply(data), Strong(seed=98765).apply(data))
    assert not same_split(Strong().apply(data), Strong(seed=98766).apply(data))


@pytest.mark.parametrize(("users", "held"), [(3, 1), (19, 1), (20, 2), (47, 4)])
def test_a_tenth_of_the_users_is_held_out_unless_told(users, held):
    data = dataset_of([(u, i, 0) for u in range(users) for i in range(5)])
    split = Strong().apply(data)
    assert len(split.valid.users) == len(split.test.users) == held
    assert split.notes["users held out for each part"] == held


def test_no_more_than_ten_thousand_users_are_held_out_unless_told():
    split = Strong(target=0.5, minimum=2).apply(users_of_two_items(120_000))
    assert len(split.test.users) == 10_000


def test_users_without_rows_are_no_users():
    full = dataset_of([(u, i, 0) for u in range(12) for i in range(6)])
    gaps = Dataset("gaps", full.user * 2, full.item, ids_from(range(24)), full.item_ids)
    one, other = Strong(heldout=2).apply(full), Strong(heldout=2).apply(gaps)
    assert one.users is not None
    assert other.users is not None
    assert other.users.tolist() == (one.users * 2).tolist()


@pytest.mark.parametrize(
    ("raw", "rule", "error", "advice"),
    [
        ([(0, i, 0) for i in range(9)], Strong(), DataError, "use weak"),
        ([(u, i, 0) for u in range(2) for i in range(9)], Strong(), DataError, "use weak"),
        ([(u, 0, 0) for u in range(9)], Strong(), DataError, "smaller minimum"),
        ([(u, i, 0) for u in range(9) for i in range(4)], Strong(), DataError, "smaller minimum"),
        ([(u, i, 0) for u in range(9) for i in range(4)], Strong(5), UsageError, "heldout=4 or"),
        ([], Strong(), DataError, "no interactions"),
    ],
)
def test_too_little_data_is_refused_in_a_sentence(raw, rule, error, advice):
    with pytest.raises(error, match=advice):
        rule.apply(dataset_of(raw))


def test_parameters_are_checked():
    for wrong in ({"target": 1}, {"target": 0}, {"minimum": 0}, {"heldout": -1}, {"seed": 2**32}):
        with pytest.raises(UsageError):
            Strong(**wrong)
    assert Strong.name == "strong"
    assert Strong().text == "strong[heldout=0,minimum=5,seed=98765,target=0.2]"


def digest(lines):
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.skipif(not ML20M.is_file(), reason="needs ml-20m/ratings.csv beside the repository")
def test_movielens_20m_gives_the_published_files():
    frame = pd.read_csv(ML20M)
    frame = frame[frame["rating"] > 3.5]
    frame = frame[frame.groupby("userId")["userId"].transform("size") >= 5]
    (users, user), (items, item) = (
        np.unique(frame[side], return_inverse=True) for side in ("userId", "movieId")
    )
    data = Dataset(
        "ml-20m",
        user.astype(np.int32),
        item.astype(np.int32),
        ids_from(users.tolist()),
        ids_from(items.tolist()),
    )
    split = Strong(heldout=10_000).apply(data)
    files = published_files(split)
    te = {s: ["uid,sid", *(f"{u},{i}" for u, i in files[f"{s}_te"])] for s in STAGES}
    assert (split.train.shape[0], len(split.items)) == (116_677, 20_108)
    assert (
        digest(items[split.items])
        == "b9f95107e156c2feaf78439ae302001abf13bdb480aeedcb0e4d8382f2f8b76f"
    )
    assert (
        digest(te["validation"])
        == "bec3f6dfbe876ec2224e98458ffe2ff74c453ef1894644757c1e3ca747a26adf"
    )
    assert digest(te["test"]) == "df4a9ddc77c79bab4a581adec7ff1487de146d47b42c35c393696842252435c2"
