"""What `compare` costs and how often it is wrong: time at 30,000 users, errors where A equals B.

Run: python bench/compare.py [--simulations 4000]

Without a difference a test at 5 % may reject in 5 % of the studies. Three ways to have none:
swapped   two models whose users were handed to A or B by a coin: what the test assumes
centred   users drawn from a population whose mean difference is 0, skewed and mostly ties
table     15 such questions at once (as a table has), rejected if Holm lets any one of them pass
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd

from recbench.report.compare import compare
from recbench.report.stats import LEVEL, holm, permutation_p

USERS = 500
RESAMPLES = 2_000
QUESTIONS = 15
METRICS = ("ndcg@100", "recall-capped@20", "recall-capped@50")

Values = npt.NDArray[np.float64]
Study = Callable[[np.random.Generator], Values]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--simulations", type=int, default=4_000)
    arguments = parser.parse_args()
    print(f"{arguments.simulations} studies of {USERS} users, {RESAMPLES} resamples, at 5 %")
    for name, study in (("swapped", swapped), ("centred", centred)):
        print(f"  {name:8} {rejections(study, arguments.simulations):.2%} rejected")
    print(f"  {'table':8} {families(arguments.simulations // QUESTIONS):.2%} with any rejected")
    seconds, rows = timed(users=30_000)
    print(f"compare, 30,000 users, {rows} questions, 10,000 resamples: {seconds[0]:.2f} s")
    print(f"  of processor time: {seconds[1]:.2f} s")


def rejections(study: Study, simulations: int) -> float:
    """The share of studies in which the permutation test sees a difference."""
    rng = np.random.default_rng(0)
    rejected = [permutation_p(study(rng), seed, RESAMPLES)[0] < 1 - LEVEL
                for seed in range(simulations)]  # fmt: skip
    return float(np.mean(rejected))


def families(tables: int) -> float:
    """The share of tables in which any question is answered, after correction."""
    rng = np.random.default_rng(1)
    wrong = []
    for seed in range(tables):
        differences = np.hstack([swapped(rng) for _ in range(QUESTIONS)])
        wrong.append((holm(permutation_p(differences, seed, RESAMPLES)) < 1 - LEVEL).any())
    return float(np.mean(wrong))


def swapped(rng: np.random.Generator) -> Values:
    """Recall in steps, of two models, assigned to A and B by a coin for each user."""
    targets = rng.integers(1, 8, USERS)
    easy = rng.beta(0.6, 1.2, USERS)
    better = rng.binomial(targets, np.minimum(1, easy * 1.2)) / targets
    worse = rng.binomial(targets, easy) / targets
    return (np.where(rng.random(USERS) < 0.5, 1, -1) * (better - worse))[:, np.newaxis]


def centred(rng: np.random.Generator) -> Values:
    """Many ties, small losses, a few large gains; the population's mean is 0."""
    kind = rng.random(USERS)
    values = np.where(kind < 0.6, 0.0, np.where(kind < 0.9, -1.0, 3.0))
    return (values * rng.uniform(0.5, 1.5, USERS) * 0.05)[:, np.newaxis]


def timed(users: int) -> tuple[tuple[float, float], int]:
    """Wall and processor seconds of a comparison by all groups."""
    sides = [per_user(users, seed) for seed in (1, 2)]
    wall, processor = time.perf_counter(), time.process_time()
    rows = len(compare(*sides))
    return (time.perf_counter() - wall, time.process_time() - processor), rows


def per_user(users: int, seed: int) -> pd.DataFrame:
    """What a results folder holds of one trial."""
    rng = np.random.default_rng(seed)
    columns: dict[str, object] = {
        "user": np.arange(users), "history": np.arange(users) % 40, "targets": 3,
    }  # fmt: skip
    for name in METRICS:
        columns[name] = rng.beta(0.6, 1.2, users)
    for group in ("head", "tail"):
        for name in METRICS:
            there = np.arange(users) % 5 > (group == "tail")
            columns[f"{group}:{name}"] = np.where(there, rng.beta(0.6, 1.2, users), np.nan)
    return pd.DataFrame(columns)


if __name__ == "__main__":
    main()
