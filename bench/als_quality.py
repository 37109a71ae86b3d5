"""What iALS reaches on a dataset, beside irspack's, with the same search on the same split.

    python bench/als_quality.py --peers PYTHON -d gowalla       # an interpreter with irspack

Both go through the same grid of factors, weights and penalties, are chosen by ndcg@20 on
validation, fitted again on train and validation where the split says so, and measured on test by
one evaluator. Users' differences are tested in pairs.
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

METRICS = ("ndcg@20", "recall@20")
Point = dict[str, float]
Fit = Callable[[Any, Point], Any]
"""A train matrix and a point of the grid to user and item factors."""


def fit_here(train: Any, point: Point, sweeps: int) -> Any:
    """The `ials` of recbench."""
    from recbench.models.als_models import Ials
    from recbench.models.base import Context

    base = Ials(**point, iterations=sweeps, tol=0.0).fit(train, Context()).base
    return base.users.trained, base.items


def fit_there(train: Any, point: Point, sweeps: int, peers: str) -> Any:
    """That of irspack, in an interpreter that has it."""
    with tempfile.TemporaryDirectory(prefix="recbench-als-") as folder:
        sparse.save_npz(Path(folder) / "train.npz", sparse.csr_matrix(train))
        words = [peers, __file__, "--fit", folder, json.dumps(point | {"sweeps": sweeps})]
        subprocess.run(words, check=True)
        return [np.load(Path(folder) / f"{side}.npy") for side in ("users", "items")]


def fit_with_irspack(folder: Path, words: dict[str, Any]) -> None:
    """Fit in this process and leave the factors in a folder."""
    from irspack.recommenders.ials import IALSRecommender

    model = IALSRecommender(
        sparse.load_npz(folder / "train.npz"), n_components=int(words["factors"]),
        alpha0=words["alpha0"], reg=words["l2"], nu=words["nu"], solver_type="CHOLESKY",
        train_epochs=words["sweeps"],
    )  # fmt: skip
    model.start_learning()
    for _ in range(words["sweeps"]):
        model.run_epoch()
    np.save(folder / "users.npy", model.get_user_embedding())
    np.save(folder / "items.npy", model.get_item_embedding())


def measured(factors: Any, train: Any, part: Any) -> Any:
    """Values of every user, by the evaluator of every recbench run."""
    from recbench.evaluate import evaluate
    from recbench.metrics import parse_metric
    from recbench.models.scorers import Factors, Scorer

    scorer = Scorer(Factors(*(np.ascontiguousarray(side, np.float32) for side in factors)))
    return evaluate([scorer], part, train, [parse_metric(name) for name in METRICS])[0]


def searched(name: str, fit: Fit, split: Any, grid: list[Point]) -> Any:
    """The best point on validation, and its values on test."""
    best: tuple[float, Point] = (-1.0, {})
    for point in grid:
        values = measured(fit(split.train, point), split.train, split.valid)
        found = {metric: float(np.mean(values[metric])) for metric in METRICS}
        print(f"{name:9} {point} validation {found}", flush=True)
        best = max(best, (found[METRICS[0]], point), key=lambda pair: pair[0])
    values = measured(fit(split.full, best[1]), split.full, split.test)
    found = {metric: float(np.mean(values[metric])) for metric in METRICS}
    print(f"{name:9} {best[1]} test {found}", flush=True)
    return values


def grid_of(options: argparse.Namespace) -> Iterator[Point]:
    axes = (options.factors, options.alpha0, options.l2)
    for factors, alpha0, l2 in itertools.product(*axes):
        yield {"factors": factors, "alpha0": alpha0, "l2": l2, "nu": options.nu}


def compare(options: argparse.Namespace) -> None:
    from scipy.stats import wilcoxon

    from recbench.datasets import Access, default_split, open_dataset
    from recbench.search import split_from

    split = split_from(default_split(options.dataset)).apply(
        open_dataset(options.dataset, Access())
    )
    grid = list(grid_of(options))
    ours = searched(
        "recbench", lambda train, point: fit_here(train, point, options.sweeps), split, grid
    )
    theirs = searched(
        "irspack",
        lambda train, point: fit_there(train, point, options.sweeps, options.peers),
        split,
        grid,
    )
    for metric in METRICS:
        difference = ours[metric] - theirs[metric]
        p = wilcoxon(difference).pvalue if np.any(difference) else 1.0
        print(f"{metric}: recbench - irspack {difference.mean():+.5f} over users, p {p:.2g}")


def numbers(kind: type) -> Callable[[str], list[Any]]:
    return lambda text: [kind(word) for word in text.split(",")]


def main() -> None:
    if sys.argv[1:2] == ["--fit"]:
        fit_with_irspack(Path(sys.argv[2]), json.loads(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--peers", required=True, help="an interpreter that has irspack")
    parser.add_argument("-d", "--dataset", default="gowalla")
    parser.add_argument("--factors", type=numbers(int), default=[64, 256])
    parser.add_argument("--alpha0", type=numbers(float), default=[0.003, 0.01, 0.03])
    parser.add_argument("--l2", type=numbers(float), default=[0.001, 0.003, 0.01])
    parser.add_argument("--nu", type=float, default=1.0)
    parser.add_argument("--sweeps", type=int, default=16)
    compare(parser.parse_args())


if __name__ == "__main__":
    main()
