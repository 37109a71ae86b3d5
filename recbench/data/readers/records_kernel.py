"""The scan of JSON and Python-literal lines, compiled.

It takes the values of wanted keys from lines that are plainly well formed and leaves every
other line to a real parser, so it may be strict wherever being lenient would be work. All
text ends in a line feed, which no loop runs over: that is why none of them looks for the end.
"""

import numpy as np
import numpy.typing as npt

from recbench.linalg.compiled import compiled

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Kinds = npt.NDArray[np.int8]

BAD = -1
ABSENT, PLAIN, ESCAPED, NUMBER, NOTHING, OTHER = range(6)
"""What a key's value is. ESCAPED is the whole literal, PLAIN what stands inside of its quotes."""

LINE_END, SPACE, TAB, BACKSLASH = 10, 32, 9, 92
DOUBLE, SINGLE, LETTER_U = 34, 39, 117
COLON, COMMA, OPEN, CLOSE, LIST, LIST_END = 58, 44, 123, 125, 91, 93
MINUS, PLUS, POINT, ZERO, NINE, SMALL_E, BIG_E = 45, 43, 46, 48, 57, 101, 69

NULL, TRUE, FALSE = (np.frombuffer(word, np.uint8) for word in (b"null", b"true", b"false"))
PY_NONE, PY_TRUE, PY_FALSE = (np.frombuffer(w, np.uint8) for w in (b"None", b"True", b"False"))


@compiled
def scan(
    data: Bytes, keys: Bytes, key_ends: Places, python: bool,
    lines: Places, places: Places, kinds: Kinds,
) -> int:  # fmt: skip
    """Fill one row per line that is not blank and return how many there are.

    `lines` gets where a line begins and ends, `places` the same for the value of each key and
    `kinds` what it is. A line left to a real parser has BAD as its first kind.
    """
    at, row = 0, 0
    while at < len(data):
        begin = _skip_spaces(data, at)
        end = begin
        if data[begin] != LINE_END:
            end = _record(data, begin, keys, key_ends, python, places[row], kinds[row])
            if end == BAD:
                kinds[row, 0] = BAD
                end = begin
                while data[end] != LINE_END:
                    end += 1
            lines[row, 0], lines[row, 1] = begin, end
            row += 1
        at = end + 1
    return row


@compiled
def gather(data: Bytes, places: Places, offsets: npt.NDArray[np.int32], text: Bytes) -> None:
    """Copy pieces of `data` one after the other into `text`, as Arrow stores them."""
    for row in range(len(places)):
        at = offsets[row]
        for source in range(places[row, 0], places[row, 1]):
            text[at] = data[source]
            at += 1


@compiled
def _record(
    data: Bytes, at: int, keys: Bytes, key_ends: Places, python: bool, places: Places, kinds: Kinds
) -> int:
    """Scan one line from its first brace; return where its line feed is, or BAD."""
    if data[at] != OPEN:
        return BAD
    at = _skip_spaces(data, at + 1)
    while data[at] != CLOSE:
        at += python and data[at] == LETTER_U
        if data[at] != (SINGLE if python else DOUBLE):
            return BAD
        end, escaped = _text_end(data, at)
        if end == BAD or escaped:
            return BAD
        key = _key_number(data, at + 1, end, keys, key_ends)
        at = _skip_spaces(data, end + 1)
        if data[at] != COLON:
            return BAD
        at, begin, end, kind = _value(data, _skip_spaces(data, at + 1), python)
        if at == BAD:
            return BAD
        if key >= 0:
            places[key, 0], places[key, 1], kinds[key] = begin, end, kind
        at = _skip_spaces(data, at)
        if data[at] == COMMA:
            at = _skip_spaces(data, at + 1)
            if data[at] == CLOSE:  # JSON has no comma there
                return BAD
        elif data[at] != CLOSE:
            return BAD
    at = _skip_spaces(data, at + 1)
    return at if data[at] == LINE_END else BAD


