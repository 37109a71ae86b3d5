"""Fit a group of trials and measure them: the part of a run that takes time.

A `Worker` knows a plan and nothing of results folders: it gives back rows and per-user values. So
it runs wherever the plan can be sent: in this process, in another, on another machine.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from threadpoolctl import ThreadpoolController

from recbench.campaign.keep import NOTHING, Keep
from recbench.campaign.needs import Needs
from recbench.campaign.plan import Plan, Trial
from recbench.campaign.row import Row
from recbench.campaign.selection import Leaders, best, merit
from recbench.environment import recent_peak, restart_peak
from recbench.errors import (
    DataError,
    RecbenchError,
    Refused,
    located,
    place_of,
    printable,
    reason_of,
)
from recbench.evaluate.evaluate import PerUser, evaluate
from recbench.evaluate.groups import head_and_tail
from recbench.evaluate.metrics import MetricSpec
from recbench.linalg.clock import CLOCK
from recbench.linalg.locked import locked
from recbench.linalg.steps import STEPS, Spent
from recbench.linalg.topk import kernel_threads
from recbench.models.base import fit_together
from recbench.models.checkpoint import Checkpoint
from recbench.models.context import Context
from recbench.models.rounds import Trace
from recbench.models.scorers import Scorer
from recbench.splits.types import Split


@dataclass(frozen=True)
class Job:
    """Trials that share their heavy step, to be fitted together and measured on one part."""

    trials: Sequence[Trial]
    part: str
    leaders: Leaders = field(default_factory=dict)
    """The best on validation of other groups."""
    rounds: Mapping[str, int] = field(default_factory=dict)
    """By a model's text: after how many rounds it was handed out on validation."""
    checkpoint: Path | None = None
    """Where fits in rounds are saved, if that folder's campaign is on the same machine."""
    needs: Needs = field(default_factory=Needs)
    threads: int | None = None
    """For this job; None: those of the worker."""


@dataclass(frozen=True)
class Outcome:
    """The row of one trial on one part, and the values of every user behind its means."""

    row: Row
    values: pa.Table | None = None
    provisional: bool = False
    """Ranked for test in case the trial is selected; to be forgotten if it is not."""
    trace: Trace = ()
    """How the fit went, if that is asked for."""
    unkept: str = ""
    """Why what was to be kept of the model is not."""
    unwritten: bool = False
    """Whether that is due to where it was to be kept, not to the model."""
    steps: Mapping[str, Spent] = field(default_factory=dict)
    """What the process spent since it last told, on one outcome of a job."""


@dataclass(frozen=True)
class Fitted:
    """A trial with its scorer and what its share of the fit took."""

    trial: Trial
    scorer: Scorer
    facts: Mapping[str, float]
    seconds: float
    validating: float


