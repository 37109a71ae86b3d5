"""Singular vectors and rank sweeps: recbench beside SciPy's svds and scikit-learn's randomized_svd.

    python bench/spectral.py                          # ranks 64 and 512: minutes, nearly all svds'
    python bench/spectral.py --ranks 2048             # svds alone may take an hour
    python bench/spectral.py --ranks --sweep 1000     # no races, only the sweep
    python bench/spectral.py --debian                 # the embedded dataset instead of Gowalla

The matrix is the training part of Gowalla on its items with 20 interactions or more, 29,851 x
13,701. A peer runs as it comes and its residual is measured: the largest ‖RᵀR v - σ² v‖ over its
pairs, relative to σ_1². recbench then runs to that residual or better on the same matrix, in
float32 where that suffices; so scikit-learn also gets the matrix in float32. Ratios are of seconds
on the wall and of processor seconds, which other work on the machine touches less.

--sweep fits 5 models x 20 ranks x 10 penalties together, and the largest rank of one of them
alone; then it ranks 1,000 users by all of them, by the 20 ranks of one, and by its largest alone.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from lae import gowalla
from scipy import sparse
from scipy.sparse.linalg import svds

from recbench.data.dataset import load_embedded
from recbench.evaluate.evaluate import rank
from recbench.linalg import eigen
from recbench.linalg.thin import GramProduct
from recbench.models.base import Model
from recbench.models.context import Context
from recbench.models.linear import spectral
from recbench.models.scorers import Scorer
from recbench.splits.given import Given
from recbench.splits.strong import Strong
from recbench.splits.types import Part

Floats = npt.NDArray[np.float64]
Pairs = tuple[Floats, Floats]
"""Singular values and right singular vectors as columns."""
USERS, DEPTH = 1000, 100
RANKS, PENALTIES = 20, np.geomspace(0.1, 100, 10).tolist()
ROUNDING = 1e-12
"""A residual below this is luck; nobody is asked to repeat it."""


class Cost:
    """Seconds on the wall and of all processors."""

    def __init__(self, wall: float, processor: float) -> None:
        self.wall, self.processor = wall, processor

    def over(self, other: "Cost") -> str:
        """How many times as much as another."""
        wall, processor = self.wall / other.wall, self.processor / other.processor
        return f"{wall:.2f} x ({processor:.2f} x processor)"

    def __str__(self) -> str:
        return f"{self.wall:.2f} s ({self.processor:.2f} s)"


def timed(work: Callable[[], Any]) -> tuple[Cost, Any]:
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return Cost(time.perf_counter() - wall, time.process_time() - processor), result


# Singular vectors


def with_svds(matrix: sparse.csr_array, k: int) -> Pairs:
    # ARPACK's criterion is looser than what it reaches: this gives residuals near 1e-8.
    _, sigma, right = svds(matrix, k, tol=1e-2, rng=0)
    return sigma, right.T


def with_randomized(matrix: sparse.csr_array, k: int) -> Pairs:
    from sklearn.utils.extmath import randomized_svd

    _, sigma, right = randomized_svd(sparse.csr_matrix(matrix), k, random_state=0)
    return sigma, right.T


def with_randomized_single(matrix: sparse.csr_array, k: int) -> Pairs:
    sigma, right = with_randomized(matrix.astype(np.float32), k)
    return sigma.astype(np.float64), right.astype(np.float64)


def with_recbench(matrix: sparse.csr_array, k: int, tolerance: float) -> Pairs:
    operator = GramProduct(matrix, eigen.precision(tolerance))
    pairs = eigen.leading(operator, matrix.shape[1], k, tolerance=tolerance)
    return np.sqrt(pairs.values), pairs.vectors


PEERS: dict[str, Callable[[sparse.csr_array, int], Pairs]] = {
    "randomized": with_randomized,
    "randomized-float32": with_randomized_single,
    "svds": with_svds,
}


def residual(matrix: sparse.csr_array, pairs: Pairs) -> float:
    sigma, right = pairs
    missed = matrix.T @ (matrix @ right.astype(np.float64)) - right * sigma**2
    return float(np.linalg.norm(missed, axis=0).max() / sigma.max() ** 2)


def race(matrix: sparse.csr_array, k: int, name: str) -> None:
    """Run a peer, then recbench to the same residual."""
    theirs, pairs = timed(lambda: PEERS[name](matrix, k))
    reached = residual(matrix, pairs)
    ours, found = timed(lambda: with_recbench(matrix, k, max(reached, ROUNDING)))
    print(
        f"rank {k:5}  {name:18} {theirs} to {reached:.0e}   recbench {ours} "
        f"to {residual(matrix, found):.0e}   {theirs.over(ours)}",
        flush=True,
    )


# Sweeps


def models_of(largest: int) -> list[Model]:
    """Five models x 20 ranks x 10 penalties."""
    ranks = np.unique(np.linspace(largest / RANKS, largest, RANKS).astype(int)).tolist()
    return [
        model
        for value in PENALTIES
        for k in ranks
        for model in (
            spectral.RegularizedPca(k=k, l2=value), spectral.Vlae(k=k, c=value),
            spectral.Lrr(k=k, l2=value), spectral.LrrWeighted(k=k, l2=value),
            spectral.MfSorted(k=k, l2=value),
        )
    ]  # fmt: skip


def sweep(matrix: sparse.csr_array, largest: int) -> None:
    """Fit 1,000 models and one; rank by all, by 20 and by one."""
    models, context = models_of(largest), Context()
    train, family = matrix.astype(np.float32), spectral.Spectral()
    chosen = [i for i, m in enumerate(models) if m.name == "lrr" and m.values()["l2"] == 0.1]
    one, _ = timed(lambda: family.fit([models[chosen[-1]]], train, context))
    every, scorers = timed(lambda: family.fit(models, train, context))
    print(f"fit {len(models)} models {every}, rank {largest} alone {one}: {every.over(one)}")
    history, rows = train[:USERS], np.arange(USERS, dtype=np.int32)
    part = Part(history, sparse.csr_array(history.shape, dtype=np.float32), rows, rows)
    ranked_by(scorers[chosen[0] :][:1], part)  # compiles, and keeps coordinates for all
    alone = ranked_by([scorers[chosen[-1]]], part)
    for group in ([scorers[i] for i in chosen], scorers):
        cost = ranked_by(group, part)
        print(f"rank {USERS} users by {len(group)} models {cost}, by the largest rank alone "
              f"{alone}: {cost.over(alone)}")  # fmt: skip


def ranked_by(scorers: Sequence[Scorer], part: Part) -> Cost:
    """Rank, those side by side that share their scores."""
    grouped = sorted(scorers, key=lambda scorer: id(scorer.base.shared))
    cost, _ = timed(lambda: [None for _ in rank(grouped, part, DEPTH)])
    return cost


def matrix_from(debian: bool) -> sparse.csr_array:
    """The training matrix."""
    if debian:
        return Strong().apply(load_embedded("debian")).train
    return Given().apply(gowalla()).full


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--debian", action="store_true", help="use the embedded dataset")
    parser.add_argument("--ranks", type=int, nargs="*", default=[64, 512])
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    parser.add_argument("--sweep", type=int, default=0, metavar="RANK")
    given = parser.parse_args()
    matrix = sparse.csr_array(matrix_from(given.debian)).astype(np.float64)
    print(f"{matrix.shape[0]:,} users, {matrix.shape[1]:,} items, {matrix.nnz:,} interactions")
    with_recbench(matrix, 8, 1e-2)  # compiles both precisions
    with_recbench(matrix, 8, eigen.TOLERANCE)
    for name in given.peers:
        PEERS[name](matrix, 8)  # imports, too
    for k in given.ranks:
        for name in given.peers:
            race(matrix, k, name)
    if given.sweep:
        sweep(matrix, given.sweep)


if __name__ == "__main__":
    main()
