import gzip
import io
import re

import pytest
import raw
from hypothesis import given, settings
from hypothesis import strategies as st

from recbench.data.readers import mysqldump
from recbench.data.readers.archive import Limits, Member
from recbench.data.readers.mysqldump import Dump
from recbench.data.readers.wikipedia import read
from recbench.errors import DataError, UsageError


def links(paths, **options):
    table = read(paths, options).table
    return list(zip(table["user"].to_pylist(), table["item"].to_pylist(), strict=True))


@pytest.fixture
def dumps(tmp_path):
    return raw.SAMPLES["wikipedia"].write(tmp_path)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [(1, 2), (1, 3), (1, 1), (3, 2)]),
        ({"targets": "links"}, [(1, 101), (1, 102), (1, 103), (1, 105), (3, 101)]),
        ({"redirect-sources": False}, [(1, 2), (1, 3), (1, 1)]),
        ({"resolve-redirects": True}, [(1, 2), (1, 12), (1, 1), (3, 2)]),
        ({"self-links": False}, [(1, 2), (1, 3), (3, 2)]),
        ({"self-links": False, "targets": "links"}, [(1, 101), (1, 102), (1, 103), (3, 101)]),
        ({"namespaces": "all"}, [(1, 2), (1, 3), (1, 9), (1, 1), (9, 2), (3, 2)]),
        ({"namespaces": "all", "targets": "links"},
         [(1, 101), (1, 102), (1, 103), (1, 104), (1, 105), (9, 101), (3, 101)]),
    ],
)  # fmt: skip
def test_every_open_choice(dumps, options, expected):
    assert links(dumps, **options) == expected


def test_a_folder_will_do_and_plain_dumps(tmp_path, dumps):
    expected = links(dumps)
    assert links([tmp_path]) == expected
    (tmp_path / "plain").mkdir()
    assert links(raw.SAMPLES["wikipedia-plain"].write(tmp_path / "plain")) == expected


@pytest.mark.parametrize("size", [900, 1100, 1500])
def test_rows_go_on_over_chunks(dumps, monkeypatch, size):
    expected = links(dumps, **{"resolve-redirects": True})
    monkeypatch.setattr(mysqldump, "BLOCK", size)
    assert links(dumps, **{"resolve-redirects": True}) == expected


def test_redirects_out_of_the_wiki_lead_nowhere(tmp_path):
    rows = {**raw.ROWS, "redirect": [[b"3,0,'April','fr',NULL"]]}
    paths = raw.put({table: raw.dump(table, rows[table]) for table in rows}, tmp_path)
    assert links(paths, **{"resolve-redirects": True}) == [(1, 2), (1, 1), (3, 2)]


def test_a_table_that_is_missing(dumps):
    with pytest.raises(
        DataError, match="the table `linktarget` is missing; there is page, pagelinks"
    ):
        links(dumps[:2])
    with pytest.raises(DataError, match="the table `redirect` is missing"):
        links(dumps[:3], **{"resolve-redirects": True})
    assert links(dumps[:3])
    with pytest.raises(DataError, match="holds `page`, as another file does"):
        links([dumps[0], *dumps])


def test_options(dumps):
    with pytest.raises(UsageError, match="it needs targets=pages"):
        links(dumps, targets="links", **{"resolve-redirects": True})
    with pytest.raises(
        UsageError, match="unknown parameter of wikipedia 'target'; did you mean 'targets'"
    ):
        links(dumps, target="pages")


def dump_of(text, max_line=1 << 20):
    return Dump(Member("x.sql", "x.sql", io.BytesIO(text)), Limits(max_line=max_line))


def targets(text, **limits):
    """The rows of a linktarget dump."""
    found = []
    for batch in dump_of(text, **limits).batches(["lt_id", "lt_namespace"], ["lt_title"]):
        columns = [
            batch.numbers["lt_id"].tolist(),
            batch.numbers["lt_namespace"].tolist(),
            batch.texts["lt_title"].to_pylist(),
        ]
        found += list(zip(*columns, strict=True))
    return found


def escaped(title):
    """Escape as mysqldump does."""
    marks = {
        "\0": "\\0",
        "\n": "\\n",
        "\r": "\\r",
        "\x1a": "\\Z",
        "'": "\\'",
        '"': '\\"',
        "\\": "\\\\",
    }
    return "".join(marks.get(mark, mark) for mark in title).encode()


