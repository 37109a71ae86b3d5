"""Which numbers are taken: real ones, and in which precision."""

from typing import Any

import numpy as np
import numpy.typing as npt

from recbench.errors import RecbenchError
from recbench.linalg.types import Floats


def real(numbers: npt.ArrayLike, what: str = "scores") -> Floats:
    """An array of real numbers: others would lose a part of theirs on the way."""
    array = np.asanyarray(numbers)
    masked = isinstance(array, np.ma.MaskedArray)
    if masked or array.dtype.kind not in "biuf":
        raise RecbenchError(
            f"{what} must be real numbers, not {'masked' if masked else array.dtype.name}"
        )
    return np.asarray(array)


def real_dtype(scores: Floats) -> np.dtype[Any]:
    """float32 for what fits into it, else float64."""
    real(scores)
    return np.dtype(np.float32 if np.can_cast(scores.dtype, np.float32) else np.float64)
