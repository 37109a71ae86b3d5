"""The Netflix Prize ratings: a line `movie:`, then lines `user,rating,date`.

The same text comes as 17,770 files `mv_*.txt` in a tar in a gzip'd tar, in any order, and as
four files `combined_data_*.txt`. Rows come out by ascending movie, as in the files' own order.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from pyarrow import csv

from recbench.data.interactions import Interactions
from recbench.data.readers.archive import LIMITS, Limits, matcher, members
from recbench.data.readers.cells import first_failure
from recbench.data.readers.columns import TableBuilder
from recbench.data.readers.lines import BLOCK, Block, ahead, blocks
from recbench.data.readers.options import listed
from recbench.data.readers.streams import shown
from recbench.errors import DataError
from recbench.params import Described, make
from recbench.registry import READERS

FILES = (matcher("mv_*.txt"), matcher("combined_data_*.txt"))
TYPES = {"user": pa.int32(), "value": pa.int8(), "time": pa.date32()}


@dataclass(frozen=True)
class Netflix(Described):
    """The reader has no options."""

    name: ClassVar[str] = "netflix"


@READERS.register("netflix")
def read(
    paths: Sequence[Path], options: Mapping[str, object], limits: Limits = LIMITS
) -> Interactions:
    """Read the ratings from either layout, ordered by movie."""
    make(Netflix, options)
    builder = TableBuilder()
    with (
        closing(_blocks(paths, limits)) as text,
        closing(ahead(_batches(_segments(text)))) as ready,
    ):
        for batch in ready:
            _append(batch, builder)
    return builder.finish(listed(paths))


def _is_ratings(name: str) -> bool:
    return any(wanted(name) for wanted in FILES)


def _blocks(paths: Sequence[Path], limits: Limits) -> Generator[Block, None, None]:
    for path in paths:
        with closing(members(path, limits, _is_ratings)) as files:
            for member in files:
                yield from blocks(member, limits)


@dataclass(frozen=True)
class _Segment:
    """Lines about one movie that stand together in a block."""

    movie: int
    block: Block


def _segments(text: Iterable[Block]) -> Iterator[_Segment]:
    """Cut blocks at their headers; a movie goes on over the blocks of its file."""
    movie: int | None = None
    last: Block | None = None
    for block in text:
        if last is None or last.member is not block.member:
            movie = None
        last = block
        for header, lines in _pieces(block):
            movie = movie if header is None else header
            if movie is not None:
                yield _Segment(movie, lines)
            elif lines.text.strip():
                start = shown(lines.text.strip().partition(b"\n")[0])
                raise lines.error(f"a header such as '1:' is expected before '{start}'")


def _pieces(block: Block) -> Iterator[tuple[int | None, Block]]:
    """Cut a block at its headers: the movie (None: that of the block before) and its lines."""
    movie, start, line = None, 0, block.line
    for begin, end in _headers(block.text):
        lines = Block.of(block.member, block.text[start:begin], line)
        yield movie, lines
        line += lines.lines
        movie, start, line = _movie(block, block.text[begin : end - 2], line), end, line + 1
    yield movie, Block.of(block.member, block.text[start:], line)


def _headers(text: bytes) -> Iterator[tuple[int, int]]:
    """Find the lines that end in a colon."""
    end = 0
    while (colon := text.find(b":\n", end)) >= 0:
        begin = text.rfind(b"\n", end, colon) + 1 or end
        end = colon + 2
        yield begin, end


def _movie(block: Block, digits: bytes, line: int) -> int:
    if not digits.isdigit() or len(digits) > 9:
        raise block.member.error(f"'{shown(digits)}' is no movie number", line)
    return int(digits)


def _batches(segments: Iterable[_Segment]) -> Iterator[list[_Segment]]:
    """Gather movies until there is enough text to be worth a call to Arrow."""
    batch: list[_Segment] = []
    size = 0
    for segment in segments:
        batch.append(segment)
        size += len(segment.block.text)
        if size >= BLOCK:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _append(batch: list[_Segment], builder: TableBuilder) -> None:
    counts = [segment.block.lines for segment in batch]
    if not sum(counts):
        return
    table = _parsed(batch)
    if table is None or table.num_rows != sum(counts):
        filled = [_without_blank_lines(segment) for segment in batch]
        if sum(segment.block.lines for segment in filled) == sum(counts):
            raise _explained(batch)
        _append(filled, builder)
        return
    starts = np.cumsum([0, *counts[:-1]])
    for segment, start in zip(batch, starts, strict=True):
        builder.begin(segment.movie, int(start))
    movies = np.array([segment.movie for segment in batch], dtype=np.int32)
    columns = {name: table[name] for name in TYPES}
    builder.append(columns | {"item": pa.array(np.repeat(movies, counts))})


def _parsed(batch: list[_Segment]) -> pa.Table | None:
    try:
        return _parse(b"".join(segment.block.text for segment in batch))
    except pa.ArrowInvalid:
        return None


def _parse(text: bytes) -> pa.Table:
    return csv.read_csv(
        pa.BufferReader(text),
        csv.ReadOptions(column_names=list(TYPES)),
        csv.ParseOptions(quote_char=False),
        csv.ConvertOptions(column_types=TYPES, null_values=[]),
    )


def _without_blank_lines(segment: _Segment) -> _Segment:
    block = segment.block
    text = b"".join(line + b"\n" for line in block.text.split(b"\n") if line)
    return _Segment(segment.movie, Block.of(block.member, text, block.line))


def _explained(batch: list[_Segment]) -> DataError:
    """Look for the first line that is not like the others."""
    lines = [
        (segment.block.member, segment.block.line + number, line)
        for segment in batch
        for number, line in enumerate(segment.block.text.split(b"\n")[:-1])
    ]
    bad = first_failure(lambda some: _parse(b"".join(line + b"\n" for *_, line in some)), lines)
    member, number, line = lines[bad]
    return member.error(f"expected 'user,rating,YYYY-MM-DD', not '{shown(line)}'", number)
