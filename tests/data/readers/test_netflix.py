import pytest
import raw

from recbench.data.readers import lines, netflix
from recbench.data.readers.archive import Limits
from recbench.data.readers.netflix import read
from recbench.errors import DataError, UsageError

EXACT = [
    (1488844, 1, 3.0, 1125964800),
    (822109, 1, 5.0, 1115942400),
    (1488844, 3, 4.0, 1125964800),
    (7, 17770, 1.0, 942278400),
    (2649429, 17770, 2.0, 1135987200),
]


def rows(paths, **limits):
    return [tuple(row.values()) for row in read(paths, {}, Limits(**limits)).table.to_pylist()]


@pytest.mark.parametrize("name", ["netflix", "netflix-combined"])
def test_both_layouts_give_the_same_rows_by_movie(tmp_path, name):
    assert rows(raw.SAMPLES[name].write(tmp_path)) == EXACT


def test_a_folder_of_unpacked_files(tmp_path):
    (tmp_path / "training_set").mkdir()
    raw.put(raw.MOVIES, tmp_path)
    (tmp_path / "movie_titles.txt").write_bytes(b"1,2003,Caf\xe9\n")
    assert rows([tmp_path]) == EXACT


@pytest.mark.parametrize("size", [16, 40, 64])
def test_movies_go_on_over_blocks(tmp_path, monkeypatch, size):
    monkeypatch.setattr(lines, "BLOCK", size)
    monkeypatch.setattr(netflix, "BLOCK", 3 * size)
    text = {
        movie: b"%d:\n" % movie
        + b"".join(b"%d,5,2000-01-01\n" % (10 * movie + n) for n in range(9))
        for movie in (5, 2, 8)
    }
    (tmp_path / "combined_data_1.txt").write_bytes(b"".join(text.values()))
    found = rows([tmp_path / "combined_data_1.txt"], max_line=size)
    assert [(user, movie) for user, movie, *_ in found] == [
        (10 * m + n, m) for m in (2, 5, 8) for n in range(9)
    ]


def test_blank_lines_and_missing_last_line_end(tmp_path):
    path = tmp_path / "combined_data_1.txt"
    path.write_bytes(b"\n2:\r\n1,3,2005-09-06\r\n\r\n\n9:\n1:\n5,4,2004-01-01\n\n6,4,2004-01-01")
    assert [row[:2] for row in rows([path])] == [(5, 1), (6, 1), (1, 2)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "holds no interactions"),
        (b"1:\n2:\n\n", "holds no interactions"),
        (b"7,3,2005-09-06\n", r"line 1: a header such as '1:' is expected before '7,3,2005-09-06'"),
        (b"1:\n7,3,2005-09-06\nx:\n", r"line 3: 'x' is no movie number"),
        (b"1:\n7,3,2005-09-06\n7,3\n", r"line 3: expected 'user,rating,YYYY-MM-DD', not '7,3'"),
        (
            b"1:\n\n7,3,2005-09-06\n2:\n7,x,2005-09-06\n",
            r"line 5: expected .* not '7,x,2005-09-06'",
        ),
        (b"1:\n7,3,2005-02-30\n", r"line 2: expected .* not '7,3,2005-02-30'"),
        (b"1:\n7,3,\n", r"line 2: expected"),
        (b"1:\n99999999999,3,2005-02-03\n", r"line 2: expected"),
        (b"1:\n7,300,2005-02-03\n", r"line 2: expected"),
        (b"1:\n7,3,2005-02-03,4\n", r"line 2: expected"),
        (b"1:\n7,nan,2005-02-03\n", r"line 2: expected"),
        (b"1:\n7,3,2005-02-03\0\n", r"line 2: holds a NUL byte"),
        (b"9999999999:\n7,3,2005-02-03\n", r"is no movie number"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path, text, says):
    path = tmp_path / "combined_data_1.txt"
    path.write_bytes(text)
    with pytest.raises(DataError, match=says):
        rows([path])


def test_an_archive_without_ratings(tmp_path):
    path = tmp_path / "x.tar"
    path.write_bytes(raw.tar_of({"download/probe.txt": b"1:\n"}))
    with pytest.raises(DataError, match=r"none of the files wanted; it holds 'download/probe.txt'"):
        rows([path])


def test_there_are_no_options(tmp_path):
    with pytest.raises(UsageError, match="unknown parameter of netflix 'member'"):
        read([tmp_path], {"member": "x"})