TITLE = st.text(
    st.one_of(st.sampled_from("'\"\\(),;\n\0\x1a é"), st.characters(codec="utf-8")), max_size=8
)
ROW = st.tuples(st.integers(-(10**17), 10**17), st.integers(0, 15), TITLE)


@settings(deadline=None)
@given(
    st.lists(st.lists(ROW, min_size=1, max_size=4), max_size=3),
    st.integers(200, 900),
    st.sampled_from([b",", b",\n", b", "]),
)
def test_any_title_comes_back(statements, size, glue):
    text = raw.dump(
        "linktarget",
        [[b"%d,%d,'%s'" % (*row[:2], escaped(row[2])) for row in rows] for rows in statements],
        glue,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mysqldump, "BLOCK", size)
        found = targets(text)
    assert found == [row for rows in statements for row in rows]


def test_null_character_sets_and_statements_in_several_lines():
    rows = [[b"1,NULL,NULL", b"2,0,_binary 'a'"]]
    assert targets(raw.dump("linktarget", rows)) == [(1, -(2**63), ""), (2, 0, "a")]
    text = raw.dump("linktarget", [[b"1,0,'a'", b"2,0,'b'"]], b",\n").replace(
        b"VALUES (", b"VALUES\n("
    )
    assert targets(text) == [(1, 0, "a"), (2, 0, "b")]


GOOD = raw.dump("linktarget", [[b"1,0,'a'", b"2,0,'b'"]])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "is no mysqldump file: it creates no table"),
        (b"hello\n" * 100, "is no mysqldump file"),
        (GOOD[: GOOD.index(b"'b'") + 2], "is cut short: its last statement has no end"),
        (GOOD[: GOOD.index(b"(2")], "is cut short: its last statement has no end"),
        (GOOD.replace(b"(2,0,'b')", b"(2,0)"), r"has something other than a row at '\(2,0\);"),
        (GOOD.replace(b"(2,0,'b')", b"(2,0,'b',4)"), "has something other than a row"),
        (GOOD.replace(b"(2,0,'b')", b"(x,0,'b')"), "has something other than a row"),
        (GOOD.replace(b"(2,0,'b')", b"(2.5,0,'b')"), "has something other than a row"),
        (GOOD.replace(b"(2,0,'b')", b"(,0,'b')"), "has something other than a row"),
        (GOOD.replace(b"(2,0,'b')", b"(-,0,'b')"), "has something other than a row"),
        (GOOD.replace(b"(2,0,'b')", b"(%s,0,'b')" % (b"9" * 19)), "has something other than a row"),
        (GOOD.replace(b"(2,0,'b')", b"rubbish"), "has something other than a row at 'rubbish"),
        (GOOD.replace(b"'b'", b"'\xff'"), "has text in `linktarget` that is not UTF-8"),
        (
            GOOD.replace(b"lt_title", b"lt_name"),
            "has no column 'lt_title' in `linktarget`: lt_id, lt_namespace, lt_name",
        ),
        (GOOD.replace(b"INTO `linktarget`", b"INTO `other`"), "holds several tables"),
        (GOOD.replace(b"'b'", b"'%s'" % (b"b" * 5000)), "more than 2,000 bytes that make no row"),
        (b"-" * 9000, "more than 2,000 bytes that make no row"),
    ],
)
def test_what_is_wrong_is_one_sentence(text, says):
    with pytest.raises(DataError, match=says):
        targets(text, max_line=2000)


@pytest.mark.parametrize("cut", range(10, 400, 23))
def test_a_cut_archive_never_reads_well(tmp_path, dumps, cut):
    text = dumps[1].read_bytes()
    dumps[1].write_bytes(text[:-cut])
    with pytest.raises(DataError, match=r"cut short|cannot be read|no mysqldump"):
        links(dumps)


def test_a_table_without_rows(tmp_path, dumps):
    dumps[0].write_bytes(gzip.compress(raw.dump("page", [])))
    with pytest.raises(DataError, match="has no pages of the namespaces asked for"):
        links(dumps)


def test_older_dumps_are_named(tmp_path, dumps):
    text = gzip.decompress(dumps[1].read_bytes())
    dumps[1].write_bytes(re.sub(b"pl_target_id", b"pl_title", text))
    with pytest.raises(DataError, match="has no column 'pl_target_id' in `pagelinks`: pl_from"):
        links(dumps)
