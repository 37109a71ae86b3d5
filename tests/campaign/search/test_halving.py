"""Few rounds for all, more for the best: who goes on, what it costs, what a kill leaves."""

import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import toys
from recbench.campaign.executors import Parcel
from recbench.campaign.folder import Campaign
from recbench.campaign.plan import Plan
from recbench.campaign.processes import Processes
from recbench.campaign.runner import Runner
from recbench.campaign.search.halving import Halved, Halving, Rung, refuse_without_rounds
from recbench.campaign.worker import Worker
from recbench.errors import UsageError
from recbench.evaluate.metrics import parse_metric
from recbench.models import checkpoint
from recbench.models.context import Context
from recbench.models.factors import als
from recbench.models.linear import lae
from recbench.splits.strong import Strong

MODELS = [
    als.Ials.of(iterations=9, factors=4, tol=0.0, l2=10.0**power, alpha0=alpha)
    for power in (-4, -2, 0)
    for alpha in (0.1, 1.0, 10.0)
]
SWEEPS = 9 * 2 + 3 * 4 + 10
"""From the start in each rung, the sweep before the first one included."""
SAVED = 9 * 2 + 3 * 2 + 6
"""From the rung before."""


def plan(*models, **changes) -> Plan:
    metrics = [parse_metric("ndcg@10"), parse_metric("recall@5")]
    return Plan(toys.two_tastes(), Strong(), models, metrics, "ndcg@10", **changes)


def halved(made: Plan, rule: Halving = Halving()) -> Halved:  # noqa: B008 - frozen
    return Halved(made.trials, rule, {"by": "grid"})


class Killed(BaseException):
    """Nothing that a run would catch."""


def run(folder, models=MODELS, killed_after=None, rule=None, **changes):
    """The rows of a search, what it said, and how many sweeps it made before it was killed."""
    sweeps, said = [], []

    def progress(what, done, total):
        if what == "ials sweeps":
            sweeps.append(done)
            if len(sweeps) == killed_after:
                raise Killed

    made = plan(*models, **changes)
    runner = Runner(
        Worker(made, Context(progress=progress)), Campaign(folder), announce=said.append,
        search=halved(made, rule or Halving()),
    )  # fmt: skip
    try:
        rows = runner.run()
    except Killed:
        return [], said, len(sweeps)
    return rows, said, len(sweeps)


def by_stop(rows) -> dict[int, set[str]]:
    valid = [row for row in rows if row.part == "valid"]
    return {
        stop: {r.text for r in valid if r.stopped == stop} for stop in {r.stopped for r in valid}
    }


@pytest.mark.parametrize(
    ("rule", "trials", "rounds", "rungs"),
    [
        (Halving(), 27, 30, [(27, 1), (9, 3), (3, 10), (1, 0)]),
        (Halving(), 27, 9, [(27, 1), (9, 3), (3, 0)]),
        (Halving(), 8, 90, [(8, 30), (2, 0)]),
        (Halving(first=3), 27, 30, [(27, 3), (9, 10), (3, 0)]),
        (Halving(eta=2), 5, 5, [(5, 1), (2, 2), (1, 0)]),
        (Halving(), 2, 30, [(2, 0)]),
        (Halving(), 27, 1, [(27, 0)]),
        (Halving(first=40), 27, 30, [(27, 0)]),
    ],
)
def test_rungs_divide_trials_and_rounds_alike(rule, trials, rounds, rungs):
    assert rule.rungs(trials, rounds) == [Rung(*rung) for rung in rungs]


def test_the_best_go_on_ties_go_by_text_and_failures_never():
    made = plan(*MODELS)
    source = halved(made)
    values = dict.fromkeys((trial.id for trial in made.trials), 0.5)
    values[made.trials[7].id], values[made.trials[0].id] = 0.6, None
    first = source.propose(values.__getitem__)
    assert [(trial.id, trial.stop) for trial in first] == [(t.id, 1) for t in made.trials]
    second = source.propose(lambda trial: values[trial.id])
    equal = sorted(trial.model.text for trial in made.trials if values[trial.id] == 0.5)
    assert {trial.model.text for trial in second} == {made.trials[7].model.text, *equal[:2]}
    assert {trial.stop for trial in second} == {3}
    assert source.propose(lambda trial: None) == []
    assert source.propose(lambda trial: None) == []


def test_what_fails_on_the_way_does_not_go_on_where_nobody_else_is_left():
    made = plan(*MODELS)
    source, alone = halved(made), made.trials[4].id
    source.propose(lambda trial: None)
    second = source.propose(lambda trial: 0.5 if trial.id == alone else None)
    assert [(trial.id, trial.stop) for trial in second] == [(alone, 3)]
    assert source.propose(lambda trial: None) == []


