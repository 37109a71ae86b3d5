"""Compiled functions: the machine code is kept on disk where that can be, and made anew elsewhere.

Importing this module imports numba, which takes a while: kernels are imported late.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F, **options: Any) -> F:
    """Compile a function that lets other threads run, and keep the machine code on disk."""
    try:
        return cast("F", njit(nogil=True, cache=True, **options)(function))
    except RuntimeError:  # no folder to keep it in can be written: compile in every process
        return cast("F", njit(nogil=True, **options)(function))


def exact(function: F) -> F:
    """The same, every operation being rounded as it is written.

    So a number does not depend on whether it came out of a vector register or of what was left
    over at the end of a loop.
    """
    return compiled(function, error_model="numpy")
