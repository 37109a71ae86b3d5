"""What a run consists of: the plan that decides every number, and its trials."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from recbench.campaign.row import Row
from recbench.data.dataset import Dataset
from recbench.errors import UsageError
from recbench.evaluate.metrics import Metric, MetricSpec
from recbench.models.base import Model
from recbench.params import parts_of
from recbench.splits.base import SplitRule

CHOSEN = ("valid",)
REVEALED = ("valid", "test")
TESTED = ("test",)
"""What every trial is measured on: the test part too, or alone, where that is asked for."""


def parts_for(*, validate: bool, reveal_test: bool) -> tuple[str, ...]:
    """The parts that every trial is measured on."""
    if validate:
        return REVEALED if reveal_test else CHOSEN
    if reveal_test:
        raise UsageError(
            "to show every test value and to measure nothing else exclude each other; leave out "
            "--reveal-test or --no-validate"
        )
    return TESTED


@dataclass(frozen=True)
class Trial:
    """One model and seed on one split of one dataset."""

    model: Model
    seed: int
    id: str
    stop: int = 0
    """After how many rounds a search stops its fit; 0: it does not. The id is the same."""

    @property
    def rival(self) -> tuple[str, int]:
        """What a trial competes within: the best of a model and seed is selected."""
        return self.model.shown, self.seed


@dataclass
class Plan:
    """Everything that decides the numbers of a run."""

    dataset: Dataset
    rule: SplitRule
    models: Sequence[Model]
    metrics: Sequence[MetricSpec]
    select: str
    seeds: Sequence[int] = (0,)
    dtype: str = "float32"
    parts: tuple[str, ...] = CHOSEN
    """What every trial is measured on. With validation, selected trials are then tested too."""
    spare: bool = False
    """Whether trials of which nothing is chosen are only tested, where validation takes a fit."""

    def __post_init__(self) -> None:
        """Refuse a plan that cannot choose."""
        metric_to_select(self.metrics, self.select)

    @cached_property
    def trials(self) -> list[Trial]:
        """Every trial; a model without randomness has one, whatever the seeds."""
        return [
            self.trial(model, seed)
            for model in self.models
            for seed in (self.seeds if model.stochastic else (0,))
        ]

    def trial(self, model: Model, seed: int) -> Trial:
        """The trial of a model and seed, whether it was planned or is proposed on the way."""
        return Trial(model, seed, self._id(model, seed))

    def _id(self, model: Model, seed: int) -> str:
        data = f"{self.dataset.name} {self.dataset.fingerprint}"
        if self.rule.ordered:
            data += f" {self.dataset.rows_digest}"
        return trial_id(data, self.rule.identity, model.identity, str(seed), self.dtype)

    def code(self, trials: Iterable[Trial]) -> list[Any]:
        """The classes and functions that make the numbers of some trials."""
        described = [self.rule, *(trial.model for trial in trials)]
        return [
            *(type(part) for thing in described for part in parts_of(thing)),
            *(
                type(metric.function) if isinstance(metric.function, Metric) else metric.function
                for metric in self.metrics
            ),
        ]

    def row(self, trial: Trial, part: str, **known: Any) -> Row:
        """Start the results row of a trial."""
        return Row(
            trial=trial.id, dataset=self.dataset.name, fingerprint=self.dataset.fingerprint,
            split=self.rule.text, model=trial.model.shown, parameters=trial.model.values(),
            text=trial.model.text, seed=trial.seed, dtype=self.dtype, part=part, **known,
        )  # fmt: skip


def metric_to_select(metrics: Sequence[MetricSpec], select: str) -> MetricSpec:
    """The metric of that name, or why it cannot be selected by."""
    metric = next((metric for metric in metrics if metric.text == select), None)
    if metric is None:
        raise UsageError(f"'{select}' cannot select: it is not among the metrics of this run")
    if not metric.chooses:
        raise UsageError(
            f"'{select}' describes lists, more of it is not better; "
            "select by another metric, such as ndcg@20"
        )
    return metric


def trial_id(*parts: str) -> str:
    """Hash the canonical texts that define a trial into a short, stable name."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
