from pathlib import Path

import pytest
import raw
from hypothesis import given, settings
from hypothesis import strategies as st

from recbench.data.readers import lines
from recbench.data.readers.adjacency import read
from recbench.errors import DataError, UsageError

SHARED = Path(__file__).resolve().parents[3].parent / "shared"


def rows(text, folder, options=None):
    path = folder / "a.txt"
    path.write_bytes(text)
    return listed(read([path], options or {}))


def listed(interactions):
    return [tuple(row.values()) for row in interactions.table.to_pylist()]


def test_train_and_test_are_parts_and_empty_users_are_harmless(tmp_path):
    sample = raw.SAMPLES["adjacency"]
    assert listed(read(sample.write(tmp_path), sample.options)) == [
        (0, 7580, 0), (0, 3730, 0), (0, 5983, 0), (1, 31613, 0), (2, 5, 0), (2, 6, 0),
        (0, 12, 2), (0, 13, 2), (2, 9, 2),
    ]  # fmt: skip


def test_citeulike_counts_and_numbers_users_by_line(tmp_path, monkeypatch):
    expected = [(0, 496), (0, 1631), (2, 2318), (2, 2526), (2, 7)]
    assert rows(raw.CITEULIKE, tmp_path, {"count-first": True}) == expected
    monkeypatch.setattr(lines, "BLOCK", 20)
    assert rows(raw.CITEULIKE, tmp_path, {"count-first": True}) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"0  1\t2 \r\n\n1 3", [(0, 1), (0, 2), (1, 3)]),
        (b"a x y\nb x\n", [("a", "x"), ("a", "y"), ("b", "x")]),
        (b"007 1\n", [("007", 1)]),
        (b"-1 9223372036854775808\n", [(-1, "9223372036854775808")]),
        (b"\xef\xbb\xbf0 1\n", [(0, 1)]),
    ],
)
def test_what_can_be_read(tmp_path, text, expected):
    assert rows(text, tmp_path) == expected


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (b"", {}, "a.txt holds no interactions"),
        (b"\n \n5\n6 \n", {}, "a.txt holds no interactions"),
        (b"0 1\n1 nan\n", {}, "line 2: the item id is 'nan'"),
        (b"0 1\n\n1 2 NULL\n", {}, "line 3: the item id is 'NULL'"),
        (b"0 1\n1 \xff\n", {}, "line 2: this is not UTF-8 text"),
        (b"0 1\n1 2\0\n", {}, "line 2: holds a NUL byte"),
        (b"0 1\x1f2\n", {}, "line 1: here or below, CSV parse error"),
        (b"1 5\n\n3 5 6\n", {"count-first": True}, "line 3: says '3' items and has 2"),
        (b"x 5\n", {"count-first": True}, "line 1: says 'x' items and has 1"),
        (b"01 5\n", {"count-first": True}, "line 1: says '01' items and has 1"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path, text, options, says):
    with pytest.raises(DataError, match=says):
        rows(text, tmp_path, options)


def test_options(tmp_path):
    with pytest.raises(
        UsageError, match="unknown parameter of adjacency 'count-frist'; did you mean 'count-first'"
    ):
        rows(b"0 1\n", tmp_path, {"count-frist": True})


@settings(deadline=None)
@given(
    st.dictionaries(
        st.integers(0, 99), st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=9
    ),
    st.integers(24, 60),
)
def test_any_lists_come_back(tmp_path_factory, lists, size):
    text = "".join(" ".join(map(str, [user, *items])) + "\n" for user, items in lists.items())
    expected = [(user, item) for user, items in lists.items() for item in items]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK", size)
        if expected:
            assert rows(text.encode(), tmp_path_factory.mktemp("a")) == expected


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.skipif(not (SHARED / "data/gowalla").exists(), reason="needs the real Gowalla files")
def test_gowalla():
    files = [SHARED / "data/gowalla" / name for name in ("train.txt", "test.txt")]
    table = read(files, {"parts": ["train", "test"]}).table
    part = table["part"].to_numpy()
    assert ((part == 0).sum(), (part == 2).sum()) == (810_128, 217_242)
    assert len(table["user"].unique()) == 29_858
    assert len(table["item"].unique()) == 40_981
