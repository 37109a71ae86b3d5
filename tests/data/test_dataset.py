"""Interactions, Dataset, and the Parquet file between two commands."""

import hashlib
import json
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toys
from recbench.data import dataset as module
from recbench.data import parquet
from recbench.data.dataset import Dataset, ids_from, load_embedded
from recbench.data.interactions import Interactions
from recbench.errors import DataError

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"


def dataset(user, item, users, items, **more):
    """A dataset from plain lists."""
    user, item = (np.asarray(side, dtype=np.int32) for side in (user, item))
    return Dataset("toy", user, item, ids_from(users), ids_from(items), **more)


TOY = dataset(
    [0, 2, 1, 2],
    [1, 0, 1, 1],
    ["ß", "é", "é\n"],
    [-(10**12), 7],
    time=np.array([5, 4, 3, 2**40]),
    part=np.array([0, 0, 2, 1], dtype=np.int8),
    provenance={"file": "x", "rows": {"read": 9}},
)


def same(one, other):
    """Whether two datasets hold the same, with the same types."""
    arrays = [(getattr(d, n) for n in ("user", "item", "time", "part")) for d in (one, other)]
    return (
        all(
            (a is None and b is None) or (a.dtype == b.dtype and np.array_equal(a, b))
            for a, b in zip(*arrays, strict=True)
        )
        and one.user_ids.equals(other.user_ids)
        and one.item_ids.equals(other.item_ids)
        and (one.name, dict(one.provenance)) == (other.name, dict(other.provenance))
    )


def test_a_dataset_survives_its_file(tmp_path):
    TOY.save(tmp_path / "new" / "toy.parquet")
    assert same(Dataset.load(tmp_path / "new" / "toy.parquet"), TOY)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["toy.parquet"]


def test_the_fingerprint_is_kept_and_not_computed_again(tmp_path):
    TOY.save(tmp_path / "toy.parquet")
    loaded = Dataset.load(tmp_path / "toy.parquet")
    assert "fingerprint" in vars(loaded)
    assert loaded.fingerprint == TOY.fingerprint


@settings(max_examples=50, deadline=None)
@given(
    st.sets(st.tuples(st.integers(0, 8), st.integers(0, 3)), max_size=30),
    st.sampled_from([2, 5, 1 << 20]),
)
def test_columns_of_any_length_survive_in_any_row_group(tmp_path_factory, pairs, group):
    """Also where users or items outnumber the rows, and where there are no rows at all."""
    user, item = zip(*pairs, strict=True) if pairs else ((), ())
    one = dataset(user, item, [f"u{n}" for n in range(9)], range(4))
    path = tmp_path_factory.mktemp("groups") / "toy.parquet"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "ROW_GROUP", group)
        one.save(path)
        assert same(Dataset.load(path), one)


def test_the_same_dataset_gives_the_same_bytes(tmp_path):
    for name in ("a.parquet", "b.parquet"):
        TOY.save(tmp_path / name)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_other_tools_read_the_file(tmp_path):
    TOY.save(tmp_path / "toy.parquet")
    table = pq.read_table(tmp_path / "toy.parquet")
    assert table.column_names == ["user", "item", "time", "part", "user_id", "item_id"]
    assert table["item"].to_pylist() == TOY.item.tolist()
    assert table["item_id"].to_pylist() == [-(10**12), 7, None, None]


def test_damage_at_any_byte_is_noticed(tmp_path):
    path = tmp_path / "toy.parquet"
    TOY.save(path)
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="is damaged"):
            Dataset.load(path)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda whole: b"",
        lambda whole: whole[:5],
        lambda whole: whole[:-1],
        lambda whole: whole[1:],
        lambda whole: whole + b"\0",
        lambda whole: whole * 2,
        lambda whole: b"\xff" * len(whole),
        lambda whole: whole.replace(parquet.SEAL, b""),
    ],
)
def test_a_cut_or_grown_file_is_noticed(tmp_path, spoil):
    path = tmp_path / "toy.parquet"
    TOY.save(path)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(DataError, match="is damaged"):
        Dataset.load(path)


