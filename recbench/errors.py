"""What can go wrong, as sentences for the person at the terminal.

Every error a user can cause is a `RecbenchError`: its text says what was given, what was
expected and what to type next, and its class decides the exit code. Anything else that
escapes is a bug of ours.
"""

import difflib
import re
from collections.abc import Iterable

LONG_WORD = re.compile(r"\S{500,}")


class RecbenchError(Exception):
    """A trial failed or a number regressed: exit code 1."""

    exit_code = 1


class UsageError(RecbenchError):
    """The command line or a configuration asks for something that does not exist: exit code 2."""

    exit_code = 2


class DataError(RecbenchError):
    """Data could not be had, read or verified: exit code 3."""

    exit_code = 3


class Refused(RecbenchError):
    """A model declines a job before allocating anything; the trial becomes `skipped: reason`."""


def unknown(kind: str, name: str, options: Iterable[str]) -> UsageError:
    """Build the error for a name that does not exist, naming the closest one that does."""
    known = sorted(options)
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    if close:
        hint = f"did you mean '{close[0]}'?"
    elif known:
        hint = f"known: {', '.join(known)}"
    else:
        hint = f"there are no {kind}s here"
    return UsageError(f"unknown {kind} '{name}'; {hint}")


def printable(text: str) -> str:
    """Words of others in a sentence: of sane length, and nothing in them speaks to the terminal."""
    text = LONG_WORD.sub(lambda match: f"{match[0][:60]}…", text)
    return "".join(mark if mark.isprintable() or mark in "\n\t" else "?" for mark in text)


def reason_of(error: BaseException) -> str:
    """What others raised, as one line: its kind, and what it says of itself, if it can."""
    try:
        words = str(error)
    except Exception:  # noqa: BLE001 - whatever a class of others does to make its text
        words = ""
    return printable(f"{type(error).__name__}: {words}")


def counted(number: int, what: str) -> str:
    """A number and a noun that agree: 1 trial, 2 trials."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