def test_every_model_and_seed_climbs_by_itself():
    others = [replace(model, sweeps=replace(model.sweeps, iterations=3)) for model in MODELS[::3]]
    made = plan(*MODELS, *(als.Wrmf.of(**_own(model)) for model in others), seeds=(0, 1))
    source = halved(made)
    assert source.total == 24
    first = source.propose(lambda trial: None)
    assert [trial.stop for trial in first if trial.model.name == "wrmf"] == [1] * 6
    second = source.propose(lambda trial: float(trial.seed))
    assert [(t.model.name, t.seed, t.stop) for t in second] == [
        *[("ials", 0, 3)] * 3, *[("ials", 1, 3)] * 3, ("wrmf", 0, 0), ("wrmf", 1, 0),
    ]  # fmt: skip
    assert [words.partition(":")[0] for words in source.outlook] == [
        "ials seed 0", "ials seed 1", "wrmf seed 0", "wrmf seed 1",
    ]  # fmt: skip


def _own(model) -> dict[str, object]:
    return {name: model.values()[name] for name in ("iterations", "factors", "l2")}


def test_a_model_without_rounds_is_refused():
    with pytest.raises(UsageError, match="those of ease do not"):
        refuse_without_rounds([MODELS[0], lae.Ease()])
    refuse_without_rounds(MODELS)


def test_what_goes_on_is_the_best_third_at_each_rung(tmp_path):
    rows, _, sweeps = run(tmp_path)
    stops = by_stop(rows)
    assert {stop: len(texts) for stop, texts in stops.items()} == {1: 6, 3: 2, 0: 1}
    assert sweeps == SWEEPS
    for stop, survivors in ((1, stops[3] | stops[0]), (3, stops[0])):
        racing = MODELS if stop == 1 else [m for m in MODELS if m.text in stops[3] | stops[0]]
        short = {m: replace(m, sweeps=replace(m.sweeps, iterations=stop)) for m in racing}
        alone = Runner(Worker(plan(*short.values())), Campaign(tmp_path / str(stop))).run()
        values = {row.text: row.metrics["ndcg@10"] for row in alone if row.part == "valid"}
        order = sorted(racing, key=lambda m: (-values[short[m].text], m.text))
        assert {model.text for model in order[: len(survivors)]} == survivors


def test_the_winner_has_the_numbers_of_a_plain_run_and_only_it_is_tested(tmp_path):
    rows, _, _ = run(tmp_path / "halved")
    whole = [row for row in rows if not row.stopped]
    (model,) = [model for model in MODELS if model.text == whole[0].text]
    plain = Runner(Worker(plan(model)), Campaign(tmp_path / "plain")).run()
    assert {(row.trial, row.part): row.metrics for row in whole} == {
        (row.trial, row.part): row.metrics for row in plain
    }
    assert sorted(row.part for row in whole) == ["test", "valid"]


@pytest.mark.parametrize(
    ("killed_after", "saving"),
    [
        (21, True),
        pytest.param(5, False, marks=pytest.mark.slow),
        pytest.param(18, True, marks=pytest.mark.slow),  # between two rungs
        pytest.param(21, False, marks=pytest.mark.slow),
        pytest.param(28, True, marks=pytest.mark.slow),
    ],
)
def test_a_killed_search_ends_the_same_without_what_is_finished(
    tmp_path, monkeypatch, killed_after, saving
):
    if saving:
        monkeypatch.setattr(checkpoint, "FIRST", 0.0)
        monkeypatch.setattr(checkpoint, "SHARE", np.inf)
    _, _, whole = run(tmp_path / "whole")
    assert whole == (SAVED if saving else SWEEPS)
    run(tmp_path / "killed", killed_after=killed_after)
    _, said, rest = run(tmp_path / "killed")
    # A round that was under way is lost; without checkpoints, all rounds of that fit.
    assert rest + killed_after <= whole + (1 if saving else 9)
    assert "finished trial" in said[1]
    tables = [(tmp_path / name / "metrics.csv").read_bytes() for name in ("whole", "killed")]
    assert tables[0] == tables[1]
    assert not (tmp_path / "killed" / ".checkpoints").exists()
    assert run(tmp_path / "killed")[1:] == (["9 finished trials found, 0 to run"], 0)


def test_finished_trials_are_not_made_worse_and_stopped_ones_not_taken_for_finished(tmp_path):
    Runner(Worker(plan(*MODELS[:4])), Campaign(tmp_path)).run()
    before = {row.trial: row for row in Campaign(tmp_path).rows().values() if row.part == "valid"}
    files = {path: path.read_bytes() for path in (tmp_path / "per-user").iterdir()}
    run(tmp_path)
    after = Campaign(tmp_path).rows()
    assert all(after[trial, "valid"] == row for trial, row in before.items())
    assert all(path.read_bytes() == content for path, content in files.items())
    rows = Runner(Worker(plan(*MODELS)), Campaign(tmp_path)).run()
    assert by_stop(rows) == {0: {model.text for model in MODELS}}


