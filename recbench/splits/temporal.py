"""A split by time: trained on what came before a moment, asked for what came after."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, ClassVar

import numpy as np

from recbench.data.dataset import Dataset, binary_csr
from recbench.errors import DataError, UsageError
from recbench.linalg.types import Integers, Sparse
from recbench.params import param
from recbench.registry import SPLITS
from recbench.splits.base import SplitRule, check_data, check_part, part_of, refit, times_of
from recbench.splits.types import Split

MILLISECONDS = 10**11
"""Times beyond this are milliseconds: as seconds they would lie after the year 5000."""

Moment = float | date
"""A share of the rows, or a day."""


def _moment(default: str, text: str) -> Any:
    return param(
        default, help=f"{text}: a share of the rows, as in 0.1, or a day, as in 2015-01-31"
    )


@SPLITS.register("temporal")
@dataclass(frozen=True)
class Temporal(SplitRule):
    """Hold out what came last in the whole data: the future is to be found from the past."""

    cite: ClassVar[str] = (
        "Ji et al. (2023), A Critical Study on Data Leakage in Recommender System Offline "
        "Evaluation"
    )
    ordered: ClassVar[bool] = True

    valid: str = _moment("0.1", "what validation takes, before the test begins")
    test: str = _moment("0.1", "what the test takes, at the end")
    cold: bool = param(
        False, help="keep what nobody can learn: users and items that the past does not have"
    )
    refit: bool = refit()

    def __post_init__(self) -> None:
        """Check both moments, and that they leave something."""
        super().__post_init__()
        valid, test = self._when("valid"), self._when("test")
        shares = [moment for moment in (valid, test) if isinstance(moment, float)]
        if sum(shares) >= 1:
            raise UsageError(f"{self.text} leaves nothing to train on")
        if isinstance(valid, date) and isinstance(test, date) and valid >= test:
            raise UsageError(f"{self.text}: validation must begin before the test does")

    def _when(self, name: str) -> Moment:
        text = getattr(self, name)
        try:
            share = float(text)
        except ValueError:
            try:
                return date.fromisoformat(text)
            except ValueError:
                share = 0.0
        if not 0 < share < 1:  # not a number, too
            raise UsageError(
                f"parameter '{name}' of temporal is {text}; it must be a share between 0 and 1, or "
                "a day such as 2015-01-31"
            )
        return share

    @property
    def timed(self) -> bool:
        """Always."""
        return True

    @property
    def refits(self) -> bool:
        """As the parameter says."""
        return self.refit

    def apply(self, data: Dataset) -> Split:
        """Cut the rows at two moments. Rows of one time stay together, in the later part."""
        check_data(data)
        times = times_of(data, "choose another of `recbench list splits`")
        ordered, notes = np.sort(times), dict[str, int]()
        test_from = _begins(data, ordered, self._when("test"), len(data), "test", notes)
        past = ordered[ordered < test_from]
        valid_from = _begins(data, past, self._when("valid"), len(data), "validation", notes)
        old = times < valid_from
        train, held, last = (
            _matrix(data, rows) for rows in (old, ~old & (times < test_from), times >= test_from)
        )
        before = train + held
        known = before if self.refit else train
        if not self.cold:
            held = _learnt(held, train, "validation", notes)
            last = _learnt(last, known, "test", notes)
        valid, test = part_of(train, held), part_of(known, last, hidden=before)
        for stage, part in (("validation", valid), ("test", test)):
            check_part(self, data, stage, part, "give other shares or days, or cold=true")
        return Split(
            text=self.text,
            train=train,
            valid=valid,
            test=test,
            full=before if self.refit else None,
            items=np.arange(data.n_items, dtype=np.int32),
            notes=notes,
        )


def _begins(
    data: Dataset, ordered: Integers, moment: Moment, total: int, stage: str, notes: dict[str, int]
) -> int:
    """The first time that is held out of these; a share is one of `total` rows."""
    if isinstance(moment, date):
        start = datetime(moment.year, moment.month, moment.day, tzinfo=UTC).timestamp()
        begins = int(start) * (1000 if ordered[-1] > MILLISECONDS else 1)
        if not ordered[0] < begins <= ordered[-1]:
            raise DataError(
                f"{moment} does not divide {data.name}: what there is before the test, or all of "
                f"it, goes from {_day(ordered[0])} to {_day(ordered[-1])}"
            )
        return begins
    wanted = max(1, round(moment * total))
    begins = int(ordered[-min(wanted, len(ordered))])
    taken = len(ordered) - int(np.searchsorted(ordered, begins))
    if taken == len(ordered):
        raise DataError(
            f"a share of {moment:g} for {stage} takes all of {data.name} that is left: too many "
            "rows have the same time"
        )
    notes[f"{stage} rows beyond its share, of the same time as its first"] = taken - wanted
    return begins


def _day(time: int) -> str:
    """The day of a time, for a sentence."""
    try:
        seconds = int(time) // (1000 if time > MILLISECONDS else 1)
        return datetime.fromtimestamp(seconds, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return str(time)


def _matrix(data: Dataset, rows: Any) -> Sparse:
    return binary_csr(data.user[rows], data.item[rows], (data.n_users, data.n_items))


def _learnt(target: Sparse, train: Sparse, stage: str, notes: dict[str, int]) -> Sparse:
    """Leave out the rows of users, then those of items, that are not in `train`; count them."""
    users = np.diff(train.indptr) > 0
    items = np.bincount(train.indices, minlength=train.shape[1]) > 0
    coo = target.tocoo()
    met = users[coo.row]
    notes[f"{stage} rows of users without a past"] = int((~met).sum())
    both = met & items[coo.col]
    notes[f"{stage} rows on items without a past"] = int((met & ~both).sum())
    return binary_csr(coo.row[both], coo.col[both], target.shape)
