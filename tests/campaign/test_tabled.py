from dataclasses import replace

import pytest

from recbench.campaign.folder import Campaign
from recbench.campaign.tabled import rows_of
from recbench.errors import DataError
from toys import RUN, trial


@pytest.fixture
def campaign(tmp_path) -> Campaign:
    campaign = Campaign(tmp_path)
    campaign.create()
    campaign.add_run({**RUN, "dtype": "float32"})
    known = {"parameters": {"l2": 1}, "run": "a", "fit_seconds": 1.25, "peak_bytes": 2_000_000_000}
    campaign.record(trial(1, 0.1234567890123, **known, facts={"rank": 7}))
    campaign.record(trial(1, 0.5, part="test", **known, score_seconds=0.5))
    stopped = trial(2, 0.2, parameters={"l2": 2}, run="a", stopped=3)
    campaign.record(stopped)
    failed = replace(trial(3, 0.0, parameters={"l2": 3}, run="a"), status="failed", metrics={})
    campaign.record(replace(failed, reason="=1+1"))
    campaign.write_table("ndcg@20")
    return campaign


def test_tables_alone_give_the_rows_of_the_log(campaign):
    logged = campaign.rows()
    rows = rows_of(campaign.folder, campaign.manifest()["runs"])
    assert {(row.trial, row.part): row for row in rows} == logged


def test_without_costs_the_numbers_are_there_and_the_seconds_are_not(campaign):
    (campaign.folder / "costs.csv").unlink()
    rows = rows_of(campaign.folder, campaign.manifest()["runs"])
    assert [row.metrics for row in rows] == [
        {"ndcg@20": 0.1234567890123}, {"ndcg@20": 0.5}, {"ndcg@20": 0.2}, {},
    ]  # fmt: skip
    assert {(row.fit_seconds, row.peak_bytes, row.run) for row in rows} == {(0.0, 0, "")}
    assert {row.fingerprint for row in rows} == {"f"}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("0.5,", "half,", "line 3 is not as recbench writes it"),
        ("0.5,", "inf,", "'inf' is not a finite number"),
        (",test,", ",tests,", "part tests"),
        ("dataset,", "data,", "no dataset"),
        (",0,valid", ",zero,valid", "line 2"),
    ],
)
def test_a_damaged_table_is_refused_by_line(campaign, before, after, said):
    path = campaign.folder / "metrics.csv"
    path.write_text(path.read_text().replace(before, after))
    with pytest.raises(DataError, match=said):
        assert not rows_of(campaign.folder, campaign.manifest()["runs"])


def test_lines_that_are_too_long_or_too_short_are_no_surprise(campaign):
    path = campaign.folder / "metrics.csv"
    head, first, *_ = path.read_text().splitlines()
    path.write_text(f"{head}\n{first},more,and more\n")
    assert [row.trial for row in rows_of(campaign.folder, [])] == ["t1"]
    path.write_text(f"{head}\ntoy\n")
    with pytest.raises(DataError, match="line 2"):
        rows_of(campaign.folder, [])


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b'trial,part\n"' + b"x" * 200_000])
@pytest.mark.parametrize("name", ["metrics.csv", "costs.csv"])
def test_what_is_no_table_is_refused_by_name(campaign, name, content):
    (campaign.folder / name).write_bytes(content)
    with pytest.raises(DataError, match=name):
        rows_of(campaign.folder, [])


def test_costs_do_not_change_the_table_of_numbers(campaign):
    before = (campaign.folder / "metrics.csv").read_bytes()
    row = campaign.rows()["t1", "test"]
    campaign.record(replace(row, fit_seconds=99.0, compile_seconds=3.0))
    campaign.write_table("ndcg@20")
    assert (campaign.folder / "metrics.csv").read_bytes() == before
    assert "t1,test,99.0,0.5,3.0,2.0,a" in (campaign.folder / "costs.csv").read_text().splitlines()
