import json
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
        (
            ["-m", "ease", "--search", "grid", "--trials", "3"],
            "--trials belongs to --search random",
        ),
        (["-m", "ease", "--search", "random"], "needs --trials N"),
        (["-m", "popularity", "--trials", "3"], "nothing to search for popularity"),
        (["-m", "ease[l2=7]", "--trials", "3"], "nothing to search for ease"),
        (["-m", "ease", "--grid", "l2=0:9", *SEARCH[2:]], "must start above 0"),
        (["-m", "edlae", "--grid", "p=0:1", *SEARCH[2:]], "must be a number in [0, 1)"),
        (["-m", "ease", "--grid", "l3=1:9", *SEARCH[2:]], "did you mean 'l2'?"),
        (["-m", "ease", "--search", "rnadom"], "unknown search 'rnadom'; did you mean 'random'?"),
        (
            ["-m", "ease", "--search", "random", "--trials", "0"],
            "--trials takes a whole number from 1",
        ),
        (["-m", "ease", "-m", "ials", "--search", "halving"], "those of ease do not"),
        (["-m", "ials", "--search", "halving[eta=1]"], "must be a number in [2, inf)"),
        (["-m", "ials", "--search", "halving[etta=3]"], "did you mean 'eta'?"),
        (["-m", "ials", "--search", "halving", "--reveal-test"], "leave one of the two out"),
        (["-m", "ease", "--search", "grid[eta=3]"], "--search grid has no settings"),
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
    assert "pip install 'recbench-suite[search]'" in result.stderr
    assert not (folder / "results").exists()
    assert recbench(*words).exit_code == 0


