"""The leading eigenpairs of a symmetric positive semidefinite matrix A.

Two ways. `decompose` takes all of A, n x n, and costs some 9 n³ operations. `leading` may also see
A only as an operator, through products with blocks of vectors, by block Lanczos with thick
restarts: an orthonormal basis Q is extended by the blocks that A makes of its last one, and the
eigenpairs (θ, s) of the small matrix QᵀAQ give θ and Q s with

    ‖A Q s - θ Q s‖ = ‖Y s_last‖,    Y = A X - Q Qᵀ A X for the last block X of Q,

which is computed, not estimated. When the basis is full, its best directions are kept and Y
extends them. A pair is found when that residual is below `tolerance` times the largest eigenvalue;
that makes it an exact pair of a matrix as close to A as that. Tolerances far above the rounding
errors of float32 are met in float32, all others in float64.

A block of b starting vectors finds at most b copies of one eigenvalue, and small residuals do not
say that no larger eigenvalue is missing. So a fresh random block is sent through A beside what was
found; what it finds above that extends the basis, and the search goes on.

Products are made by `tall`, so results do not depend on the number of threads.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from recbench.errors import RecbenchError
from recbench.linalg import blas, tall
from recbench.linalg.eigh import eigh
from recbench.linalg.steps import STEPS
from recbench.linalg.types import Matrix, Progress, Vector, silent

Operator = Callable[[Matrix], Matrix]
"""A times n x s numbers."""

TOLERANCE = 1e-8
SINGLE = 1e-4
"""From this tolerance on float32 is enough: the errors it adds are a hundredth of that."""
LOST = 2e-6
"""Products that are further off than this, by digits of their own, are never good enough."""
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


def precision(tolerance: float) -> type[np.floating[Any]]:
    """The arithmetic that a tolerance asks for; an operator of the same is all that is needed."""
    return np.float32 if tolerance >= SINGLE else np.float64


def block_size(k: int) -> int:
    """Vectors multiplied at a time: more are faster each, but more are needed then."""
    return 8 * int(np.clip(round(0.175 * float(np.sqrt(k))), 1, 16))  # whole registers


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


@STEPS("decomposition")
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
    `start` are leading pairs that are known already, to this tolerance. Pairs that cannot be found
    are an error that ends in `advice`.
    """
    k = min(k, n)
    if in_full(n, k):
        pairs = decompose(_whole(apply, n, progress), k)
        # Exact pairs of what the products gave; whether those are exact is another matter.
        residual = _residual(apply, pairs)
        if residual > max(tolerance, LOST):
            raise _not_found(k, n, residual, tolerance, advice)
        progress(n, n)
        return pairs
    rng = np.random.default_rng(seed)
    with blas.workers() as pool:
        krylov = _Krylov(pool, apply, n, basis_size(n, k), rng, tolerance, progress)
        return krylov.find(k, start, advice)


def decompose(matrix: Matrix, k: int) -> Eigenpairs:
    """The k largest eigenpairs from all of a symmetric matrix, which may be overwritten."""
    whole = np.require(matrix, np.float64, ["C", "W"])
    with blas.workers() as pool:
        values, vectors = eigh(pool, whole, min(k, len(whole)))
    return Eigenpairs(np.asarray(values, np.float64), _signed(np.ascontiguousarray(vectors)))


def _whole(apply: Operator, n: int, progress: Progress) -> Matrix:
    """The matrix behind an operator."""
    whole = np.eye(n)
    for start in range(0, n, COLUMNS):
        columns = slice(start, start + COLUMNS)
        whole[:, columns] = _finite(apply(whole[:, columns]))
        progress(start, n)
    return whole


def _residual(apply: Operator, pairs: Eigenpairs) -> float:
    """The largest ‖A v - θ v‖, relative to the largest θ; none of a matrix of zeros."""
    largest = 0.0
    for start in range(0, pairs.vectors.shape[1], COLUMNS):
        columns = slice(start, start + COLUMNS)
        vectors = pairs.vectors[:, columns]
        missed = _finite(apply(vectors)) - pairs.values[columns] * vectors
        largest = max(largest, float(np.linalg.norm(missed, axis=0).max(initial=0.0)))
    return largest / max(float(pairs.values.max(initial=0.0)), float(np.finfo(float).tiny))


def _not_found(k: int, n: int, residual: float, tolerance: float, advice: str) -> NotConverged:
    return NotConverged(
        f"the {k:,} largest eigenvalues of {n:,} were found to {residual:.0e}, not "
        f"{tolerance:.0e}, of the largest; {advice}"
    )


