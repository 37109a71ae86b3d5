"""The tuples of a mysqldump INSERT statement, byte by byte, compiled."""

import numpy as np
import numpy.typing as npt

from recbench.linalg.compiled import compiled

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Places = npt.NDArray[np.int64]
Wanted = npt.NDArray[np.int8]

MORE, DONE, BAD = range(3)
"""How a scan ended: with the bytes, at the semicolon, or at something it does not understand."""

UNUSED, NUMBER, TEXT = range(3)
"""What is wanted of a column."""

NULL = -(2**63)
"""What stands for NULL among numbers; as a text NULL is empty."""

OPEN, CLOSE, COMMA, SEMICOLON, QUOTE, BACKSLASH, MINUS = 40, 41, 44, 59, 39, 92, 45
SPACE, ZERO, NINE, BIG_N, UNDERSCORE = 32, 48, 57, 78, 95
MAX_DIGITS = 18

ESCAPED = np.frombuffer(rb"0nrtbZ", dtype=np.uint8)
MEANT = np.frombuffer(b"\0\n\r\t\b\x1a", dtype=np.uint8)


@compiled
def scan(
    data: Bytes, at: int, wanted: Wanted, numbers: Numbers, texts: Places
) -> tuple[int, int, int]:
    """Read whole tuples from `at` on; return where to go on, how many, and how it ended."""
    row, size = 0, len(data)
    while True:
        at = _skip_spaces(data, at)
        end, status = _tuple(data, at, wanted, numbers[row], texts[row])
        if status != DONE:
            return at, row, status
        end = _skip_spaces(data, end)
        if end >= size:
            return at, row, MORE
        row += 1
        at = end + 1
        if data[end] == SEMICOLON:
            return at, row, DONE
        if data[end] != COMMA:
            return at, row, BAD


@compiled
def unescape(data: Bytes, places: Places, offsets: npt.NDArray[np.int32], text: Bytes) -> None:
    """Copy texts one after the other into `text`, as Arrow stores them, without backslashes."""
    to = 0
    for row in range(len(places)):
        at, end = places[row, 0], places[row, 1]
        while at < end:
            byte = data[at]
            if byte == BACKSLASH:
                at += 1
                byte = data[at]
                for known in range(len(ESCAPED)):
                    if byte == ESCAPED[known]:
                        byte = MEANT[known]
                        break
            text[to] = byte
            to += 1
            at += 1
        offsets[row + 1] = to


@compiled
def _tuple(
    data: Bytes, at: int, wanted: Wanted, numbers: Numbers, texts: Places
) -> tuple[int, int]:
    """Read one tuple; return where it ends, and whether it is DONE, BAD or needs MORE bytes."""
    size, number, text = len(data), 0, 0
    if at >= size:
        return at, MORE
    if data[at] != OPEN:
        return at, BAD
    for column in range(len(wanted)):
        begin, end, kind = _value(data, at + 1)
        if end >= size:
            return at, MORE
        if kind == BAD:
            return at, BAD
        if wanted[column] == NUMBER:
            value, good = _integer(data, begin, end, kind)
            if not good:
                return at, BAD
            numbers[number] = value
            number += 1
        elif wanted[column] == TEXT:
            texts[text, 0], texts[text, 1] = (begin, end) if kind == QUOTE else (begin, begin)
            text += 1
        at = end + (kind == QUOTE)
        if at >= size:
            return at, MORE
        if data[at] != (COMMA if column + 1 < len(wanted) else CLOSE):
            return at, BAD
    return at + 1, DONE


@compiled
def _value(data: Bytes, at: int) -> tuple[int, int, int]:
    """Find a value: begin, end, and QUOTE, BIG_N for NULL, or ZERO for a number."""
    size = len(data)
    if at < size and data[at] == UNDERSCORE:  # a character set, as in _binary 'text'
        while at < size and data[at] != QUOTE:
            if data[at] == COMMA or data[at] == CLOSE:
                return at, at, BAD
            at += 1
    if at >= size:
        return at, at, ZERO
    if data[at] == QUOTE:
        begin = at + 1
        at = begin
        while at < size and data[at] != QUOTE:
            at += 1 + (data[at] == BACKSLASH)
        return begin, at, QUOTE
    kind = BIG_N if data[at] == BIG_N else ZERO
    begin = at
    while at < size and data[at] != COMMA and data[at] != CLOSE:
        if data[at] == QUOTE or data[at] == OPEN or data[at] < SPACE:
            return begin, at, BAD
        at += 1
    return begin, at, kind


@compiled
def _integer(data: Bytes, begin: int, end: int, kind: int) -> tuple[np.int64, bool]:
    if kind == BIG_N:
        return np.int64(NULL), True
    negative = data[begin] == MINUS
    begin += negative
    value = np.int64(0)
    for at in range(begin, end):
        digit = data[at] - np.int64(ZERO)
        if not 0 <= digit <= 9:
            return value, False
        value = 10 * value + digit
    return (-value if negative else value), kind == ZERO and 0 < end - begin <= MAX_DIGITS


@compiled
def _skip_spaces(data: Bytes, at: int) -> int:
    while at < len(data) and data[at] <= SPACE:
        at += 1
    return at