def test_a_dry_run_tells_memory_time_and_what_is_not_known(recbench, own, folder):
    words = ["run", *own, "-m", "deql-l2", "-m", "popularity", "--grid", "b=0.1:2.0"]
    result = recbench(*words, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "10 trials in 2 fits" in result.stdout
    assert "GB for the largest fit" in result.stdout
    assert "GB for the inverse of 30 items" in result.stdout
    assert "for 1 fit, at the speed this machine multiplies matrices" in result.stdout
    assert "unknown for popularity" in result.stdout
    assert not (folder / "results").exists()
    recbench(*words)
    again = recbench(*words, "--force", "--dry-run").stdout
    assert "for 1 fit, as earlier ones on the same data took" in again
    assert "10 finished trials found, 0 to run" in recbench(*words, "--dry-run").stdout


def test_a_dry_run_tells_how_many_fits_there_will_be_at_once(recbench, own, monkeypatch):
    words = ["run", *own, "-m", "ease", "--grid", "l2=1:100:log9", "-m", "popularity", "-n"]
    monkeypatch.setattr("recbench.environment.usable_cores", lambda: 8)
    monkeypatch.setattr("recbench.campaign.request.usable_cores", lambda: 8)
    said = recbench(*words, "-j", "auto").stdout
    assert "jobs: one fit at a time, on 8 threads, until 2 of a model or more are measured" in said
    assert "  ease: at most 7 at once (" in said
    assert "  popularity: one at a time: it is over when measured" in said
    assert "jobs:" not in recbench(*words, "-j", "2").stdout
    monkeypatch.setattr("recbench.environment.usable_cores", lambda: 1)
    said = recbench(*words, "-j", "auto").stdout
    assert "jobs: one fit at a time: there is one core" in said


def test_a_run_that_finds_out_how_many_ends_in_the_same_table(recbench, own, folder, monkeypatch):
    monkeypatch.setattr("recbench.campaign.request.usable_cores", lambda: 2)
    words = ["run", *own, "-m", "ease", "--grid", "l2=1:100:log9"]
    for jobs in ("1", "auto"):
        done = recbench(*words, "-o", jobs, "-j", jobs)
        assert done.exit_code == 0, done.output
    tables = [(folder / jobs / "metrics.csv").read_bytes() for jobs in ("1", "auto")]
    assert tables[0] == tables[1]


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
    assert [line.strip() for line in shown.splitlines()[-2:]] == ["ials seed 3", "ials seed 5"]


def test_a_dry_run_says_once_what_fits_take_alike(recbench, own):
    words = ["-m", "ease", "-m", "ials[factors=4]", "--grid", "ials.iterations=2,3", "-n"]
    shown = recbench("run", *own, *words, "--grid", "ials.l2=0.01,0.1").stdout
    listed = shown[shown.index("time: ") :].splitlines()[1:]
    assert listed[0].startswith("  ease: ")
    assert listed[1].startswith("  2 fits of ials, each: ")
    assert "GB for 4 factors for" in listed[1]
    assert listed[2:] == [
        "    ials[factors=4,iterations=2]", "      + ials[factors=4,iterations=3]",
        "    ials[factors=4,iterations=2,l2=0.1]", "      + ials[factors=4,iterations=3,l2=0.1]",
    ]  # fmt: skip


HALVING = [
    "-m", "ials[iterations=9,factors=4,tol=0]", "--grid", "l2=0.001:1:log9",
    "--search", "halving", "-k", "ndcg@10", "-o", "found",
]  # fmt: skip


def test_halving_stops_most_trials_and_says_so_everywhere(recbench, own, folder):
    result = recbench("run", *own, *HALVING)
    assert result.exit_code == 0, result.output
    told = "8 trials stopped early by the search: measured there, not selected"
    assert "stopped at round" in result.stdout
    assert told in result.stdout
    table = pd.read_csv(folder / "found" / "metrics.csv")
    stops = table["stopped at round"].fillna(0).astype(int).tolist()
    assert sorted(stops) == [0, 0] + [1] * 6 + [3] * 2
    assert set(table["status"]) == {"ok"}
    assert (table[table["selected"]]["stopped at round"].isna()).all()
    assert sorted(table[table["selected"]]["part"]) == ["test", "valid"]
    per_user = {path.name for path in (folder / "found" / "per-user").iterdir()}
    assert per_user == {
        f"{t}-{p}.parquet" for t, p in table[table["selected"]][["trial", "part"]].values
    }
    for words in (["show", "found"], ["show", "found", "--trials"]):
        assert told in recbench(*words).stdout
    assert recbench("report", "found").exit_code == 0
    assert told in (folder / "found" / "report.html").read_text()
    stopped = table[table["stopped at round"] == 3]["parameters"].iloc[0]
    refused = recbench("compare", stopped, "ials", "--results", "found")
    assert refused.exit_code == 2
    assert "was stopped at round 3 by a search, so there is nothing to compare" in refused.stderr
    again = recbench("run", *own, *HALVING)
    assert "9 finished trials found, 0 to run" in again.stderr


def test_a_dry_run_of_halving_tells_its_rungs_and_what_they_cost(recbench, own, folder):
    shown = recbench("run", *own, *HALVING, "-n").stdout
    assert (
        "ials: 9 trials for 1 round, the best 3 for 3 rounds, the best 1 for all 9: "
        "at most the rounds of 3.0 whole fits instead of 9" in shown
    )
    assert "9 trials in 9 fits" in shown
    assert not (folder / "found").exists()
    recbench("run", *own, *HALVING)
    assert "9 finished trials found, 0 to run" in recbench("run", *own, *HALVING, "-n").stdout


def test_halving_of_random_draws_tries_those_of_a_random_search(recbench, own, folder):
    words = ["-m", "ials[iterations=4,factors=4]", "--grid", "l2=0.001:1", "--trials", "4"]
    random = ["--search", "random", "-k", "ndcg@10", "-o", "random"]
    halving = ["--search", "halving[eta=2,first=2]", "-k", "ndcg@10", "-o", "halving"]
    assert recbench("run", *own, *words, *random).exit_code == 0
    assert recbench("run", *own, *words, *halving).exit_code == 0
    assert set(tried(folder / "random")) == set(tried(folder / "halving"))
    table = pd.read_csv(folder / "halving" / "metrics.csv")
    assert table["stopped at round"].fillna(0).tolist().count(2) == 2


def test_trials_alone_search_where_each_model_says(recbench, own, folder):
    words = ["run", *own, "-m", "ease", "-m", "ials[iterations=3,factors=4]", "-k", "ndcg@10"]
    ran = recbench(*words, "--trials", "3", "-o", "found")
    assert ran.exit_code == 0, ran.output
    assert "warning" not in ran.stderr
    table = pd.read_csv(folder / "found" / "metrics.csv")
    drawn = table[table["part"] == "valid"].groupby("model")["parameters"].nunique()
    assert drawn.to_dict() == {"ease": 3, "ials": 3}
    again = recbench(*words, "--search", "random", "--trials", "4", "-o", "found")
    assert "6 finished trials found, 2 to run" in again.stderr


def test_spaces_are_printed_as_they_are_typed(recbench):
    """In other places :100: is a picture."""
    assert "0.1:100:log" in recbench("info", "wrmf").stdout


def test_info_shows_where_a_model_is_searched(recbench):
    shown = {p["name"]: p["searched"] for p in _sheet(recbench, "ials")}
    assert shown["l2"] == ["0.0001:0.1:log"]
    assert shown["factors"] == []
    assert _sheet(recbench, "deql")[0]["searched"][:2] == ["0.1", "0.2"]
    assert "0.0001:0.1:log" in recbench("info", "ials").stdout


def _sheet(recbench, name):
    return json.loads(recbench("info", name, "--json").stdout)[0]["parameters"]


def test_a_grid_for_all_says_where_it_is_far_from_a_models_good_values(recbench, own):
    words = ["run", *own, "-m", "ease", "-m", "ials", "-n"]
    said = recbench(*words, "--grid", "l2=0,1,100").stderr
    assert (
        "warning: --grid l2=0,1,100 gives ials l2=100, outside its usual range 0.0001:0.1; "
        "--grid ials.l2=... is for ials alone" in said
    )
    assert "gives ease" not in said
    ranks = recbench("run", *own, "-m", "lrr", "--grid", "k=10,20,10000", "-n").stderr
    assert "warning" not in ranks  # published, although not searched
    drawn = recbench(*words, "--grid", "l2=0.01:50", "--trials", "2").stderr
    assert "gives ease l2=0.01," in drawn
    assert "gives ials l2=50," in drawn
    scoped = recbench(*words, "--grid", "ials.l2=100", "--grid", "ease.l2=0.01").stderr
    assert "warning" not in scoped
