"""Leave-last-out: the newest item of every user is to be found, from all that came before it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from recbench.data.dataset import Dataset
from recbench.linalg.types import Counts, Flags, Integers
from recbench.params import param
from recbench.registry import SPLITS
from recbench.splits.base import SplitRule, check_data, check_part, part_of, refit, times_of
from recbench.splits.rows import by_user, deal, offsets, sort_by_time
from recbench.splits.types import Split


@SPLITS.register("last")
@dataclass(frozen=True)
class Last(SplitRule):
    """Hold out the last item of every user for the test, and the one before for validation."""

    cite: ClassVar[str] = "He et al. (2017), Neural Collaborative Filtering"
    ordered: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = ("ndcg@10", "hit@10")

    count: int = param(1, low=1, help="items of each user for test, and as many for validation")
    by: str = param(
        "time", choices=("time", "file"),
        help="what is last: by the times of the data, or by the order of its rows",
    )  # fmt: skip
    refit: bool = refit()

    @property
    def timed(self) -> bool:
        """If it goes by times."""
        return self.by == "time"

    @property
    def refits(self) -> bool:
        """As the parameter says."""
        return self.refit

    def apply(self, data: Dataset) -> Split:
        """Put each user's rows in order, equal times in file order, and cut off the end.

        All items are columns.
        """
        check_data(data)
        rows, counts = by_user(data.user, data.n_users)
        notes = {"users with too few items to hold any out": int(self._poor(counts).sum())}
        if self.by == "time":
            times = times_of(data, "give last[by=file], if its rows are in order of time")
            sort_by_time(rows, counts, times)
            notes["users cut between items of one time, in file order"] = self._ties(
                times[rows], counts
            )
        train, held, last = deal(data.item[rows], self.sizes(counts), data.n_items)
        before = train + held
        valid = part_of(train, held)
        test = part_of(before if self.refit else train, last, hidden=before)
        for stage, part in (("validation", valid), ("test", test)):
            check_part(self, data, stage, part, f"a user needs {2 * self.count + 1} items")
        return Split(
            text=self.text,
            train=train,
            valid=valid,
            test=test,
            full=before if self.refit else None,
            items=np.arange(data.n_items, dtype=np.int32),
            notes=notes,
        )

    def _poor(self, counts: Counts) -> Flags:
        poor: Flags = counts <= 2 * self.count
        return poor

    def sizes(self, counts: Counts) -> Counts:
        """How many of each user's items go to train, validation and test."""
        held = np.where(self._poor(counts), 0, self.count)
        return np.column_stack([counts - 2 * held, held, held])

    def _ties(self, time: Integers, counts: Counts) -> int:
        """How many users are cut between two items of the same time."""
        ends = offsets(counts)[1:][~self._poor(counts)]
        cuts = np.stack([ends - self.count, ends - 2 * self.count])
        return int((time[cuts] == time[cuts - 1]).any(axis=0).sum())