def test_a_parquet_file_of_somebody_else_is_no_dataset(tmp_path):
    pq.write_table(pa.table({"user": [1], "item": [2]}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match="not a recbench dataset"):
        Dataset.load(tmp_path / "x.parquet")


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        Dataset.load(tmp_path / "x.parquet")
    with pytest.raises(DataError, match="does not exist"):
        load_embedded("no-such-dataset")


def test_a_file_of_a_newer_layout_asks_for_an_upgrade(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FORMAT", module.FORMAT + 1)
    TOY.save(tmp_path / "toy.parquet")
    monkeypatch.undo()
    with pytest.raises(DataError, match="upgrade"):
        Dataset.load(tmp_path / "toy.parquet")


def test_an_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "toy.parquet"
    TOY.save(path)
    before = path.read_bytes()

    def fail(path):
        raise KeyboardInterrupt

    monkeypatch.setattr(parquet, "seal", fail)
    with pytest.raises(KeyboardInterrupt):
        dataset([0], [0], [1], [1]).save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["toy.parquet"]


def content_hash(pairs):
    """The canonical content hash, as its definition reads."""
    return hashlib.sha256("".join(f"{u} {i}\n" for u, i in sorted(pairs)).encode()).hexdigest()


def test_the_fingerprint_is_the_hash_of_sorted_pairs_of_original_ids():
    one = dataset([1, 0, 1], [1, 1, 0], [3, 20], [-4, 100])
    assert one.fingerprint == content_hash([(20, 100), (3, 100), (20, -4)])


def test_the_fingerprint_of_parts_hashes_the_hash_of_each():
    pairs = {"train": [("ß", 7), ("é\n", -(10**12))], "valid": [("é\n", 7)], "test": [("é", 7)]}
    lines = "".join(f"{part} {content_hash(some)}\n" for part, some in pairs.items())
    assert TOY.fingerprint == hashlib.sha256(lines.encode()).hexdigest()
    assert TOY.part_fingerprint("valid") == content_hash(pairs["valid"])
    with pytest.raises(DataError, match="did not come in parts"):
        dataset([0], [0], [1], [1]).part_fingerprint("train")


def test_the_fingerprint_sees_ids_and_pairs_but_not_order():
    base = dataset([0, 1], [0, 1], [1, 2], [1, 2])
    assert dataset([1, 0], [1, 0], [1, 2], [1, 2]).fingerprint == base.fingerprint
    assert dataset([0, 1], [1, 0], [1, 2], [1, 2]).fingerprint != base.fingerprint
    assert dataset([0, 1], [0, 1], [1, 3], [1, 2]).fingerprint != base.fingerprint


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize(
    ("part", "digest"),
    [
        ("train", "2ddf160a77f38b0018bd6c77cf3dcb40dd98bb50518b17d599732301f8541e75"),
        ("test", "9d1add1d4eac36738054fd06efc7fb70acccad526848d78c10fee33498517395"),
    ],
)
def test_the_canonical_hashes_of_gowalla(part, digest):
    path = SHARED / "gowalla" / f"{part}.txt"
    if not path.exists():
        pytest.skip("the real data does not stand beside the repository")
    lines = [np.fromstring(line, dtype=np.int64, sep=" ") for line in path.read_text().splitlines()]
    user = np.repeat([line[0] for line in lines], [len(line) - 1 for line in lines])
    item = np.concatenate([line[1:] for line in lines])
    one = dataset(user, item, range(29_858), range(40_981))
    assert one.fingerprint == digest


def test_the_matrix_has_a_one_for_each_pair():
    dense = TOY.matrix.toarray()
    assert dense.dtype == np.float32
    assert dense.tolist() == [[0, 1], [0, 1], [1, 1]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"user": [1]}, "no column 'item'"),
        ({}, "no column 'user' among none"),
        ({"user": [1, None], "item": [1, 1]}, "1 rows have no user id"),
        ({"user": ["a", "b"], "item": pa.array(["x", None]).dictionary_encode()}, "no item id"),
        (
            {
                "user": [1, 2],
                "item": pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", None])),
            },
            "1 rows have no item id",
        ),
        ({"user": [1.5], "item": [1]}, "user ids must be integers or text, not double"),
        ({"user": [1], "item": [1], "value": [3]}, "'value' must be double, not int64"),
        ({"user": [1], "item": [1], "time": pa.array([None], pa.int64())}, "1 rows have no time"),
        ({"user": [1], "item": [1], "part": [0]}, "'part' must be int8"),
    ],
)
def test_a_table_that_is_not_interactions_is_refused(columns, message):
    with pytest.raises(DataError, match=message):
        Interactions(pa.table(columns))


def test_interactions_count_their_rows():
    assert len(Interactions(pa.table({"user": [1, 2], "item": ["x", "y"]}))) == 2


def test_the_header_is_json_that_anybody_can_read(tmp_path):
    TOY.save(tmp_path / "toy.parquet")
    header = json.loads(pq.read_metadata(tmp_path / "toy.parquet").metadata[b"recbench"])
    assert header["name"] == "toy"
    assert (header["users"], header["items"], header["rows"]) == (3, 2, 4)
    assert header["fingerprint"] == TOY.fingerprint


def test_what_a_killed_preparation_left_goes(tmp_path):
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    left = tmp_path / f".toy-1.parquet.{platform.node()}-{done.pid}.part"
    left.write_bytes(b"half")
    toys.two_tastes().save(tmp_path / "toy-2.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["toy-2.parquet"]


def test_a_header_that_is_none_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FORMAT", "x")
    toys.two_tastes().save(tmp_path / "toy.parquet")
    with pytest.raises(DataError, match=r"toy\.parquet is not .*format: must be a whole number"):
        Dataset.load(tmp_path / "toy.parquet")
