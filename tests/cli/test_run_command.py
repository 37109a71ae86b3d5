import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import toys


def one_sentence(result, code: int, says: str) -> None:
    """The command failed as it should: an exit code, one line, no traceback."""
    assert result.exit_code == code, result.output
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) <= 4  # click adds a usage line or two


def test_a_grid_ends_with_both_tables_and_leaves_files(recbench, own, folder):
    result = recbench("run", *own, "-m", "deql-l2", "--grid", "b=0.1:2.0", "-k", "ndcg@10")
    assert result.exit_code == 0, result.output
    assert "Validation" in result.stdout
    assert "Test" in result.stdout
    assert "*" in result.stdout
    results = folder / "results" / f"{toys.OWN}-strong"
    table = pd.read_csv(results / "metrics.csv")
    assert (table["part"] == "valid").sum() == 9
    assert (table["part"] == "test").sum() == 1
    best = table[table["part"] == "valid"].set_index("parameters")["ndcg@10"].idxmax()
    assert table[table["part"] == "test"]["parameters"].item() == best
    assert len(list((results / "per-user").glob("*.parquet"))) == 10
    assert json.loads((results / "manifest.json").read_text())["runs"][0]["status"] == "finished"


def test_the_same_command_twice_prints_the_same(recbench, own):
    words = ["run", *own, "-m", "ease", "--grid", "l2=1,10", "--format", "csv"]
    first, second = recbench(*words), recbench(*words)
    assert first.stdout == second.stdout
    assert "2 finished trials found, 0 to run" in second.stderr


def test_nothing_but_results_goes_to_standard_output(recbench, own):
    result = recbench("run", *own, "-m", "popularity", "--json")
    tables = json.loads(result.stdout)
    assert [table["rows"][0]["model"] for table in tables] == ["popularity", "popularity"]


def test_show_prints_what_run_printed(recbench, own, folder):
    ran = recbench("run", *own, "-m", "ease", "--grid", "l2=1,10", "--format", "md")
    shown = recbench("show", "--trials", "--format", "md")
    assert shown.exit_code == 0
    assert shown.stdout == ran.stdout
    named = recbench(
        "show", str(folder / "results" / f"{toys.OWN}-strong"), "--trials", "--format", "md"
    )
    assert named.stdout == ran.stdout


def test_settings_that_were_chosen_before_need_no_validation(recbench, own):
    result = recbench("run", *own, "-m", "ease", "-m", "ials", "--seed", "0,1", "--no-validate")
    assert result.exit_code == 0
    assert "Validation" not in result.stdout
    assert "settings chosen beforehand" in result.stdout
    shown = recbench("show", "--format", "md")
    assert "2 seeds" in shown.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--grid", "l2=1,10"], "nothing chooses among the settings of ials"),
        (["--search", "random", "--trials", "2", "--grid", "l2=1:9"], "nothing chooses among"),
        (["--set", "patience=2"], "ials has patience, and validation is what it asks"),
        (["--reveal-test"], "exclude each other"),
    ],
)
def test_without_validation_there_must_be_nothing_to_choose(recbench, own, words, says):
    result = recbench("run", *own, "-m", "ials", "--no-validate", *words)
    assert result.exit_code == 2
    assert says in result.stderr