def test_force_runs_every_rung_again(tmp_path):
    run(tmp_path)
    made = plan(*MODELS)
    again = Runner(Worker(made), Campaign(tmp_path), force=True, search=halved(made))
    assert len(again.todo()) == 9
    rows = again.run()
    assert len(Campaign(tmp_path).log.read_text().splitlines()) == 2 * (9 + 3 + 1 + 1)
    assert len(rows) == 10


def test_traces_are_kept_of_whole_fits_alone(tmp_path):
    made = plan(*MODELS)
    for expected in (14, 0):
        before = len(Campaign(tmp_path).lines())
        Runner(Worker(made, trace=True), Campaign(tmp_path), search=halved(made)).run()
        assert len(Campaign(tmp_path).lines()) == before + expected
    (trace,) = (tmp_path / "traces").iterdir()
    assert len(trace.read_text().splitlines()) == 1 + 10


def test_a_search_over_the_number_of_rounds_knows_fits_that_are_whole(tmp_path):
    models = [
        als.Ials.of(iterations=count, factors=4, tol=0.0, l2=l2)
        for count in (1, 9)
        for l2 in (0.01, 0.1, 1.0)
    ]
    rows, _, _ = run(tmp_path, models)
    stops = {row.text: row.stopped for row in rows if row.part == "valid"}
    assert [stops[model.text] for model in models[:3]] == [0, 0, 0]
    assert run(tmp_path, models)[2] == 0


@pytest.mark.slow
def test_two_processes_find_what_one_finds(tmp_path):
    run(tmp_path / "one")
    made = plan(*MODELS)
    worker = Worker(made, Context(threads=1))
    executor = Processes(Parcel.of(worker), 2)
    Runner(worker, Campaign(tmp_path / "two"), executor, search=halved(made)).run()
    tables = [(tmp_path / name / "metrics.csv").read_bytes() for name in ("one", "two")]
    assert tables[0] == tables[1]


MORTAL = """
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recbench.models import checkpoint
from recbench.models.base import Model
from recbench.models.popularity import Constant
from recbench.models.rounds import Rounds, Schedule, run
from recbench.models.scorers import Scorer
from recbench.params import param
from recbench.registry import MODELS

checkpoint.FIRST, checkpoint.SHARE = 0.0, float("inf")


class Walk(Rounds):
    def __init__(self, x, train, ctx):
        self.x, self.scores, self.ctx = x, np.zeros(train.shape[1], dtype=np.float32), ctx

    def advance(self, number):
        with Path("rounds.txt").open("a") as file:
            file.write(f"{self.x}:{number} ")
        if number == 20 and not Path("killed").exists():
            Path("killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        step = self.ctx.stream(f"{self.x} {number}").random(len(self.scores), dtype=np.float32)
        self.scores = self.scores + step
        return {"objective": float(self.scores.sum())}

    def settled(self, trace):
        return False

    def look(self):
        return Scorer(Constant(self.scores))

    def state(self):
        return {"scores": self.scores}

    def restore(self, state):
        self.scores = state["scores"]


@MODELS.register("mortal")
@dataclass(frozen=True)
class Mortal(Model):
    \"\"\"A random walk of 81 rounds.\"\"\"

    x: int = param(0, help="which")
    stochastic = True
    most_rounds = 81

    def fit(self, train, ctx):
        (fit,) = run(Walk(self.x, train, ctx), ctx, self.name, self.text, Schedule(81), [81])
        return fit
"""


@pytest.mark.slow
def test_kill_minus_nine_in_the_second_rung_costs_a_round_and_no_byte(folder):
    (folder / "mortal.py").write_text(MORTAL)
    words = [
        "run", "--data", "toy.csv", "--user", "u", "--item", "i", "-q", "--plugin", "mortal.py",
        "-m", "mortal", "--grid", "x=1:9:1", "--search", "halving", "-o",
    ]  # fmt: skip

    def call(output):
        done = subprocess.run(
            [sys.executable, "-m", "recbench", *words, output], capture_output=True, check=False
        )
        made = (folder / "rounds.txt").read_text().split()
        (folder / "rounds.txt").unlink()
        return done.returncode, made

    code, before = call("out")
    assert code == -signal.SIGKILL
    assert len(before) == 9 * 9 + 11
    assert len(list((folder / "out" / ".checkpoints").iterdir())) == 3
    code, after = call("out")
    assert code == 0
    assert after[0] == before[-1]  # the round that was under way
    code, whole = call("whole")
    assert (code, [*before[:-1], *after]) == (0, whole)
    assert len(whole) == 9 * 9 + 3 * 18 + 54
    tables = [(folder / name / "metrics.csv").read_bytes() for name in ("out", "whole")]
    assert tables[0] == tables[1]
