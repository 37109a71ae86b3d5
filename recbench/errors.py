"""What can go wrong, as sentences for the person at the terminal.

Every error a user can cause is a `RecbenchError`: its text says what was given, what was
expected and what to type next, and its class decides the exit code. Anything else that
escapes is a bug of ours.
"""

import difflib
import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar

T = TypeVar("T")

GUESTS: set[str] = set()
"""The packages, and the modules of plugin files, that have registered something of theirs."""

LONG_WORD = re.compile(r"\S{500,}|[^\S\n]{500,}")


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
    "pca": "regularized-pca", "puresvd": "regularized-pca", "svd": "regularized-pca",
    "mf-mse": "mse", "mf-mse-debiased": "mse-debiased",
    "sgl": "sgl-ed", "wmf": "wrmf", "youtubednn": "youtubenet",
    "dae": "mult-dae", "multdae": "mult-dae", "multidae": "mult-dae", "vae": "mult-vae",
    "multvae": "mult-vae", "multivae": "mult-vae", "ncf": "neumf", "neural-mf": "neumf",
    "hr": "hit", "hitrate": "hit", "hit-rate": "hit", "mean-average-precision": "map",
    "reciprocal-rank": "mrr", "random": "weak", "loo": "last", "leave-one-out": "last",
    "leave-last-out": "last", "time": "temporal", "time-based": "temporal",
}  # fmt: skip
"""What things are called elsewhere, and here: meant when there is nothing of that name."""
LISTED = ("dataset", "model", "loss", "metric", "split", "reader")
PLURALS = ("datasets", "models", "losses", "metrics", "splits", "readers")
"""The kinds that `recbench list` shows."""
ANYTHING = ("name", "plugin")
"""What a thing is called whose kind is not known."""
FEW = 20
"""Names that fit in a sentence."""
MOST = 60
"""More names than this, such as those of all items, are not told one by one."""
CLOSE, CLOSE_SHORT, SHORT = 0.7, 0.5, 3
"""How alike two names are that are mixed up; a letter is more of a short one."""


def unknown(kind: str, name: str, options: Iterable[str]) -> UsageError:
    """Build the error for a name that does not exist, naming one that does if it may be meant."""
    known = sorted(options)
    typed = name.lower().replace("_", "-")
    likely = closest(typed, known)
    if likely:
        hint = f"did you mean '{likely}'?"
    elif len(known) > FEW and kind in LISTED:
        hint = f"`recbench list {PLURALS[LISTED.index(kind)]}` shows what there is"
    elif len(known) > FEW and kind in ANYTHING:
        hint = f"`recbench list KIND` shows what there is of each: {', '.join(PLURALS)}"
    elif len(known) > MOST:
        hint = f"there are {len(known):,}, such as {', '.join(known[:FEW])}"
    elif known:
        hint = f"known: {', '.join(known)}"
    else:
        hint = f"there are no {kind}s here"
    return UsageError(f"unknown {kind} '{name}'; {hint}")


def closest(name: str, known: Sequence[str]) -> str | None:
    """The name that was meant: as it is called here, closely alike, or with this as a part."""
    if ELSEWHERE.get(name) in known:
        return ELSEWHERE[name]
    cutoff = CLOSE_SHORT if len(name) <= SHORT else CLOSE
    longer = [option for option in known if name in option] if len(name) >= SHORT else []
    close = difflib.get_close_matches(name, known, n=1, cutoff=cutoff)
    return next(iter([*close, *sorted(longer, key=len)]), None)


def printable(text: str) -> str:
    """Words of others in a sentence: of sane length, and nothing in them speaks to the terminal."""
    return without_codes(LONG_WORD.sub(lambda match: f"{match[0][:60]}…", text))


def without_codes(text: str) -> str:
    """A text in which nothing speaks to the terminal."""
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() or mark in "\n\t" else "?" for mark in text)


def reason_of(error: BaseException) -> str:
    """What others raised, as one line: its kind, what it says of itself, and where it is from."""
    try:
        words = str(error)
    except Exception:  # noqa: BLE001 - whatever a class of others does to make its text
        words = ""
    return located(printable(f"{type(error).__name__}: {words}"), place_of(error))


def located(words: str, place: str) -> str:
    """A sentence with the place that it is about, if there is one."""
    return f"{words} ({place})" if place else words


def place_of(error: BaseException) -> str:
    """The file and the line of a plugin that an error came from or through; empty if of none."""
    step, place = error.__traceback__, ""
    while step is not None:
        if _is_guest(step.tb_frame.f_code, step.tb_frame.f_globals):
            place = _line(step.tb_frame.f_code, step.tb_lineno)
        step = step.tb_next
    return place


def home_of(function: Any) -> str:
    """The file and the line where a plugin defines a function or method; empty if none does."""
    code = getattr(function, "__code__", None)
    if code is None or not _is_guest(code, getattr(function, "__globals__", {})):
        return ""
    return _line(code, code.co_firstlineno)


def of_kind(given: object, kind: type[T], function: object, what: str, instead: str) -> T:
    """What a function of a plugin returned, if it is what such a function must return."""
    if isinstance(given, kind):
        return given
    shape = getattr(given, "shape", None)
    found = "nothing" if given is None else f"{type(given).__name__}{f' {shape}' if shape else ''}"
    raise RecbenchError(
        located(f"{what} returned {found}, not {kind.__name__}; {instead}", home_of(function))
    )


def check_takes(function: Any, words: Sequence[object], what: str, as_in: str) -> None:
    """See that a function of a plugin takes what it is called with, as in `fit(self, train, ctx)`.

    A call that it does not take fails here, in our code, where nothing tells whose fault it is.
    """
    home = home_of(function)
    if not home:
        return
    try:
        inspect.signature(function, follow_wrapped=False).bind(*words)
    except TypeError as error:
        wrong = f"{what} does not take what it is given ({error}); define it as {as_in}"
        raise RecbenchError(located(wrong, home)) from error


def _line(code: CodeType, number: int) -> str:
    path = Path(code.co_filename)
    near = path.is_relative_to(Path.cwd())
    return f"{path.relative_to(Path.cwd()) if near else path}, line {number}"


def _is_guest(code: CodeType, names: dict[str, Any]) -> bool:
    """Whether code is of those who plug something in: not ours, nor a library's."""
    if str(names.get("__name__")).partition(".")[0] in GUESTS:
        return True
    return not code.co_filename.startswith(("<", *_libraries()))


@cache
def _libraries() -> tuple[str, ...]:
    import sysconfig

    return (*_library_folders(sysconfig.get_paths()), str(Path(__file__).parent))


def _library_folders(paths: dict[str, str]) -> Iterator[str]:
    for kind in ("stdlib", "platstdlib", "purelib", "platlib"):
        yield from (paths[kind], str(Path(paths[kind]).resolve()))


def counted(number: int, what: str) -> str:
    """A number and a noun that agree: 1 trial, 2 trials."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
