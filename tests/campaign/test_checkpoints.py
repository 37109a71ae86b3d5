"""What a killed run leaves in its folder, and who goes on from it."""

import numpy as np
import pytest

import toys
from recbench.campaign import tasks
from recbench.campaign.folder import Campaign
from recbench.campaign.plan import Plan
from recbench.campaign.runner import Runner
from recbench.campaign.worker import Worker
from recbench.evaluate.metrics import parse_metric
from recbench.models import checkpoint
from recbench.models.context import Context
from recbench.models.factors.als import Ials
from recbench.splits.strong import Strong

METRICS = [parse_metric("ndcg@10"), parse_metric("recall@5")]


class Killed(BaseException):
    """Nothing that a run would catch."""


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    """Save after every round."""
    monkeypatch.setattr(checkpoint, "FIRST", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", np.inf)


def sweeps(folder, killed_at=None, iterations=(9,), select="ndcg@10", trace=False) -> list[int]:
    """The sweeps that a run makes, if it is killed after one of them or not."""
    made = []

    def progress(what, done, total):
        if what == "ials sweeps":
            made.append(done)
            if done == killed_at:
                raise Killed

    models = [Ials.of(factors=4, tol=0.0, iterations=count) for count in iterations]
    plan = Plan(toys.two_tastes(), Strong(), models, METRICS, select)
    runner = Runner(Worker(plan, Context(progress=progress), trace=trace), Campaign(folder))
    try:
        runner.run()
    except Killed:
        assert killed_at is not None
    return made


def saved(folder) -> list[str]:
    return sorted(path.name for path in (folder / ".checkpoints").glob("*"))


def test_a_run_goes_on_from_the_round_before_and_cleans_up(tmp_path):
    assert sweeps(tmp_path, killed_at=5) == [0, 1, 2, 3, 4, 5]
    assert len(saved(tmp_path)) == 1
    assert sweeps(tmp_path) == [5, 6, 7, 8, 9]
    assert not (tmp_path / ".checkpoints").exists()


def test_other_code_begins_again_and_removes_what_it_cannot_use(tmp_path, monkeypatch):
    sweeps(tmp_path, killed_at=5)
    (before,) = saved(tmp_path)
    monkeypatch.setattr(tasks, "code_digest", lambda *classes: "other")
    assert sweeps(tmp_path, killed_at=3) == [0, 1, 2, 3]
    (after,) = saved(tmp_path)
    assert after != before
    assert after.rpartition("-")[0] == before.rpartition("-")[0]


@pytest.mark.parametrize(
    "other", [{"iterations": (9, 4)}, {"select": "recall@5"}, {"trace": True}], ids=str
)
def test_other_trials_another_metric_or_a_trace_begin_again(tmp_path, other):
    sweeps(tmp_path, killed_at=5)
    assert sweeps(tmp_path, **other)[0] == 0