def _finite(image: Matrix) -> Matrix:
    if not np.isfinite(image).all():
        raise NotConverged("the matrix has entries that are not finite; compute in float64")
    return image


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
        self, pool: Executor, apply: Operator, n: int, room: int, rng: np.random.Generator,
        tolerance: float, progress: Progress,
    ) -> None:  # fmt: skip
        self.pool, self.apply, self.n, self.rng = pool, apply, n, rng
        self.tolerance, self.progress = tolerance, progress
        self.dtype = precision(tolerance)
        self.noise = 100 * float(np.finfo(self.dtype).eps)
        """What is this small beside what it was computed from may be rounding errors."""
        self.basis = np.zeros((n, room), self.dtype)
        self.inside = np.zeros((room, room), self.dtype)
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
            residual = float(errors[:k].max() / max(values[0], np.finfo(float).tiny))
            self._turn(values, turns)
            if residual <= self.tolerance:
                vectors = self.basis[:, :k].copy()
                more = self._overlooked(vectors, values[k - 1] + self.tolerance * values[0])
                if not more.size:
                    self.progress(self.applied, self.applied)
                    return Eigenpairs(values[:k], _signed(vectors), residual)
                rest = np.hstack([rest, float(values[0]) * more])
            block = self._new_block(rest, values[0])
            self.expected += room - self.held
        raise _not_found(k, self.n, residual, self.tolerance, advice)

    def _overlooked(self, vectors: Matrix, limit: float) -> Matrix:
        """Look beside these vectors for eigenvalues above a limit; return directions to them."""

        def beside(block: Matrix) -> Matrix:
            return block - tall.times(self.pool, vectors, tall.inner(self.pool, vectors, block))

        look = _Krylov(
            self.pool, lambda block: beside(np.asarray(self.apply(block), self.dtype)),
            self.n, PROBE * PROBE, self.rng, self.tolerance, silent,
        )  # fmt: skip
        block = look._new_block(beside(look._random(PROBE)), 0.0)
        values, turns, _ = look._pairs(look._extend(block, PROBE * PROBE), PROBE)
        look._turn(values, turns)
        return look.basis[:, : np.count_nonzero(values > limit)]

    def _hold(self, values: Vector, vectors: Matrix) -> None:
        """Start from pairs that are known."""
        self.held = len(values)
        self.basis[:, : self.held] = vectors
        self.inside[: self.held, : self.held] = np.diag(values)

    def _pairs(self, rest: Matrix, count: int) -> tuple[Vector, Matrix, Vector]:
        """Eigenvalues inside the span, their directions in the basis, and their residuals."""
        b = rest.shape[1]
        count = min(count, self.held)
        values, turns = eigh(self.pool, self.inside[: self.held, : self.held].copy(), count)
        factor = np.linalg.qr(rest, mode="r")
        errors = np.linalg.norm(factor @ turns[self.held - b :], axis=0)
        return np.asarray(values, np.float64), turns, np.asarray(errors, np.float64)

    def _new_block(self, block: Matrix, scale: float) -> Matrix:
        self._take_out(block)
        return self._orthonormal(block, scale)

    def _turn(self, values: Vector, turns: Matrix) -> None:
        """Keep the directions `turns` of the basis, on which A is diagonal."""
        held, count = self.held, len(values)

        def turn(rows: slice) -> None:
            self.basis[rows, :count] = self.basis[rows, :held] @ turns

        tall.by_pieces(self.pool, self.n, turn)
        self.inside[...] = 0.0
        np.fill_diagonal(self.inside[:count, :count], values)
        self.held, self.fresh = count, True

    def _extend(self, block: Matrix, room: int) -> Matrix:
        """Extend the basis by a block and what A makes of it, until it is full; return the rest."""
        while True:
            image = _finite(np.array(self.apply(block), self.dtype))
            self.applied += block.shape[1]
            self.expected = max(self.expected, self.applied + 1)  # done when it is found
            self.progress(self.applied, self.expected)
            self._add(block, image)
            if self.held + block.shape[1] > room:
                return image
            block = self._orthonormal(image, self.largest)

    def _add(self, block: Matrix, image: Matrix) -> None:
        """Add orthonormal columns X to the basis; leave of A X what is outside the span."""
        before, self.held = self.held, self.held + block.shape[1]
        new = slice(before, self.held)
        self.basis[:, new] = block
        # All of A X inside the span lies in the last two blocks, but for rounding errors, which
        # the second pass removes.
        first = 0 if self.fresh else before - block.shape[1]
        inside = np.zeros((self.held, block.shape[1]), self.dtype)
        inside[first:] = self._take_out(image, first)
        inside += self._take_out(image)
        self.inside[: self.held, new] = inside
        self.inside[new, : self.held] = inside.T
        self.inside[new, new] = (inside[new] + inside[new].T) / 2
        self.largest = max(self.largest, float(np.abs(inside).max()))
        self.fresh = False

    def _take_out(self, block: Matrix, first: int = 0) -> Matrix:
        """Subtract from a block its part in the span of the basis; return the coefficients."""
        basis = self.basis[:, first : self.held]
        inside = tall.inner(self.pool, basis, block)

        def subtract(rows: slice) -> None:
            block[rows] -= basis[rows] @ inside

        tall.by_pieces(self.pool, self.n, subtract)
        return inside

    def _orthonormal(self, block: Matrix, scale: float) -> Matrix:
        """Make a block orthonormal and orthogonal to the basis; random where nothing is left.

        `scale` is the size that the block had before its part in the basis was subtracted.
        """
        strong, lost = min(0.5, self.noise / self.tolerance), self.noise * scale
        while True:
            block, factor = tall.orthonormal(self.pool, block)
            size = np.abs(factor.diagonal())
            weak = size <= lost
            if not weak.any() and (size > strong * np.linalg.norm(factor, axis=0)).all():
                return block
            block[:, weak] = self._random(int(weak.sum()))
            self._take_out(block)
            strong, lost = 0.5, 0.0

    def _random(self, size: int) -> Matrix:
        block = self.rng.standard_normal((self.n, size)) / np.sqrt(self.n)
        return np.asarray(block, self.dtype)
