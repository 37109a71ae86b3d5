"""Plugins that end the program end a trial, or say so."""

import json

import pytest

MODEL = '''
import sys
from dataclasses import dataclass

import numpy as np

from recbench.plugin import METRICS, MODELS, SPLITS, Base, Model, Scorer, SplitRule, param


class Last(Base):
    n_items = 30

    def score(self, history, rows):
        sys.exit(0)


@MODELS.register("leaver")
@dataclass(frozen=True)
class Leaver(Model):
    """Leaves."""

    where: str = param("fit", choices=("fit", "score"), help="where")

    def fit(self, train, ctx):
        if self.where == "fit":
            sys.exit(0)
        return Scorer(Last())


@METRICS.register("leaving")
def leaving(ranking, k):
    """None."""
    sys.exit(0)


@SPLITS.register("left")
@dataclass(frozen=True)
class Left(SplitRule):
    """None."""

    def apply(self, data):
        sys.exit(0)
'''


@pytest.fixture
def run(recbench, own, folder):
    (folder / "leaver.py").write_text(MODEL)
    words = ["run", *own, "--plugin", "leaver.py", "-o", "out", "-m", "popularity"]
    return lambda *more: recbench(*words, *more)


@pytest.mark.parametrize("where", ["fit", "score"])
def test_a_fit_or_a_score_that_ends_the_program_fails_its_trial(run, folder, where):
    result = run("-m", "leaver", "--set", f"where={where}")
    assert result.exit_code == 1, result.output
    assert f"1 trial failed, the first is leaver[where={where}]: SystemExit: 0" in result.stderr
    lines = (folder / "out" / "trials.jsonl").read_text().splitlines()
    status = {row["model"]: row["status"] for row in map(json.loads, lines)}
    assert status == {"leaver": "failed", "popularity": "ok"}


def test_so_does_a_metric(run, folder):
    result = run("-k", "leaving@5")
    assert result.exit_code == 1
    assert "1 trial failed" in result.stderr


@pytest.mark.parametrize("words", [["--split", "left"], ["--debug", "-m", "leaver"]])
def test_elsewhere_it_is_a_sentence(run, words):
    result = run(*words)
    assert result.exit_code == 1
    assert "a plugin, or what it imports, ended the program (sys.exit(0))" in result.stderr


def test_a_plugin_that_leaves_while_it_is_imported(recbench, own, folder):
    (folder / "gone.py").write_text("import sys\nsys.exit(0)\n")
    result = recbench("run", *own, "--plugin", "gone.py", "-m", "popularity")
    assert result.exit_code == 2
    assert "--plugin gone.py: SystemExit: 0" in result.stderr


def test_the_contract_has_a_word_for_it(recbench, folder):
    (folder / "leaver.py").write_text(MODEL)
    result = recbench("check-plugin", "--plugin", "leaver.py", "leaver")
    assert result.exit_code == 1
    assert "SystemExit" in result.output


def test_help_is_still_there_after_a_list(recbench):
    assert recbench("list", "splits").exit_code == 0
    assert recbench("--help").exit_code == 0
