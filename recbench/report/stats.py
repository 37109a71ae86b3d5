"""Paired tests on per-user values: intervals, p values and their correction.

Every model was measured on the same users, so users are the sample and everything works on
differences within a user. Columns are tested side by side with the same draws. A user whose
value is NaN in some column is not in that column's sample.
"""

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from recbench.linalg.types import Matrix, Vector

RESAMPLES = 10_000
LEVEL = 0.95
BLOCK = 1 << 22
"""Draws held at a time."""
ROUNDING = 1e-12
"""Sums in another order are not more extreme."""


def bootstrap_interval(
    differences: Matrix, seed: int = 0, resamples: int = RESAMPLES
) -> tuple[Vector, Vector]:
    """Percentile interval of the mean of each column, users drawn with replacement.

    All users are drawn together: a column that some of them are not in has, in each resample,
    as many users as were drawn of its own, as it would have if the study were repeated.
    """
    rng, users = np.random.default_rng(seed), len(differences)
    samples, which = np.unique(~np.isnan(differences), axis=1, return_inverse=True)
    columns = np.hstack([np.nan_to_num(differences), samples])
    totals = np.vstack([times @ columns for times in _times_drawn(rng, users, resamples)])
    sums, sizes = np.hsplit(totals, [differences.shape[1]])
    means = sums / np.maximum(sizes, 1)[:, which.ravel()]
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return low, high


def _times_drawn(rng: np.random.Generator, users: int, resamples: int) -> Iterator[Matrix]:
    """How often each user was drawn in each resample, a block of resamples at a time.

    Counts turn the means of a whole block into one matrix product. Poisson counts, given their
    total, are counts of draws with replacement; so each user gets one, with a mean small enough
    that they are rarely more than `users` together, and what is missing is drawn one by one.
    """
    table = _poisson_table(max(0.0, 1 - 3 / np.sqrt(users)))
    counts = np.empty((_step(users), users))
    for count in _blocks(resamples, users):
        times = table[_words(rng, count, users)]
        while len(over := np.flatnonzero(times.sum(axis=1, dtype=np.int64) > users)):
            times[over] = table[_words(rng, len(over), users)]
        missing = users - times.sum(axis=1, dtype=np.int64)
        cells = np.repeat(np.arange(count) * users, missing)
        np.add.at(times.reshape(-1), cells + rng.integers(users, size=len(cells)), 1)
        counts[:count] = times
        yield counts[:count]


def _words(rng: np.random.Generator, *shape: int) -> npt.NDArray[np.uint16]:
    return rng.integers(1 << 16, size=shape, dtype=np.uint16)


def _poisson_table(mean: float) -> npt.NDArray[np.uint8]:
    """Turns 16 random bits into a Poisson count, to 2^-16 of its probabilities."""
    chances = [math.exp(-mean) * mean**k / math.factorial(k) for k in range(12)]
    ends = np.round(np.cumsum(chances) * (1 << 16))
    return np.searchsorted(ends, np.arange(1 << 16), side="right").astype(np.uint8)


def permutation_p(differences: Matrix, seed: int = 0, resamples: int = RESAMPLES) -> Vector:
    """Two-sided p of each column's mean if every user's A and B were swapped by a coin.

    The observed assignment counts as one of the draws, so p is never 0 and the test never
    rejects too often.
    """
    present = np.nan_to_num(differences)
    totals = _swapped_totals(present, seed, resamples)
    least = np.abs(present.sum(axis=0)) - ROUNDING * np.abs(present).sum(axis=0)
    extreme = (np.abs(totals) >= least).sum(axis=0)
    p: Vector = (extreme + 1) / (resamples + 1)
    return p


def pairwise_p(values: Vector, seed: int = 0, resamples: int = RESAMPLES) -> Vector:
    """`permutation_p` of every two models: users x models x metrics to models x models x metrics.

    With the same coins, the total of swapped differences is the difference of swapped totals:
    all pairs cost what their columns cost.
    """
    users, models, metrics = values.shape
    centred = values - values.mean(axis=1, keepdims=True)  # cancels in every difference
    totals = _swapped_totals(centred.reshape(users, -1), seed, resamples)
    totals = totals.reshape(-1, models, metrics)
    observed, size = centred.sum(axis=0), np.abs(centred).sum(axis=0)
    p = np.ones((models, models, metrics))
    for i in range(models):
        least = np.abs(observed[i] - observed[:i]) - ROUNDING * (size[i] + size[:i])
        extreme = (np.abs(totals[:, i, np.newaxis] - totals[:, :i]) >= least).sum(axis=0)
        p[i, :i] = p[:i, i] = (extreme + 1) / (resamples + 1)
    return p


def _swapped_totals(columns: Matrix, seed: int, resamples: int) -> Matrix:
    """The sum of each column in each resample, every row's sign decided by a coin."""
    rng, users = np.random.default_rng([seed, 1]), len(columns)
    totals, heads = [], np.empty((_step(users), users))
    for count in _blocks(resamples, users):
        coins = np.frombuffer(rng.bytes(count * (-(-users // 8))), dtype=np.uint8)
        heads[:count] = np.unpackbits(coins.reshape(count, -1), axis=1, count=users)
        totals.append(heads[:count] @ columns)
    swapped: Matrix = 2.0 * np.vstack(totals) - columns.sum(axis=0)
    return swapped


def _blocks(resamples: int, users: int) -> Iterator[int]:
    """How many resamples to draw at a time."""
    for start in range(0, resamples, _step(users)):
        yield min(_step(users), resamples - start)


def _step(users: int) -> int:
    return max(1, BLOCK // max(users, 1))


def holm(p: Vector) -> Vector:
    """Correct p values that are looked at together, by Holm's step-down method."""
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate((len(p) - np.arange(len(p))) * p[order])
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(steps, 1.0)
    return corrected
