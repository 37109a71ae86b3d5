"""Models that write into what they are lent change no number but their own."""

import json

import pytest

PLUGIN = '''
from dataclasses import dataclass

import numpy as np

from recbench.plugin import MODELS, Base, Constant, Model, Scorer, param


class Sly(Base):
    def __init__(self, n_items):
        self.n_items = n_items

    def score(self, history, rows):
        rows[:] = 0
        return np.ones(history.shape)


@MODELS.register("a-vandal")
@dataclass(frozen=True)
class Vandal(Model):
    """Writes into its train matrix, or what it is lent later."""

    how: str = param("plain", choices=("plain", "base", "scores"), help="how")

    def fit(self, train, ctx):
        if self.how == "plain":
            train.data[:] = 5
        if self.how == "base":
            train.indices.base[:] = np.sort(train.indices.base)
        if self.how == "scores":
            return Scorer(Sly(train.shape[1]))
        return Scorer(Constant(np.ones(train.shape[1])))
'''
WORDS = [
    "--plugin",
    "vandal.py",
    "-m",
    "a-vandal",
    "-m",
    "ease",
    "-m",
    "popularity",
    "-k",
    "ndcg@10",
]


def outcome(folder):
    """What is known of every model, but for what depends on the hour."""
    rows = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    return {
        (row["model"], row["part"]): (row["status"], row["metrics"], row["reason"]) for row in rows
    }


@pytest.fixture
def honest(recbench, own, folder):
    done = recbench("run", *own, "-m", "ease", "-m", "popularity", "-k", "ndcg@10", "-o", "honest")
    assert done.exit_code == 0, done.output
    return outcome(folder / "honest")


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("plain", "read-only"),
        ("base", "was changed by the fit or the scores"),
        ("scores", "was changed by the fit or the scores"),
    ],
)
def test_they_fail_and_nobody_else_notices(recbench, own, folder, honest, how, says):
    (folder / "vandal.py").write_text(PLUGIN)
    done = recbench("run", *own, *WORDS, "--set", f"how={how}", "-o", "out")
    assert done.exit_code == 1
    assert "1 trial failed" in done.stderr
    found = outcome(folder / "out")
    status, metrics, reason = found.pop(("a-vandal", "valid"))
    assert (status, metrics) == ("failed", {})
    assert says in reason
    assert found == honest


@pytest.mark.slow
def test_nor_in_other_processes(recbench, own, folder, honest):
    (folder / "vandal.py").write_text(PLUGIN)
    done = recbench("run", *own, *WORDS, "--set", "how=base", "-o", "out", "-j", "2")
    assert done.exit_code == 1
    found = outcome(folder / "out")
    assert found.pop(("a-vandal", "valid"))[0] == "failed"
    assert found == honest
