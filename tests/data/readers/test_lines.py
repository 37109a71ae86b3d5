import io
import threading
import time
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recbench.data.readers.archive import Limits, Member
from recbench.data.readers.lines import ahead, blocks, end_of_quoted_lines
from recbench.errors import DataError, UsageError


def member(text):
    return Member("x.csv", "x.csv", io.BytesIO(text))


def cut(text, max_line=8, **more):
    return list(blocks(member(text), Limits(max_line=max_line), **more))


def joined(found):
    return b"".join(block.text for block in found)


@settings(deadline=None)
@given(st.lists(st.text("ab,é", max_size=3), max_size=30), st.integers(8, 20), st.booleans())
def test_blocks_are_whole_lines_and_nothing_is_lost(lines, max_line, ended):
    text = "\n".join(lines).encode() + b"\n" * ended
    found = cut(text, max_line)
    assert joined(found) == text + b"\n" * bool(text and not text.endswith(b"\n"))
    line = 1
    for block in found:
        assert block.text.endswith(b"\n")
        assert (block.line, block.lines) == (line, block.text.count(b"\n"))
        line += block.lines


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n"]), max_size=40), st.integers(4, 9)
)
def test_every_kind_of_line_end_is_one(pieces, max_line):
    text = b"".join(pieces)
    plain = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if max(map(len, plain.split(b"\n"))) > max_line:
        return
    assert joined(cut(text, max_line)).rstrip(b"\n") == plain.rstrip(b"\n")


def test_a_mark_in_front_is_no_text():
    assert joined(cut(b"\xef\xbb\xbfa\n")) == b"a\n"
    assert joined(cut("a,é\nb".encode("utf-16"), encoding="utf-16")) == "a,é\nb\n".encode()
    assert joined(cut("a,é\n".encode("latin-1"), encoding="latin-1")) == "a,é\n".encode()


def test_nothing_gives_no_blocks():
    assert cut(b"") == []


@pytest.mark.parametrize("place", [0, 1, 7, 8, 9, 100])
def test_a_long_line_is_refused_by_number(place):
    text = b"a\n" * place + b"b" * 9 + b"\nc\n"
    with pytest.raises(
        DataError, match=rf"^x.csv, line {place + 1}: longer than the limit of 8 bytes$"
    ):
        cut(text)
    assert joined(cut(b"b" * 8 + b"\n")) == b"b" * 8 + b"\n"


def test_an_endless_line_is_not_read_to_its_end():
    class Endless:
        given = 0

        def read(self, size):
            self.given += size
            assert self.given < 100
            return b"a" * size

    stream = Endless()
    with pytest.raises(DataError, match="line 1: longer than"):
        list(blocks(Member("x", "x", stream), Limits(max_line=20)))


@pytest.mark.parametrize(
    ("text", "encoding", "says"),
    [
        (b"a\nb\0c\n", "utf-8", r"x.csv, line 2: holds a NUL byte"),
        ("a,b".encode("utf-16"), "utf-8", "is UTF-16 text; pass encoding=utf-16"),
        ("a,b".encode("utf-16-be"), "utf-8", "NUL byte"),
        (b"a\x00b", "utf-16", "is not text in the encoding asked for"),
    ],
)
def test_what_is_no_text(text, encoding, says):
    with pytest.raises(DataError, match=says):
        cut(text, encoding=encoding)


def test_an_encoding_that_does_not_exist():
    with pytest.raises(UsageError, match="unknown encoding 'utf-9'; try utf-8"):
        cut(b"a", encoding="utf-9")


@settings(deadline=None)
@given(st.text('a"\n', max_size=30))
def test_quoted_line_ends_do_not_end_a_row(text):
    end = end_of_quoted_lines(text.encode())
    ends = [
        at + 1 for at, mark in enumerate(text) if mark == "\n" and text[:at].count('"') % 2 == 0
    ]
    assert end == max(ends, default=0)


def test_looking_ahead_changes_nothing_and_raises_in_order():
    def items():
        yield from range(5)
        raise DataError("here")

    found = ahead(items())
    assert [next(found) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(DataError, match="here"):
        next(found)


def test_looking_ahead_leaves_no_thread():
    before = set(threading.enumerate())  # of which some may be about to end

    def added() -> set[threading.Thread]:
        return set(threading.enumerate()) - before

    text = ahead(iter(range(10)))
    assert next(text) == 0
    assert len(added()) == 1
    text.close()
    assert not added()


def test_looking_ahead_ends_before_what_it_reads_is_closed():
    """A file must not be closed while the thread is still reading from it."""
    going, done = threading.Event(), []

    def items():
        yield 1
        going.set()
        time.sleep(0.05)
        done.append(True)
        yield 2

    with closing(ahead(items())) as text:
        assert next(text) == 1
        going.wait()
    assert done == [True]