@compiled
def _value(data: Bytes, at: int, python: bool) -> tuple[int, int, int, int]:
    """Scan a value; return where to go on (or BAD), its begin, its end and its kind."""
    byte, begin = data[at], at
    if python and byte == LETTER_U:
        at += 1
        byte = data[at]
        if byte != SINGLE and byte != DOUBLE:
            return BAD, 0, 0, OTHER
    if byte == DOUBLE or (python and byte == SINGLE):
        end, escaped = _text_end(data, at)
        if end == BAD:
            return BAD, 0, 0, OTHER
        if escaped:
            return end + 1, begin, end + 1, ESCAPED
        return end + 1, at + 1, end, PLAIN
    if byte == MINUS or ZERO <= byte <= NINE:
        end = _number_end(data, at)
        return end, begin, end, NUMBER
    if byte in (LIST, OPEN):
        end = _nested_end(data, at, python)
        return end, begin, end, OTHER
    return _word(data, at, python)


@compiled
def _word(data: Bytes, at: int, python: bool) -> tuple[int, int, int, int]:
    if _stands(data, at, PY_NONE if python else NULL):
        return at + 4, at, at + 4, NOTHING
    if _stands(data, at, PY_TRUE if python else TRUE):
        return at + 4, at, at + 4, OTHER
    if _stands(data, at, PY_FALSE if python else FALSE):
        return at + 5, at, at + 5, OTHER
    return BAD, 0, 0, OTHER


@compiled
def _stands(data: Bytes, at: int, word: Bytes) -> bool:
    """Whether a word without line ends stands here; the line feed stops the comparison."""
    place = 0
    while place < len(word) and data[at + place] == word[place]:
        place += 1
    return place == len(word)


@compiled
def _skip_spaces(data: Bytes, at: int) -> int:
    while data[at] == SPACE or data[at] == TAB:
        at += 1
    return at


@compiled
def _text_end(data: Bytes, at: int) -> tuple[int, bool]:
    """Return where the quote that closes the one here is, and whether there are escapes."""
    quote, escaped = data[at], False
    at += 1
    while data[at] != quote:
        if data[at] == BACKSLASH:
            escaped = True
            at += 1
        if data[at] < SPACE:
            return BAD, escaped
        at += 1
    return at, escaped


@compiled
def _number_end(data: Bytes, at: int) -> int:
    """Return where a JSON number ends; Python writes no other kind into such files."""
    at += data[at] == MINUS
    end = _digits_end(data, at)
    if end == at or (data[at] == ZERO and end > at + 1):
        return BAD
    if data[end] == POINT:
        at = end + 1
        end = _digits_end(data, at)
        if end == at:
            return BAD
    if data[end] == SMALL_E or data[end] == BIG_E:
        at = end + 1
        at += data[at] == MINUS or data[at] == PLUS
        end = _digits_end(data, at)
        if end == at:
            return BAD
    return end


@compiled
def _digits_end(data: Bytes, at: int) -> int:
    while ZERO <= data[at] <= NINE:
        at += 1
    return at


@compiled
def _nested_end(data: Bytes, at: int, python: bool) -> int:
    """Return where a list or an object that nobody asked for ends."""
    depth = 0
    while True:
        byte = data[at]
        if byte in (LIST, OPEN):
            depth += 1
        elif byte in (LIST_END, CLOSE):
            depth -= 1
        elif byte == DOUBLE or (python and byte == SINGLE):
            at, _ = _text_end(data, at)
            if at == BAD:
                return BAD
        elif byte < SPACE:
            return BAD
        at += 1
        if not depth:
            return at


@compiled
def _key_number(data: Bytes, begin: int, end: int, keys: Bytes, key_ends: Places) -> int:
    """Return which of the wanted keys this is, or BAD."""
    start = 0
    for number in range(len(key_ends)):
        stop = key_ends[number]
        if stop - start == end - begin:
            place = 0
            while place < end - begin and data[begin + place] == keys[start + place]:
                place += 1
            if place == end - begin:
                return number
        start = stop
    return BAD
