"""Compiled functions: the machine code is kept on disk where that can be, and made anew elsewhere.

Importing this module imports numba, which takes a while: kernels are imported late. Then, and
whenever machine code is made or loaded, the clock stands still.
"""

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, cast

from recbench.files import home_folder
from recbench.linalg.clock import CLOCK
from recbench.linalg.types import Note, quiet

with CLOCK:
    from numba import njit
    from numba.core import config, event

settings: Any = config
"""Numba's; what is in there is made when it is imported."""
F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F, **options: Any) -> F:
    """Compile a function that lets other threads run, and keep the machine code on disk.

    It is kept beside the function or in the user's cache. If neither can be written, it is kept in
    a folder of recbench's; if there is none, every process compiles for itself.
    """
    usual = settings.CACHE_DIR
    for folder in chain([usual], _folders()):
        settings.CACHE_DIR = str(folder)
        try:
            return cast("F", njit(nogil=True, cache=True, **options)(function))
        except RuntimeError:  # it cannot be kept there
            continue
        finally:
            settings.CACHE_DIR = usual
    return cast("F", njit(nogil=True, **options)(function))


def _folders() -> Iterator[Path]:
    """Folders that belong to this user alone: whoever writes there decides what is run."""
    for folder in (home_folder(), Path(tempfile.gettempdir()) / f"recbench-{os.getuid()}"):
        kept = folder / "compiled"
        if _is_own(folder) and _is_own(kept):
            yield kept


def _is_own(folder: Path) -> bool:
    """Whether nobody but this user can write to a folder, which is made if there is none."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not others


def exact(function: F) -> F:
    """The same, every operation being rounded as it is written.

    So a number does not depend on whether it came out of a vector register or of what was left
    over at the end of a loop.
    """
    return compiled(function, error_model="numpy")


class _Watch(event.Listener):
    """Holds the clock while numba is at work, and tells of functions that are not on disk yet."""

    def __init__(self) -> None:
        self.made = 0
        self.note: Note = quiet
        for kind in (LOCK, COMPILE):
            event.register(kind, self)  # type: ignore[no-untyped-call]

    def on_start(self, event: Any) -> None:
        """Numba begins: to load or to compile, or to wait until another thread has done so."""
        if event.kind == LOCK:
            CLOCK.hold()
        else:
            self.made += 1
            self.note(COMPILING, self.made, 0)

    def on_end(self, event: Any) -> None:
        """Numba has done that."""
        if event.kind == LOCK:
            CLOCK.release()


LOCK, COMPILE = "numba:compiler_lock", "numba:compile"
COMPILING = "compiling, once on this machine"
_WATCH = _Watch()


@contextmanager
def compiling_told(note: Note) -> Iterator[None]:
    """Tell of functions that are compiled meanwhile: how many, as nobody knows how many to come."""
    _WATCH.made, _WATCH.note = 0, note
    try:
        yield
    finally:
        _WATCH.note = quiet  # first: what a note raises must not come again later
        if _WATCH.made:
            note(COMPILING, _WATCH.made, _WATCH.made)
