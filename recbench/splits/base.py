"""The interface of splits: a rule is a frozen description that divides a Dataset."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from recbench.data.dataset import Dataset, with_cells
from recbench.errors import DataError, UsageError, check_takes, home_of, located, of_kind
from recbench.linalg.types import Integers, Sparse
from recbench.params import Described, param
from recbench.splits.rows import pick
from recbench.splits.types import Part, Split


def fraction(default: float, text: str) -> Any:
    """Declare a parameter strictly between 0 and 1."""
    return param(default, low=0, high=1, open_low=True, open_high=True, help=text)


def legacy_seed(default: int) -> Any:
    """Declare the seed of a rule."""
    return param(default, low=0, high=2**32 - 1, help="seed of the legacy NumPy generator")


def refit() -> Any:
    """Declare whether the chosen model is fitted again on what validation took."""
    return param(True, help="fit the chosen model on train and validation together before the test")


class SplitRule(Described, ABC):
    """Parameters, frozen, that divide any dataset in one way.

    Subclasses are dataclasses with `param` fields, registered under a name. The same rule on
    the same dataset gives the same split, on every machine.
    """

    cite: ClassVar[str] = ""
    ordered: ClassVar[bool] = False
    """Whether the order of a dataset's rows, or their times, decide who gets what."""
    metrics: ClassVar[tuple[str, ...]] = ("ndcg@20", "recall@20")
    """What papers report for such splits: measured unless told otherwise; the first selects."""

    @property
    def timed(self) -> bool:
        """Whether it looks at the times of interactions, where they have some."""
        return False

    @property
    def refits(self) -> bool:
        """Whether the chosen model is fitted again on `Split.full`, validation included."""
        return False

    @abstractmethod
    def apply(self, data: Dataset) -> Split:
        """Divide a dataset, or say in a sentence why it cannot be done."""

    def divide(self, data: Dataset) -> Split:
        """Apply the rule, and see that it gives what it says."""
        apply = type(self).apply
        what = f"apply of {self.name}"
        check_takes(self.apply, (data,), what, "apply(self, data)")
        instead = "return Split(text=self.text, train=..., valid=part_of(...), test=part_of(...))"
        split = of_kind(self.apply(data), Split, apply, what, instead)
        if self.refits != (split.full is not None):
            gives = "no `full`" if split.full is None else "`full`"
            words = (
                f"split '{self.name}' says refits={self.refits} and gives {gives}; a rule that "
                "refits must give what it fits on before the test as `full`, any other full=None"
            )
            raise UsageError(located(words, home_of(apply)))
        return without_self(split, data) if data.graph else split


def times_of(data: Dataset, instead: str) -> Integers:
    """The times of a dataset, or a sentence that says what to do without."""
    if data.time is None:
        raise UsageError(
            f"{data.name} has no times, which this split goes by; name their column with --time "
            f"if it is a file of yours, else {instead}"
        )
    return data.time


def part_of(train: Sparse, target: Sparse, hidden: "Sparse | None" = None) -> Part:
    """Make the Part of all users with something to find; all matrices have the users as rows.

    A user without a row in `train` is one the model never met.
    """
    users = np.flatnonzero(np.diff(target.indptr)).astype(np.int32)
    known = np.diff(train.indptr)[users] > 0
    return Part(
        history=pick(train, users),
        target=pick(target, users),
        users=users,
        train_rows=np.where(known, users, np.int32(-1)).astype(np.int32),
        hidden=None if hidden is None else pick(hidden, users),
    )


def without_self(split: Split, data: Dataset) -> Split:
    """Hide from each node of a graph the node itself: nobody looks for it."""
    columns = np.full(data.n_items, -1, dtype=np.int32)
    columns[split.items] = np.arange(len(split.items), dtype=np.int32)

    def hide(part: Part) -> Part:
        own = data.own_items[part.users]
        own = np.where(own < 0, np.int32(-1), columns[own])
        return replace(part, hidden=with_cells(part.seen, own))

    return replace(split, valid=hide(split.valid), test=hide(split.test))


def check_data(data: Dataset) -> None:
    """Refuse a dataset with nothing in it."""
    if len(data) == 0:
        raise DataError(f"{data.name} has no interactions to split; check its file and filters")


def check_part(rule: SplitRule, data: Dataset, stage: str, part: Part, advice: str) -> None:
    """Refuse a part that nobody is in."""
    if len(part.users) == 0:
        raise DataError(
            f"{rule.text} leaves nobody of {data.name} ({data.shape_text}) "
            f"with an item to find in {stage}; {advice}"
        )


def check_ratios(rule: SplitRule, valid: float, test: float) -> None:
    """Refuse fractions that leave nothing to train on."""
    if valid + test >= 1:
        raise UsageError(
            f"{rule.name} holds out ratio-valid={valid:g} and ratio-test={test:g} of each user; "
            "together they must be less than 1"
        )