def test_revealed_test_values_are_announced_as_such(recbench, own):
    result = recbench("run", *own, "-m", "ease", "--grid", "l2=1,10,100", "--reveal-test")
    assert "2 of these 3 trials were not selected on validation" in result.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "which model?"),
        (["-m", "eas"], "unknown model 'eas'; did you mean 'ease'?"),
        (["-m", "ease", "-d", "debain"], "unknown dataset 'debain'; did you mean 'debian'?"),
        (["-m", "ease", "-k", "ndgc@10"], "unknown metric 'ndgc'; did you mean 'ndcg'?"),
        (["-m", "ease", "-k", "ndcg"], "has no cutoff"),
        (["-m", "ease", "--set", "l3=1"], "unknown parameter of ease 'l3'; did you mean 'l2'?"),
        (["-m", "ease", "--split", "strnog"], "unknown split 'strnog'; did you mean 'strong'?"),
        (["-m", "ease", "--split", "strong[sede=1]"], "did you mean 'seed'?"),
        (["-m", "ease", "--grid", "l2="], "is not KEY=VALUE"),
        (["-m", "deql-l2", "--grid", "b=2:1"], "must rise"),
        (["-m", "deql-l2", "--grid", "b=a:b"], "'a' is not a number"),
        (["-m", "deql-l2", "--grid", "b=0.1:2.0:0"], "step must be positive"),
        (["-m", "deql-l2", "--grid", "b=1:1000000001:1"], "100,000 is the most"),
        (["-m", "ease", "--seed", "0,x"], "--seed takes whole numbers"),
        (["-m", "ease", "--min", "4"], "--min belongs to --data"),
        (["-m", "ease", "--plugin", "nowhere.py"], "there is no such file"),
        (["-m", "ease", "--select", "ndgc@10"], "did you mean 'ndcg'?"),
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_code_2(recbench, folder, words, says):
    one_sentence(recbench("run", *words), 2, says)
    assert not (folder / "results").exists()


MANY_USERS = "".join(f"u{n},a\nu{n},b\n" for n in range(9))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("u,x\na,b\n", "'i'"),
        ("u;i\na;b\n", ";"),
        ("", "empty"),
        ("u,i\n", "no "),
        ("u,i\na,\nb,x\n", "item"),
        ("u,i\na,x\n", "toy.csv"),
        ("u,i\n" + "a,x\n" * 50, ""),
        ("u,i\n" + "".join(f"a,{n}\n" for n in range(50)), ""),
        ("u,i\n" + "".join(f"{n},x\n" for n in range(50)), ""),
    ],
    ids=["missing column", "wrong delimiter", "empty", "header only", "empty ids", "one row",
         "one pair", "one user", "one item"],
)  # fmt: skip
def test_a_wrong_file_is_one_sentence_and_code_3(recbench, own, folder, text, says):
    (folder / "toy.csv").write_text(text)
    result = recbench("run", *own, "-m", "popularity")
    one_sentence(result, 3, says)
    assert not (folder / "results").exists()


def test_duplicate_rows_count_once(recbench, own, folder):
    once = recbench("run", *own, "-m", "ease", "--format", "csv", "-o", "once").stdout
    path = folder / "toy.csv"
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header, *rows, *rows[::-1]]) + "\n")
    twice = recbench("run", *own, "-m", "ease", "--format", "csv", "-o", "twice").stdout
    scores = [[line.split(",")[:5] for line in text.splitlines()] for text in (once, twice)]
    assert scores[0] == scores[1]


def test_a_core_that_empties_the_data_says_so(recbench, own):
    one_sentence(recbench("run", *own, "--core", "500", "-m", "popularity"), 3, "500")


def test_an_unwritable_results_folder_is_one_sentence(recbench, own, folder):
    (folder / "results").write_text("a file is in the way")
    one_sentence(recbench("run", *own, "-m", "popularity"), 3, "choose another folder with -o")


def test_a_failing_model_exits_with_1_after_the_others_ran(recbench, own, folder):
    (folder / "fragile.py").write_text(toys.FAILING)
    result = recbench("run", *own, "--plugin", "fragile.py", "-m", "fragile", "--grid", "x=0,1,2")
    assert result.exit_code == 1
    assert "fragile[x=1]: failed: ZeroDivisionError: one is none" in result.stdout
    assert "fragile[x=2]: skipped: needs 10 GB" in result.stdout
    assert "1 trial failed" in result.stderr


def test_a_model_takes_one_file(recbench, own, folder):
    (folder / "rarity.py").write_text(toys.MODEL)
    words = ["run", *own, "--plugin", "rarity.py", "-m", "rarity", "--grid", "power=0.5:1"]
    result = recbench(*words)
    assert result.exit_code == 0, result.output
    assert "rarity" in result.stdout
    assert recbench("check-plugin", "--plugin", "rarity.py", "rarity").exit_code == 0
    assert "how few training users" in recbench("list", "models", "--plugin", "rarity.py").stdout


