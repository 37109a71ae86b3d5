import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import partial

import pytest

import toys
from recbench.campaign.request import Request
from recbench.published import rows as published
from recbench.published.check import check, finding, judge, regressions, run_known, why_not
from recbench.published.rows import Published
from recbench.report.findings import view

ROW = Published(
    paper="toy", table="1", dataset="toy", protocol="strong", model="ease", metric="ndcg@10",
    value=0.5, our_dataset="toy", our_split="strong", our_model="ease", part="test",
    parameters="l2=5", tolerance=0.001, printed="0.500",
)  # fmt: skip


def run(tmp_path, *rows: Published):
    known = partial(run_known, folder=tmp_path, how=Request())
    return check(rows, lambda name: toys.two_tastes() if name == "toy" else None, known)


def test_published_rows_are_well_formed():
    rows = published.load()
    papers = {"deql": 148, "landscape": 292, "rg2": 77, "rgx": 72, "debiased": 130}
    for paper, count in papers.items():
        assert sum(row.paper == paper for row in rows) == count
    for row in rows:
        assert row.part in ("valid", "test")
        assert row.ours is None or not why_not(row), f"{row} has a value but nothing to get it by"


def test_a_value_is_judged_by_the_record_and_by_the_paper():
    assert judge(ROW, 0.50049).status == "reproduced"
    assert judge(ROW, 0.49951).status == "reproduced"
    assert judge(ROW, 0.50051).status == "close"
    assert judge(ROW, 0.4991).status == "close"
    assert judge(replace(ROW, tolerance=None), 0.4991).status == "measured"
    assert judge(replace(ROW, printed=""), 0.502).status == "reproduced"  # 0.5 is all there is
    assert judge(ROW, 0.502).status == "measured"
    assert judge(ROW, 0.498).status == "measured"
    assert judge(replace(ROW, ours=0.6), 0.6).status == "as recorded"
    assert judge(replace(ROW, ours=0.6), 0.7).status == "as recorded"
    assert judge(replace(ROW, ours=0.6), 0.5).status == "REGRESSED"
    assert not judge(replace(ROW, ours=0.6), 0.5995).regressed
    golden = replace(ROW, ours=0.5, tolerance=None)
    assert judge(golden, 0.5 - 1e-5).regressed
    assert not judge(golden, 0.5 - 1e-8).regressed


@pytest.mark.parametrize(
    ("grid", "parameters", "outside"),
    [
        ("", "l2=60 p=0.9", ()),
        ("l2=10:50,100,300 p=0.1:0.8", "l2=60 p=0.9", ("l2=60", "p=0.9")),
        ("l2=10:50,100,300 p=0.1:0.8", "l2=50 p=0.8", ()),
        ("l2=10:50,100,300", "a=1 l2=100 p=0.9", ()),
        ("l2=10:50,100,300", "l2=101", ("l2=101",)),
    ],
)
def test_parameters_outside_what_the_paper_tried_have_a_status_of_their_own(
    grid, parameters, outside
):
    row = replace(ROW, printed_grid=grid, parameters=parameters)
    assert row.outside == outside
    assert judge(row, 0.5).status == ("outside the grid" if outside else "reproduced")
    assert judge(row, 0.4991).status == "close"


def test_the_nearest_value_inside_the_printed_grid_stands_beside_it():
    row = replace(ROW, printed_grid="l2=10:50", inside_parameters="l2=10", inside=0.48)
    made = view([judge(row, 0.5), judge(ROW, 0.5)])
    assert made.frame["inside the grid"].tolist()[0] == 0.48
    assert "ease[l2=5]: l2=5 outside what toy prints it tried; nearest inside: l2=10" in made.notes
    assert "inside the grid" not in view([judge(ROW, 0.5)]).frame


