"""The leading eigenpairs of a symmetric positive semidefinite matrix A.

Two ways. `decompose` takes all of A, n x n, and costs some 9 n³ operations. `leading` may also see
A only as an operator, through products with blocks of vectors, by block Lanczos with thick
restarts: an orthonormal basis Q is extended by the blocks that A makes of its last one, and the
eigenpairs (θ, s) of the small matrix QᵀAQ give θ and Q s with

    ‖A Q s - θ Q s‖ = ‖Y s_last‖,    Y = A X - Q Qᵀ A X for the last block X of Q,

which is computed, not estimated. When the basis is full, its best directions are kept and Y
extends them. All is done in float64. A pair is found when that residual is below `tolerance` times
the largest eigenvalue; that makes it an exact pair of a matrix as close to A as that.

A block of b starting vectors finds at most b copies of one eigenvalue. So what was found is taken
out at the end, and a fresh random block looks for anything larger left behind.

Products are made by `tall`, so results do not depend on the number of threads.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from recbench.errors import RecbenchError
from recbench.linalg import blas, tall

Matrix = npt.NDArray[np.floating[Any]]
Vector = npt.NDArray[np.float64]
Operator = Callable[[Matrix], Matrix]
"""A times n x s numbers."""
Progress = Callable[[int, int], None]

TOLERANCE = 1e-8
CYCLES = 30
"""Restarts before giving up; two or three are usual."""
COLUMNS = 256
"""Columns multiplied at a time to make a whole matrix of an operator."""
FEW = 16
"""Columns whose signs are looked at at a time."""
SMALL = 256
"""Below this many rows a full decomposition is instant."""
SHARE = 0.6
"""A Krylov basis of more than this share of n would cost more than a full decomposition."""
PROBE = 8
"""Vectors in a fresh block that looks for overlooked eigenvalues, and blocks that follow it."""
FEWER = "ask for fewer"
EPS = float(np.finfo(np.float64).eps)


class NotConverged(RecbenchError):
    """Some eigenpairs were not found to the precision asked for."""


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """The largest eigenvalues, descending, and their vectors as columns."""

    values: Vector
    vectors: Matrix
    residual: float = 0.0
    """The largest ‖A v - θ v‖, relative to the largest eigenvalue; 0 is rounding errors alone."""

    def first(self, k: int) -> "Eigenpairs":
        """The k largest."""
        return Eigenpairs(self.values[:k], self.vectors[:, :k], self.residual)


def silent(done: int, total: int) -> None:
    """Report progress to nobody."""


def block_size(k: int) -> int:
    """Vectors multiplied at a time: more are faster each, but more are needed then."""
    return int(np.clip(np.sqrt(k), 8, 128))


def basis_size(n: int, k: int) -> int:
    """Vectors of a Krylov basis for k eigenpairs."""
    return min(n, k + k // 4 + 14 * block_size(k))


def in_full(n: int, k: int) -> bool:
    """Whether k eigenpairs are had faster from the whole matrix."""
    return n <= SMALL or basis_size(n, k) > SHARE * n


def bytes_needed(n: int, k: int) -> int:
    """Bytes of memory that finding k eigenpairs takes, beside what the operator needs."""
    if in_full(n, k):
        return 8 * n * (3 * n + k)  # the matrix and what LAPACK works in, twice its size
    basis = basis_size(n, k)
    return 8 * (n * (basis + k + 12 * block_size(k)) + 6 * basis * basis)


def leading(
    apply: Operator,
    n: int,
    k: int,
    *,
    start: Eigenpairs | None = None,
    tolerance: float = TOLERANCE,
    seed: int = 0,
    progress: Progress = silent,
    advice: str = FEWER,
) -> Eigenpairs:
    """The k largest eigenpairs of the n x n matrix that `apply` multiplies with.

    Where that is the faster way, the matrix is made from its products and decomposed in full.
    `start` are leading pairs that are known already. Pairs that cannot be found are an error that
    ends in `advice`.
    """
    k = min(k, n)
    if in_full(n, k):
        pairs = decompose(_whole(apply, n, progress), k)
        progress(n, n)
        return pairs
    krylov = _Krylov(apply, n, basis_size(n, k), np.random.default_rng(seed), tolerance, progress)
    return krylov.find(k, start, advice)


def decompose(matrix: Matrix, k: int) -> Eigenpairs:
    """The k largest eigenpairs from all of a symmetric matrix, which may be overwritten."""
    with blas.workers():
        values, vectors = _eigh(np.asarray(matrix, np.float64), k)
    return Eigenpairs(values, _signed(vectors))


def _whole(apply: Operator, n: int, progress: Progress) -> Matrix:
    """The matrix behind an operator."""
    whole = np.eye(n)
    for start in range(0, n, COLUMNS):
        columns = slice(start, start + COLUMNS)
        whole[:, columns] = _finite(apply(whole[:, columns]))
        progress(start, n)
    return whole


def _finite(image: Matrix) -> Matrix:
    if not np.isfinite(image).all():
        raise NotConverged("the matrix has entries that are not finite; compute in float64")
    return image


def _eigh(matrix: Matrix, k: int) -> tuple[Vector, Matrix]:
    """The k largest eigenpairs by LAPACK, descending."""
    # Asking LAPACK for all pairs (divide and conquer) is faster than asking for a half. It reads
    # columns: rows would be copied.
    columns = matrix if matrix.flags.f_contiguous else matrix.T
    values, vectors = scipy.linalg.eigh(columns, driver="evd", check_finite=False, overwrite_a=True)
    return values[: -k - 1 : -1], np.ascontiguousarray(vectors[:, : -k - 1 : -1])


def _signed(vectors: Matrix) -> Matrix:
    """Make the first of the largest entries of each column positive, in place."""
    for start in range(0, vectors.shape[1], FEW):
        some = vectors[:, start : start + FEW]
        size = np.abs(some)
        # Entries that are equal but for rounding count as equal.
        first = np.argmax(size >= (1.0 - 1e-6) * size.max(axis=0, initial=0.0), axis=0)
        some *= np.where(some[first, np.arange(some.shape[1])] < 0.0, -1.0, 1.0)
    return vectors


class _Krylov:
    """A basis of orthonormal columns and what A does inside its span."""

    def __init__(
        self, apply: Operator, n: int, room: int, rng: np.random.Generator,
        tolerance: float, progress: Progress,
    ) -> None:  # fmt: skip
        self.apply, self.n, self.rng = apply, n, rng
        self.tolerance, self.progress = tolerance, progress
        self.basis = np.zeros((n, room))
        self.inside = np.zeros((room, room))
        """QᵀAQ."""
        self.largest = 0.0
        """Of its entries, in size."""
        self.held = 0
        self.fresh = True
        """Whether the next block may touch any column of the basis, not just the last ones."""
        self.applied, self.expected = 0, room

    def find(self, k: int, start: Eigenpairs | None, advice: str) -> Eigenpairs:
        """Extend and restart until k pairs are found and nothing larger was overlooked."""
        room = self.basis.shape[1]
        if start is not None:
            self._hold(start.values, start.vectors)
        block = self._new_block(self._random(block_size(k)), 0.0)
        for _ in range(CYCLES):
            rest = self._extend(block, room)
            values, turns, errors = self._pairs(rest, k + (room - k) // 3)
            residual = errors[:k].max() / max(values[0], np.finfo(float).tiny)
            if residual > self.tolerance:
                self._turn(values, turns)
                block = self._new_block(rest, values[0])
                self.expected += room - self.held
                continue
            self._turn(values[:k], turns[:, :k])
            vectors = self.basis[:, :k].copy()
            more = self._overlooked(values)
            if more is None:
                self.progress(self.applied, self.applied)
                return Eigenpairs(values[:k], _signed(vectors), residual)
            block = self._new_block(more, values[0])
        raise NotConverged(
            f"the {k:,} largest eigenvalues of {self.n:,} were found to {residual:.0e}, not "
            f"{self.tolerance:.0e}, of the largest; {advice}"
        )

    def _overlooked(self, values: Vector) -> Matrix | None:
        """Look for eigenvalues above those held; return what extends the basis if there are any."""
        k = self.held
        block = self._new_block(self._random(PROBE), 0.0)
        rest = self._extend(block, k + PROBE * PROBE)
        left = scipy.linalg.eigvalsh(self.inside[k : self.held, k : self.held])[-1]
        return rest if left > values[k - 1] + self.tolerance * values[0] else None

    def _hold(self, values: Vector, vectors: Matrix) -> None:
        """Start from pairs that are known."""
        self.held = len(values)
        self.basis[:, : self.held] = vectors
        self.inside[: self.held, : self.held] = np.diag(values)

    def _pairs(self, rest: Matrix, count: int) -> tuple[Vector, Matrix, Vector]:
        """Eigenvalues inside the span, their directions in the basis, and their residuals."""
        b = rest.shape[1]
        count = min(count, self.held)
        with blas.workers():
            values, turns = _eigh(self.inside[: self.held, : self.held].copy(), count)
            factor = np.linalg.qr(rest, mode="r")
            errors = np.linalg.norm(factor @ turns[self.held - b :], axis=0)
        return values, turns, errors

    def _new_block(self, block: Matrix, scale: float) -> Matrix:
        with blas.workers() as pool:
            self._take_out(block, pool)
            return self._orthonormal(block, scale, pool)

    def _turn(self, values: Vector, turns: Matrix) -> None:
        """Keep the directions `turns` of the basis, on which A is diagonal."""
        held, kept = self.held, len(values)

        def turn(rows: slice) -> None:
            self.basis[rows, :kept] = self.basis[rows, :held] @ turns

        with blas.workers() as pool:
            tall.by_pieces(pool, self.n, turn)
        self.inside[...] = 0.0
        np.fill_diagonal(self.inside[:kept, :kept], values)
        self.held, self.fresh = kept, True

    def _extend(self, block: Matrix, room: int) -> Matrix:
        """Extend the basis by a block and what A makes of it, until it is full; return the rest."""
        while True:
            image = _finite(np.array(self.apply(block), np.float64))
            self.applied += block.shape[1]
            self.expected = max(self.expected, self.applied + 1)  # done when it is found
            self.progress(self.applied, self.expected)
            with blas.workers() as pool:
                self._add(block, image, pool)
                if self.held + block.shape[1] > room:
                    return image
                block = self._orthonormal(image, self.largest, pool)

    def _add(self, block: Matrix, image: Matrix, pool: Executor) -> None:
        """Add orthonormal columns X to the basis; leave of A X what is outside the span."""
        before, self.held = self.held, self.held + block.shape[1]
        new = slice(before, self.held)
        self.basis[:, new] = block
        # All of A X inside the span lies in the last two blocks, but for rounding errors, which
        # the second pass removes.
        first = 0 if self.fresh else before - block.shape[1]
        inside = np.zeros((self.held, block.shape[1]))
        inside[first:] = self._take_out(image, pool, first)
        inside += self._take_out(image, pool)
        self.inside[: self.held, new] = inside
        self.inside[new, : self.held] = inside.T
        self.inside[new, new] = (inside[new] + inside[new].T) / 2
        self.largest = max(self.largest, float(np.abs(inside).max()))
        self.fresh = False

    def _take_out(self, block: Matrix, pool: Executor, first: int = 0) -> Matrix:
        """Subtract from a block its part in the span of the basis; return the coefficients."""
        basis = self.basis[:, first : self.held]
        inside = tall.inner(pool, basis, block)

        def subtract(rows: slice) -> None:
            block[rows] -= basis[rows] @ inside

        tall.by_pieces(pool, self.n, subtract)
        return inside

    def _orthonormal(self, block: Matrix, scale: float, pool: Executor) -> Matrix:
        """Make a block orthonormal and orthogonal to the basis; random where nothing is left.

        `scale` is the size that the block had before its part in the basis was subtracted.
        """
        strong = min(0.5, 100 * EPS / self.tolerance)
        while True:
            block, factor = np.linalg.qr(block)
            size = np.abs(factor.diagonal())
            if (size > strong * scale).all():
                return block
            lost = size <= 100 * EPS * scale
            block[:, lost] = self._random(int(lost.sum()))
            self._take_out(block, pool)
            strong, scale = 0.5, 1.0

    def _random(self, size: int) -> Matrix:
        return np.asarray(self.rng.standard_normal((self.n, size)) / np.sqrt(self.n))
