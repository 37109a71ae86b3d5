import sys

import pandas as pd
import pytest

SEARCH = ["--grid", "l2=0.1:1000", "--search", "random", "--trials", "4", "-k", "ndcg@10"]


def tried(folder) -> list[str]:
    table = pd.read_csv(folder / "metrics.csv")
    return table[table["part"] == "valid"]["parameters"].tolist()


def test_a_random_search_ends_like_a_grid(recbench, own, folder):
    result = recbench("run", *own, "-m", "ease", "-m", "edlae[p=0.5]", *SEARCH, "-o", "found")
    assert result.exit_code == 0, result.output
    assert len(tried(folder / "found")) == 8
    assert "Test" in result.stdout
    table = pd.read_csv(folder / "found" / "metrics.csv")
    assert (table["part"] == "test").sum() == 2


def test_more_trials_add_to_those_that_are_there(recbench, own, folder):
    words = ["run", *own, "-m", "ease", *SEARCH, "-o", "found"]
    recbench(*words)
    before = tried(folder / "found")
    again = recbench(*words, "--trials", "6")
    assert "4 finished trials found, 2 to run" in again.stderr
    assert set(before) < set(tried(folder / "found"))
    other = recbench(*words, "--search-seed", "1", "-o", "other")
    assert other.exit_code == 0
    assert not {*before} & {*tried(folder / "other")}


def test_tpe_from_the_command_line(recbench, own, folder):
    pytest.importorskip("optuna", reason="needs the extra 'search'")
    words = ["run", *own, "-m", "ease", *SEARCH, "--search", "tpe", "-o", "found"]
    first, second = recbench(*words), recbench(*words)
    assert first.exit_code == 0, first.output
    assert len(tried(folder / "found")) == 4
    assert "4 finished trials found, 0 to run" in second.stderr


def test_a_campaign_file_has_the_same_words(recbench, own, folder):
    (folder / "campaign.yaml").write_text(
        "model: ease\ngrid: {l2: '0.1:1000'}\nsearch: random\ntrials: 3\nsearch-seed: 5\n"
    )
    result = recbench("run", *own, "-c", "campaign.yaml", "-o", "found")
    assert result.exit_code == 0, result.output
    assert len(tried(folder / "found")) == 3
    printed = recbench("run", "-c", "campaign.yaml", "--trials", "2", "--print-config").stdout
    assert {"search: random", "trials: 2", "search-seed: 5"} <= set(printed.splitlines())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-m", "ease", "--trials", "3"], "--trials belongs to --search random"),
        (["-m", "ease", "--search", "random"], "needs --trials N"),
        (["-m", "ease", "--search", "random", "--trials", "3"], "nothing to search for ease"),
        (["-m", "ease", "--grid", "l2=0:9", *SEARCH[2:]], "must start above 0"),
        (["-m", "edlae", "--grid", "p=0:1", *SEARCH[2:]], "must be a number in [0, 1)"),
        (["-m", "ease", "--grid", "l3=1:9", *SEARCH[2:]], "did you mean 'l2'?"),
        (["-m", "ease", "--search", "rnadom"], "'rnadom' is not one of"),
        (["-m", "ease", "--search", "random", "--trials", "0"], "0 is not in the range"),
    ],
)
def test_a_wrong_search_is_one_sentence_and_code_2(recbench, folder, words, says):
    result = recbench("run", *words)
    assert result.exit_code == 2
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    assert not (folder / "results").exists()


def test_without_optuna_tpe_says_what_to_install(recbench, own, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    words = ["run", *own, "-m", "ease", *SEARCH]
    result = recbench(*words, "--search", "tpe")
    assert result.exit_code == 2
    assert "pip install 'recbench[search]'" in result.stderr
    assert not (folder / "results").exists()
    assert recbench(*words).exit_code == 0


def test_a_dry_run_tells_memory_time_and_what_is_not_known(recbench, own, folder):
    words = ["run", *own, "-m", "deql-l2", "-m", "popularity", "--grid", "b=0.1:2.0"]
    result = recbench(*words, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "10 trials in 2 fits" in result.stdout
    assert "GB for the largest fit" in result.stdout
    assert "for 1 fit, at the speed this machine multiplies matrices" in result.stdout
    assert "unknown for popularity" in result.stdout
    assert not (folder / "results").exists()
    recbench(*words)
    again = recbench(*words, "--force", "--dry-run").stdout
    assert "for 1 fit, as earlier ones on the same data took" in again
    assert "10 finished trials found, 0 to run" in recbench(*words, "--dry-run").stdout


def test_a_dry_run_of_a_search_shows_what_it_begins_with(recbench, own):
    pytest.importorskip("optuna", reason="needs the extra 'search'")
    words = ["run", *own, "-m", "ease", *SEARCH, "--search", "tpe", "--trials", "30", "-n"]
    assert "the first 10 of 30 trials" in recbench(*words).stdout


def test_a_dry_run_of_a_finished_search_finds_all_of_it(recbench, own):
    pytest.importorskip("optuna", reason="needs the extra 'search'")
    words = ["run", *own, "-m", "ease", *SEARCH, "--search", "tpe", "--trials", "12"]
    recbench(*words)
    assert "12 finished trials found, 0 to run" in recbench(*words, "--dry-run").stdout
    assert "finished" not in recbench(*words, "--dry-run", "--force").stdout


def test_a_dry_run_tells_seeds_apart(recbench, own):
    shown = recbench("run", *own, "-m", "ials", "--seed", "3,5", "--dry-run").stdout
    assert shown.count("] seed 3: ") == shown.count("] seed 5: ") == 1