def test_gowallas_rows_of_the_deql_paper_are_outside_its_grid():
    """Each rounds to what is printed, but for one that a tolerance let pass."""
    recorded = [r for r in published.load() if r.paper == "deql" and r.ours is not None]
    rows = [row for row in recorded if row.printed_grid]
    assert {judge(row, row.ours).status for row in rows} == {"outside the grid", "close"}
    (missed,) = [row for row in rows if judge(row, row.ours).status == "close"]
    assert (missed.our_model, missed.metric, missed.printed) == ("deql-l2", "recall@20", "0.1845")
    assert {row.inside for row in rows if row.our_model == "deql"} == {0.17509, 0.14609}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"our_dataset": ""}, "its dataset is not known"),
        ({"our_model": "nobody-built-it"}, "no such model yet"),
        ({"parameters": ""}, "parameters not known"),
        ({"metric": "induced rank"}, "not a ranking metric"),
        ({"our_dataset": "elsewhere"}, "no data: recbench fetch elsewhere"),
    ],
)
def test_rows_that_cannot_be_run_say_why(tmp_path, change, why):
    (finding,) = run(tmp_path, replace(ROW, **change))
    assert finding.status == why
    assert not finding.checked
    assert not finding.regressed
    assert bool(why_not(finding.row)) == ("our_dataset" not in change or not change["our_dataset"])


def test_rows_are_run_once_and_reused(tmp_path, monkeypatch):
    rows = [ROW, replace(ROW, metric="recall@5"), replace(ROW, parameters="l2=50", part="valid")]
    first = run(tmp_path, *rows)
    assert all(finding.checked for finding in first)
    monkeypatch.setattr("recbench.models.linear.lae.invert", None)
    assert run(tmp_path, *rows) == first


def test_a_damaged_model_is_a_regression_and_names_its_row(tmp_path, monkeypatch):
    (before,) = run(tmp_path / "before", ROW)
    recorded = replace(ROW, ours=before.value)
    monkeypatch.setattr(
        "recbench.models.linear.lae.zero_diagonal", lambda inverse, keep=1.0: (inverse.c, inverse.c)
    )
    (after,) = run(tmp_path / "after", recorded)
    assert after.status == "REGRESSED"
    made = view([after])
    assert made.marked == [0]
    assert made.frame["source"][0] == "toy table 1"
    assert regressions([after]).startswith(
        "1 number is worse than recorded: toy ease[l2=5] ndcg@10 (toy table 1): "
    )


def test_only_the_first_rows_that_got_worse_are_named():
    worse = [judge(replace(ROW, ours=0.9, metric=f"ndcg@{k}"), 0.1) for k in range(1, 8)]
    told = regressions([judge(ROW, 0.5), *worse])
    assert told.startswith("7 numbers are worse")
    assert "ndcg@3" in told
    assert "ndcg@4" not in told
    assert told.endswith("and 4 more")
    assert regressions([judge(ROW, 0.5)]) == ""


def test_a_model_that_declines_did_not_get_worse_and_one_that_fails_did():
    declined = finding(ROW, toys.trial(1, 0.0, status="skipped", reason="needs 33.6 GB"))
    assert (declined.status, declined.checked) == ("skipped: needs 33.6 GB", False)
    failed = finding(ROW, toys.trial(1, 0.0, status="failed", reason="ZeroDivisionError: one"))
    assert failed.regressed
    assert "ZeroDivisionError: one" in regressions([failed])
    assert "ZeroDivisionError: one" in view([failed]).notes[-1]
    assert finding(ROW, None).regressed


@pytest.mark.slow
def test_the_command_checks_golden_rows_and_notices_damage(recbench, golden, monkeypatch, tmp_path):
    good, _ = golden
    assert good.exit_code == 0, good.output
    assert "as recorded" in good.stdout or "reproduced" in good.stdout
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setattr(
        "recbench.models.linear.lae.zero_diagonal", lambda inverse, keep=1.0: (inverse.c, inverse.c)
    )
    bad = recbench("check", "debian", "-o", "there", "-m", "ease", "--json")
    assert bad.exit_code == 1
    assert "3 numbers are worse than recorded: debian ease[l2=10] ndcg@100 (recbench)" in bad.stderr
    assert "::error title=recbench check::debian ease[l2=10]" in bad.stderr
    assert any(row["status"] == "REGRESSED" for row in json.loads(bad.stdout)[0]["rows"])
    assert "REGRESSED" in summary.read_text()


def test_missing_data_are_no_failure(recbench, folder):
    result = recbench("check", "msd", "--all", "--format", "md", "--junit", "check.xml")
    assert result.exit_code == 0, result.output
    assert "no data: recbench fetch msd" in result.stdout
    suites = ET.parse(folder / "check.xml").getroot()
    assert suites.get("failures") == "0"
    assert suites.get("skipped") == suites.get("tests") != "0"
