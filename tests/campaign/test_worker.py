"""What a fit is told and what its rows say, as a run has it done."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

import toys
from recbench.campaign.folder import Campaign
from recbench.campaign.plan import Plan
from recbench.campaign.row import Row
from recbench.campaign.runner import Runner
from recbench.campaign.worker import Worker
from recbench.errors import UsageError
from recbench.evaluate.metrics import MetricSpec, ndcg, parse_metric
from recbench.models.base import Family, Model
from recbench.models.popularity import Popularity
from recbench.params import param
from recbench.splits.base import SplitRule
from recbench.splits.given import Given
from recbench.splits.strong import Strong
from recbench.splits.weak import Weak

NDCG = parse_metric("ndcg@10")


@dataclass(frozen=True)
class Fitted(Model):
    """Popularity that lets a test look over its shoulder."""

    name = "fitted"
    look: Callable[..., None] = field(default=lambda train, ctx: None, compare=False)

    def fit(self, train, ctx):
        self.look(train, ctx)
        return Popularity().fit(train, ctx)


def files():
    """The toy data as if they had come as files of train, validation and test."""
    data = toys.two_tastes()
    return replace(data, part=np.random.default_rng(0).choice(3, len(data)).astype(np.int8))


def run(folder: Path, *models: Model, rule: SplitRule, data=None, metric=NDCG, **plan) -> list[Row]:
    made = Plan(data or toys.two_tastes(), rule, models, [metric], metric.text, **plan)
    return Runner(Worker(made), Campaign(folder)).run()


@dataclass(frozen=True)
class Halfway(Weak):
    """Says that it refits or gives what to refit on, but not both."""

    name = "halfway"
    says: bool = param(True, help="what it says")

    @property
    def refits(self):
        return self.says

    def apply(self, data):
        split = super().apply(data)
        return split if self.says else replace(split, full=split.train)


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        (True, "says refits=True and gives no `full`;"),
        (False, "says refits=False and gives `full`"),
    ],
)
def test_a_rule_that_is_of_two_minds_about_refits_is_refused(tmp_path, says, sentence):
    with pytest.raises(UsageError, match=sentence):
        run(tmp_path / "out", Popularity(), rule=Halfway(says=says))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Given(), [("train", True), ("train and validation", False)]),
        (Given(refit=False), [("train", True)]),
    ],
    ids=["refitted", "as validated"],
)
def test_no_fit_is_judged_on_rows_that_it_trains_on(tmp_path, rule, expected):
    """A judge there would praise whatever was learned by heart, and stop too late or too early."""
    data = files()
    sizes = Counter(data.part.tolist())
    names = {sizes[0]: "train", sizes[0] + sizes[1]: "train and validation"}
    fits = []
    model = Fitted(lambda train, ctx: fits.append((names[train.nnz], ctx.validate is not None)))
    rows = run(tmp_path, model, rule=rule, data=data)
    assert fits == expected
    assert [row.part for row in rows] == ["valid", "test"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_fit_computes_in_the_precision_that_its_row_names(tmp_path, dtype):
    kinds = []
    model = Fitted(lambda train, ctx: kinds.append(np.dtype(ctx.dtype).name))
    rows = run(tmp_path, model, rule=Strong(), dtype=dtype)
    assert kinds == [dtype]
    assert {row.dtype for row in rows} == {dtype}


@pytest.mark.parametrize(("rule", "count"), [(Strong(heldout=7), 14), (Weak(), 0)])
def test_a_fit_knows_how_many_strangers_will_be_ranked_for(tmp_path, rule, count):
    """In both parts together: the trial is the same for either."""
    told = []
    model = Fitted(lambda train, ctx: told.append(ctx.strangers))
    run(tmp_path, model, rule=rule)
    assert told == [count]


class Clock:
    """Stands still unless it is told to go on."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Shared(Family):
    """Fits all its models in one step of eight seconds, and asks how well the first two do."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def key(self, model):
        return "one"

    def fit(self, models, train, ctx):
        self.clock.now += 8
        scorers = [Popularity().fit(train, ctx) for _ in models]
        for scorer in scorers[:2]:
            ctx.validate(scorer)
        return scorers


@dataclass(frozen=True)
class Sharing(Model):
    """One of several that are fitted together."""

    name = "sharing"
    x: int = param(0, help="which one")


def test_each_trial_has_its_share_of_the_seconds_of_its_group(tmp_path, monkeypatch):
    """So that the seconds of a folder add up to what its runs took."""
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock)
    monkeypatch.setattr(Sharing, "family", Shared(clock))

    def measured(ranking, k):
        clock.now += 3
        return ndcg(ranking, k)

    metric = MetricSpec("slow", 10, "slow@10", measured)
    models = [Sharing(x=value) for value in range(4)]
    rows = run(tmp_path, *models, rule=Strong(), metric=metric)
    valid = [row for row in rows if row.part == "valid"]
    assert [row.fit_seconds for row in valid] == [2.0] * 4
    assert [row.validation_seconds for row in valid] == [1.5] * 4
    assert [row.score_seconds for row in valid] == [3.0] * 4
