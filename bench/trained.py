"""Trained models: steps beside the machine's own matrix product, and the way to convergence.

    python bench/trained.py speed                  # steps by user, for several losses
    python bench/trained.py speed --peers PYTHON   # and in PyTorch, see bench/peers_trained.py
    python bench/trained.py curve mf-mine-plus     # ndcg@20 by seconds; a model's text

On Gowalla as LightGCN's authors split it, 64 factors. A step takes a block of users against all
items: three products of matrices, 6 · users · items · factors operations, which is all that is
counted. The product beside it is NumPy's own of two square float32 matrices, on as many threads,
taken in turns with the steps; the fastest of each counts, on the wall and in processor time.
Quadratic losses make no scores: bench/convergence.py has them.

A curve is made with all training interactions and measured on the test part after every epoch, or
every few, outside of the clock. It asks how long training takes, not which model is better: nothing
is selected by it. Memory is the most that the process ever had, less what it had before training.
"""

import argparse
import csv
import itertools
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np
from lae import gowalla
from scipy import sparse

from recbench.environment import usable_cores
from recbench.linalg import blas
from recbench.models.context import Context
from recbench.models.scorers import Query, Scorer
from recbench.models.trained.batches import Batch
from recbench.models.trained.training import Epochs
from recbench.registry import MODELS, build
from recbench.splits.given import Given

LOSSES = (
    "softmax", "mine-plus[t=0.1,weight=1.1]", "ccl", "infonce", "infonce-debiased", "bce", "uib",
    "sparsemax",
)  # fmt: skip
SIDE, ROUNDS, K, BATCH, FACTORS = 2048, 5, 20, 512, 64
KEPT: list[Any] = []
"""Pools that are in use."""


def timed(work: Callable[[], object], best: list[float]) -> None:
    """Do it, and keep the best wall and processor seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    found = time.perf_counter() - wall, time.process_time() - processor
    best[:] = [min(pair) for pair in zip(best, found, strict=True)]


def parts() -> tuple[sparse.csr_array, sparse.csr_array]:
    """Train and test, users x items each."""
    split = Given().apply(gowalla(0))
    train = sparse.csr_array(split.full).astype(np.float32)
    return train, sparse.csr_array(split.test.target).astype(np.float32)


def quality(scorer: Scorer, train: sparse.csr_array, test: sparse.csr_array) -> float:
    """The ndcg@20 of all users with something to find."""
    users = np.flatnonzero(np.diff(test.indptr)).astype(np.int32)
    (top,) = scorer.base.top(Query(train[users], users, train[users], K))
    found, gains = test[users], 1 / np.log2(np.arange(2, K + 2))
    hits = np.take_along_axis(found.toarray(), top.items, axis=1)
    ideal = np.concatenate([[0], np.cumsum(gains)])[np.minimum(np.diff(found.indptr), K)]
    return float((hits @ gains / ideal).mean())


def steps(model: Any, train: sparse.csr_array, count: int) -> Callable[[], None]:
    """What makes so many steps of an epoch."""

    class Short(Epochs):
        def _batches(self, draw: np.random.Generator) -> Iterator[Batch]:
            return itertools.islice(super()._batches(draw), count)

    number = itertools.count(1)
    fit = Short(model, train, pool_of(), Context())
    return lambda: fit.advance(next(number))


def speed(count: int, peers: str | None) -> None:
    """Steps of each loss in turns with a product of square matrices."""
    train, _ = parts()
    users, items = train.shape
    a, b = np.random.default_rng(0).standard_normal((2, SIDE, SIDE), dtype=np.float32)
    gemm = [float("inf")] * 2
    print(f"{users:,} users x {items:,} items, {FACTORS} factors, {BATCH} users a step")
    print("loss                   ms   cpu ms   GFLOP/s   of sgemm   of it in cpu   epoch s")
    for text in LOSSES:
        model = build(f"mf[loss={text},batch={BATCH},factors={FACTORS}]", MODELS)
        work, best = steps(model, train, count), [float("inf")] * 2
        work()  # compiles
        for _ in range(ROUNDS):
            timed(work, best)
            with blas.loaded().limit(limits=usable_cores()):
                timed(lambda: a @ b, gemm)
        blocks = -(-users // BATCH)
        flop = 6 * users / blocks * items * FACTORS
        wall, cpu = (seconds / count for seconds in best)
        rates = [2 * SIDE**3 / seconds for seconds in gemm]
        print(
            f"{text:28s}"[:18] + f"{1e3 * wall:9.1f}{1e3 * cpu:9.1f}{flop / wall / 1e9:10.1f}"
            f"{flop / wall / rates[0]:11.2f}{flop / cpu / rates[1]:15.2f}{wall * blocks:10.2f}",
            flush=True,
        )
    print(f"sgemm of {SIDE} x {SIDE}: {rates[0] / 1e9:.0f} GFLOP/s, {rates[1] / 1e9:.0f} per cpu s")
    if peers:
        with tempfile.TemporaryDirectory() as folder:
            script = Path(__file__).with_name("peers_trained.py")
            subprocess.run([peers, script, folder, "--only", "exact,mf-ccl"], check=True)


def curve(text: str, out: Path | None, seed: int, every: int) -> None:
    """Train one model; seconds, epochs and ndcg@20, and when it is within 1 % of its last."""
    train, test = parts()
    model = build(text, MODELS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fit, rows, wall, cpu = Epochs(model, train, pool_of(), Context(seed=seed)), [], 0.0, 0.0
    for epoch in range(1, model.training.epochs + 1):
        start = time.perf_counter(), time.process_time()
        fit.advance(epoch)
        wall, cpu = wall + time.perf_counter() - start[0], cpu + time.process_time() - start[1]
        if epoch == 1:
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        if epoch % every and epoch < model.training.epochs:
            continue
        rows.append((round(wall, 2), round(cpu, 2), epoch, quality(fit.look(), train, test)))
        print(
            f"epoch {epoch:3d} {wall:8.1f} s {cpu:8.1f} cpu s   ndcg@20 {rows[-1][3]:.4f}",
            flush=True,
        )
    if out is not None:
        with out.open("w", newline="") as file:
            csv.writer(file).writerows([("seconds", "cpu seconds", "epoch", "ndcg@20"), *rows])
    last = rows[-1][3]
    near = next(row for row in rows if row[3] >= 0.99 * last)
    tables = sum(table.nbytes for table in fit.tables.values())
    print(f"within 1 % of {last:.4f} after {near[0]:.0f} s ({near[1]:.0f} cpu s), {near[2]} epochs")
    print(f"memory of an epoch {most / 1e3:.0f} MB, tables {tables / 1e6:.0f} MB")


def pool_of() -> Executor:
    """The threads of the process, which end with it."""
    context = blas.workers()
    KEPT.append(context)
    return context.__enter__()


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    actions = parser.add_subparsers(dest="action", required=True)
    fast = actions.add_parser("speed")
    fast.add_argument("--steps", type=int, default=6)
    fast.add_argument("--peers", help="an interpreter with PyTorch, for bench/peers_trained.py")
    slow = actions.add_parser("curve")
    slow.add_argument("model")
    slow.add_argument("--out", type=Path)
    slow.add_argument("--seed", type=int, default=0)
    slow.add_argument("--every", type=int, default=1, help="measure after so many epochs")
    given = parser.parse_args()
    if given.action == "speed":
        speed(given.steps, given.peers)
    else:
        curve(given.model, given.out, given.seed, given.every)


if __name__ == "__main__":
    main()
