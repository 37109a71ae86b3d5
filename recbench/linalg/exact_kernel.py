"""How `walk_kernel` and `adam_kernel` are compiled; importing this module imports numba."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def exact(function: F) -> F:
    """Compile a function that lets other threads run, and keep the machine code on disk.

    Every operation is rounded as it is written, so that a number does not depend on whether it
    came out of a vector register or of what was left over at the end of a loop.
    """

    def compile_(cache: bool) -> F:
        return cast("F", njit(cache=cache, nogil=True, error_model="numpy")(function))

    try:
        return compile_(cache=True)
    except RuntimeError:  # no folder to keep it in can be written: compile in every process
        return compile_(cache=False)
