"""The commands as functions."""

import subprocess
import sys

import pytest

import toys
from recbench import api
from recbench.campaign.folder import Campaign
from recbench.errors import UsageError

TOY = toys.two_tastes()


def test_rooms_are_imported_by_the_functions_and_not_before():
    code = (
        "import sys, recbench.api\n"
        "found = {'numba', 'numpy', 'pandas', 'pyarrow', 'scipy'} & set(sys.modules)\n"
        "sys.exit(f'imported {found}' if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_dry_run_gives_what_is_left_and_writes_nothing(folder):
    grid = {"b": [0.5, 1.0]}
    left = api.run(["deql-l2", "popularity"], TOY, grid=grid, dry_run=True).set_index("model")
    assert not (folder / "results").exists()
    assert left["trials"].map(len).to_dict() == {"deql-l2": 2, "popularity": 1}
    assert left["memory"]["deql-l2"] > 0
    assert left["seconds"].isna().to_dict() == {"deql-l2": False, "popularity": True}
    api.run(["deql-l2", "popularity"], TOY, grid=grid)
    assert api.run(["deql-l2", "popularity"], TOY, grid=grid, dry_run=True).empty


def test_a_search_is_one_line_per_trial(folder):
    how = {"grid": {"l2": "0.1:1000"}, "search": "random", "metrics": ["ndcg@10"]}
    table = api.run("ease", TOY, trials=3, search_seed=4, **how)
    assert (table["part"] == "valid").sum() == 3
    with pytest.raises(UsageError, match="needs --trials"):
        api.run("ease", TOY, **how)


def test_settings_finished_trials_and_failed_ones(folder):
    (folder / "fragile.py").write_text(toys.FAILING)
    words = {"sets": {"x": 1}, "plugins": ["fragile.py"], "output": "out"}

    def lines(**more) -> int:
        table = api.run("fragile", TOY, **words, **more)
        assert table["status"].tolist() == ["failed"]
        return len((folder / "out" / "trials.jsonl").read_bytes().splitlines())

    assert [lines(), lines(), lines(retry_failed=True), lines(force=True)] == [1, 1, 2, 3]


def test_traces_and_revealed_tests_are_kept(folder):
    table = api.run("ials", TOY, sets={"steps": 2}, seeds=[0, 1], trace=True, reveal_test=True)
    assert table["part"].tolist() == ["valid", "test"] * 2
    campaign = Campaign.open(folder / "results" / "toy-strong")
    assert len(list((campaign.folder / "traces").glob("*.csv"))) == 2
    assert campaign.manifest()["runs"][0]["command"] == ["recbench.api.run", "ials"]


@pytest.mark.slow
def test_other_processes_know_the_plugins(folder):
    (folder / "rarity.py").write_text(toys.MODEL)
    words = {"grid": {"power": [0.5, 1]}, "plugins": [folder / "rarity.py"], "jobs": 2}
    table = api.run("rarity", TOY, threads=1, **words)
    assert table["status"].tolist() == ["ok"] * 3
