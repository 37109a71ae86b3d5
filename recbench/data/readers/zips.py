"""The files of a zip archive as streams, with every failure a sentence."""

import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, BinaryIO

from recbench.data.readers.streams import Entry, shown
from recbench.errors import DataError

MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ENCRYPTED = 0x1
ERRORS = (
    zipfile.BadZipFile, zlib.error, struct.error,
    EOFError, OSError, OverflowError, RuntimeError, ValueError,
)  # fmt: skip
"""What the standard library raises over archives that were damaged or made to be."""


def is_zip(file: BinaryIO) -> bool:
    """Whether a file begins as a zip archive does; it is left at its start."""
    head = file.read(4)
    file.seek(0)
    return head in MAGIC


def entries(file: BinaryIO, label: str, count: Callable[[int], None]) -> Iterator[Entry]:
    """Walk an archive; unpacked bytes are reported to `count`, which may refuse."""
    try:
        archive = zipfile.ZipFile(file)
    except ERRORS as error:
        raise _damaged(label, error) from None
    with archive:
        # What stands before an archive that begins as one is another, and nobody would read it.
        if archive.infolist() and min(info.header_offset for info in archive.infolist()) > 0:
            raise DataError(
                f"{label} holds more than one zip archive, one behind the other; "
                "give them one by one"
            )
        for info in archive.infolist():
            if not info.filename.endswith("/"):
                stream = _ZipStream(archive, info, f"{label}: {shown(info.filename)}", count)
                yield Entry(info.filename, stream, _kind(info))


def _kind(info: zipfile.ZipInfo) -> str:
    if stat.S_ISLNK(info.external_attr >> 16):
        return "a symbolic link"
    if info.flag_bits & ENCRYPTED:
        return "an encrypted file"
    return "" if info.compress_type in METHODS else "packed in a way other than deflate"


def _damaged(label: str, error: Exception) -> DataError:
    return DataError(
        f"{label} is damaged or cut short: {shown(str(error)) or type(error).__name__}"
    )


class _ZipStream:
    """One file of a zip archive, opened when first read."""

    def __init__(
        self,
        archive: zipfile.ZipFile,
        info: zipfile.ZipInfo,
        label: str,
        count: Callable[[int], None],
    ) -> None:
        self._archive = archive
        self._info = info
        self._label = label
        self._count = count
        self._file: IO[bytes] | None = None

    def read(self, size: int, /) -> bytes:
        """Return up to `size` unpacked bytes."""
        try:
            if self._file is None:
                self._file = self._archive.open(self._info)
            piece = self._file.read(size)
        except ERRORS as error:
            raise _damaged(self._label, error) from None
        self._count(len(piece))
        return piece
