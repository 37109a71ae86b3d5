import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import toys
from recbench import environment
from recbench.campaign.request import Request
from recbench.models.popularity import Constant, Popularity
from recbench.models.scorers import Scorer
from recbench.published import rows as published
from recbench.published.check import (
    check,
    finding,
    judge,
    regressions,
    run_known,
    unchecked,
    why_not,
)
from recbench.published.rows import Published
from recbench.report.findings import view
from recbench.report.tables import cells

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


def test_a_table_has_the_digits_of_the_longest_number_that_is_printed():
    """A difference that a status speaks of can be seen."""
    longer = replace(ROW, value=0.500004, printed="0.500004")
    written = [cell.text for cell in cells(view([judge(longer, 0.500009)]))["ours"]]
    assert written == ["0.500009"]
    assert [cell.text for cell in cells(view([judge(ROW, 0.5)]))["ours"]] == ["0.5000"]


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


OWN = """metric,value,our_dataset,our_split,our_model,ours
ndcg@10,{value},"synthetic:users=99,items=30,interactions=900",strong,popularity,{value}
"""


@pytest.fixture
def own_rows(recbench, folder):
    """A row of our own, whose value is what popularity gives now."""
    (folder / "own.csv").write_text(OWN.format(value=0.0))
    made = recbench("check", "--published", "own.csv", "-o", "before", "--json")
    (row,) = json.loads(made.stdout)[0]["rows"]
    (folder / "own.csv").write_text(OWN.format(value=row["ours"]))
    return ["check", "--published", "own.csv"]


def turned(monkeypatch) -> None:
    """Let popularity recommend what is bought least."""
    fit = Popularity.fit

    def negated(self, train, ctx):
        return Scorer(Constant(-fit(self, train, ctx).base.scores))

    monkeypatch.setattr(Popularity, "fit", negated)


def test_what_other_code_made_is_run_again(recbench, own_rows, monkeypatch):
    assert recbench(*own_rows).exit_code == 0
    again = recbench(*own_rows)
    assert "1 finished trial found, made by this very code, 0 to run" in again.stderr
    assert "1 reproduced" in again.stdout
    turned(monkeypatch)
    monkeypatch.setattr(environment, "_package_digest", lambda: "another")
    changed = recbench(*own_rows)
    assert changed.exit_code == 1
    assert "1 trial of other code found, to run again" in changed.stderr
    assert "1 number is worse than recorded" in changed.stderr


@pytest.mark.parametrize("name", ["python", "packages"])
def test_other_versions_of_what_computes_are_other_code(recbench, own_rows, monkeypatch, name):
    recbench(*own_rows)
    describe = environment.describe
    monkeypatch.setattr(
        "recbench.campaign.runner.describe", lambda *things: describe(*things) | {name: "other"}
    )
    assert "1 trial of other code found, to run again" in recbench(*own_rows).stderr


def test_a_changed_plugin_is_other_code(recbench, folder):
    (folder / "rarity.py").write_text(toys.MODEL)
    (folder / "own.csv").write_text(
        "metric,value,our_dataset,our_split,our_model,parameters\n"
        'ndcg@10,0.1,"synthetic:users=99,items=30,interactions=900",strong,rarity,power=1\n'
    )
    words = ["check", "--published", "own.csv", "--plugin", "rarity.py"]
    assert recbench(*words).exit_code == 0
    assert "made by this very code" in recbench(*words).stderr
    (folder / "rarity.py").write_text(toys.MODEL + "# changed\n")
    assert "of other code found" in recbench(*words).stderr


def test_force_runs_what_this_code_made_already(recbench, own_rows, monkeypatch):
    recbench(*own_rows)
    turned(monkeypatch)
    assert recbench(*own_rows).exit_code == 0
    assert recbench(*own_rows, "--force").exit_code == 1


@pytest.mark.slow
def test_a_check_with_changed_code_in_the_same_folder_is_red(recbench, own_rows, folder):
    """As it is seen by a developer: the file of a model is edited between two checks."""
    shutil.copytree(Path(environment.__file__).parent, folder / "copy" / "recbench")
    source = folder / "copy" / "recbench" / "models" / "popularity.py"

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "recbench", *own_rows],
            env={**os.environ, "PYTHONPATH": str(folder / "copy")}, capture_output=True, text=True,
        )  # fmt: skip

    assert run().returncode == 0
    assert "made by this very code, 0 to run" in run().stderr
    source.write_text(source.read_text().replace("Constant(counts", "Constant(-counts"))
    after = run()
    assert "of other code found" in after.stderr
    assert after.returncode == 1


def test_strict_checks_fail_where_nothing_or_not_everything_was_run(recbench, folder):
    missing = recbench("check", "msd", "--strict")
    assert missing.exit_code == 3
    assert "not checked (no data: recbench fetch msd)" in missing.stderr
    plain = recbench("check", "msd")
    assert plain.exit_code == 0
    assert "--strict makes that a failure" in plain.stderr
    declined = replace(ROW, our_dataset="")
    assert unchecked([finding(ROW, toys.trial(1, 0.0, status="skipped"))]).exit_code == 1
    assert unchecked([judge(ROW, 0.5), *run(folder, declined)]) is None
    assert "not one number" in str(unchecked(run(folder, declined)))


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("ndcg@10", "ndgc@10", "own.csv, line 2: unknown metric 'ndgc'; did you mean 'ndcg'?"),
        ("popularity", "populariti", "line 2: unknown model 'populariti'; did you mean"),
        ("strong", "strnog", "line 2: unknown split 'strnog'; did you mean 'strong'?"),
        ("our_split", "split", "line 2: unknown column 'split'; did you mean 'our_split'?"),
        ("ndcg@10", "", "line 2: 'metric' is missing"),
        ("0.25,", "many,", "line 2: could not convert string to float: 'many'"),
        ("0.25,", "nan,", "line 2: 'nan' is not a finite number"),
        ("0.25,", "0.25,0.3,0.4,", "line 2: unknown column"),
    ],
)
def test_a_wrong_file_of_rows_is_a_sentence_with_its_line(recbench, folder, before, after, says):
    text = OWN.format(value=0.25)
    assert before in text
    (folder / "own.csv").write_text(text.replace(before, after, 1))
    result = recbench("check", "--published", "own.csv")
    assert result.exit_code == 3, result.output
    assert says in result.stderr


@pytest.mark.parametrize("content", [None, b"", b"metric,value\n", b"\xff\xfe\x00"])
def test_a_file_without_rows_is_a_sentence(recbench, folder, content):
    if content is not None:
        (folder / "own.csv").write_bytes(content)
    result = recbench("check", "--published", "own.csv")
    assert result.exit_code == 3
    assert "own.csv" in result.stderr
