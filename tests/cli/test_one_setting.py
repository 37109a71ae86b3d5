"""A model of one setting, on a split that fits again for the test: nothing is chosen."""

import json

import pandas as pd
import pytest


@pytest.fixture
def run(recbench, dated):
    """A run into one folder; what it said, and the parts that its table has of each model."""

    def call(*words):
        result = recbench("run", *dated, "-o", "out", *words)
        assert result.exit_code == 0, result.output
        table = pd.read_csv("out/metrics.csv")
        return result, table.groupby("model")["part"].agg(list).to_dict()

    return call


def test_it_is_fitted_once_for_the_test(run):
    result, parts = run("-m", "ease", "-m", "popularity")
    assert parts == {"ease": ["test"], "popularity": ["test"]}
    assert "Validation" not in result.stdout
    assert "settings chosen beforehand" in result.stdout
    assert "one setting of ease, popularity: nothing to choose" in result.stderr
    assert "--validate measures it" in result.stderr
    again, _ = run("-m", "ease", "-m", "popularity")
    assert "2 finished trials found, 0 to run" in again.stderr
    assert "nothing to choose" not in again.stderr


def test_validation_can_be_asked_for_then_or_later(run):
    run("-m", "ease")
    result, parts = run("-m", "ease", "--validate")
    assert sorted(parts["ease"]) == ["test", "valid"]
    assert "Validation" in result.stdout
    assert "selected on validation" in result.stdout


def test_beside_a_grid_only_the_grid_is_validated(run, recbench):
    result, parts = run("-m", "ease", "-m", "dlae", "--grid", "ease.l2=1,10")
    assert parts["dlae"] == ["test"]
    assert sorted(parts["ease"]) == ["test", "valid", "valid"]
    assert "selected on validation, and settings chosen beforehand" in result.stdout
    shown = json.loads(recbench("show", "out", "--format", "json").stdout)
    tried = {row["model"]: row.get("tried") for row in shown[0]["rows"]}
    assert tried == {"ease": 2, "dlae": None}
    assert "nan" not in recbench("show", "out", "--format", "plain").stdout


def test_a_wider_grid_goes_on_from_what_was_only_tested(run):
    run("-m", "ease[l2=10]")
    _, parts = run("-m", "ease", "--grid", "l2=1,10")
    assert sorted(parts["ease"])[-2:] == ["valid", "valid"]
    _, parts = run("-m", "ease[l2=3]")  # now there are some to be chosen from
    assert parts["ease"].count("valid") == 3


def test_settings_that_were_tested_one_by_one_stand_side_by_side(run, recbench):
    run("-m", "ease[l2=10]")
    result, parts = run("-m", "ease[l2=3]")
    assert parts == {"ease": ["test", "test"]}
    assert "to choose among them, run them together" in result.stderr
    shown = recbench("show", "out").stdout
    assert "ease[l2=10]" in shown
    assert "ease[l2=3]" in shown


@pytest.mark.parametrize("words", [["--trace"], ["--reveal-test"], ["--trials", "1"]])
def test_whoever_asks_for_more_of_validation_gets_it(run, words):
    _, parts = run("-m", "ials[factors=2,iterations=2]", *words)
    assert sorted(parts["ials"]) == ["test", "valid"]


def test_a_dry_run_and_other_processes_know_it(run, recbench, dated):
    words = ["run", *dated, "-o", "out", "-m", "ease", "-m", "popularity"]
    assert "2 trials in 2 fits" in recbench(*words, "--dry-run").stdout
    _, parts = run("-m", "ease", "-m", "popularity", "--save", "models")
    assert parts == {"ease": ["test"], "popularity": ["test"]}
    assert "0 trials in 0 fits" in recbench(*words, "--dry-run").stdout
