"""`slim` beside scikit-learn's elastic net, `item-knn` and its ranking beside plain SciPy.

    python bench/neighbours.py              # ML-1M's size, synthetic, and Gowalla: minutes
    python bench/neighbours.py --columns 5  # fewer columns of slim

Slim is solved for some columns only, drawn at random and the same for both, one after the other by
one thread. The peer is called as RecBole's SLIMElastic calls it: the sparse matrix with the column
set to zero, random selection, at most 100 sweeps, a tolerance of 1e-4. It warns where these do not
suffice. recbench goes on to its own tolerance, and its share of the time for the Gram matrix is
counted: that of all columns, divided by their number. The objective of both says who is nearer.

Neighbours are searched in full by both, cosine and k = 100. The peer multiplies the normalised
matrix with itself as SciPy does, and takes the best of each row by `argpartition`. Ranking is
of all users with the weights that recbench found; the peer makes dense blocks of 1,000 users.

Ratios are of seconds on the wall and of processor seconds, the latter being less touched by other
work on the machine. Compilation, a few seconds once on a machine, is not counted.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from lae import gowalla
from scipy import sparse
from sklearn.linear_model import ElasticNet

from recbench.data.open import Access, open_dataset
from recbench.linalg import nonnegative, pairs
from recbench.linalg.nonnegative_kernel import solve_columns
from recbench.models.context import Context
from recbench.models.neighbours.knn import ItemKnn
from recbench.models.scorers import Query
from recbench.splits.given import Given

ML_1M = "synthetic:users=6040,items=3706,interactions=1000209"
PENALTIES = ((0.005, 1e-6), (0.005, 0.01))
"""α and ρ: the one published for Gowalla, and one with fewer weights."""
K, TOP, BLOCK = 100, 20, 1000


class Cost:
    """Seconds of a piece of work, on the wall and of the processor."""

    def __init__(self, wall: float = 0.0, processor: float = 0.0) -> None:
        self.wall, self.processor = wall, processor

    def of(self, work: Callable[[], Any]) -> Any:
        """Do it, and add what it takes."""
        start, used = time.perf_counter(), time.process_time()
        result = work()
        self.wall += time.perf_counter() - start
        self.processor += time.process_time() - used
        return result


def say(what: str, peer: Cost, ours: Cost, note: str = "") -> None:
    """Both, and their ratios."""
    print(
        f"  {what}: peer {peer.wall:.2f} s, recbench {ours.wall:.2f} s: "
        f"{peer.wall / ours.wall:.1f}x, of processor seconds "
        f"{peer.processor / ours.processor:.1f}x{note}",
        flush=True,
    )


def objective(train: sparse.csc_array, j: int, w: np.ndarray, l1: float, l2: float) -> float:
    """What is minimised for column j."""
    error = train[:, [j]].toarray()[:, 0] - train @ w
    return float(error @ error + l2 * w @ w) / 2 + l1 * float(w.sum())


def slim(train: sparse.csr_array, count: int) -> None:
    """Some columns by both."""
    users, n = train.shape
    order = np.argsort(-np.bincount(train.indices, minlength=n), kind="stable")
    popular = sparse.csr_array(train[:, order])
    popular.sort_indices()
    columns = sparse.csc_array(popular).astype(np.float64)
    chosen = np.sort(np.random.default_rng(0).choice(n, count, replace=False)).tolist()
    product = Cost()
    gram = product.of(lambda: pairs.gram(popular, lambda _: None))
    for alpha, ratio in PENALTIES:
        l1, l2 = users * alpha * ratio, users * alpha * (1 - ratio)
        path = np.array([[l1, l2]])
        share = count / n
        ours, peer = Cost(product.wall * share, product.processor * share), Cost()
        losses, weights = np.zeros(2), 0

        def solve(j: int, path: np.ndarray = path) -> np.ndarray:
            sizes, unsettled = np.zeros((1, 1), np.int64), np.zeros((1, 1), np.bool_)
            items, found = solve_columns(
                j, j + 1, *gram, path, 1e-7, 2000, nonnegative.FEW, sizes, unsettled
            )
            w = np.zeros(n)
            w[items] = found
            return w

        def elastic(j: int, alpha: float = alpha, ratio: float = ratio) -> np.ndarray:
            net = ElasticNet(
                alpha=alpha, l1_ratio=ratio, positive=True, fit_intercept=False, copy_X=False,
                precompute=True, selection="random", max_iter=100, tol=1e-4, random_state=0,
            )  # fmt: skip
            target = columns[:, [j]].toarray()[:, 0]
            others = columns.copy()
            others.data[others.indptr[j] : others.indptr[j + 1]] = 0.0
            return np.asarray(net.fit(sparse.csc_matrix(others), target).coef_)

        for j in chosen:
            mine = ours.of(lambda j=j: solve(j))
            theirs = peer.of(lambda j=j: elastic(j))
            losses += [objective(columns, j, w, l1, l2) for w in (mine, theirs)]
            weights += np.count_nonzero(mine)
        note = f", objective {losses[1] / losses[0] - 1:+.1e}, {weights / count:.0f} weights each"
        say(f"slim, α={alpha:g} ρ={ratio:g}, {count} of {n:,} columns", peer, ours, note)


def knn(train: sparse.csr_array) -> None:
    """All neighbours, and lists for all users."""
    n = train.shape[1]
    ours, peer = Cost(), Cost()
    scorer = ours.of(lambda: ItemKnn.of(k=K).fit(train, Context()))

    def search() -> sparse.csr_array:
        lengths = np.sqrt(np.bincount(train.indices, minlength=n))
        scaled = sparse.csr_array(train * (1 / np.maximum(lengths, 1))).astype(np.float32)
        alike = sparse.csr_array(scaled.T @ scaled)
        kept = []
        for j in range(n):
            part = slice(alike.indptr[j], alike.indptr[j + 1])
            items, values = alike.indices[part], alike.data[part].copy()
            values[items == j] = 0
            best = np.argpartition(-values, K)[:K] if len(values) > K else np.arange(len(values))
            kept.append((np.full(len(best), j), items[best], values[best]))
        targets, items, values = (np.concatenate(one) for one in zip(*kept, strict=True))
        return sparse.csr_array((values, (items, targets)), shape=(n, n))

    peer.of(search)
    say(f"item-knn, {n:,} items", peer, ours)
    rows, weights = np.arange(train.shape[0], dtype=np.int32), scorer.base.weights
    ours, peer = Cost(), Cost()
    ours.of(lambda: scorer.base.top(Query(train, rows, train, TOP)))

    def rank() -> None:
        for start in range(0, train.shape[0], BLOCK):
            history = train[start : start + BLOCK]
            scores = (history @ weights).toarray()
            scores[history.nonzero()] = -np.inf
            best = np.argpartition(-scores, TOP, axis=1)[:, :TOP]
            np.take_along_axis(scores, best, axis=1).sort(axis=1)

    peer.of(rank)
    say(f"its best {TOP} of {train.shape[0]:,} users", peer, ours)


def warm_up(train: sparse.csr_array) -> None:
    """Compile what is timed."""
    nonnegative.solve(pairs.gram(train, lambda _: None), [(1.0, 1.0)], 1e-3, 10, np.float32)
    base = ItemKnn.of(k=5).fit(train, Context()).base
    base.top(Query(train, np.arange(train.shape[0], dtype=np.int32), train, 5))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", type=int, default=20, help="columns of slim to solve")
    words = parser.parse_args()
    warnings.simplefilter("ignore")  # that 100 sweeps do not suffice
    small = open_dataset(ML_1M, Access()).matrix
    warm_up(small[:50])
    print(f"{ML_1M}: {small.shape[0]:,} x {small.shape[1]:,}", flush=True)
    slim(small, words.columns)
    knn(small)
    split = Given().apply(gowalla(0))
    train = sparse.csr_array(split.full).astype(np.float32)
    print(f"Gowalla: {train.shape[0]:,} x {train.shape[1]:,}", flush=True)
    slim(train, words.columns)
    knn(train)


if __name__ == "__main__":
    main()
