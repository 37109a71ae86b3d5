"""Splits that were distributed as files: train, test and perhaps validation."""

from dataclasses import dataclass

import numpy as np

from recbench.data.dataset import Dataset, binary_csr
from recbench.data.interactions import PARTS
from recbench.errors import DataError, UsageError
from recbench.linalg.types import Counts, Sparse
from recbench.params import param
from recbench.registry import SPLITS
from recbench.splits.base import (
    SplitRule,
    check_data,
    check_part,
    fraction,
    legacy_seed,
    part_of,
    refit,
)
from recbench.splits.rows import deal, share, shuffle_users
from recbench.splits.types import Split


@SPLITS.register("given")
@dataclass(frozen=True)
class Given(SplitRule):
    """Use the files as they are; carve validation out of train if none was distributed."""

    valid: float = fraction(
        0.1, "fraction of each user's train items to tune on, where no validation file is given"
    )
    minimum: int = param(5, low=2, help="train items a user needs to give some to validation")
    refit: bool = refit()
    seed: int = legacy_seed(0)

    @property
    def refits(self) -> bool:
        """As the parameter says."""
        return self.refit

    def apply(self, data: Dataset) -> Split:
        """Read the parts off the dataset. All items of the files are columns."""
        _check_parts(data)
        given, valid_target, test_target = (_matrix(data, part) for part in PARTS)
        if valid_target.nnz:
            train, whole = given, given + valid_target
        else:
            whole = given
            train, valid_target = self._carve(given)
        full = whole if self.refit else train
        valid = part_of(train, valid_target)
        test = part_of(full, test_target, hidden=None if self.refit else whole)
        advice = f"give a minimum below {self.minimum}, or a validation file"
        check_part(self, data, "validation", valid, advice)
        notes = {
            "validation users without an item to find": data.n_users - len(valid.users),
            "test users without an item to find": data.n_users - len(test.users),
            "test users absent from train": int(np.count_nonzero(test.train_rows < 0)),
        }
        return Split(
            text=self.text,
            train=train,
            valid=valid,
            test=test,
            full=full if self.refit else None,
            items=np.arange(data.n_items, dtype=np.int32),
            notes=notes,
        )

    def _carve(self, given: Sparse) -> list[Sparse]:
        """Divide the given train matrix: each user's items shuffled, users and items ascending."""
        counts = np.diff(given.indptr).astype(np.int64)
        items = given.indices.copy()
        shuffle_users(items, counts, self.seed)
        return deal(items, self.sizes(counts), given.shape[1])

    def sizes(self, counts: Counts) -> Counts:
        """How many of each user's given items stay in train and how many go to validation."""
        some = np.clip(share(self.valid, counts), 1, counts - 1)
        valid = np.where(counts >= self.minimum, some, 0)
        return np.column_stack([counts - valid, valid])


def _matrix(data: Dataset, part: str) -> Sparse:
    rows = np.flatnonzero(data.part == PARTS.index(part))
    return binary_csr(data.user[rows], data.item[rows], (data.n_users, data.n_items))


def _check_parts(data: Dataset) -> None:
    """Refuse a dataset that did not come as files of train and test."""
    if data.part is None:
        default = data.provenance.get("split")
        advice = f"its own default is {default}" if default else "give --split strong, or weak"
        raise UsageError(f"{data.name} did not come as train and test files; {advice}")
    check_data(data)
    for part in ("train", "test"):
        if not np.any(data.part == PARTS.index(part)):
            raise DataError(f"the {part} part of {data.name} is empty; check its files")
