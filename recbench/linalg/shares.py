"""Rows shared out to threads."""

import os
from functools import cache
from itertools import pairwise

import numpy as np

from recbench.linalg.types import Counts

Share = tuple[int, int]
"""The first row, and the one after the last."""

EACH = 4
"""Shares for every core: a few, so that all cores end together."""


def for_cores(each: int = EACH) -> int:
    """How many shares keep all cores busy."""
    return each * cores()


@cache
def cores() -> int:
    """How many there are; to ask takes longer than small steps do."""
    return os.cpu_count() or 1


def equal(start: int, stop: int) -> list[Share]:
    """Cut a range into shares of equally many rows."""
    edges = np.linspace(start, stop, for_cores() + 1).astype(int).tolist()
    return [(a, b) for a, b in pairwise(edges) if a < b]


def fair(work: Counts, count: int) -> list[Share]:
    """Cut rows into at most so many shares of about equal work.

    `work` is what all rows before each one take, and at its end what all of them take.
    """
    goals = np.linspace(0, work[-1], count + 1)
    return list(pairwise(np.unique(np.searchsorted(work, goals)).tolist()))


def by_entries(starts: Counts, count: int, row_cost: int) -> list[Share]:
    """Cut the rows of a sparse matrix, where a row itself takes as much as so many entries."""
    return fair(starts + row_cost * np.arange(len(starts)), count)
