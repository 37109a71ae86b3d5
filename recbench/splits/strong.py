"""Strong generalisation: held-out users the model never met, as in Liang et al. (2018)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from recbench.data.dataset import Dataset, binary_csr
from recbench.errors import DataError, UsageError
from recbench.linalg.types import Counts, Indices, Sparse
from recbench.params import param
from recbench.registry import SPLITS
from recbench.splits.base import SplitRule, check_data, check_part, fraction, legacy_seed
from recbench.splits.rows import by_user, deal, first_seen, shuffle_users
from recbench.splits.types import Part, Split

LARGEST_AUTOMATIC = 10_000
"""Held-out users per part in the ML-20M protocol; more only on request."""

ADVICE = "give a smaller minimum, a larger target or more heldout users, or use weak"


@SPLITS.register("strong")
@dataclass(frozen=True)
class Strong(SplitRule):
    """Train on some users; show part of the items of others and ask for the rest."""

    cite: ClassVar[str] = (
        "Liang et al. (2018), Variational Autoencoders for Collaborative Filtering"
    )
    ordered: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = ("ndcg@100", "recall-capped@20", "recall-capped@50")

    heldout: int = param(
        0, low=0, help="users held out for validation, and again for test; 0: a tenth, up to 10000"
    )
    target: float = fraction(0.2, "fraction of a held-out user's items to find")
    minimum: int = param(5, low=1, help="items a held-out user needs to have any of them to find")
    seed: int = legacy_seed(98765)

    def apply(self, data: Dataset) -> Split:
        """Permute the users, cut the last ones off, and divide the items of those.

        The rows of `train` are in permuted order and the columns in order of first appearance
        among the train users' rows of the file: the published numbering.
        """
        check_data(data)
        train_users, *held_out = self._divide_users(data)
        row = _positions(train_users, data.n_users)
        in_train = row[data.user] >= 0
        user, item = row[data.user[in_train]], data.item[in_train]
        items = first_seen(item, data.n_items)
        column = _positions(items, data.n_items)
        train = binary_csr(user, column[item], (len(train_users), len(items)))
        notes = {"users held out for each part": len(held_out[0])}
        valid, test = (
            self._hold_out(data, stage, users, items, notes)
            for stage, users in zip(("validation", "test"), held_out, strict=True)
        )
        return Split(
            text=self.text,
            train=train,
            valid=valid,
            test=test,
            items=items,
            users=train_users,
            notes=notes,
        )

    def _divide_users(self, data: Dataset) -> list[Indices]:
        """Return the users of train, validation and test, each in permuted order."""
        users = np.flatnonzero(np.bincount(data.user, minlength=data.n_users)).astype(np.int32)
        n, held = len(users), self._held_out_of(len(users), data.name)
        shuffled = users[np.random.RandomState(self.seed).permutation(n)]
        return np.split(shuffled, [n - 2 * held, n - held])

    def _held_out_of(self, n_users: int, name: str) -> int:
        if n_users < 3:
            raise DataError(
                f"strong needs 3 users, one each for training, validation and test, "
                f"but {name} has {n_users}; use weak or more data"
            )
        if 2 * self.heldout >= n_users:
            raise UsageError(
                f"strong with heldout={self.heldout} holds out twice that many users, but {name} "
                f"has {n_users}; give heldout={(n_users - 1) // 2} or less, or 0 for a tenth"
            )
        return self.heldout or min(LARGEST_AUTOMATIC, max(1, n_users // 10))

    def _hold_out(
        self, data: Dataset, stage: str, users: Indices, items: Indices, notes: dict[str, int]
    ) -> Part:
        """Divide the items of held-out users into those shown and those to find."""
        held_out = np.zeros(data.n_users, dtype=np.bool_)
        held_out[users] = True
        column = _positions(items, data.n_items)
        rows = np.flatnonzero(held_out[data.user])
        known = rows[column[data.item[rows]] >= 0]
        user, columns = data.user[known], column[data.item[known]]
        target, history = self._cut(user, columns, (data.n_users, len(items)))
        finding = users[np.diff(target.indptr)[users] > 0]
        notes[f"{stage} rows on items absent from train"] = len(rows) - len(known)
        notes[f"{stage} users without an item to find"] = len(users) - len(finding)
        strangers = np.full(len(finding), -1, dtype=np.int32)
        part = Part(history[finding], target[finding], finding, strangers)
        check_part(self, data, stage, part, ADVICE)
        return part

    def _cut(self, user: Indices, columns: Indices, shape: tuple[int, int]) -> list[Sparse]:
        """Draw the items to find among each user's rows in file order, users ascending.

        The stream starts anew for each part. Users with too few rows draw nothing.
        """
        order, counts = by_user(user, shape[0])
        columns = columns[order]
        drawing = np.flatnonzero(counts >= self.minimum).astype(np.int32)
        shuffle_users(columns, counts, self.seed, drawing)
        return deal(columns, self.sizes(counts), shape[1])

    def sizes(self, counts: Counts) -> Counts:
        """How many of each user's items are to find and to show."""
        target = np.where(counts >= self.minimum, (self.target * counts).astype(np.int64), 0)
        return np.column_stack([target, counts - target])


def _positions(values: Indices, size: int) -> Indices:
    """Where each number below `size` stands in `values`; -1 where it does not."""
    position = np.full(size, -1, dtype=np.int32)
    position[values] = np.arange(len(values), dtype=np.int32)
    return position
