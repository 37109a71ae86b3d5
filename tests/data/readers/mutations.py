"""Ways to damage a file, all drawn from one seeded source."""

import random
import re
from collections.abc import Callable

Mutation = Callable[[random.Random, bytes], bytes]

INTERESTING = [
    b"", b"\0", b"\n", b"\r", b"\r\n", b"\xef\xbb\xbf", b"\xff\xfe", b"\xff", b"\xed\xa0\x80",
    b'"', b"'", b"\\", b",", b"::", b"\t", b";", b"{", b"}", b"[", b"(", b")", b"u'", b"1:\n",
    b"NULL", b"null", b"nan", b"inf", b"-inf", b"1e999", b"-1", b"+1", b"007", b"0x10",
    b"2147483648", b"9223372036854775808", b"-9223372036854775808", b"9" * 400,
    b"\\u0000", b"\\ud800", b"INSERT INTO `page` VALUES ", b"\x1f\x8b\x08", b"PK\x03\x04",
    b"../../etc/passwd", b"/etc/passwd", b"\x80" + b"\xff" * 11,
]  # fmt: skip
LONGEST = 1 << 26
"""What files are not repeated beyond."""


def flip_bits(dice: random.Random, text: bytes) -> bytes:
    """Turn over a few bits."""
    changed = bytearray(text)
    for _ in range(dice.randint(1, 8)):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def set_bytes(dice: random.Random, text: bytes) -> bytes:
    """Write over a run of bytes."""
    start = dice.randrange(len(text))
    run = dice.choice([b"\0", b"\xff", b" ", b"9", b"a"]) * dice.randint(1, 16)
    return text[:start] + run + text[start + len(run) :]


def truncate(dice: random.Random, text: bytes) -> bytes:
    """Cut the end off, often just before it."""
    if dice.random() < 0.5:
        return text[: max(0, len(text) - dice.randint(1, 12))]
    return text[: dice.randrange(len(text))]


def splice(dice: random.Random, text: bytes) -> bytes:
    """Put a piece of the file somewhere else in it."""
    start, end = sorted(dice.randrange(len(text) + 1) for _ in range(2))
    at = dice.randrange(len(text))
    return text[:at] + text[start:end] + text[at + dice.randint(0, end - start) :]


def insert(dice: random.Random, text: bytes) -> bytes:
    """Put in something that means something to some format."""
    at = dice.randrange(len(text))
    return text[:at] + dice.choice(INTERESTING) + text[at + dice.randint(0, 4) :]


def swap_number(dice: random.Random, text: bytes) -> bytes:
    """Replace a run of digits."""
    numbers = [match.span() for match in re.finditer(rb"[0-9]+", text)]
    if not numbers:
        return insert(dice, text)
    start, end = dice.choice(numbers)
    return text[: dice.randrange(start, end)] + dice.choice(INTERESTING) + text[end:]


def drop_line(dice: random.Random, text: bytes) -> bytes:
    """Leave a line out, or double it, or join it to the next."""
    lines = text.split(b"\n")
    at = dice.randrange(len(lines))
    lines[at : at + 1] = dice.choice([[], [lines[at]] * 2, [lines[at] + b" " + lines[at]]])
    return b"\n".join(lines)


def huge_line(dice: random.Random, text: bytes) -> bytes:
    """Make one line longer than a block, all of one kind of byte."""
    at = dice.randrange(len(text))
    return (
        text[:at]
        + dice.choice([b"a", b"1", b"[", b"(", b'"', b" ", b"{"]) * dice.choice([1 << 14, 1 << 20])
        + text[at:]
    )


def repeat(dice: random.Random, text: bytes) -> bytes:
    """The whole file many times over, as long as that is no matter of memory."""
    return text * min(dice.randint(2, 50), max(1, LONGEST // len(text)))


MUTATIONS: list[Mutation] = [
    flip_bits, set_bytes, truncate, splice, insert, swap_number, drop_line, huge_line, repeat,
]  # fmt: skip


def mutate(dice: random.Random, text: bytes) -> bytes:
    """Damage a file once or a few times."""
    for _ in range(dice.choice([1, 1, 1, 2, 4])):
        if text:
            text = dice.choice(MUTATIONS)(dice, text)
    return text
