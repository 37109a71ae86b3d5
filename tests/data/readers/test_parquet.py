from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import raw

from recbench.data.readers.archive import Limits
from recbench.data.readers.parquet import read
from recbench.errors import DataError, UsageError


@pytest.fixture
def rows(tmp_path):
    def write_and_read(table, **options):
        path = tmp_path / "m.parquet"
        path.write_bytes(table if isinstance(table, bytes) else raw.parquet_of(table))
        return [tuple(row.values()) for row in read([path], options).table.to_pylist()]

    return write_and_read


def test_columns_by_name(rows):
    assert rows(raw.MINE) == [("u1", 10), ("u2", 20), ("u1", 30)]
    found = rows(raw.MINE, columns={"user": "item", "item": "user", "value": "stars"})
    assert found == [(10, "u1", 1.0), (20, "u2", 2.5), (30, "u1", 5.0)]


@pytest.mark.parametrize(
    "user",
    [
        pa.array([1, 2, 1], pa.int8()), pa.array([1, 2, 1], pa.uint64()), pa.array(["1", "2", "1"]),
        pa.array(["1", "2", "1"], pa.large_string()), pa.array(["1", "2", "1"], pa.string_view()),
        pa.array(["1", "2", "1"]).dictionary_encode(),
    ],
)  # fmt: skip
def test_integers_of_any_kind_are_int64(rows, user):
    assert rows({"user": user, "item": user}) == [(1, 1), (2, 2), (1, 1)]


def test_ids_beyond_int64_are_text(rows):
    ids = pa.array([1, 2**64 - 1], pa.uint64())
    assert rows({"user": ids, "item": [1, 2]}) == [("1", 1), ("18446744073709551615", 2)]


@pytest.mark.parametrize(
    ("times", "unit", "expected"),
    [
        (
            [datetime(2020, 1, 1), datetime(2020, 1, 1, 0, 0, 1, 500_000)],
            "s",
            [1577836800, 1577836801],
        ),
        (
            [datetime(2020, 1, 1), datetime(2020, 1, 1, 0, 0, 1, 500_000)],
            "ms",
            [1577836800000, 1577836801500],
        ),
        ([date(2020, 1, 1), date(1970, 1, 2)], "s", [1577836800, 86400]),
        ([5.0, 6.0], "s", [5, 6]),
        ([5, 6], "s", [5, 6]),
        (["2020-01-01T00:00:00Z", "1970-01-02T00:00:00Z"], "s", [1577836800, 86400]),
    ],
)
def test_times(rows, times, unit, expected):
    found = rows(
        {"user": [1, 2], "item": [1, 2], "at": times}, columns={"time": "at"}, **{"time-unit": unit}
    )
    assert [time for *_, time in found] == expected


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ({"usr": [1], "item": [1]}, {}, r"no column 'user'; did you mean 'usr'\? it has usr, item"),
        ({"user": [1.0], "item": [1]}, {}, "has double in column 'user', which cannot be the user"),
        ({"user": [True], "item": [1]}, {}, "has bool in column 'user'"),
        ({"user": [[1]], "item": [1]}, {}, "has list<.*> in column 'user'"),
        ({"user": [1, 2, None], "item": [1, 2, 3]}, {}, "row 3: there is no user id"),
        ({"user": ["1", "2", None], "item": [1, 2, 3]}, {}, "row 3: there is no user id"),
        ({"user": ["1", "2", ""], "item": [1, 2, 3]}, {}, "row 3: the user id is ''"),
        (
            {"user": [1], "item": [1], "v": [float("nan")]},
            {"value": "v"},
            "row 1: the value is nan",
        ),
        ({"user": [1], "item": [1], "v": [None]}, {"value": "v"}, "null in column 'v'"),
        (
            {"user": [1], "item": [1], "v": ["x"]},
            {"value": "v"},
            "row 1: the value 'x' is not a number",
        ),
        (
            {"user": [1], "item": [1], "v": [1.5]},
            {"time": "v"},
            "row 1: the time '1.5' is not a whole",
        ),
        (
            {"user": pa.array([], pa.int64()), "item": pa.array([], pa.int64())},
            {},
            "holds no interactions",
        ),
        (b"", {}, "cannot be read as Parquet"),
        (b"PAR1" + b"x" * 40 + b"PAR1", {}, "cannot be read as Parquet"),
        (raw.parquet_of(raw.MINE)[:-40], {}, "cannot be read as Parquet"),
        (raw.parquet_of(raw.MINE).replace(b"u2", b"u3", 1), {}, "cannot be read as Parquet: .*CRC"),
    ],
)
def test_what_is_wrong_is_one_sentence(rows, columns, options, says):
    with pytest.raises(DataError, match=says) as caught:
        rows(columns, columns=options)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"m.parquet cannot be read: there is no such file"):
        read([tmp_path / "m.parquet"], {})


def test_options(rows):
    with pytest.raises(UsageError, match="unknown parameter of parquet 'colums'"):
        rows(raw.MINE, colums={})


def test_a_bomb_is_refused(tmp_path):
    path = tmp_path / "bomb.parquet"
    zeros = np.zeros(10_000_000, dtype=np.int8)
    pq.write_table(pa.table({"user": zeros, "item": zeros}), path)
    with pytest.raises(
        DataError, match="says it has 20,000,000 cells, more than its size allows for"
    ):
        read([path], {})
    with pytest.raises(DataError, match="says it has"):
        read([path], {}, Limits(max_bytes=1000, max_ratio=1e9))


def test_parts(tmp_path):
    for name in "ab":
        (tmp_path / name).write_bytes(raw.parquet_of({"user": [1], "item": [ord(name)]}))
    table = read([tmp_path / "a", tmp_path / "b"], {"parts": ["train", "test"]}).table
    assert table["part"].to_pylist() == [0, 2]
