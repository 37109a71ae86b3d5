"""The words for arrays, and for how work says how far it has come."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import scipy

Floats = npt.NDArray[np.floating[Any]]
"""Real numbers of either precision, in any shape."""
Matrix = Floats
"""Those in rows and columns."""
Vector = npt.NDArray[np.float64]
"""Double precision, one number for each of something."""
Indices = npt.NDArray[np.int32]
"""Rows or columns of a matrix."""
Integers = npt.NDArray[np.int64]
Counts = Integers
"""How many of something, or where each of them starts."""
Flags = npt.NDArray[np.bool_]

Sparse: TypeAlias = "scipy.sparse.csr_array"
"""A sparse matrix by rows, SciPy's. Annotations have its name alone: importing it takes a twentieth
of a second, which those who make one wait for, by `scipy.sparse`, and those who list do not."""

Progress = Callable[[int, int], None]
"""Called with what is done and how much there is in all."""
Note = Callable[[str, int, int], None]
"""Called with a name for the work first, where several kinds of it share a line of progress."""


def silent(done: int, total: int) -> None:
    """A Progress that tells nobody."""


def quiet(what: str, done: int, total: int) -> None:
    """A Note that tells nobody."""