def test_a_metric_takes_one_file(recbench, own, folder):
    (folder / "first.py").write_text(toys.METRIC)
    result = recbench(
        "run", *own, "--plugin", "first.py", "-m", "ease", "-k", "first@1,hit@1", "--json"
    )
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)[1]["rows"]
    assert row["first@1"] == row["hit@1"]


def test_a_dataset_takes_one_file(recbench, folder):
    (folder / "datasets.yaml").write_text(
        "mine:\n"
        "  title: My own interactions\n"
        "  licence: mine\n"
        "  reader: delimited\n"
        "  options: {columns: {user: u, item: i}}\n"
        "  files: [{name: toy.csv, path: toy.csv}]\n"
        "  filters: [{users: 2, items: 2}]\n"
    )
    result = recbench("run", "-d", "mine", "-m", "ease", "--format", "csv")
    assert result.exit_code == 0, result.output
    assert "ease" in result.stdout
    assert "My own interactions" in recbench("info", "mine").stdout


def test_synthetic_data_needs_no_file(recbench):
    result = recbench(
        "run", "-d", "synthetic:users=300,items=60,interactions=4000,seed=1", "-m", "ease"
    )
    assert result.exit_code == 0, result.output


def test_edited_data_is_not_mixed_with_old_results(recbench, own, folder):
    words = ["run", *own, "-m", "popularity"]
    assert recbench(*words).exit_code == 0
    with (folder / "toy.csv").open("a") as file:
        file.write("u0,new\n")
    assert "finished trial" not in recbench(*words).stderr
    assert len(list((folder / "results").iterdir())) == 2
    assert recbench(*words, "-o", f"results/{toys.OWN}-strong").exit_code == 0
    shown = recbench("show", f"results/{toys.OWN}-strong", "--format", "json").stdout
    assert len({table["title"] for table in json.loads(shown)[:2]}) == 2


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished(folder):
    (folder / "slow.py").write_text(
        toys.FAILING.replace(
            "def fit(self, train, ctx):",
            "def fit(self, train, ctx):\n        import time; time.sleep(0.4)",
        )
    )
    words = "run --data toy.csv --user u --item i --plugin slow.py -m fragile --grid x=4:60:1"
    command = [sys.executable, "-m", "recbench", *words.split()]
    process = subprocess.Popen(
        command,
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"CI": "1"},
    )
    log = Path(folder, "results", f"{toys.OWN}-strong", "trials.jsonl")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (log.exists() and log.stat().st_size):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted after" in said
    assert "Traceback" not in said
    finished = log.read_text().splitlines()
    assert all(json.loads(line)["status"] == "ok" for line in finished)
    for line in finished:
        row = json.loads(line)
        assert pq.read_table(
            log.parent / "per-user" / f"{row['trial']}-{row['part']}.parquet"
        ).num_rows


SPOILT = """
from dataclasses import dataclass

import numpy as np

from recbench.plugin import MODELS, Constant, Family, Model, Scorer, param


class Together(Family):
    def key(self, model):
        return "one fit"

    def fit(self, models, train, ctx):
        base = Constant(np.bincount(train.indices, minlength=train.shape[1]).astype(np.float32))
        return [model.scorer(base) for model in models]


class Broken(Constant):
    def score(self, history, rows):
        raise ZeroDivisionError("no score")


@MODELS.register("spoilt")
@dataclass(frozen=True)
class Spoilt(Model):
    \"\"\"NaN by its scale at 2, by its base at 4, no score at all at 5.\"\"\"

    family = Together()
    x: int = param(0, help="what happens")

    def scorer(self, base):
        scale = np.full(len(base.scores), 1.0 + self.x, dtype=np.float32)
        if self.x == 2:
            scale[1] = np.nan
        if self.x == 4:
            base = Constant(base.scores * np.float32("nan"))
        if self.x == 5:
            base = Broken(base.scores)
        return Scorer(base, scale)
"""


