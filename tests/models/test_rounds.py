"""Fits in rounds: a killed one goes on, a refit makes as many, streams are independent."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from recbench.models import checkpoint
from recbench.models.checkpoint import Checkpoint
from recbench.models.context import Context
from recbench.models.contract import example
from recbench.models.factors import als
from recbench.models.linear.admm import EdlaeAdmm
from recbench.models.popularity import Constant
from recbench.models.rounds import Rounds, Schedule, run
from recbench.models.scorers import Scorer


class Killed(BaseException):
    """Nothing that a fit would catch."""


@pytest.fixture
def eager(monkeypatch):
    """Save after every round."""
    monkeypatch.setattr(checkpoint, "FIRST", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", np.inf)


def fit(models, folder=None, killed_at=None, validate=None, **settings):
    """Every scorer, and the sweeps that were made for them."""
    sweeps = []

    def progress(what, done, total):
        sweeps.append(done)
        if done == killed_at:
            raise Killed

    context = Context(
        progress=progress, validate=validate, **settings,
        checkpoint=None if folder is None else Checkpoint(folder),
    )  # fmt: skip
    return models[0].family.fit(models, example(), context), sweeps


def same(one, other):
    rows = np.arange(example().shape[0], dtype=np.int32)
    for a, b in zip(one, other, strict=True):
        assert np.array_equal(a.score(example(), rows), b.score(example(), rows))
        assert np.array_equal(a.score(example()), b.score(example()))
        assert (a.rounds, a.facts) == (b.rounds, b.facts)
        assert [{**e, "seconds": 0} for e in a.trace] == [{**e, "seconds": 0} for e in b.trace]


@pytest.mark.parametrize("killed_at", [1, 4, 11])
@pytest.mark.parametrize("last", ["users", "items"])
@pytest.mark.parametrize("solver", ["exact", "cg"])
def test_a_killed_fit_goes_on_and_ends_in_the_same_bits(tmp_path, eager, solver, last, killed_at):
    settings = {"factors": 4, "solver": solver, "last": last, "tol": 0.0}
    models = [als.Ials.of(iterations=count, **settings) for count in (3, 12, 5)]
    whole, _ = fit(models)
    with pytest.raises(Killed):
        fit(models, tmp_path, killed_at)
    again, sweeps = fit(models, tmp_path)
    assert sweeps == list(range(killed_at, 13))  # the round under way is all that was lost
    same(again, whole)


def test_killed_directions_go_on_and_end_in_the_same_bits(tmp_path, eager):
    models = [EdlaeAdmm(k=3, omega=omega, tolerance=1e-4) for omega in (0.0, 3.0)]
    for model in models:
        (whole, sweeps), folder = fit([model]), tmp_path / str(model.omega)
        with pytest.raises(Killed):
            fit([model], folder, killed_at=9)  # after the inverse, which has but one step
        again, rest = fit([model], folder)
        assert len(rest) < len(sweeps) - 5
        same(again, whole)


def test_a_killed_fit_remembers_what_validation_liked(tmp_path, eager):
    values = dict(enumerate([0.1, 0.3, 0.2, 0.25, 0.2, 0.1, 0.0]))

    def validate(scorer):
        return values[scorer.rounds]

    models = [als.Ials.of(factors=4, iterations=50, patience=3, tol=0.0)]
    whole, _ = fit(models, validate=validate)
    with pytest.raises(Killed):
        fit(models, tmp_path, 3, validate)
    again, sweeps = fit(models, tmp_path, validate=validate)
    assert sweeps == [3, 4]
    assert again[0].rounds == 1
    same(again, whole)


def test_a_damaged_checkpoint_is_a_beginning(tmp_path, eager):
    models = [als.Ials.of(factors=4, iterations=6, tol=0.0)]
    with pytest.raises(Killed):
        fit(models, tmp_path, 4)
    (saved,) = tmp_path.glob("*/now.npz")
    whole, content = fit(models)[0], saved.read_bytes()
    begun = []
    for place in range(0, len(content), 97):
        saved.write_bytes(content[:place] + bytes([content[place] ^ 0x20]) + content[place + 1 :])
        again, sweeps = fit(models, tmp_path)
        same(again, whole)  # the flip is noticed, or it was in nothing that is read
        begun.append(sweeps[0])
    assert begun.count(0) > len(begun) / 2
    saved.write_bytes(content[:-40])
    assert fit(models, tmp_path)[1] == list(range(7))


def test_a_folder_that_cannot_be_written_stops_no_fit(tmp_path, eager):
    (tmp_path / "file").write_text("in the way")
    models = [als.Ials.of(factors=4, iterations=3)]
    same(fit(models, tmp_path / "file" / "below")[0], fit(models)[0])


def test_short_fits_save_nothing(tmp_path):
    fit([als.Ials.of(factors=4, iterations=3)], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_earlier_seconds_are_counted(tmp_path, eager):
    models = [als.Ials.of(factors=4, iterations=6, tol=0.0)]
    with pytest.raises(Killed):
        fit(models, tmp_path, 4)
    saved = Checkpoint(tmp_path)
    (scorer,) = models[0].family.fit(models, example(), Context(checkpoint=saved))
    assert 0.0 < saved.earlier < scorer.trace[-1]["seconds"]


def test_rounds_that_validation_chose_are_made_where_it_cannot_be_asked():
    model = als.Ials.of(factors=4, iterations=40, patience=2, tol=0.0)
    (scorer,), sweeps = fit([model], rounds={model.text: 5})
    assert (scorer.rounds, sweeps[-1]) == (5, 5)
    alone = als.Ials.of(factors=4, iterations=5, tol=0.0)
    rows = np.arange(example().shape[0], dtype=np.int32)
    expected = alone.fit(example(), Context()).score(example(), rows)
    assert np.array_equal(scorer.score(example(), rows), expected)


@pytest.mark.parametrize("last", ["users", "items"])
@pytest.mark.parametrize("solver", ["exact", "cg"])
@pytest.mark.parametrize("saved", [True, False])
def test_a_fit_that_was_stopped_goes_on_and_ends_in_the_same_bits(
    tmp_path, request, saved, solver, last
):
    if saved:
        request.getfixturevalue("eager")
    models = [als.Ials.of(factors=4, iterations=9, tol=0.0, solver=solver, last=last)]
    whole, _ = fit(models)
    for stop, begun in ((2, 0), (5, 3)):
        (stopped,), sweeps = fit(models, tmp_path, stop=stop)
        assert sweeps == list(range(begun if saved else 0, stop + 1))
        assert (stopped.stopped, stopped.rounds) == (True, stop)
        same([stopped], fit([als.Ials.of(**{**models[0].values(), "iterations": stop})])[0])
    again, sweeps = fit(models, tmp_path)
    assert sweeps == list(range(6 if saved else 0, 10))
    assert not again[0].stopped
    same(again, whole)


def test_a_fit_that_ends_before_it_is_stopped_was_not_stopped():
    (ended,), sweeps = fit([als.Ials.of(factors=4, iterations=3, tol=0.0)], stop=3)
    assert (ended.stopped, ended.rounds, sweeps) == (False, 3, [0, 1, 2, 3])
    (settled,), _ = fit([als.Ials.of(factors=4, iterations=500, tol=0.5)], stop=400)
    assert not settled.stopped


def test_models_of_fewer_rounds_than_the_stop_are_whole(tmp_path, eager):
    models = [als.Ials.of(factors=4, iterations=count, tol=0.0) for count in (8, 2, 4)]
    scorers, _ = fit(models, tmp_path, stop=4)
    assert [(one.stopped, one.rounds) for one in scorers] == [(True, 4), (False, 2), (False, 4)]
    same(fit(models, tmp_path)[0], fit(models)[0])


def test_what_validation_liked_is_handed_out_at_a_stop_and_kept_beyond_it(tmp_path, eager):
    values = dict(enumerate([0.1, 0.3, 0.2, 0.25, 0.2, 0.1, 0.0]))

    def validate(scorer):
        return values[scorer.rounds]

    models = [als.Ials.of(factors=4, iterations=50, patience=3, tol=0.0)]
    (stopped,), _ = fit(models, tmp_path, validate=validate, stop=3)
    assert (stopped.stopped, stopped.rounds) == (True, 1)
    again, sweeps = fit(models, tmp_path, validate=validate)
    assert sweeps == [4]
    same(again, fit(models, validate=validate)[0])


def test_a_checkpoint_beyond_the_stop_is_not_gone_on_from(tmp_path, eager):
    models = [als.Ials.of(factors=4, iterations=9, tol=0.0)]
    fit(models, tmp_path, stop=6)
    again, sweeps = fit(models, tmp_path, stop=2)
    assert sweeps == [0, 1, 2]
    same(again, fit(models, stop=2)[0])
    assert fit(models, tmp_path, stop=2)[1] == []  # it was saved just there


def test_directions_that_are_stopped_need_not_have_settled(tmp_path, eager):
    models = [EdlaeAdmm(k=3, tolerance=0.01)]
    (stopped,), _ = fit(models, tmp_path, stop=2)
    assert (stopped.stopped, stopped.rounds) == (True, 2)
    same(fit(models, tmp_path)[0], fit(models)[0])


class Steps(Rounds):
    """Counts its rounds, in numbers of NumPy's."""

    def __init__(self):
        self.scores = np.zeros(3, dtype=np.float32)

    def advance(self, number):
        self.scores = self.scores + np.float32(0.1)
        return {"objective": self.scores.sum()}

    def settled(self, trace):
        return False

    def look(self):
        return Scorer(Constant(self.scores))

    def state(self):
        return {"scores": self.scores}

    def restore(self, state):
        self.scores = state["scores"]


