"""A strict streaming tar walk: every entry of a tape archive, once, in order.

The standard library takes a damaged header in the middle of an archive for its end, which
loses rows without a word, and reads extended headers of any claimed size into memory. Here
every header must check out, and an archive must end the way the format says it does.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from recbench.data.readers.streams import (
    FOLDER,
    UNPACKED,
    Entry,
    Slice,
    Stream,
    drain,
    read_full,
    shown,
)
from recbench.errors import DataError

BLOCK = 512
MAX_EXTENDED = 1 << 16
"""Bytes of an extended header; real ones hold a path and a few dates."""

REGULAR = (b"0", b"7", b"\0")
PAX, PAX_GLOBAL, LONG_NAME, LONG_LINK = b"x", b"g", b"L", b"K"
EXTENDED = (PAX, PAX_GLOBAL, LONG_NAME, LONG_LINK)
WITHOUT_BYTES = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"5": FOLDER,
    b"6": "a pipe",
}


@dataclass(frozen=True)
class _Header:
    name: str
    size: int
    type: bytes


def is_header(block: bytes) -> bool:
    """Whether 512 bytes are a tar header: the sum of the bytes is written among them."""
    try:
        return len(block) == BLOCK and _number(block[148:156]) == _checksum(block)
    except ValueError:
        return False


def entries(stream: Stream, label: str) -> Iterator[Entry]:
    """Walk an archive; each entry's stream is good until the next one is asked for."""
    extended: dict[str, str] = {}
    while header := _next_header(stream, label):
        if header.type in EXTENDED:
            extended |= _extended(header, stream, label)
            continue
        name = extended.get("path", header.name)
        size = 0 if header.type in WITHOUT_BYTES else _size(extended, header, label)
        body = Slice(stream, size, f"{label}: {shown(name)}")
        yield Entry(name, body, _kind(header, name))
        drain(body)
        _skip_padding(stream, size, label)
        extended = {}
    _check_end(stream, label)


def _next_header(stream: Stream, label: str) -> _Header | None:
    """Read a header; nothing at the block of zeros that ends an archive."""
    block = read_full(stream, BLOCK)
    if len(block) < BLOCK:
        raise DataError(f"{label} is cut short: the archive has no end")
    if not any(block):
        return None
    if not is_header(block):
        raise DataError(f"{label} is damaged: a tar header does not match its checksum")
    try:
        size = _number(block[124:136])
    except ValueError:
        raise DataError(f"{label} is damaged: a tar header has no valid size") from None
    name, prefix = _text(block[:100]), _text(block[345:500])
    if prefix and block[257:263] == b"ustar\0":
        name = f"{prefix}/{name}"
    return _Header(name, size, block[156:157])


def _check_end(stream: Stream, label: str) -> None:
    """Refuse anything but zeros behind the end: it may be entries that nobody would read."""
    while piece := stream.read(UNPACKED):
        if piece.count(0) < len(piece):
            raise DataError(
                f"{label} is damaged: more follows a block of zeros, which ends a tar; archives "
                "that were joined must be given one by one"
            )


def _extended(header: _Header, stream: Stream, label: str) -> dict[str, str]:
    """Read what a pax or GNU header says of the entry after it."""
    if header.size > MAX_EXTENDED:
        raise DataError(f"{label} is damaged: a tar header claims {header.size:,} bytes")
    body = read_full(Slice(stream, header.size, label), header.size)
    _skip_padding(stream, header.size, label)
    if header.type == LONG_NAME:
        return {"path": _text(body)}
    return _records(body, label) if header.type == PAX else {}


def _records(body: bytes, label: str) -> dict[str, str]:
    """Take `path` and `size` from pax records, each `length key=value` and a line end."""
    fields, start = {}, 0
    while start < len(body):
        match = re.compile(rb"(\d{1,6}) ([^=\n]+)=").match(body, start)
        end = start + int(match[1]) if match else 0
        if match is None or end <= match.end() or body[end - 1 : end] != b"\n":
            raise DataError(f"{label} is damaged: an extended tar header cannot be read")
        fields[_text(match[2])] = _text(body[match.end() : end - 1])
        start = end
    return {key: value for key, value in fields.items() if key in ("path", "size")}


def _size(extended: dict[str, str], header: _Header, label: str) -> int:
    text = extended.get("size")
    if text is None:
        return header.size
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise DataError(f"{label} is damaged: a tar header gives the size '{shown(text)}'")
    return int(text)


def _kind(header: _Header, name: str) -> str:
    if header.type in WITHOUT_BYTES:
        return WITHOUT_BYTES[header.type]
    if header.type == b"\0" and name.endswith("/"):  # how archives before 1988 mark one
        return FOLDER
    return "" if header.type in REGULAR else "a special file"


def _skip_padding(stream: Stream, size: int, label: str) -> None:
    padding = -size % BLOCK
    drain(Slice(stream, padding, label))


def _number(field: bytes) -> int:
    """Read octal digits, or the binary form for sizes from 8 GiB on."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if not re.fullmatch(rb"[0-7]*", digits):
        raise ValueError(field)
    return int(digits or b"0", 8)


def _checksum(block: bytes) -> int:
    """Sum the header with its checksum field counted as spaces."""
    return sum(block) - sum(block[148:156]) + 8 * ord(" ")


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "replace")
