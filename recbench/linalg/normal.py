"""Half a sweep of alternating least squares: many small ridge regressions with a shared part.

Row u of a binary matrix, with entries I_u, wants the x that makes

    c0 xᵀG x + s Σ_{i∈I_u} s_i [c1 (q_i·x)² - 2 d1 q_i·x] + 2 d0 t·x + r |x|²            (1)

least, where q_i are the factors of the columns, G = Σ g_i q_i q_iᵀ and t = Σ h_i q_i. Shares s of
rows and s_i of columns are one unless they are given; below c1 and d1 stand for s c1 and s d1, and
s_i is left out. Its normal equations, (c0 G + c1 Σ q qᵀ + r I) x = d1 Σ q - d0 t, cost
|I_u| K² + K³/3 as they stand. Three steps make them cheaper and leave them exact:

1. Q is turned, once for all rows, into the eigenvectors of G. Products of users' and items'
   factors do not notice if both are turned, and D = c0 G + r I is diagonal in every row.
2. In y = D^1/2 x and X = Q D^-1/2, over the entries of the row, the equations become
   (I + c1 XᵀX) y = D^-1/2 (d1 Σ q - d0 t). Their eigenvalues are 1 or more: they can always be
   factorised. Directions in which D is zero, where G is singular, have no say and get nothing.
3. A row of n < K entries is solved in n unknowns instead, one for each entry: with
   (I + c1 X Xᵀ) z = d1 1 + c1 d0 X D^-1/2 t one has y = Xᵀz - d0 D^-1/2 t. That costs
   n² K + n³/3, and most rows are short.

With shares of columns X has rows √s_i q_i, and the vector of ones in step 3 has entries √s_i.

Conjugate gradients gain as well: step 2 is their preconditioner, and G costs them nothing.

Sums over all columns are made in blocks of fixed size and added up in order, in float64; a row is
solved by one thread. So results do not depend on the number of threads, which is the pool's.
"""

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import scipy

from recbench.errors import RecbenchError
from recbench.linalg import blas, shares
from recbench.linalg.shares import Share
from recbench.linalg.types import Counts, Floats, Indices, Sparse, Vector

BLOCK = 4096
"""Rows of factors that are multiplied at a time, by one thread."""

ROUNDING = 16
"""D counts as zero below this many roundings of the largest eigenvalue of c0 G."""

ROW_COST = 16
"""Entering a row costs about as much as an entry does, and that as much as this many unknowns."""

SHARES, SHARE = 8, 1 << 15
"""Shares of the rows for each core, so that all end together, and the least work of a share."""


class Diverged(RecbenchError):
    """Factors have become NaN or infinite."""

    def __init__(self) -> None:
        super().__init__(
            "the factors are no longer finite; give a larger l2, or smaller weights and exponents "
            "(alpha, c, nu, popularity, init)"
        )


@dataclass(frozen=True)
class Pattern:
    """Where the ones of a binary matrix are, by rows."""

    starts: Counts
    columns: Indices
    width: int

    @classmethod
    def of(cls, matrix: Sparse) -> "Pattern":
        """The entries of a matrix, whatever their values."""
        columns = matrix.indices.astype(np.int32, copy=False).view()
        columns.flags.writeable = False  # as those of a file are: kernels are compiled for one kind
        return cls(matrix.indptr.astype(np.int64), columns, matrix.shape[1])

    @property
    def lengths(self) -> Counts:
        """How many entries each row has."""
        return np.diff(self.starts)

    def transposed(self) -> "Pattern":
        """The same by columns."""
        ones = np.ones(len(self.columns), dtype=np.int8)
        shape = len(self.starts) - 1, self.width
        matrix = scipy.sparse.csr_array((ones, self.columns, self.starts), shape=shape)
        return Pattern.of(matrix.T.tocsr())


def chances(counts: Counts | Vector, power: float) -> Vector | None:
    """What is proportional to a power of counts and adds up to 1; None: the same for all."""
    if power == 0 or not counts.any():
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # infinity is found in the factors
        powers = counts.astype(np.float64) ** power
        shared: Vector = powers / powers.sum()
    return shared


def column_weights(counts: Counts | Vector, power: float) -> Vector | None:
    """The g and h of columns with so many entries each, 1 on average; None: all of them are 1."""
    shared = chances(counts, power)
    return None if shared is None else len(shared) * shared


@dataclass(frozen=True)
class Terms:
    """The coefficients of (1): c0, d0, r and s of each row, c1 and d1 of all."""

    gram: Vector
    push: Vector
    ridge: Vector
    entry: float
    """c1."""
    pull: float
    """d1."""
    share: Vector | None = None
    """s; None is one."""
    centred: bool = False
    """Whether the columns' factors are to enter G less their mean."""
    answer: float = 1.0
    """What d0 is times in the equations of the columns; but for 1 they are of no one objective."""
    power: float = 0.0
    """Columns weigh in G and t by their entries to this power: see `column_weights`."""

    def __post_init__(self) -> None:
        """Refuse what nobody has derived."""
        if self.centred and self.power:
            raise RecbenchError("Terms are centred or have a power of columns, not both")

    @property
    def entries(self) -> Vector:
        """What each row has for c1, s c1: what the square of an observed score weighs more."""
        return self._shared(self.entry)

    @property
    def pulls(self) -> Vector:
        """What each row has for d1, s d1: how much an observed score is pulled up."""
        return self._shared(self.pull)

    def _shared(self, scalar: float) -> Vector:
        return np.full(len(self.gram), scalar) if self.share is None else scalar * self.share