def test_a_fit_that_validation_is_never_asked_of_is_what_it_ends_with():
    context = Context(validate=lambda scorer: 1.0)
    (scorer,) = run(Steps(), context, "", "", Schedule(4, patience=1, every=9), [4])
    assert (scorer.rounds, len(scorer.trace)) == (4, 4)


def test_numbers_of_a_trace_may_be_numpys(tmp_path, eager):
    def made(killed_at):
        def progress(what, done, total):
            if done == killed_at:
                raise Killed

        context = Context(checkpoint=Checkpoint(tmp_path), progress=progress)
        return run(Steps(), context, "", "", Schedule(4), [4])[0].trace

    with pytest.raises(Killed):
        made(3)
    scores = np.cumsum(np.full(4, 0.1, dtype=np.float32), dtype=np.float32)
    expected = [float(np.full(3, score).sum()) for score in scores]
    assert [entry["objective"] for entry in made(None)] == expected


def test_what_validation_takes_is_saved_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "FIRST", 0.05)
    asked = []

    def validate(scorer):
        time.sleep(0.05)
        asked.append(scorer.rounds)
        if asked == [1, 2, 3]:
            raise Killed
        return 1.0

    context = Context(checkpoint=Checkpoint(tmp_path), validate=validate)
    schedule = Schedule(5, patience=9)
    with pytest.raises(Killed):
        run(Steps(), context, "", "", schedule, [5])
    run(Steps(), context, "", "", schedule, [5])
    assert asked[3] > 1


