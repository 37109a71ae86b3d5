"""What iALS reaches on a dataset, beside irspack's, with the same search on the same split.

    python bench/als_quality.py --peers PYTHON -d gowalla       # an interpreter with irspack

Both go through the same grid of factors, weights, penalties and sweeps, are chosen by ndcg@20 on
validation, fitted again on train and validation where the split says so, with several seeds, and
measured on test by one evaluator. Users' differences, averaged over seeds, are tested in pairs.
"""

import argparse
import functools
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
Fit = Callable[[Any, Point, list[int], int], Iterator[tuple[int, Any]]]
"""A train matrix, a point of the grid, numbers of sweeps and a seed to a scorer after so many."""


def fit_here(
    train: Any, point: Point, sweeps: list[int], seed: int, last: str
) -> Iterator[tuple[int, Any]]:
    """The `ials` of recbench, with as many half sweeps as irspack takes, or one more."""
    from recbench.models.context import Context
    from recbench.models.factors.als import Ials

    # irspack begins with users and ends with items, which here is half a sweep more or less.
    full = [count - (last == "items") for count in sweeps]
    models = [Ials.of(**point, iterations=count, last=last, tol=0.0) for count in full]
    yield from zip(sweeps, models[0].family.fit(models, train, Context(seed=seed)), strict=True)


def fit_there(
    train: Any, point: Point, sweeps: list[int], seed: int, peers: str
) -> Iterator[tuple[int, Any]]:
    """That of irspack, in an interpreter that has it."""
    from recbench.models.scorers import Factors, Scorer

    with tempfile.TemporaryDirectory(prefix="recbench-als-") as folder:
        sparse.save_npz(Path(folder) / "train.npz", sparse.csr_matrix(train))
        words = [
            peers,
            __file__,
            "--fit",
            folder,
            json.dumps(point | {"sweeps": sweeps, "seed": seed}),
        ]
        subprocess.run(words, check=True)
        for count in sweeps:
            sides = (np.load(Path(folder) / f"{side}-{count}.npy") for side in ("users", "items"))
            yield (
                count,
                Scorer(Factors(*(np.ascontiguousarray(side, np.float32) for side in sides))),
            )


def fit_with_irspack(folder: Path, words: dict[str, Any]) -> None:
    """Fit in this process and leave the factors after some sweeps in a folder."""
    from irspack.recommenders.ials import IALSRecommender

    model = IALSRecommender(
        sparse.load_npz(folder / "train.npz"), n_components=int(words["factors"]),
        alpha0=words["alpha0"], reg=words["l2"], nu=words["nu"], solver_type="CHOLESKY",
        train_epochs=max(words["sweeps"]), random_seed=words["seed"],
    )  # fmt: skip
    model.start_learning()
    for sweep in range(1, max(words["sweeps"]) + 1):
        model.run_epoch()
        if sweep in words["sweeps"]:
            np.save(folder / f"users-{sweep}.npy", model.get_user_embedding())
            np.save(folder / f"items-{sweep}.npy", model.get_item_embedding())


def measured(scorer: Any, train: Any, part: Any) -> Any:
    """Values of every user, by the evaluator of every recbench run."""
    from recbench.evaluate.evaluate import evaluate
    from recbench.evaluate.metrics import parse_metric

    return evaluate([scorer], part, train, [parse_metric(name) for name in METRICS])[0]


def means(values: Any) -> dict[str, float]:
    return {metric: float(np.mean(values[metric])) for metric in METRICS}


def searched(name: str, fit: Fit, split: Any, options: argparse.Namespace) -> Any:
    """The best point and number of sweeps on validation, and the values of those on test."""
    best: tuple[float, Point, int] = (-1.0, {}, 0)
    for point in grid_of(options):
        for count, scorer in fit(split.train, point, sorted(options.sweeps), options.seeds[0]):
            found = means(measured(scorer, split.train, split.valid))
            print(f"{name:9} {point} {count:2} sweeps, validation {found}", flush=True)
            best = max(best, (found[METRICS[0]], point, count), key=lambda triple: triple[0])
    _, point, count = best
    values = []
    for seed in options.seeds:
        ((_, scorer),) = fit(split.full, point, [count], seed)
        values.append(measured(scorer, split.full, split.test))
        told = f"{count:2} sweeps, seed {seed}, test {means(values[-1])}"
        print(f"{name:9} {point} {told}", flush=True)
    return {metric: np.mean([each[metric] for each in values], axis=0) for metric in METRICS}


def grid_of(options: argparse.Namespace) -> Iterator[Point]:
    axes = (options.factors, options.alpha0, options.l2)
    for factors, alpha0, l2 in itertools.product(*axes):
        yield {"factors": factors, "alpha0": alpha0, "l2": l2, "nu": options.nu}


def compare(options: argparse.Namespace) -> None:
    from scipy.stats import wilcoxon

    from recbench.campaign.search.grammar import split_from
    from recbench.data.open import Access, default_split, open_dataset

    split = split_from(default_split(options.dataset)).apply(
        open_dataset(options.dataset, Access())
    )
    ours = searched("recbench", functools.partial(fit_here, last=options.last), split, options)
    peer = functools.partial(fit_there, peers=options.peers)
    theirs = searched("irspack", peer, split, options)
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
    parser.add_argument("--last", default="items", choices=("users", "items"))
    parser.add_argument("--seeds", type=numbers(int), default=[0, 1, 2, 3, 4])
    parser.add_argument("--sweeps", type=numbers(int), default=[2, 3, 4, 5, 6, 8, 12, 16])
    compare(parser.parse_args())


if __name__ == "__main__":
    main()