@dataclass(frozen=True)
class Basis:
    """One side's factors, turned so that their Gram matrix is diagonal."""

    factors: Floats
    spectrum: Vector
    """The diagonal of G."""
    total: Vector
    """t."""


@dataclass(frozen=True)
class Solved:
    """What half a sweep has come to."""

    penalty: float
    """Σ r |x|²."""
    loss: float
    """The rest of (1), summed over rows; NaN if it was not asked for."""


def turn(
    pool: Executor,
    factors: Floats,
    grams: Vector | None = None,
    pushes: Vector | None = None,
    companion: Floats | None = None,
    centred: bool = False,
) -> Basis:
    """Turn factors, in place, into the eigenvectors of their Gram matrix.

    `grams` and `pushes` are the g and h of G and t, one where not given. `companion`, factors that
    are multiplied with these, is turned with them so that no product changes. `centred` takes the
    mean of the factors out of G, where no g and h are given.
    """
    gram, total = sums(pool, factors, grams, pushes)
    if not np.isfinite(gram).all():
        raise Diverged
    if centred:
        gram -= np.outer(total, total) / len(factors)
    spectrum, vectors = scipy.linalg.eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
    turning = vectors.astype(factors.dtype)

    def turn_block(block: Floats) -> None:
        block[...] = block @ turning

    both = [factors] if companion is None else [factors, companion]
    blas.finish(pool, turn_block, [(a[rows],) for a in both for rows in row_blocks(len(a))])
    return Basis(factors, np.maximum(spectrum, 0.0), total @ vectors)


def sums(
    pool: Executor, factors: Floats, grams: Vector | None = None, pushes: Vector | None = None
) -> tuple[Vector, Vector]:
    """G and t, with g and h of one where they are not given."""

    def part_of(rows: slice) -> tuple[Floats, Floats]:
        block = factors[rows]
        total = block.sum(axis=0) if pushes is None else pushes[rows].astype(block.dtype) @ block
        if grams is not None:
            block = block * np.sqrt(grams[rows, None]).astype(block.dtype)
        with np.errstate(over="ignore", invalid="ignore"):  # infinity is found in the sum
            return block.T @ block, total  # one array twice: BLAS computes half of it

    gram = np.zeros((factors.shape[1],) * 2)
    total = np.zeros(factors.shape[1])
    for part, part_total in blas.in_order(pool, part_of, row_blocks(len(factors))):
        gram += part
        total += part_total
    return gram, total


def row_blocks(rows: int) -> list[slice]:
    """Cut rows into blocks of fixed size."""
    return [slice(start, min(start + BLOCK, rows)) for start in range(0, rows, BLOCK)]


def solve(
    pool: Executor,
    pattern: Pattern,
    basis: Basis,
    terms: Terms,
    out: Floats,
    *,
    columns: Vector | None = None,
    steps: int = 0,
    loss: bool = False,
) -> Solved:
    """Make (1) least for every row or, given steps of conjugate gradients, less than it was.

    `out` receives the factors of the rows; for conjugate gradients it holds those to start from.
    `columns` are the shares s_i, where they are not one.
    """
    from recbench.linalg import normal_kernel as kernel  # brings numba

    _refuse_singular(pattern, terms)
    dtype = basis.factors.dtype
    roots = np.zeros(0) if columns is None else np.sqrt(columns)
    vectors = (
        basis.spectrum, basis.total, terms.gram, terms.push, terms.ridge, terms.entries,
        terms.pulls, roots,
    )  # fmt: skip
    with np.errstate(over="ignore"):  # infinity is found in the result
        numbers = [vector.astype(dtype) for vector in vectors]
        floor = dtype.type(ROUNDING * np.finfo(dtype).eps * basis.spectrum.max(initial=0.0))
    system = kernel.System(pattern.starts, pattern.columns, basis.factors, *numbers)
    report = np.zeros((len(out), 2 if loss else 1))
    shared = (floor, system, out, report)
    work = _shares(pattern.lengths, 0 if steps else out.shape[1])
    if steps:
        blas.finish(pool, kernel.improve_rows, ((*rows, steps, *shared) for rows in work))
    else:
        blas.finish(pool, kernel.solve_rows, ((*rows, *shared) for rows in work))
    penalty, *losses = report.sum(axis=0).tolist()
    if not np.isfinite([penalty, *losses]).all():
        raise Diverged
    return Solved(penalty, losses[0] if losses else np.nan)


def _refuse_singular(pattern: Pattern, terms: Terms) -> None:
    free = (terms.gram == 0.0) & (terms.ridge == 0.0) & (pattern.lengths > 0)
    if free.any():
        raise RecbenchError(
            f"{np.count_nonzero(free)} users or items have neither a penalty nor a weight on what "
            "was not observed, which leaves their factors open; give l2 > 0"
        )


def _shares(lengths: Counts, factors: int) -> list[Share]:
    """Cut the rows into shares, and few rows into fewer."""
    unknowns = np.minimum(lengths, factors) + ROW_COST
    work = np.concatenate([[0], np.cumsum(lengths * unknowns + ROW_COST * ROW_COST)])
    return shares.fair(work, min(shares.for_cores(SHARES), 1 + int(work[-1]) // SHARE))
