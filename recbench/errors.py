"""What can go wrong, as sentences for the person at the terminal.

Every error a user can cause is a `RecbenchError`: its text says what was given, what was
expected and what to type next, and its class decides the exit code. Anything else that
escapes is a bug of ours.
"""

import difflib
import re
from collections.abc import Iterable, Sequence

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


ELSEWHERE = {
    "bpr-mf": "mf-bpr", "bprmf": "mf-bpr", "ease-r": "ease", "easer": "ease", "implicit": "ials",
    "itemknn": "item-knn", "item-cf": "item-knn", "itemcf": "item-knn", "knn": "item-knn",
    "userknn": "user-knn", "user-cf": "user-knn", "usercf": "user-knn",
    "slimelastic": "slim", "slim-elastic": "slim", "slim-elasticnet": "slim", "fslim": "slim",
    "mostpop": "popularity", "most-popular": "popularity", "toppop": "popularity",
    "pca": "regularized-pca", "sgl": "sgl-ed", "wmf": "wrmf", "youtubednn": "youtubenet",
    "hr": "hit", "hitrate": "hit", "hit-rate": "hit", "mean-average-precision": "map",
    "reciprocal-rank": "mrr", "random": "weak", "loo": "last", "leave-one-out": "last",
    "leave-last-out": "last", "time": "temporal", "time-based": "temporal",
}  # fmt: skip
"""What things are called elsewhere, and here: meant when there is nothing of that name."""
LISTED = ("dataset", "model", "loss", "metric", "split", "reader")
"""The kinds that `recbench list` shows."""
FEW = 20
"""Names that fit in a sentence."""
CLOSE, CLOSE_SHORT, SHORT = 0.7, 0.5, 3
"""How alike two names are that are mixed up; a letter is more of a short one."""


def unknown(kind: str, name: str, options: Iterable[str]) -> UsageError:
    """Build the error for a name that does not exist, naming one that does if it may be meant."""
    known = sorted(options)
    meant = _meant(name.lower().replace("_", "-"), known)
    if meant:
        hint = f"did you mean '{meant}'?"
    elif len(known) > FEW and kind in LISTED:
        hint = f"`recbench list {'losses' if kind == 'loss' else f'{kind}s'}` shows what there is"
    elif known:
        hint = f"known: {', '.join(known)}"
    else:
        hint = f"there are no {kind}s here"
    return UsageError(f"unknown {kind} '{name}'; {hint}")


def _meant(name: str, known: Sequence[str]) -> str | None:
    """The name that was meant: as it is called here, closely alike, or with this as a part."""
    if ELSEWHERE.get(name) in known:
        return ELSEWHERE[name]
    cutoff = CLOSE_SHORT if len(name) <= SHORT else CLOSE
    longer = [option for option in known if name in option] if len(name) >= SHORT else []
    close = difflib.get_close_matches(name, known, n=1, cutoff=cutoff)
    return next(iter([*close, *sorted(longer, key=len)]), None)


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
