"""Budgets: the same number of trials, or the same time, for each model."""

import json

import pandas as pd
import pytest

from recbench.campaign.budget import seconds_of
from recbench.errors import UsageError

GRID = ["--grid", "ease.l2=1,10,100,1000", "--grid", "ials.l2=0.001,0.01,0.1"]
WORDS = ["-m", "ease", "-m", "ials[iterations=2,factors=4]", *GRID, "-k", "ndcg@10", "-o", "out"]
SHORT = ["--time-limit", "0.000001s"]
"""Over when one trial is done."""


def tried(folder) -> dict[str, int]:
    table = pd.read_csv(folder / "out" / "metrics.csv")
    return table[table["part"] == "valid"]["model"].value_counts().to_dict()


def test_no_trial_begins_when_the_time_of_its_model_is_used_up(recbench, own, folder):
    cut = recbench("run", *own, *WORDS, *SHORT)
    assert cut.exit_code == 0, cut.output
    assert tried(folder) == {"ease": 1, "ials": 1}
    ease, ials = (
        f"{model}: {count} trials did not begin, the time of the model was used up; the same "
        "command with a longer --time-limit goes on"
        for model, count in (("ease", 3), ("ials", 2))
    )
    for told in (cut, recbench("show", "out"), recbench("show", "out", "--trials")):
        assert ease in told.stdout
        assert ials in told.stdout
    again = recbench("run", *own, *WORDS, *SHORT).stderr
    assert "2 finished trials found" in again  # and have used it up
    assert tried(folder) == {"ease": 1, "ials": 1}
    more = recbench("run", *own, *WORDS, "--time-limit", "1h30m")
    assert tried(folder) == {"ease": 4, "ials": 3}
    assert "did not begin" not in more.stdout + recbench("show", "out").stdout
    manifest = json.loads((folder / "out" / "manifest.json").read_text())
    assert [run["time_limit_seconds"] for run in manifest["runs"]] == [1e-6, 1e-6, 5400]
    assert [run["unbegun"]["ease"] for run in manifest["runs"]] == [3, 3, 0]


def test_tables_say_what_each_model_got(recbench, own, folder):
    words = ["-m", "ease", "-m", "ials[iterations=2,factors=4]", "--trials", "2"]
    ran = recbench("run", *own, *words, "--seed", "0,1", "-k", "ndcg@10", "-o", "out")
    assert ran.exit_code == 0, ran.output
    assert "tuning s" in ran.stdout
    for words in (["show", "out"], ["show", "out", "--trials"]):
        table = json.loads(recbench(*words, "--json").stdout)[-1]
        rows = {row["model"]: row for row in table["rows"]}
        assert {name: row["tried"] for name, row in rows.items()} == {"ease": 2, "ials": 2}
        assert rows["ials"]["tuning s"] >= rows["ials"]["fit s"]


def test_where_one_seed_chose_for_all_it_had_the_choice(recbench, own, folder):
    words = ["run", *own, "-k", "ndcg@10", "-o", "out"]
    recbench(*words, "-m", "ials[iterations=2,factors=4]", "--grid", "l2=0.01,0.1,1")
    table = pd.read_csv(folder / "out" / "metrics.csv")
    (best,) = table[table["part"] == "test"]["parameters"]
    assert recbench(*words, "-m", best, "--seed", "1,2").exit_code == 0
    (row,) = json.loads(recbench("show", "out", "--json").stdout)[-1]["rows"]
    assert (row["seeds"], row["tried"]) == ("0,1,2", 3)


def test_one_trial_each_is_nothing_to_tell(recbench, own, folder):
    ran = recbench("run", *own, "-m", "ease", "-m", "popularity", "-o", "out")
    assert "tried" not in ran.stdout + recbench("show", "out").stdout


def test_failures_take_time_too(recbench, own, folder):
    (folder / "slow.py").write_text(
        "from recbench.plugin import *\n"
        "import dataclasses\n\n"
        "@MODELS.register('broken')\n"
        "@dataclasses.dataclass(frozen=True)\n"
        "class Broken(Model):\n"
        "    '''Fails.'''\n"
        "    x: int = param(0, help='whatever')\n"
        "    def fit(self, train, ctx):\n"
        "        raise ZeroDivisionError\n"
    )
    words = ["--plugin", "slow.py", "-m", "broken", "--grid", "x=1,2,3", "-m", "ease"]
    ran = recbench("run", *own, *words, *SHORT, "-o", "out")
    assert ran.exit_code == 1
    assert "broken: 2 trials did not begin" in ran.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--time-limit", "30"], "--time-limit 30 is no time; write 90s, 30m, 2h or 1h30m"),
        (["--time-limit", "0m"], "is no time"),
        (["--time-limit", "1h30"], "is no time"),
        (["--time-limit", "1h", "--no-validate"], "leave one of the two out"),
        (["--time-limit", "1h", "--search", "halving"], "leave out --time-limit"),
    ],
)
def test_a_wrong_time_is_one_sentence_and_code_2(recbench, folder, words, says):
    result = recbench("run", "-m", "ials", *words)
    assert result.exit_code == 2
    assert says in result.stderr
    assert not (folder / "results").exists()


def test_a_dry_run_tells_the_limit(recbench, own):
    told = recbench("run", *own, *WORDS, "--time-limit", "30m", "-n").stdout
    assert "no further trial of a model begins when those before took 30 min" in told
    assert "time limit" not in recbench("run", *own, *WORDS, "-n").stdout


def test_times_are_read_as_they_are_written():
    assert [seconds_of(text) for text in ("90s", "1h30m", "0.5m", "1d 1s")] == [90, 5400, 30, 86401]
    with pytest.raises(UsageError, match="30x is no time"):
        seconds_of("30x")


@pytest.mark.slow
def test_a_learning_search_cut_short_goes_on_as_if_it_had_not_been(recbench, own, folder):
    pytest.importorskip("optuna", reason="needs the extra 'search'")
    words = ["run", *own, "-m", "ease", "--search", "tpe", "--trials", "12", "-k", "ndcg@10"]
    assert recbench(*words, "-o", "whole").exit_code == 0
    cut = recbench(*words, "-o", "cut", *SHORT)
    assert "ease: 11 trials did not begin" in cut.stdout
    assert recbench(*words, "-o", "cut", "--time-limit", "1h").exit_code == 0
    whole, cut = (pd.read_csv(folder / name / "metrics.csv") for name in ("whole", "cut"))
    valid = cut[cut["part"] == "valid"].reset_index(drop=True)
    assert valid.equals(whole[whole["part"] == "valid"].reset_index(drop=True))
