"""What every split rule must do, whoever wrote it: `recbench check-plugin NAME`."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from recbench.data.dataset import Dataset
from recbench.data.interactions import PARTS
from recbench.linalg.types import Indices, Sparse
from recbench.registry import SPLITS, CheckResult, Contract, build
from recbench.splits.base import SplitRule
from recbench.splits.types import Part, Split


@dataclass(frozen=True)
class Case:
    """A rule, and the data that it divides."""

    rule: SplitRule
    data: Dataset

    def split(self) -> Split:
        """The division, as a run takes it."""
        return self.rule.divide(self.data)

    def mark(self) -> tuple[object, ...]:
        """Another one for another split."""
        split = self.split()
        users = None if split.users is None else split.users.tobytes()
        return split.checksum, split.items.tobytes(), users


CONTRACT: Contract[Case] = Contract()


def check_split(rule: SplitRule, data: Dataset | None = None) -> Iterator[CheckResult]:
    """Put a rule through every check, on a small dataset with times and parts, or on another."""
    return CONTRACT.check(Case(rule, example() if data is None else data))


def example(users: int = 80, items: int = 25, seed: int = 7) -> Dataset:
    """Users of 5 to 20 items at different times, rows in no order, four of five for training."""
    rng = np.random.default_rng(seed)
    has = [rng.choice(items, size=rng.integers(5, 21), replace=False) for _ in range(users)]
    user = np.repeat(np.arange(users), [len(one) for one in has])
    order = rng.permutation(len(user))
    return Dataset(
        name="example",
        user=user[order].astype(np.int32),
        item=np.concatenate(has)[order].astype(np.int32),
        user_ids=pa.array([f"u{number:03}" for number in range(users)]),
        item_ids=pa.array(range(items), type=pa.int64()),
        time=rng.permutation(len(user)).astype(np.int64),
        part=np.where(np.arange(len(user)) % 5, 0, PARTS.index("test")).astype(np.int8),
    )


def _parts(split: Split) -> Iterator[tuple[str, Part, Sparse]]:
    """The name of each part, the part, and what is fitted on before it."""
    for name in ("valid", "test"):
        train, part = split.stage(name)
        yield name, part, train


def _rows(matrix: Sparse) -> Indices:
    return np.repeat(np.arange(matrix.shape[0], dtype=np.int32), np.diff(matrix.indptr))


def _common(a: Sparse, b: Sparse) -> int:
    """How many cells two matrices have both filled."""
    return int((a.astype(bool).multiply(b.astype(bool))).nnz)


@CONTRACT.rule
def _whole(case: Case) -> None:
    """It divides a dataset, and leaves it alone."""
    before = case.data.rows_digest
    case.split()
    now = replace(case.data)
    assert now.rows_digest == before, "the rows of the dataset were changed"


@CONTRACT.rule
def _same(case: Case) -> None:
    """The same rule gives the same split."""
    assert case.mark() == case.mark(), "applied twice, it gives two splits"


@CONTRACT.rule
def _found(case: Case) -> None:
    """Everybody to be ranked for has something to find, and there is somebody in both parts."""
    for name, part, _ in _parts(case.split()):
        assert len(part.users), f"{name} has no users"
        found = np.diff(part.target.indptr)
        assert found.min() > 0, f"{(found == 0).sum()} users of {name} have nothing to find"


@CONTRACT.rule
def _unseen(case: Case) -> None:
    """What is to be found is neither shown to a model nor kept out of its lists."""
    for name, part, train in _parts(case.split()):
        shown = _common(part.history, part.target)
        assert shown == 0, f"{shown} items to find in {name} are in the histories"
        kept = _common(part.seen, part.target)
        assert kept == 0, f"{kept} items to find in {name} are among those never recommended"
        known = part.train_rows >= 0
        leaked = _common(train[part.train_rows[known]], part.target[known])
        assert leaked == 0, f"{leaked} items to find in {name} are trained on before it"


@CONTRACT.rule
def _apart(case: Case) -> None:
    """Validation and test look for different things."""
    split = case.split()
    _, ours, theirs = np.intersect1d(split.valid.users, split.test.users, return_indices=True)
    twice = _common(split.valid.target[ours], split.test.target[theirs])
    assert twice == 0, f"{twice} interactions are to be found in both"


@CONTRACT.rule
def _of_the_data(case: Case) -> None:
    """All it hands out are interactions of the dataset, by the right users and items."""
    split, matrix = case.split(), case.data.matrix
    assert len(split.items) == split.train.shape[1], (
        f"{len(split.items)} items for {split.train.shape[1]} columns"
    )
    everybody = np.arange(split.train.shape[0]) if split.users is None else split.users
    pieces = [("train", split.train, everybody)]
    pieces += [("full", split.full, everybody)] if split.full is not None else []
    for name, part, _ in _parts(split):
        pieces += [(f"{name} histories", part.history, part.users)]
        pieces += [(f"{name} targets", part.target, part.users)]
    for name, piece, users in pieces:
        rows, columns = users[_rows(piece)], split.items[piece.indices]
        strange = int((matrix[rows, columns] == 0).sum()) if len(rows) else 0
        assert strange == 0, f"{strange} of {name} are no interactions of the dataset"


@CONTRACT.rule
def _order(case: Case) -> None:
    """Rows in another order give another split only if it says `ordered = True`."""
    if case.rule.ordered:
        return
    data, order = case.data, np.arange(len(case.data))[::-1]
    other = replace(
        data, user=data.user[order], item=data.item[order],
        time=None if data.time is None else data.time[order],
        part=None if data.part is None else data.part[order],
    )  # fmt: skip
    same = Case(case.rule, other).mark() == case.mark()
    assert same, "rows in another order give another split: say `ordered = True` in its class"


@CONTRACT.rule
def _text(case: Case) -> None:
    """Its canonical text reads back as the same rule, and is that of its splits."""
    text = case.rule.text
    assert build(text, SPLITS).text == text, f"'{text}' reads back as another rule"
    assert case.split().text == text, f"its splits say '{case.split().text}'; give text=self.text"
