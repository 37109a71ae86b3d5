"""`run -d A -d B`: one dataset after the other, by one command."""

import csv
import io
import json

import pytest

from recbench.campaign.folder import Campaign

FIRST, OTHER = (
    f"synthetic:users={users},items=20,interactions=600,skew=1,seed=0" for users in (60, 80)
)
TWO = ["run", "-d", FIRST, "-d", OTHER, "-m", "popularity", "-k", "ndcg@5"]


def test_both_are_run_into_one_folder_or_two(recbench, folder):
    done = recbench(*TWO, "-o", "out")
    assert done.exit_code == 0, done.output
    assert f"{FIRST}: Test" in done.stdout
    rows = Campaign(folder / "out").rows().values()
    assert len({row.dataset for row in rows}) == 2
    lines = list(csv.DictReader(io.StringIO(recbench(*TWO, "-q", "--format", "csv").stdout)))
    assert {line["dataset"] for line in lines} == {row.dataset for row in rows}
    assert len(list(folder.glob("results/*/manifest.json"))) == 2
    tables = json.loads(recbench(*TWO, "-q", "--json").stdout)
    assert [table["rows"][0]["dataset"] for table in tables][::2] == [FIRST, OTHER]


def test_a_name_that_is_wrong_is_told_before_anything_is_run(recbench, folder):
    wrong = recbench("run", "-d", "debian", "-d", "gowala", "-m", "popularity")
    assert wrong.exit_code == 2
    assert "did you mean 'gowalla'?" in wrong.stderr
    assert not (folder / "results").exists()


def test_they_may_stand_in_a_file_and_are_explained_one_by_one(recbench, folder):
    (folder / "c.yaml").write_text(f"dataset: [debian, '{OTHER}']\nmodel: popularity\n")
    told = recbench("run", "-c", "c.yaml", "-n")
    assert told.exit_code == 0, told.output
    assert told.stdout.count("1 trial in 1 fit") == 2
    printed = recbench("run", "-c", "c.yaml", "--print-config")
    assert "dataset:\n- debian\n- synthetic" in printed.stdout


@pytest.mark.parametrize("words", [["--data", "toy.csv"], ["--data", "toy.csv", "-d", "debian"]])
def test_own_data_are_not_given_beside_them(recbench, folder, words):
    wrong = recbench(*TWO, *words)
    assert wrong.exit_code == 2
    assert "names a dataset and --data a file; give one of the two" in wrong.stderr
