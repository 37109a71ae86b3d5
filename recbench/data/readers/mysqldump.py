"""A table from a mysqldump file, as batches of the columns that are wanted.

Titles hold apostrophes, commas, brackets and backslashes, so nothing less than a scan of every
byte will do; the scan takes whole tuples, and what is left of a chunk goes before the next.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recbench.data.readers.archive import Limits, Member
from recbench.data.readers.lines import BLOCK, ahead
from recbench.data.readers.streams import read_full, shown
from recbench.linalg.types import Integers

CREATE = re.compile(rb"CREATE TABLE `(\w+)` \((.*?)\n\)", re.DOTALL)
COLUMN = re.compile(rb"^\s*`(\w+)` ", re.MULTILINE)
INSERT = re.compile(rb"INSERT INTO `(\w+)` VALUES\s")
LONGEST_START = 200
"""More bytes than the start of an INSERT statement takes."""


@dataclass(frozen=True)
class Batch:
    """Some rows: integer columns and text columns by name."""

    numbers: dict[str, Integers]
    texts: dict[str, pa.Array]


class Dump:
    """One table of a dump; its name and columns are known once the first chunk is read."""

    def __init__(self, member: Member, limits: Limits) -> None:
        self._member = member
        self._longest = limits.max_line
        self._chunks = ahead(_chunks(member, min(BLOCK, limits.max_line)))
        self._text, self._at = b"", 0
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        """Read on to the first row, which tells the table and its columns."""
        while not INSERT.search(self._text) and self._more():
            pass
        created = CREATE.search(self._text)
        if created is None:
            raise self._member.error("is no mysqldump file: it creates no table")
        self.table = created[1].decode("utf-8", "replace")
        self.columns = [name.decode("utf-8", "replace") for name in COLUMN.findall(created[2])]

    def close(self) -> None:
        """Stop reading ahead."""
        self._chunks.close()

    def batches(self, numbers: Sequence[str], texts: Sequence[str] = ()) -> Iterator[Batch]:
        """Yield the wanted columns of all rows, chunk by chunk."""
        from recbench.data.readers import mysqldump_kernel as kernel  # compiled, loaded when needed

        for name in (*numbers, *texts):
            if name not in self.columns:
                columns = shown(", ".join(self.columns))
                raise self._member.error(f"has no column '{name}' in `{self.table}`: {columns}")
        kinds = {**dict.fromkeys(numbers, kernel.NUMBER), **dict.fromkeys(texts, kernel.TEXT)}
        wanted = np.array([kinds.get(name, kernel.UNUSED) for name in self.columns], dtype=np.int8)
        while self._find_statement():
            status = kernel.MORE
            while status != kernel.DONE:
                batch, status = self._scan(wanted)
                if status == kernel.BAD:
                    near = shown(self._text[self._at : self._at + 60])
                    raise self._member.error(f"has something other than a row at '{near}'")
                yield batch
                if status == kernel.MORE and not self._more():
                    raise self._member.error("is cut short: its last statement has no end")

    def _scan(self, wanted: npt.NDArray[np.int8]) -> tuple[Batch, int]:
        """Take the whole tuples of what is in memory."""
        from recbench.data.readers import mysqldump_kernel as kernel

        data = np.frombuffer(self._text, dtype=np.uint8)
        most = (len(data) - self._at) // (len(wanted) + 2) + 2
        names = {kind: [self.columns[i] for i in np.flatnonzero(wanted == kind)] for kind in (1, 2)}
        numbers = np.empty((most, len(names[kernel.NUMBER])), dtype=np.int64)
        places = np.empty((most, len(names[kernel.TEXT]), 2), dtype=np.int64)
        self._at, count, status = kernel.scan(data, self._at, wanted, numbers, places)
        batch = Batch(
            {name: numbers[:count, i].copy() for i, name in enumerate(names[kernel.NUMBER])},
            {
                name: self._texts(data, places[:count, i])
                for i, name in enumerate(names[kernel.TEXT])
            },
        )
        return batch, status

    def _texts(self, data: npt.NDArray[np.uint8], places: Integers) -> pa.Array:
        from recbench.data.readers import mysqldump_kernel as kernel

        offsets = np.zeros(len(places) + 1, dtype=np.int32)
        text = np.empty(int((places[:, 1] - places[:, 0]).sum()), dtype=np.uint8)
        kernel.unescape(data, places, offsets, text)
        array = pa.StringArray.from_buffers(len(places), pa.py_buffer(offsets), pa.py_buffer(text))
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            raise self._member.error(f"has text in `{self.table}` that is not UTF-8") from None
        return array

    def _find_statement(self) -> bool:
        """Go to the first tuple of the next INSERT statement."""
        while not (match := INSERT.search(self._text, self._at)):
            self._at = max(self._at, len(self._text) - LONGEST_START)
            if not self._more():
                return False
        if match[1].decode("utf-8", "replace") != self.table:
            raise self._member.error("holds several tables; give each its own file")
        self._at = match.end()
        return True

    def _more(self) -> bool:
        """Read another chunk behind what is not used yet."""
        rest = self._text[self._at :]
        if len(rest) > self._longest:
            raise self._member.error(f"has more than {self._longest:,} bytes that make no row")
        chunk = next(self._chunks, b"")
        self._text, self._at = rest + chunk, 0
        return bool(chunk)


def _chunks(member: Member, size: int) -> Iterator[bytes]:
    while chunk := read_full(member.stream, size):
        yield chunk
