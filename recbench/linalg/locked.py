"""Sparse matrices that are lent out: they cannot be written to, and it shows if they were."""

import zlib
from collections.abc import Iterable

import numpy as np
import scipy

from recbench.linalg.types import Sparse

Arrays = Iterable[np.ndarray]


def parts(matrix: Sparse) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The arrays that a matrix is made of."""
    return matrix.data, matrix.indices, matrix.indptr


def locked(matrix: Sparse) -> Sparse:
    """The same matrix in the same memory, of which nothing can be changed through this one."""
    views = [array.view() for array in parts(matrix)]
    for view in views:
        view.flags.writeable = False
    same = scipy.sparse.csr_array(tuple(views), shape=matrix.shape, copy=False)
    same.has_canonical_format = matrix.has_canonical_format
    return same


def checksum(arrays: Arrays) -> int:
    """A number that is another one if any byte of some arrays is; each is looked at once."""
    total = 0
    for array in {id(array): array for array in arrays}.values():
        total = zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data, total)
    return total
