"""Lines `user item item ...`, as the NGCF and LightGCN splits came; a file may be a part.

With `count-first` the first number of a line says how many items follow and the user is the
number of the line, from 0, as in citeulike-a. A line without items is a user without any.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from pyarrow import csv

from recbench.data.interactions import Interactions
from recbench.data.readers.archive import LIMITS, Limits, chosen, members
from recbench.data.readers.cells import CellError
from recbench.data.readers.columns import NO_ID, TableBuilder
from recbench.data.readers.lines import Block, ahead, blocks
from recbench.data.readers.options import listed, parts_option
from recbench.data.readers.streams import shown
from recbench.linalg.types import Counts
from recbench.params import Described, make, param
from recbench.registry import READERS

ONE_A_LINE = bytes.maketrans(b" \t", b"\n\n")


@dataclass(frozen=True)
class Adjacency(Described):
    """Options of the reader, beside `parts`."""

    name: ClassVar[str] = "adjacency"

    count_first: bool = param(False, help="lines begin with a count; users are numbered by line")
    member: str | None = param(None, help="path or glob of the file in an archive")


@READERS.register("adjacency")
def read(
    paths: Sequence[Path], options: Mapping[str, object], limits: Limits = LIMITS
) -> Interactions:
    """Read one row for every item of every line; `parts` names what each path holds."""
    words = dict(options)
    parts = parts_option(words, paths)
    settings = make(Adjacency, words)
    builder = TableBuilder(NO_ID)
    for number, (path, part) in enumerate(zip(paths, parts, strict=True)):
        with closing(members(path, limits, chosen(settings.member, path, limits))) as files:
            for member in files:
                builder.begin((number, member.name))
                with closing(ahead(blocks(member, limits))) as text:
                    for block in text:
                        _append(block, settings.count_first, builder, part)
    return builder.finish(listed(paths))


def _append(block: Block, count_first: bool, builder: TableBuilder, part: int | None) -> None:
    words, counts = _words(block)
    filled = np.flatnonzero(counts)
    firsts = (np.cumsum(counts) - counts)[filled]
    items = np.ones(len(words), dtype=bool)
    items[firsts] = False
    follow = counts[filled] - 1
    heads = words.take(pa.array(firsts))
    if count_first:
        _check_counts(block, heads, filled, follow)
        heads = pa.array(block.line - 1 + filled)
    user = heads.take(pa.array(np.repeat(np.arange(len(filled)), follow)))
    try:
        builder.append({"user": user, "item": words.filter(pa.array(items))}, part)
    except CellError as error:
        line = int(np.repeat(filled, follow)[error.row])
        raise block.error(str(error), line) from None


def _words(block: Block) -> tuple[pa.Array, Counts]:
    """Return the words of a block, and how many there are on each of its lines."""
    data = np.frombuffer(block.text, dtype=np.uint8)
    gap = (data == ord(" ")) | (data == ord("\t")) | (data == ord("\n"))
    begins = ~gap
    begins[1:] &= gap[:-1]
    lines = np.flatnonzero(data == ord("\n"))[:-1] + 1
    counts = np.add.reduceat(begins, np.concatenate([[0], lines]), dtype=np.int64)
    if not counts.any():
        return pa.array([], pa.string()), counts
    try:
        table = csv.read_csv(
            pa.BufferReader(block.text.translate(ONE_A_LINE)),
            csv.ReadOptions(column_names=["word"], block_size=len(block.text) + 1),
            csv.ParseOptions(delimiter="\x1f", quote_char=False),
            csv.ConvertOptions(column_types={"word": pa.string()}, null_values=[]),
        )
    except pa.ArrowInvalid as error:
        raise block.parse_error(error) from None
    return table["word"].combine_chunks(), counts


def _check_counts(block: Block, heads: pa.Array, filled: Counts, follow: Counts) -> None:
    """Refuse a line that does not have as many items as it says."""
    right = np.array([str(count) for count in follow.tolist()]) == heads.to_numpy(False)
    if not right.all():
        bad = int(np.flatnonzero(~right)[0])
        text = f"says '{shown(str(heads[bad]))}' items and has {follow[bad]:,}"
        raise block.error(text, int(filled[bad]))
