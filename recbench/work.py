"""Fit a group of trials and measure them: the part of a run that takes time.

A `Worker` knows a plan and nothing of results folders: it gives back rows and per-user values. So
it runs wherever the plan can be sent: in this process, in another, on another machine.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from recbench.errors import DataError, RecbenchError, Refused
from recbench.evaluate import Values, evaluate
from recbench.linalg.topk import kernel_threads
from recbench.models.base import Context
from recbench.models.scorers import Scorer
from recbench.plan import Plan, Trial
from recbench.results import Row
from recbench.split import Split

Leaders = Mapping[tuple[str, int], tuple[float, str]]
"""By model and seed: the best validation value so far, negative, and its text; less is better."""


@dataclass(frozen=True)
class Outcome:
    """The row of one trial on one part, and the values of every user behind its means."""

    row: Row
    values: pa.Table | None = None
    unseen: bool = False
    """Ranked for test in case the trial is selected; to be forgotten if it is not."""


@dataclass(frozen=True)
class Fitted:
    """A trial with its scorer and what its share of the fit took."""

    trial: Trial
    scorer: Scorer
    seconds: float


@dataclass
class Worker:
    """Carries out the trials of a plan."""

    plan: Plan
    context: Context = field(default_factory=Context)
    debug: bool = False
    """Let errors of models through instead of making them rows."""

    def __post_init__(self) -> None:
        """Compute in the precision of the plan."""
        self.context = replace(self.context, dtype=np.dtype(self.plan.dtype))

    @cached_property
    def split(self) -> Split:
        """The split, made when the first trial needs it."""
        return self.plan.rule.apply(self.plan.dataset)

    def work(self, trials: Sequence[Trial], part: str, leaders: Leaders) -> list[Outcome]:
        """Fit trials that share their heavy step and measure them on one part.

        Trials that lead on validation, of which `leaders` are the best of other groups, are ranked
        for test at once where the split fits on the same matrix for both.
        """
        with compute_threads(self.context.threads):
            try:
                return list(self._work(trials, part, leaders))
            except DataError:
                raise  # the data failed, not the model
            except Exception as error:
                if self.debug:
                    raise
                status, reason = _verdict(error)
                return [
                    Outcome(self.plan.row(trial, part, status=status, reason=reason))
                    for trial in trials
                ]

    def _work(self, trials: Sequence[Trial], part: str, leaders: Leaders) -> Iterator[Outcome]:
        fitted = self._fit(trials, part)
        outcomes = list(self._measure(fitted, part))
        yield from outcomes
        if part == "valid" and self.split.full is self.split.train:
            leading = [one for one in fitted if self._leads(one.trial, outcomes, leaders)]
            reveal = "test" in self.plan.parts
            chosen = [f for f in (fitted if reveal else leading) if not f.trial.model.one_part]
            for outcome in self._measure(chosen, "test"):
                yield replace(outcome, unseen=not reveal)

    def _leads(self, trial: Trial, outcomes: Sequence[Outcome], leaders: Leaders) -> bool:
        """Whether a trial is the best of its model so far, in this group and before."""
        best = leaders.get(trial.rival)
        rivals = [o.row for o in outcomes if (o.row.model, o.row.seed) == trial.rival]
        first = min(rivals, key=lambda row: (-row.metrics[self.plan.select], row.text))
        return first.trial == trial.id and (
            best is None or (-first.metrics[self.plan.select], first.text) < best
        )

    def _fit(self, trials: Sequence[Trial], part: str) -> list[Fitted]:
        train, _ = self.split.stage(part)
        first = trials[0]
        context = replace(
            self.context,
            seed=first.seed,
            validate=self._validator(part),
            audience=self._audience(part),
        )
        start = time.perf_counter()
        scorers = first.model.family.fit([trial.model for trial in trials], train, context)
        seconds = (time.perf_counter() - start) / len(trials)
        return [
            Fitted(trial, scorer, seconds) for trial, scorer in zip(trials, scorers, strict=True)
        ]

    def _audience(self, part: str) -> tuple[pa.Array, pa.Array]:
        data, held = self.plan.dataset, self.split.stage(part)[1]
        return data.user_ids.take(pa.array(held.users)), data.item_ids.take(
            pa.array(self.split.items)
        )

    def _validator(self, part: str) -> Callable[[Scorer], float] | None:
        """What a fit may use to stop early: nothing where it trains on the validation part too."""
        if part == "test" and self.split.full is not self.split.train:
            return None
        metric = next(metric for metric in self.plan.metrics if metric.text == self.plan.select)
        held, train = self.split.valid, self.split.train

        def validate(scorer: Scorer) -> float:
            return float(np.mean(evaluate([scorer], held, train, [metric])[0][metric.text]))

        return validate

    def _measure(self, fitted: Sequence[Fitted], part: str) -> Iterator[Outcome]:
        train, held = self.split.stage(part)

        def progress(done: int, total: int) -> None:
            self.context.progress(f"ranking for {part}", done, total)

        start = time.perf_counter()
        scorers = [one.scorer for one in fitted]
        measured = evaluate(scorers, held, train, self.plan.metrics, progress)
        seconds = (time.perf_counter() - start) / max(len(fitted), 1)
        for one, values in zip(fitted, measured, strict=True):
            means = {name: float(np.mean(value)) for name, value in values.items()}
            row = self.plan.row(
                one.trial, part, status="ok", metrics=means, users=len(held.users),
                fit_seconds=one.seconds, score_seconds=seconds,
            )  # fmt: skip
            yield Outcome(row, self._per_user(values, part))

    def _per_user(self, values: Values, part: str) -> pa.Table:
        held = self.split.stage(part)[1]
        columns: dict[str, Any] = {
            "user": self.plan.dataset.user_ids.take(pa.array(held.users)),
            "history": np.diff(held.history.indptr),
            "targets": np.diff(held.target.indptr),
        }
        return pa.table(columns | {name: v for name, v in values.items() if np.ndim(v)})


def _verdict(error: Exception) -> tuple[str, str]:
    """The status and the reason of a trial that raised."""
    if isinstance(error, Refused):
        return "skipped", str(error)
    if isinstance(error, RecbenchError):
        return "failed", str(error)
    return "failed", f"{type(error).__name__}: {error}"


@contextmanager
def compute_threads(count: int) -> Iterator[None]:
    """Give BLAS and the compiled kernels this many threads."""
    with threadpool_limits(limits=count), kernel_threads(count):
        yield
