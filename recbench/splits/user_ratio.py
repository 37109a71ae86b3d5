"""RecStudio's `user_entry` split: a ratio of each user's rows, over all items of the data."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from recbench.data.dataset import Dataset
from recbench.linalg.types import Counts, Sparse
from recbench.registry import SPLITS
from recbench.splits.base import (
    SplitRule,
    check_data,
    check_part,
    check_ratios,
    fraction,
    legacy_seed,
    part_of,
)
from recbench.splits.rows import by_user, deal, first_seen, shuffle_users, sort_by_time
from recbench.splits.types import Split

ADVICE = "some user needs 3 interactions: use more data or looser filters"


@SPLITS.register("user-ratio")
@dataclass(frozen=True)
class UserRatio(SplitRule):
    """Hold out a random fraction of each user's rows, one at least where there are three."""

    cite: ClassVar[str] = (
        "Lian et al. (2023), RecStudio: Towards a Highly-Modularized Recommender System"
    )
    ordered: ClassVar[bool] = True

    ratio_valid: float = fraction(0.1, "fraction of each user's items for validation")
    ratio_test: float = fraction(0.1, "fraction of each user's items for test")
    seed: int = legacy_seed(2022)

    def __post_init__(self) -> None:
        """Check the parameters, and the ratios together."""
        super().__post_init__()
        check_ratios(self, self.ratio_valid, self.ratio_test)

    @property
    def timed(self) -> bool:
        """Rows are put in order of time before they are shuffled."""
        return True

    def apply(self, data: Dataset) -> Split:
        """Shuffle each user's rows and cut them: train first, then validation, then test."""
        check_data(data)
        train, valid_target, test_target = self._draw(data)
        valid = part_of(train, valid_target)
        test = part_of(train, test_target, hidden=train + valid_target)
        notes = {}
        for stage, part in (("validation", valid), ("test", test)):
            check_part(self, data, stage, part, ADVICE)
            notes[f"{stage} users without an item to find"] = data.n_users - len(part.users)
        return Split(
            text=self.text,
            train=train,
            valid=valid,
            test=test,
            items=np.arange(data.n_items, dtype=np.int32),
            notes=notes,
        )

    def _draw(self, data: Dataset) -> list[Sparse]:
        """Give the rows of train, validation and test; users draw in order of first appearance.

        Before the shuffle a user's rows are sorted by time, ties in file order. Data without
        times stay in file order.
        """
        rows, counts = by_user(data.user, data.n_users)
        if data.time is not None:
            sort_by_time(rows, counts, data.time)
        shuffle_users(rows, counts, self.seed, first_seen(data.user, data.n_users))
        return deal(data.item[rows], self.sizes(counts), data.n_items)

    def sizes(self, counts: Counts) -> Counts:
        """How many of each user's rows go to train, validation and test.

        Shares are truncated and the remainder is for train. Then test, and after it validation,
        takes one row from train if it has none and train has two.
        """
        sizes = np.outer(counts, [0.0, self.ratio_valid, self.ratio_test]).astype(np.int64)
        sizes[:, 0] = counts - sizes.sum(axis=1)
        for part in (2, 1):
            poor = (sizes[:, part] == 0) & (sizes[:, 0] > 1)
            sizes[poor, part] = 1
            sizes[poor, 0] -= 1
        return sizes
