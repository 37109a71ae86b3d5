"""Text in blocks of whole lines: checked, of bounded size, read ahead in the background."""

import codecs
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from recbench.data.readers.archive import Limits, Member
from recbench.data.readers.streams import read_full, shown
from recbench.errors import DataError, UsageError

T = TypeVar("T")
BLOCK = 1 << 22
"""Bytes parsed at a time: large enough for Arrow to use every core, small beside any table."""

WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class Block:
    """Whole lines of a member, each ended by a line feed."""

    member: Member
    text: bytes
    line: int
    """The number of the first line, from 1."""
    lines: int
    """How many there are."""

    @classmethod
    def of(cls, member: Member, text: bytes, line: int) -> "Block":
        """Make a block of text that follows `line - 1` lines."""
        return cls(member, text, line, text.count(b"\n"))

    def after(self, cut: int) -> "Block":
        """The rest of the block from a line start on."""
        skipped = self.text.count(b"\n", 0, cut)
        return Block(self.member, self.text[cut:], self.line + skipped, self.lines - skipped)

    def error(self, text: str, line: int = 0) -> DataError:
        """Build the error that names a line, counted from the start of this block."""
        return self.member.error(text, self.line + line)

    def parse_error(self, reason: Exception, advice: str = "") -> DataError:
        """Build the error for a block that Arrow cannot parse: most often it is not UTF-8."""
        try:
            self.text.decode()
        except UnicodeDecodeError as wrong:
            line = self.text.count(b"\n", 0, wrong.start)
            return self.error("this is not UTF-8 text" + advice, line)
        return self.error(f"here or below, {shown(str(reason))}")

    def row_error(self, text: str, row: int) -> DataError:
        """Build the error that names the line of a row: blank lines are not rows."""
        lines = self.text.split(b"\n")
        filled = (number for number, line in enumerate(lines) if line.strip())
        for _ in range(row):
            next(filled, None)
        return self.error(text, next(filled, 0))


def end_of_lines(text: bytes) -> int:
    """Where the last whole line of a piece of text ends; 0 if there is none."""
    return text.rfind(b"\n") + 1


def end_of_quoted_lines(text: bytes) -> int:
    """The same where quoted fields may hold line ends: the quotes before it are paired."""
    end, quotes = end_of_lines(text), text.count(b'"')
    quotes -= text.count(b'"', end)
    while end and quotes % 2:
        before = text.rfind(b"\n", 0, end - 1) + 1
        quotes -= text.count(b'"', before, end)
        end = before
    return end


def blocks(
    member: Member,
    limits: Limits,
    encoding: str = "utf-8",
    whole: Callable[[bytes], int] = end_of_lines,
) -> Iterator[Block]:
    """Cut a member into blocks of whole lines, with one kind of line end and no marks.

    A line longer than the limit is refused before more of it is read.
    """
    rest, line = b"", 1
    for piece in _pieces(member, min(BLOCK, limits.max_line), encoding):
        text = rest + piece
        end = whole(text)
        rest = text[end:]
        block = Block.of(member, text[:end], line)
        line += block.lines
        if text.find(b"\n") > limits.max_line or len(rest) > limits.max_line:
            long = block.line if text.find(b"\n") > limits.max_line else line
            raise member.error(f"longer than the limit of {limits.max_line:,} bytes", long)
        if end:
            yield _checked(block)
    if rest:
        yield _checked(Block.of(member, rest + b"\n", line))


def _pieces(member: Member, size: int, encoding: str) -> Iterator[bytes]:
    """Read UTF-8 with line feeds, whatever the encoding and line ends of the file."""
    decoder = None if encoding == "utf-8" else _decoder(encoding)
    held, first = b"", True
    while piece := read_full(member.stream, size):
        if decoder:
            piece = _transcode(member, decoder, piece)
        elif first and piece.startswith(WIDE):
            raise member.error("is UTF-16 text; pass encoding=utf-16 or save it as UTF-8")
        if first:
            piece, first = piece.removeprefix(codecs.BOM_UTF8), False
        piece = held + piece
        held = b"\r" if piece.endswith(b"\r") else b""  # half of a line end, perhaps
        yield _line_feeds(piece.removesuffix(b"\r"))
    if decoder:
        _transcode(member, decoder, b"")
    if held:
        yield b"\n"


def _line_feeds(text: bytes) -> bytes:
    if b"\r" in text:
        return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return text


def _decoder(encoding: str) -> codecs.IncrementalDecoder:
    try:
        return codecs.getincrementaldecoder(encoding)()
    except LookupError:
        raise UsageError(f"unknown encoding '{encoding}'; try utf-8, latin-1 or utf-16") from None


def _transcode(member: Member, decoder: codecs.IncrementalDecoder, piece: bytes) -> bytes:
    try:
        return decoder.decode(piece, final=not piece).encode()
    except UnicodeError as error:
        raise member.error(f"is not text in the encoding asked for: {shown(str(error))}") from None


def _checked(block: Block) -> Block:
    zero = block.text.find(b"\0")
    if zero >= 0:
        raise block.error(
            "holds a NUL byte, so this is no text file", block.text.count(b"\n", 0, zero)
        )
    return block


class ahead(Iterator[T]):  # noqa: N801 - used like a function
    """The same items, each made while the one before it is being used.

    Unpacking holds no lock, so one core unpacks while the others parse. To be used
    `with closing(…)`: whatever the items come from may be closed after that, and not before.
    """

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._pending = self._pool.submit(next, items, None)

    def __next__(self) -> T:
        """The next item, and on to the one after it."""
        item = self._pending.result()
        if item is None:
            self.close()
            raise StopIteration
        self._pending = self._pool.submit(next, self._items, None)
        return item

    def close(self) -> None:
        """Wait for the item being made, and stop."""
        # Not when this is collected: that may be in any thread, which must not wait for another.
        self._pool.shutdown(wait=True, cancel_futures=True)
