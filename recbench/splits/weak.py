"""Weak generalisation: every user is trained on, and some items of each are held out."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from recbench.data.dataset import Dataset, binary_csr
from recbench.linalg.types import Counts, Integers, Sparse
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
from recbench.splits.rows import deal, share, shuffle_users
from recbench.splits.types import Split

ADVICE = "give larger ratios or denser data, or use user-ratio, which keeps untrained items"


@SPLITS.register("weak")
@dataclass(frozen=True)
class Weak(SplitRule):
    """Hold out a random fraction of each user's items, as far as they occur in train."""

    cite: ClassVar[str] = (
        "Wang et al. (2019), Neural Graph Collaborative Filtering; He et al. (2020), LightGCN: "
        "Simplifying and Powering Graph Convolution Network for Recommendation"
    )

    ratio_valid: float = fraction(0.1, "fraction of each user's items for validation")
    ratio_test: float = fraction(0.1, "fraction of each user's items for test")
    seed: int = legacy_seed(0)

    def __post_init__(self) -> None:
        """Check the parameters, and the ratios together."""
        super().__post_init__()
        check_ratios(self, self.ratio_valid, self.ratio_test)

    def apply(self, data: Dataset) -> Split:
        """Shuffle each user's items, users and items ascending first, and cut.

        Only the content of the dataset matters, not the order of its rows.
        """
        check_data(data)
        matrices = self._draw(data)
        items = np.flatnonzero(np.bincount(matrices[0].indices, minlength=data.n_items))
        train, valid_target, test_target = (_columns(matrix, items) for matrix in matrices)
        valid = part_of(train, valid_target)
        test = part_of(train, test_target, hidden=train + valid_target)
        notes = {}
        for stage, part, rows in (("validation", valid, matrices[1]), ("test", test, matrices[2])):
            check_part(self, data, stage, part, ADVICE)
            notes[f"{stage} rows on items absent from train"] = rows.nnz - part.target.nnz
            notes[f"{stage} users without an item to find"] = data.n_users - len(part.users)
        return Split(
            text=self.text,
            train=train,
            valid=valid,
            test=test,
            items=items.astype(np.int32),
            notes=notes,
        )

    def _draw(self, data: Dataset) -> list[Sparse]:
        """Give the rows of train, validation and test, before any item is dropped."""
        rows = binary_csr(data.user, data.item, (data.n_users, data.n_items))
        counts, items = np.diff(rows.indptr).astype(np.int64), rows.indices
        del rows  # its values would weigh as much as the items, all through the deal
        shuffle_users(items, counts, self.seed)
        return deal(items, self.sizes(counts), data.n_items)

    def sizes(self, counts: Counts) -> Counts:
        """How many of each user's items go to train, validation and test.

        Train gets its share rounded down, but one at least; validation gets its share of the
        rest rounded down. So the first item held out is for test.
        """
        held_ratio = self.ratio_valid + self.ratio_test
        train = np.maximum(share(1 - held_ratio, counts), np.minimum(counts, 1))
        held_out = counts - train
        valid = share(self.ratio_valid / held_ratio, held_out)
        return np.column_stack([train, valid, held_out - valid])


def _columns(matrix: Sparse, items: Integers) -> Sparse:
    return matrix if len(items) == matrix.shape[1] else matrix[:, items]