def test_streams_depend_on_seed_and_role_alone():
    def drawn(seed, role):
        return Context(seed=seed).stream(role).random(4).tolist()

    assert drawn(1, "negatives") == drawn(1, "negatives")
    all_different = [
        drawn(1, "negatives"),
        drawn(1, "dropout"),
        drawn(2, "negatives"),
        drawn(1, ""),
    ]
    assert len({tuple(numbers) for numbers in all_different}) == 4
    assert drawn(7, "") == np.random.default_rng(7).random(4).tolist()


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
from recbench.registry import MODELS

checkpoint.FIRST, checkpoint.SHARE = 0.0, float("inf")


class Walk(Rounds):
    def __init__(self, train, ctx):
        self.scores, self.ctx = np.zeros(train.shape[1], dtype=np.float32), ctx

    def advance(self, number):
        with Path("rounds.txt").open("a") as file:
            file.write(f"{number} ")
        if number == 180 and not Path("killed").exists():
            Path("killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        step = self.ctx.stream(f"round {number}").random(len(self.scores), dtype=np.float32)
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
    \"\"\"A random walk of 200 rounds.\"\"\"

    stochastic = True

    def fit(self, train, ctx):
        (fit,) = run(Walk(train, ctx), ctx, self.name, self.text, Schedule(200), [200])
        return fit
"""


@pytest.mark.slow
def test_kill_minus_nine_in_round_180_of_200_costs_a_round_and_no_byte(folder: Path):
    (folder / "mortal.py").write_text(MORTAL)
    words = [
        "run",
        "--data",
        "toy.csv",
        "--user",
        "u",
        "--item",
        "i",
        "-q",
        "--plugin",
        "mortal.py",
    ]
    command = [sys.executable, "-m", "recbench", *words, "-m", "mortal", "-o"]

    def call(output):
        done = subprocess.run([*command, output], capture_output=True, text=True, check=False)
        made = [int(word) for word in (folder / "rounds.txt").read_text().split()]
        (folder / "rounds.txt").unlink()
        return done.returncode, made

    assert call("out") == (-signal.SIGKILL, list(range(1, 181)))
    assert list((folder / "out" / ".checkpoints").iterdir())
    code, made = call("out")
    assert (code, made) == (0, list(range(180, 201)))
    assert not (folder / "out" / ".checkpoints").exists()
    assert call("whole") == (0, list(range(1, 201)))
    tables = [(folder / name / "metrics.csv").read_bytes() for name in ("out", "whole")]
    assert tables[0] == tables[1]
    names = [{path.name for path in (folder / n / "per-user").iterdir()} for n in ("out", "whole")]
    assert names[0] == names[1]
