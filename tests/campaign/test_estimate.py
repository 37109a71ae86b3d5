from dataclasses import replace

import numpy as np
import pytest

import toys
from recbench.campaign import estimate
from recbench.campaign.estimate import earlier_fits
from recbench.campaign.folder import Campaign
from recbench.campaign.plan import Plan
from recbench.campaign.runner import Runner
from recbench.campaign.tasks import tasks_of
from recbench.campaign.worker import Worker
from recbench.evaluate.metrics import parse_metric
from recbench.linalg import speed
from recbench.linalg.tiles import Tiles
from recbench.models.context import Context
from recbench.models.factors import als
from recbench.models.linear import lae
from recbench.models.popularity import Popularity
from recbench.splits.strong import Strong

MODELS = (*(lae.DeqlL2.of(b=b) for b in (0.1, 0.5, 1.0)), lae.Ease(), Popularity())
SPEED = 2.0


@pytest.fixture
def plan(monkeypatch) -> Plan:
    monkeypatch.setattr(estimate, "gemm_gflops", lambda: SPEED)
    metric = parse_metric("ndcg@10")
    return Plan(toys.two_tastes(), Strong(), MODELS, [metric], metric.text)


def estimates(plan: Plan, rows=(), **context):
    train = plan.rule.apply(plan.dataset).train
    tasks = tasks_of(plan.trials, "valid")
    return estimate.estimate(plan, tasks, rows, train, Context(**context))


def test_memory_is_what_a_fit_would_ask_for_and_time_its_operations(plan):
    shared, ease, popularity = estimates(plan)
    items = plan.rule.apply(plan.dataset).train.shape[1]
    assert [len(one.task.trials) for one in (shared, ease, popularity)] == [3, 1, 1]
    assert shared.memory == ease.memory == Tiles.bytes_needed(items, np.float32)
    assert ease.what == f"the inverse of {items} items"
    assert shared.seconds == items**3 / (speed.CEILING * SPEED * 1e9)
    assert not shared.measured


def test_what_is_not_known_is_not_made_up(plan):
    popularity = estimates(plan)[-1]
    assert (popularity.memory, popularity.seconds) == (None, None)


def test_nothing_is_fitted_to_find_out(plan, monkeypatch):
    monkeypatch.setattr("recbench.models.linear.inverse.inverse", None)
    assert estimates(plan)[0].memory


def test_tiles_on_disk_are_told_apart(plan, tmp_path):
    ease = estimates(plan, scratch=tmp_path / "tiles")[1]
    assert ease.on_disk
    assert not (tmp_path / "tiles").exists()


def test_earlier_fits_of_the_same_data_tell_the_time(plan, tmp_path):
    rows = Runner(Worker(plan), Campaign(tmp_path)).run()
    mine = [row for row in rows if row.part == "valid"]
    popularity = estimates(plan, rows)[-1]
    (row,) = [row for row in mine if row.model == "popularity"]
    assert popularity.measured
    assert popularity.seconds == pytest.approx(row.fit_seconds + row.score_seconds)
    other = [replace(row, fingerprint="other") for row in rows]
    assert estimates(plan, other)[-1].seconds is None


def test_a_fit_that_is_to_be_stopped_takes_its_share_of_a_whole_one(plan, tmp_path):
    model = als.Ials.of(factors=4, iterations=8)
    made = replace(plan, models=[model])
    row = made.row(made.trials[0], "valid", status="ok", rounds=8, fit_seconds=4.0)
    stopped = replace(row, stopped=1, fit_seconds=0.5)
    assert earlier_fits([stopped], made) == {}
    made.trials[0] = replace(made.trials[0], stop=2)
    assert [one.seconds for one in estimates(made, [row, stopped])] == [1.0]


def test_the_shares_of_a_fit_are_put_together_again(plan, tmp_path):
    rows = [
        replace(row, fit_seconds=2.0, score_seconds=1.0)
        for row in Runner(Worker(plan), Campaign(tmp_path)).run()
    ]
    assert earlier_fits(rows, plan) == {"deql-l2": [9.0], "ease": [3.0], "popularity": [3.0]}
    stranger = replace(rows[0], model="elsewhere", text="elsewhere[x=1]")
    assert "elsewhere" not in earlier_fits([stranger], plan)