def test_of_a_group_only_models_whose_scores_are_at_fault_fail(recbench, own, folder):
    (folder / "spoilt.py").write_text(SPOILT)
    words = ["run", *own, "--plugin", "spoilt.py", "-m", "spoilt", "--grid", "x=0:6:1", "--json"]
    result = recbench(*words)
    assert result.exit_code == 1
    assert "3 trials failed, the first is spoilt[x=2]: scores are not finite" in result.stderr
    valid, test = (table["rows"] for table in json.loads(result.stdout))
    measured = [row["parameters"] for row in valid if row["ndcg@100"] is not None]
    assert measured == ["x=0", "x=1", "x=3", "x=6"]
    assert [row["parameters"] for row in test] == ["x=0"]
    log = (folder / "results" / f"{toys.OWN}-strong" / "trials.jsonl").read_text()
    assert "ZeroDivisionError: no score" in log
    alone = recbench("run", *own, "--plugin", "spoilt.py", "-m", "spoilt[x=3]", "-o", "alone")
    assert alone.exit_code == 0


def test_a_run_that_measured_nothing_is_no_success(recbench, own, folder):
    (folder / "fragile.py").write_text(toys.FAILING)
    result = recbench("run", *own, "--plugin", "fragile.py", "-m", "fragile[x=2]")
    assert result.exit_code == 1
    told = "nothing was measured on validation: 1 trial skipped, the first is fragile[x=2]: needs"
    assert told in result.stderr
    assert "Validation, nothing was measured" in result.stdout
    assert "is best" not in result.stdout
    compared = recbench("compare", "fragile", "ease")
    assert compared.exit_code == 3
    assert "no finished trials on test to compare" in compared.stderr
    beside = recbench("run", *own, "--plugin", "fragile.py", "-m", "fragile[x=2]", "-m", "ease")
    assert beside.exit_code == 0
    tested = recbench(
        "run", *own, "--plugin", "fragile.py", "-m", "fragile[x=2]", "--no-validate", "-o", "there"
    )
    assert tested.exit_code == 1
    assert "nothing was measured on test" in tested.stderr
    assert "Test, nothing was measured" in tested.stdout


def test_a_table_without_numbers_says_why_and_no_more(recbench, own, folder):
    (folder / "none.csv").write_text("user,item,score\nnobody,1,1\n")
    result = recbench("run", *own, "-m", "file:none.csv")
    assert result.exit_code == 1
    assert "Test, nothing was measured" in result.stdout
    assert "not selected on validation" not in result.stdout
    assert result.stdout.count("skipped: none.csv has no list") == 1
    assert "label=" not in result.stdout


LOYAL = """
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recbench.plugin import MODELS, Factors, Model, Scorer


@MODELS.register("loyal")
@dataclass(frozen=True)
class Loyal(Model):
    \"\"\"Knows its own users only.\"\"\"

    {says}

    def fit(self, train, ctx):
        Path("fitted").touch()
        users, items = train.shape
        return Scorer(Factors(np.ones((users, 1), ctx.dtype), np.ones((items, 1), ctx.dtype)))
"""


def test_a_model_that_cannot_serve_a_split_is_refused_before_its_fit(recbench, own, folder):
    (folder / "loyal.py").write_text(LOYAL.format(says="trained_users_only = True"))
    words = ["run", *own, "--plugin", "loyal.py", "-m", "loyal"]
    refused = recbench(*words)
    assert refused.exit_code == 1
    assert "of the users to rank in validation are not in train, and loyal knows" in refused.stderr
    assert not (folder / "fitted").exists()
    assert recbench(*words, "--split", "weak").exit_code == 0
    assert recbench("check-plugin", "--plugin", "loyal.py", "loyal").exit_code == 0


def test_a_model_that_does_not_say_whom_it_knows_is_told_how(recbench, folder):
    (folder / "loyal.py").write_text(LOYAL.format(says=""))
    result = recbench("check-plugin", "--plugin", "loyal.py", "loyal")
    assert result.exit_code == 1
    assert "say `trained_users_only = True` in its class" in result.stderr
