import csv
import json
from dataclasses import replace
from functools import partial

import pytest

import toys
from recbench.campaign.folder import Campaign
from recbench.campaign.request import Request
from recbench.campaign.search.grammar import models_from
from recbench.errors import DataError
from recbench.published import found as tuning
from recbench.published.check import check, run_known
from recbench.published.found import GRIDS, grid_of, read_found, search_unknown, with_found
from recbench.published.rows import Published
from recbench.registry import MODELS

ROW = Published(
    paper="toy", table="1", dataset="toy", protocol="strong", model="EASE", metric="ndcg@10",
    value=0.5, our_dataset="toy", our_split="strong", our_model="ease", part="test",
)  # fmt: skip
ROWS = [
    ROW,
    replace(ROW, metric="recall@5"),
    replace(ROW, our_model="edlae", model="EDLAE"),
    replace(ROW, our_model="popularity", model="POP"),
]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(
        tuning, "GRIDS", {"ease": ("l2=0.1,10,100000",), "edlae": ("p=0.5", "l2=0.1,10")}
    )


def run(folder, *rows, unknown=True):
    kept = {"folder": folder / "runs", "how": Request()}
    search = partial(search_unknown, found=folder / "found.csv", **kept) if unknown else None
    known = partial(run_known, **kept)
    rows = with_found(rows, read_found(folder / "found.csv"))
    return check(rows, lambda name: toys.two_tastes(), known, search)


def test_our_grids_are_grids():
    for model, grids in GRIDS.items():
        assert 2 < len(models_from([model], (), grids)) < 1000


def test_other_models_are_searched_by_their_published_values():
    assert grid_of("rlae") == GRIDS["rlae"]
    assert not tuning.searchable("popularity")
    assert all(tuning.searchable(name) == bool(grid_of(name)) for name in MODELS.names())


def test_parameters_are_chosen_on_validation_and_recorded(tmp_path, small):
    findings = run(tmp_path, *ROWS)
    assert all(finding.checked for finding in findings)
    with (tmp_path / "found.csv").open(newline="") as file:
        ease, recall, edlae = csv.DictReader(file)
    rows = Campaign.open(tmp_path / "runs" / "check-toy-strong").rows().values()
    tried = {r.text: r.metrics["ndcg@10"] for r in rows if (r.model, r.part) == ("ease", "valid")}
    assert len(tried) == int(ease["tried"]) == 3
    best = max(tried, key=tried.__getitem__)
    assert f"ease[{ease['parameters'].replace(' ', ',')}]" == best
    assert float(ease["validation"]) == tried[best]
    (tested,) = [r for r in rows if (r.text, r.part) == (best, "test")]
    assert float(ease["ours"]) == tested.metrics["ndcg@10"] == findings[0].value
    assert float(recall["ours"]) == tested.metrics["recall@5"] == findings[1].value
    assert edlae["grid"] == "p=0.5 l2=0.1,10"
    assert ease["select"] == recall["select"] == "ndcg@10"
    assert ease["fingerprint"] == toys.two_tastes().fingerprint
    assert ease["recbench"]
    assert ease["found"]


def test_what_was_found_is_checked_from_then_on(tmp_path, small, monkeypatch):
    first = run(tmp_path, *ROWS[:3])
    before = (tmp_path / "found.csv").read_bytes()
    monkeypatch.setattr(
        "recbench.models.linear.lae.invert", None
    )  # everything is among the results
    again = run(tmp_path, *ROWS[:3], unknown=False)
    assert [finding.value for finding in again] == [finding.value for finding in first]
    assert {finding.status for finding in again} <= {"as recorded", "reproduced"}
    assert run(tmp_path, *ROWS[:3]) == again
    assert (tmp_path / "found.csv").read_bytes() == before
    worse = (tmp_path / "found.csv").read_text().replace(str(first[0].value), "0.99")
    (tmp_path / "found.csv").write_text(worse)
    assert run(tmp_path, ROW)[0].status == "REGRESSED"


def test_a_model_without_anything_to_try_says_so(tmp_path, small, monkeypatch):
    row = replace(ROW, our_model="ease-debiased")
    (finding,) = run(tmp_path, row)
    assert (finding.status, finding.checked) == ("no grid to search", False)
    assert not (tmp_path / "found.csv").exists()


def test_a_search_that_fails_is_no_regression(tmp_path, small, monkeypatch):
    monkeypatch.setattr("recbench.models.linear.lae.invert", lambda *a: 1 / 0)
    (finding,) = run(tmp_path, ROW)
    assert finding.status.startswith("search failed: ZeroDivisionError: division by zero (")
    assert not finding.regressed


@pytest.mark.parametrize("text", ["nonsense\n1\n", "paper,table\na,b\n"])
def test_a_file_that_is_something_else_is_not_touched(tmp_path, text):
    (tmp_path / "found.csv").write_text(text)
    with pytest.raises(DataError, match=r"found.csv is not a file of found parameters"):
        run(tmp_path, ROW)
    assert (tmp_path / "found.csv").read_text() == text


def test_the_command_searches_and_then_checks(recbench, folder, small, monkeypatch):
    (folder / "datasets.yaml").write_text(
        "toy:\n  title: A toy\n  licence: mine\n  reader: delimited\n"
        "  options: {columns: {user: u, item: i}}\n  files: [{name: toy.csv, path: toy.csv}]\n"
    )
    monkeypatch.setattr("recbench.published.rows.load", lambda: [ROW])
    assert recbench("check", "toy").exit_code == 0
    assert recbench("fetch", "toy").exit_code == 0
    plain = recbench("check", "toy", "--all", "--json")
    assert json.loads(plain.stdout)[0]["rows"][0]["status"] == "parameters not known"
    searched = recbench("check", "toy", "--search-missing", "--json")
    assert searched.exit_code == 0, searched.output
    (row,) = json.loads(searched.stdout)[0]["rows"]
    assert row["parameters"].startswith("l2=")
    assert (folder / "results" / "found.csv").exists()
    (again,) = json.loads(recbench("check", "toy", "--json").stdout)[0]["rows"]
    assert again["ours"] == row["ours"]
    assert again["status"] in ("as recorded", "reproduced")
