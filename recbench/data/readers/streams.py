"""Byte streams that come apart in layers: peeked at, sliced, gunzipped."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from recbench.errors import DataError

PACKED = 1 << 18
"""Compressed bytes asked for at a time."""

UNPACKED = 1 << 20
"""Unpacked bytes held at a time, whatever the compressed bytes claim."""

GZIP_MAGIC = b"\x1f\x8b"


class Stream(Protocol):
    """The one thing every layer can do."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; none means the end."""
        ...


FOLDER = "a folder"

LONGEST = 60
"""Characters of a file's name or content that an error repeats."""


def shown(text: str | bytes) -> str:
    """Repeat something from a file in an error: short, and fit to be printed."""
    whole = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    start = whole if len(whole) <= LONGEST else whole[: LONGEST - 1] + "…"
    return "".join(mark if mark.isprintable() else "?" for mark in start)


@dataclass(frozen=True)
class Entry:
    """One thing in an archive; `kind` says what it is if it is no regular file."""

    name: str
    stream: Stream
    kind: str = ""


def read_full(stream: Stream, size: int) -> bytes:
    """Read exactly `size` bytes, fewer only at the end of the stream."""
    pieces, missing = [], size
    while missing and (piece := stream.read(missing)):
        pieces.append(piece)
        missing -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def drain(stream: Stream) -> None:
    """Read to the end, so that the checks a layer makes at its end are made."""
    while stream.read(UNPACKED):
        pass


class File:
    """A file on disk whose failures are sentences."""

    def __init__(self, file: BinaryIO, label: str) -> None:
        self._file = file
        self._label = label

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes of the file."""
        try:
            return self._file.read(size)
        except OSError as error:
            raise DataError(f"{self._label} cannot be read: {error.strerror}") from None


class Joined:
    """A stream with bytes put back in front of it."""

    def __init__(self, head: bytes, stream: Stream) -> None:
        self._head = head
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        """Return the bytes put back, then those of the stream."""
        if not self._head:
            return self._stream.read(size)
        piece, self._head = self._head[:size], self._head[size:]
        return piece


class Slice:
    """The next `size` bytes of a stream, an error if it ends before."""

    def __init__(self, stream: Stream, size: int, label: str) -> None:
        self._stream = stream
        self._missing = size
        self._label = label

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes of what is left of the slice."""
        if not self._missing:
            return b""
        piece = self._stream.read(min(size, self._missing))
        if not piece:
            raise DataError(f"{self._label} is cut short: {self._missing:,} bytes are missing")
        self._missing -= len(piece)
        return piece


class Gunzip:
    """A gzip stream of one or several members, unpacked in pieces of bounded size.

    Every piece is reported to `count`, which may refuse; the standard library's gzip files
    have no such door, and unpack whatever was asked for in one go.
    """

    def __init__(self, stream: Stream, label: str, count: Callable[[int], None]) -> None:
        self._stream = stream
        self._label = label
        self._count = count
        self._inflate = zlib.decompressobj(wbits=31)
        self._packed = b""
        self._ready = memoryview(b"")

    def read(self, size: int, /) -> bytes:
        """Return up to `size` unpacked bytes."""
        if not self._ready:
            self._ready = memoryview(self._unpack())
        piece, self._ready = bytes(self._ready[:size]), self._ready[size:]
        return piece

    def _unpack(self) -> bytes:
        while not self._inflate.eof or self._next_member():
            packed = self._packed or self._stream.read(PACKED)
            try:
                piece = self._inflate.decompress(packed, UNPACKED)
            except zlib.error as error:
                raise DataError(f"{self._label} is damaged: {error}") from None
            self._packed = self._inflate.unconsumed_tail
            if piece:
                self._count(len(piece))
                return piece
            if not packed and not self._inflate.eof:
                raise DataError(f"{self._label} is cut short: the gzip stream has no end")
        return b""

    def _next_member(self) -> bool:
        """Start on the following gzip member, if there is one after any zero padding."""
        left = self._inflate.unused_data.lstrip(b"\0")
        while not left:
            packed = self._stream.read(PACKED)
            if not packed:
                return False
            left = packed.lstrip(b"\0")
        if not GZIP_MAGIC.startswith(left[:2]):
            raise DataError(f"{self._label} is damaged: other bytes follow the gzip stream")
        self._inflate, self._packed = zlib.decompressobj(wbits=31), left
        return True
