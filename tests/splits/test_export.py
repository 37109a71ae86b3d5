import numpy as np
import pandas as pd
import pytest

import toys
from recbench.data.readers.adjacency import read
from recbench.data.readers.archive import Limits
from recbench.errors import DataError
from recbench.splits.export import export
from recbench.splits.strong import Strong
from recbench.splits.weak import Weak


def pairs(matrix, users, items, data) -> set[tuple[str, int]]:
    rows, columns = matrix.nonzero()
    names = data.user_ids.to_pylist()
    return {(names[users[r]], int(items[c])) for r, c in zip(rows, columns, strict=True)}


@pytest.mark.parametrize(("form", "separator"), [("csv", ","), ("recbole", "\t")])
def test_a_strong_split_is_written_with_its_histories(tmp_path, form, separator):
    data = toys.two_tastes()
    split = Strong().apply(data)
    files = export(data, split, form, tmp_path / "toy")
    assert len(files) == 5
    test, history = (
        pd.read_csv(next(f for f in files if f.stem.removeprefix("toy.") == name), sep=separator)
        for name in ("test", "test_history")
    )
    part = split.test
    assert set(test.itertuples(index=False, name=None)) == pairs(
        part.target, part.users, split.items, data
    )
    assert set(history.itertuples(index=False, name=None)) == pairs(
        part.history, part.users, split.items, data
    )


def test_a_weak_split_comes_back_through_our_own_reader(tmp_path):
    data = toys.two_tastes()
    split = Weak().apply(data)
    files = {path.name: path for path in export(data, split, "lightgcn", tmp_path / "toy")}
    assert "valid_history.txt" not in files
    parts = {"parts": ["train", "test"]}
    rows = read([files["train.txt"], files["test.txt"]], parts, Limits()).table.to_pandas()
    assert (rows["part"] == 0).sum() == split.train.nnz
    assert (rows["part"] == 2).sum() == split.test.target.nnz
    listed = files["user_list.txt"].read_text().splitlines()
    assert listed[:2] == ["org_id remap_id", "u000 0"]


def test_parquet_has_numbers_and_what_they_stand_for(tmp_path):
    data = toys.two_tastes()
    split = Weak().apply(data)
    files = {path.name: path for path in export(data, split, "parquet", tmp_path / "toy")}
    assert "valid_history.parquet" not in files
    users, items = (pd.read_parquet(files[f"{side}s.parquet"])["id"] for side in ("user", "item"))
    assert users.tolist() == data.user_ids.to_pylist()
    for name, matrix in (("train", split.train), ("test", split.test.target)):
        found = pd.read_parquet(files[f"{name}.parquet"])
        people = np.arange(data.n_users) if name == "train" else split.test.users
        named = set(zip(users[found["user"]], items[found["item"]].tolist(), strict=True))
        assert named == pairs(matrix, people, split.items, data)


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    data = toys.two_tastes()
    with pytest.raises(DataError, match="cannot be written"):
        export(data, Weak().apply(data), "csv", tmp_path / "file" / "toy")
