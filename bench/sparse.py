"""What a support costs and what it is worth: `ease-sparse` beside `ease`, and beside SANSA.

    python bench/sparse.py                  # Gowalla, by support
    python bench/sparse.py --peer           # and SANSA with as many weights
    python bench/sparse.py --items 1000000  # made-up interactions with so many items
    python bench/sparse.py --dense --figure FILE.svg      # ndcg@20 by weights, drawn

SANSA is `pip install sansa`, which needs SuiteSparse. It makes a sparse Cholesky factor of the Gram
matrix and an approximate inverse of that, both of some density, and keeps two matrices. It is given
the density at which these two have as many weights as recbench's one. Both are fitted on what
Gowalla is distributed for, at λ = 80, and ranked by recbench. Seconds are on the wall and of the
processor; compilation is not counted. What is told of memory is the most so far.
"""

import argparse
import logging
import resource
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from lae import gowalla
from scipy import sparse

from recbench.data.synthetic import generate, parse
from recbench.evaluate.evaluate import evaluate
from recbench.evaluate.metrics import parse_metric
from recbench.linalg.types import Floats, Indices
from recbench.models.context import Context
from recbench.models.scorers import Base, Scorer
from recbench.registry import MODELS, build
from recbench.report.html import charts
from recbench.report.html.figures import svg
from recbench.splits.given import Given

L2 = 80.0
SUPPORTS = (20, 50, 100, 200, 400)
METRICS = ("recall@20", "ndcg@20")
FACTORS = ("ICF", "CHOLMOD")
"""SANSA's ways to a sparse factor: incomplete from the beginning, or whole and then cut."""


DRAWN = "ndcg@20"
"""What is drawn by the number of weights."""


class Two(Base):
    """SANSA's weights: histories times one sparse matrix, times another."""

    def __init__(self, first: sparse.csr_array, second: sparse.csr_array) -> None:
        self.first, self.second, self.n_items = first, second, second.shape[1]

    def score(self, history: sparse.csr_array, rows: Indices) -> Floats:
        """Multiply."""
        return np.asarray(((history @ self.first) @ self.second).toarray(), np.float32)


def peer(factor: str, train: sparse.csr_array, weights: int) -> tuple[Scorer, int]:
    """SANSA with so many weights, and how many it has."""
    import sansa

    logging.disable()  # it says much
    density = weights / 2 / train.shape[1] ** 2
    how = sansa.SANSAConfig(
        L2, density, getattr(sansa, f"{factor}GramianFactorizerConfig")(),
        sansa.UMRUnitLowerTriangleInverterConfig(),
    )  # fmt: skip
    model = sansa.SANSA(how).fit(sparse.csr_matrix(train))
    first, second = (sparse.csr_array(matrix) for matrix in model.weights)
    return Scorer(Two(first, second)), first.nnz + second.nnz


def ours(text: str, train: sparse.csr_array) -> tuple[Scorer, int]:
    """A model of recbench's, and how many weights it has."""
    scorer = build(text, MODELS).fit(train, Context())
    per_item = scorer.facts.get("weights per item", train.shape[1])
    return scorer, int(per_item * train.shape[1])


class Told(NamedTuple):
    """What came of a model."""

    weights: int
    worth: Mapping[str, float]
    """By metric, if anything was ranked."""


def told(
    name: str,
    make: Callable[[], tuple[Scorer, int]],
    measure: Callable[[Scorer], Mapping[str, float]],
) -> Told:
    """Print what a model takes and what it is worth."""
    start, used = time.perf_counter(), time.process_time()
    scorer, weights = make()
    wall, processor = time.perf_counter() - start, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    worth = measure(scorer)
    words = "  ".join(f"{metric} {value:.4f}" for metric, value in worth.items())
    print(
        f"{name:36} {weights / 1e6:9.2f} M weights {wall:8.1f} s {processor:8.1f} s "
        f"{peak:6.2f} GB  {words}",
        flush=True,
    )
    return Told(weights, worth)


def draw(path: Path, found: Mapping[str, list[Told]]) -> None:
    """What lists are worth by the number of weights, a line for each way to them."""
    series = {
        name: [
            (one.weights / 1e6, one.worth[DRAWN], f"{name}: {one.worth[DRAWN]:.4f}") for one in some
        ]
        for name, some in found.items()
    }
    chart = charts.lines(series, "weights, millions", DRAWN, log=True)
    path.write_text(svg(chart), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--least", type=int, default=1, help="of Gowalla, items with so many users")
    parser.add_argument("--supports", default=",".join(map(str, SUPPORTS)))
    parser.add_argument("--peer", action="store_true", help="SANSA as well")
    parser.add_argument("--dense", action="store_true", help="ease as well")
    parser.add_argument("--items", type=int, help="made-up data instead")
    parser.add_argument("--figure", type=Path, help=f"draw {DRAWN} by weights to this file")
    arguments = parser.parse_args()
    small = generate(parse("synthetic:users=100,items=50,interactions=1000")).matrix
    ours("ease-sparse[support=9]", small)  # compiles

    if arguments.items:
        n = arguments.items
        train = generate(parse(f"synthetic:users={n},items={n},interactions={20 * n}")).matrix

        def measure(scorer: Scorer) -> Mapping[str, float]:
            return {}

    else:
        split = Given(refit=True).divide(gowalla(arguments.least))
        train, part = split.stage("test")

        def measure(scorer: Scorer) -> Mapping[str, float]:
            (values,) = evaluate([scorer], part, train, [parse_metric(text) for text in METRICS])
            return {text: float(np.mean(values[text])) for text in METRICS}

    print(f"{train.shape[0]:,} users x {train.shape[1]:,} items, {train.nnz:,} interactions")
    found: dict[str, list[Told]] = defaultdict(list)
    if arguments.dense:
        found["ease"].append(told("ease", partial(ours, f"ease[l2={L2}]", train), measure))
    for support in map(int, arguments.supports.split(",")):
        both: list[Told] = []
        for looks in (1, 2):
            text = f"ease-sparse[l2={L2},support={support},looks={looks}]"
            both.append(told(text, partial(ours, text, train), measure))
            found[f"ease-sparse, looks={looks}"].append(both[-1])
        if arguments.peer:
            for factor in FACTORS:
                most = max(one.weights for one in both)
                name = f"SANSA, {factor}"
                found[name].append(told(name, partial(peer, factor, train, most), measure))
    if arguments.figure:
        draw(arguments.figure, found)


if __name__ == "__main__":
    main()