@dataclass
class Worker:
    """Carries out the trials of a plan."""

    plan: Plan
    context: Context = field(default_factory=Context)
    debug: bool = False
    """Let errors of models through instead of making them rows."""
    trace: bool = False
    """Measure every metric in every round of a fit on validation, and give the trace back."""
    keep: Keep = NOTHING
    """What those that are fitted for the test leave besides numbers."""
    devices: tuple[str, ...] = ("cpu",)
    """Where models that can choose compute: the device of each slot, in turn."""

    def __post_init__(self) -> None:
        """Compute in the precision of the plan."""
        self.context = replace(self.context, dtype=np.dtype(self.plan.dtype))
        self._checksum: int | None = None  # of the split as it was made
        self.dividing = 0.0
        """What making the split has taken."""

    @cached_property
    def split(self) -> Split:
        """The split, made when the first trial needs it."""
        start = CLOCK.now()
        with STEPS("split"):
            split = self.plan.rule.divide(self.plan.dataset)
        self.dividing = CLOCK.now() - start
        before, self._checksum = self._checksum, split.checksum
        if before not in (None, self._checksum):
            raise DataError("a model changed the data in memory; run it again without that model")
        return split

    @property
    def strangers(self) -> int:
        """How many users of either part are not trained on."""
        parts = self.split.valid, self.split.test
        return sum(int(np.count_nonzero(held.train_rows < 0)) for held in parts)

    def work(self, job: Job) -> list[Outcome]:
        """Fit the trials of a job and measure them.

        Those that lead on validation are ranked for test at once, where the split fits on the same
        matrix for both.
        """
        from recbench.linalg.compiled import compiling_told  # numba, before the clock starts

        STEPS.noting = True  # in whichever process this is
        restart_peak()
        refused, able, start = list[Outcome](), list[Trial](), CLOCK.now()
        for trial in job.trials:
            refusal = self._unserved(trial)
            if refusal is None:
                able.append(trial)
            else:
                refused.append(self.lost(trial, job.part, refusal))
        if not able:
            return refused
        stood, threads = CLOCK.stood, job.threads or self.context.threads
        with compute_threads(threads), compiling_told(self.context.progress):
            try:
                done = list(self._work(replace(job, trials=able)))
                self._check_split()
            except DataError:
                raise  # the data failed, not the model
            except (Exception, SystemExit) as error:  # to end the program is not for models
                self._split_again()
                if self.debug:
                    raise
                took = (CLOCK.now() - start) / len(able)
                done = [self.lost(trial, job.part, error, took) for trial in able]
        compiling = (CLOCK.stood - stood) / max(len(done), 1)
        done = [replace(o, row=replace(o.row, compile_seconds=compiling)) for o in done]
        done[0] = replace(done[0], steps=STEPS.taken())
        return refused + done

    def _check_split(self) -> None:
        """Drop what models did that wrote into the matrices they share with others."""
        if self.split.checksum != self._checksum:
            raise RecbenchError(
                "the train matrix, or one of the users to rank, was changed by the fit or the "
                "scores; a model must leave them alone (`recbench check-plugin NAME`)"
            )

    def _split_again(self) -> None:
        """Make the split anew if it was changed, so that no other model sees that."""
        if self.split.checksum != self._checksum:
            del self.split

    def _work(self, job: Job) -> Iterator[Outcome]:
        part, fitted = job.part, list[Fitted]()
        for one in self._fits(job):
            if isinstance(one, Fitted):
                fitted.append(one)
            elif self.debug:
                raise one[1]
            else:
                yield self.lost(one[0], part, *one[1:])
        outcomes = list(self._measure(fitted, part))
        if part == "test" and self.keep.anything:
            outcomes = [self._kept(outcome, fitted) for outcome in outcomes]
        yield from outcomes
        if part == "valid" and not self.plan.rule.refits:
            ranked = {outcome.row.trial for outcome in outcomes if outcome.row.status == "ok"}
            whole = [f for f in fitted if not f.scorer.stopped and f.trial.id in ranked]
            leading = [one for one in whole if self._leads(one.trial, outcomes, job.leaders)]
            if self.keep.anything:  # those that win in the end are fitted again, to be kept
                leading = []
            reveal = "test" in self.plan.parts
            chosen = [f for f in (whole if reveal else leading) if not f.trial.model.one_part]
            for outcome in self._measure(chosen, "test"):
                yield replace(outcome, provisional=not reveal)

    def _kept(self, outcome: Outcome, fitted: Sequence[Fitted]) -> Outcome:
        """Keep what is wanted of a model that was measured; the numbers stand, whatever comes."""
        of = next((one for one in fitted if one.trial.id == outcome.row.trial), None)
        if of is None or outcome.row.status != "ok":
            return outcome
        try:
            self.keep.take(of.trial, of.scorer, self.plan, self.split)
        except RecbenchError as error:
            unwritten = isinstance(error, DataError)
            return replace(outcome, unkept=str(error), unwritten=unwritten)
        return outcome

    def _leads(self, trial: Trial, outcomes: Sequence[Outcome], leaders: Leaders) -> bool:
        """Whether a trial is the best of its model so far, in this group and before."""
        select, before = self.plan.select, leaders.get(trial.rival)
        first = best((o.row for o in outcomes if o.row.rival == trial.rival), select)
        return first.trial == trial.id and (before is None or merit(first, select) < before)

    def lost(self, trial: Trial, part: str, error: BaseException, seconds: float = 0.0) -> Outcome:
        """A trial without numbers, for all the seconds that it took."""
        status, reason = _verdict(error)
        return Outcome(self.plan.row(
            trial, part, status=status, reason=reason, stopped=trial.stop, fit_seconds=seconds,
        ))  # fmt: skip

    def _fits(self, job: Job) -> Iterator["Fitted | tuple[Trial, RecbenchError, float]"]:
        """Every trial fitted, or why it was not and what that took."""
        judge, start = self._judge(job.part), CLOCK.now()
        context, models = self._context(job, judge), [trial.model for trial in job.trials]
        train, _ = self.split.stage(job.part)
        with STEPS("fit"):
            fits = fit_together(models, locked(train), context)
        validating = judge.seconds if judge else 0.0
        earlier = context.checkpoint.earlier if context.checkpoint else 0.0
        seconds = (CLOCK.now() - start - validating + earlier) / len(models)
        for trial, fit in zip(job.trials, fits, strict=True):
            if not isinstance(fit, Scorer):
                yield trial, fit, seconds
                continue
            try:
                facts = fit.plain_facts()
                fit = replace(fit, trace=fit.plain_trace() if self.trace else ())
            except RecbenchError as error:
                yield trial, error, seconds
                continue
            yield Fitted(trial, fit, facts, seconds, validating / len(models))

    def _context(self, job: Job, judge: "_Judge | None") -> Context:
        """The context in which a job is fitted."""
        saved = job.checkpoint
        here = saved is not None and saved.parents[1].is_dir()
        return replace(
            self.context,
            threads=job.threads or self.context.threads,
            seed=job.trials[0].seed,
            stop=job.trials[0].stop,
            validate=judge.chooses if judge else None,
            watch=judge if self.trace else None,
            audience=self._audience(job.part),
            strangers=self.strangers,
            rounds=job.rounds if judge is None else {},
            checkpoint=Checkpoint(saved) if saved is not None and here else None,
        )

    def _unserved(self, trial: Trial) -> Refused | None:
        """Why a model cannot rank for all users of this split, if it cannot: known before a fit."""
        if not trial.model.trained_users_only:
            return None
        for part, held in (("validation", self.split.valid), ("test", self.split.test)):
            strangers = int(np.count_nonzero(held.train_rows < 0))
            if strangers:
                return Refused(
                    f"{strangers:,} of the users to rank in {part} are not in train, and "
                    f"{trial.model.name} knows no others; use a split that holds out "
                    "interactions, not users"
                )
        return None

    def _audience(self, part: str) -> tuple[pa.Array, pa.Array]:
        data, held = self.plan.dataset, self.split.stage(part)[1]
        return data.user_ids.take(pa.array(held.users)), data.item_ids.take(
            pa.array(self.split.items)
        )

    def _judge(self, part: str) -> "_Judge | None":
        """What a fit may use to stop early: nothing where it trains on the validation part too."""
        if part == "test" and self.plan.rule.refits:
            return None
        metrics = [m for m in self.plan.metrics if self.trace or m.text == self.plan.select]
        return _Judge(self.split, metrics, self.plan.select)

    def _measure(self, fitted: Sequence[Fitted], part: str) -> Iterator[Outcome]:
        if not fitted:
            return
        train, held = self.split.stage(part)

        def progress(done: int, total: int) -> None:
            self.context.progress(f"ranking for {part}", done, total)

        start = CLOCK.now()
        # Only the selected are compared in detail: it is not worth the time for every trial.
        groups = head_and_tail(train) if part == "test" else None

        def values_of(some: Sequence[Fitted]) -> list[PerUser]:
            scorers = [one.scorer for one in some]
            return evaluate(scorers, held, train, self.plan.metrics, progress, groups)

        measured = self._each(_side_by_side(fitted), values_of)
        seconds = (CLOCK.now() - start) / len(fitted)
        for one, values in measured:
            if isinstance(values, BaseException):
                yield self.lost(one.trial, part, values, one.seconds)
                continue
            means = {m.text: float(np.mean(values[m.text])) for m in self.plan.metrics}
            row = self.plan.row(
                one.trial, part, status="ok", metrics=means, facts=one.facts,
                users=len(held.users), rounds=int(one.scorer.rounds), fit_seconds=one.seconds,
                stopped=one.trial.stop if one.scorer.stopped else 0,
                validation_seconds=one.validating, score_seconds=seconds, peak_bytes=recent_peak(),
            )  # fmt: skip
            if one.scorer.stopped:  # nothing is compared with it: the means are enough
                yield Outcome(row)
                continue
            trace = one.scorer.trace if self.trace and part == "valid" else ()
            yield Outcome(row, self._per_user(values, part), trace=trace)

    def _each(
        self, fitted: Sequence[Fitted], measure: Callable[[Sequence[Fitted]], list[PerUser]]
    ) -> list[tuple[Fitted, PerUser | BaseException]]:
        """What was measured of each trial, or why it could not be.

        They are measured together. If that fails each half is tried, down to those to blame.
        """
        try:
            return list(zip(fitted, measure(fitted), strict=True))
        except DataError:
            raise
        except (Exception, SystemExit) as error:
            if self.debug:
                raise
            if len(fitted) == 1:
                return [(fitted[0], error)]
        middle = len(fitted) // 2
        return self._each(fitted[:middle], measure) + self._each(fitted[middle:], measure)

    def _per_user(self, values: PerUser, part: str) -> pa.Table:
        held = self.split.stage(part)[1]
        columns: dict[str, Any] = {
            "user": self.plan.dataset.user_ids.take(pa.array(held.users)),
            "history": np.diff(held.history.indptr),
            "targets": np.diff(held.target.indptr),
        }
        return pa.table(columns | {name: v for name, v in values.items() if np.ndim(v)})


