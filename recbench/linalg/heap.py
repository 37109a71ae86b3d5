"""Memory that one step of a fit frees and the next one asks for again.

glibc gives large blocks back to the system at once. Asked for again, every page of them comes by a
fault and is filled with zeros first, which takes up to a third of the processor time of a step. It
can be told to keep them.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

TRIM, MMAP = -1, -3
"""What `mallopt` calls the two thresholds: free memory above the first, and blocks above the second
go back to the system at once."""
KEPT = {TRIM: 2**31 - 1, MMAP: 2**28}
"""Blocks of 256 MB and more still go: one that is a little longer than the last finds no room in
what that one left behind."""
USUAL = {TRIM: 2**26, MMAP: 2**25}
"""Where glibc's own thresholds, which grow with what is freed, come to an end."""
CHOSEN = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


@contextmanager
def kept() -> Iterator[None]:
    """Keep what is freed, and give it back at the end.

    Nothing happens where the C library is another one, or where the environment has thresholds.
    """
    library = None if any(name in os.environ for name in CHOSEN) else glibc()
    if library is None:
        yield
        return
    _set(library, KEPT)
    try:
        yield
    finally:
        _set(library, USUAL)
        library.malloc_trim(0)


@cache
def glibc() -> Any:
    """The C library, if it is glibc."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") else None


def _set(library: Any, thresholds: dict[int, int]) -> None:
    for which, size in thresholds.items():
        library.mallopt(which, size)