def _side_by_side(fitted: Sequence[Fitted]) -> list[Fitted]:
    """Bring those next to each other that are ranked in one pass."""
    order: dict[int, int] = {}
    return sorted(fitted, key=lambda one: order.setdefault(id(one.scorer.base.shared), len(order)))


class _Judge:
    """Measures half-trained models on validation."""

    def __init__(self, split: Split, metrics: Sequence[MetricSpec], select: str) -> None:
        self.split, self.metrics, self.select = split, metrics, select
        self._last: tuple[Scorer, Mapping[str, float]] | None = None
        self.seconds = 0.0
        """What measuring has taken."""

    def __call__(self, scorer: Scorer) -> Mapping[str, float]:
        """Every metric; those of the last scorer are remembered, for `chooses` may ask as well."""
        if self._last is None or self._last[0] is not scorer:
            start = CLOCK.now()
            values = evaluate([scorer], self.split.valid, self.split.train, self.metrics)[0]
            self._last = scorer, {name: float(np.mean(value)) for name, value in values.items()}
            self.seconds += CLOCK.now() - start
        return self._last[1]

    def chooses(self, scorer: Scorer) -> float:
        """The metric that selects."""
        return self(scorer)[self.select]


def _verdict(error: BaseException) -> tuple[str, str]:
    """The status and the reason of a trial that raised."""
    if isinstance(error, Refused):
        return "skipped", printable(str(error))
    if isinstance(error, RecbenchError):
        return "failed", located(printable(str(error)), place_of(error))
    return "failed", reason_of(error)


@contextmanager
def compute_threads(count: int) -> Iterator[None]:
    """Give BLAS and the compiled kernels this many threads."""
    with _libraries(len(sys.modules)).limit(limits=count), kernel_threads(count):
        yield


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """The libraries with threads: looking for them takes a millisecond, so only after imports."""
    return ThreadpoolController()
