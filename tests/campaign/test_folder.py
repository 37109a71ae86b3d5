import json
from dataclasses import asdict, replace

import pandas as pd
import pyarrow as pa
import pytest

from recbench.campaign.folder import Campaign
from recbench.campaign.selection import selected
from recbench.campaign.table import table
from recbench.errors import DataError
from recbench.files import sealed
from toys import ROW, RUN, trial


@pytest.fixture
def campaign(tmp_path) -> Campaign:
    campaign = Campaign(tmp_path / "results")
    campaign.create()
    return campaign


def test_rows_come_back_and_the_last_one_counts(campaign):
    campaign.record(ROW)
    campaign.record(replace(ROW, users=4), pa.table({"user": ["a"], "ndcg@20": [0.5]}))
    assert campaign.rows() == {("t1", "valid"): replace(ROW, users=4)}
    assert campaign.per_user(ROW).to_dict("list") == {"user": ["a"], "ndcg@20": [0.5]}


def test_the_row_of_the_fit_that_went_furthest_counts(campaign):
    early, late = (replace(ROW, stopped=stop, metrics={"ndcg@20": stop / 10}) for stop in (1, 3))
    for row in (late, early):
        campaign.record(row)
    assert campaign.rows() == {("t1", "valid"): late}
    campaign.record(ROW)
    campaign.record(early)
    assert campaign.rows() == {("t1", "valid"): ROW}
    assert campaign.lines() == {("t1", "valid", row.stopped): row for row in (early, late, ROW)}


@pytest.mark.parametrize("cut", [1, 20, -3, -1])
def test_a_line_cut_by_a_crash_is_not_a_row_and_harms_no_other(campaign, cut):
    campaign.record(trial(1, 0.1))
    whole = campaign.log.read_bytes()
    campaign.log.write_bytes(whole + whole[:cut].replace(b"t1", b"t2"))
    campaign.record(trial(3, 0.3))
    assert {"t1", "t3"} <= {trial for trial, _ in campaign.rows()}
    if cut != -1:  # all but the line end: that row was whole
        assert len(campaign.rows()) == 2


def test_results_of_a_newer_version_are_refused(campaign):
    campaign.log.write_text(json.dumps({"schema": 99}) + "\n")
    with pytest.raises(DataError, match="newer"):
        campaign.rows()


def test_seeds_are_averaged_user_by_user(campaign):
    seeds = [trial(1, 0.3), trial(2, 0.5, seed=1)]
    for row, values in zip(seeds, ([0.2, 0.4], [0.6, 0.4]), strict=True):
        campaign.record(row, pa.table({"user": ["a", "b"], "ndcg@20": values}))
    assert campaign.mean_per_user(seeds).to_dict("list") == {
        "user": ["a", "b"],
        "ndcg@20": pytest.approx([0.4, 0.4]),
    }


@pytest.mark.parametrize("users", [["a", "c"], ["b", "a"], ["a"]])
def test_seeds_measured_on_different_users_are_not_averaged(campaign, users):
    seeds = [trial(1, 0.3), trial(2, 0.3, seed=1)]
    for row, names in zip(seeds, (["a", "b"], users), strict=True):
        campaign.record(row, pa.table({"user": names, "ndcg@20": [0.3] * len(names)}))
    with pytest.raises(DataError, match=r"seeds of ease\[l2=1\] were measured on different users"):
        campaign.mean_per_user(seeds)


def test_a_damaged_manifest_or_per_user_file_is_named(campaign):
    (campaign.folder / "manifest.json").write_text("{")
    with pytest.raises(DataError, match=r"manifest.json is damaged"):
        campaign.manifest()
    campaign.per_user_path(ROW).write_bytes(b"no parquet")
    with pytest.raises(DataError, match="cannot be read"):
        campaign.per_user(ROW)


@pytest.mark.parametrize("text", ["[]", "3", "{}", '{"runs": 3}', '{"runs": null}', "{"])
def test_a_manifest_that_is_none_is_named(campaign, text):
    (campaign.folder / "manifest.json").write_text(text)
    with pytest.raises(DataError, match=r"manifest\.json is damaged"):
        campaign.manifest()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"select": 7}, r"runs\[0\].select: must be text, not 7"),
        ({"command": "recbench"}, r"runs\[0\].command: must be a list"),
        ({"dataset": {}}, r"runs\[0\].dataset: 'fingerprint' is missing"),
        ({"peak_memory_bytes": 2**63}, r"runs\[0\].peak_memory_bytes: is a number beyond"),
    ],
)
def test_a_field_of_another_type_is_named(campaign, changes, says):
    campaign.add_run(RUN | changes)
    with pytest.raises(DataError, match=rf"manifest\.json is damaged \({says}"):
        campaign.manifest()


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": "x"}, {"metrics": {"ndcg@20": "high"}}, {"trial": ["t"]}, {"users": 10**30},
        {"parameters": {"l2": [1]}}, {"files": {"a": None}}, {"text": "\ud800"},
        {"status": "\x1b[m"},
    ],
)  # fmt: skip
def test_a_row_with_a_field_of_another_type_is_left_out(campaign, changes):
    campaign.record(replace(ROW, trial="t0"))
    campaign.log.write_text(
        campaign.log.read_text() + sealed(json.dumps({**asdict(ROW), **changes})) + "\n"
    )
    assert [row.trial for row in campaign.rows().values()] == ["t0"]
    assert "1 damaged line" in campaign.problems()[0]


def test_a_line_of_the_log_that_is_something_else_is_not_a_row(campaign):
    campaign.log.write_text('[1]\n{"schema": "x"}\n{"trial": 1}\n')
    campaign.record(ROW)
    assert list(campaign.rows().values()) == [ROW]
    assert "3 damaged lines" in campaign.problems()[0]


def test_what_is_said_of_a_damaged_line_does_not_speak_to_the_terminal(campaign):
    campaign.log.write_text('{"trial": "t", "part": "test", "text": "e\x0case[\x1b[31m]"}\n')
    campaign.rows()
    assert "e?ase[?[31m] on test (trial t)" in campaign.problems()[0]


def test_a_run_replaces_what_it_said_of_itself(campaign):
    campaign.add_run(RUN | {"id": "a", "status": "running"})
    campaign.add_run(RUN | {"id": "b", "status": "running"})
    campaign.add_run(RUN | {"id": "a", "status": "finished"})
    runs = campaign.manifest()["runs"]
    assert [(run["id"], run["status"]) for run in runs] == [("b", "running"), ("a", "finished")]


def test_an_unwritable_folder_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="choose another folder with -o"):
        Campaign(tmp_path / "file" / "results").create()


def test_a_folder_without_results_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match="holds no results"):
        Campaign.open(tmp_path)


def test_the_best_on_validation_is_selected_per_model_and_seed():
    rows = [
        trial(1, 0.1), trial(2, 0.3), trial(3, 0.2),
        trial(1, 0.9, part="test"),
        trial(4, 0.3, seed=1), trial(5, 0.4, status="failed", part="test"),
        replace(trial(6, 0.0), model="other"),
    ]  # fmt: skip
    assert selected(rows, "ndcg@20") == {"t2", "t4", "t6"}


def test_ties_are_broken_by_text_not_by_time():
    rows = [trial(2, 0.3), trial(1, 0.3)]
    assert selected(rows, "ndcg@20") == selected(rows[::-1], "ndcg@20") == {"t1"}


def test_a_model_without_validation_values_is_not_selected():
    failed = replace(ROW, metrics={}, status="failed")
    assert selected([failed], "ndcg@20") == set()
    assert selected([failed, trial(1, 0.3, part="test")], "ndcg@20") == set()


def test_the_table_does_not_depend_on_the_order_of_rows(campaign):
    rows = [trial(2, 0.3, fit_seconds=1.0), trial(1, 0.1), trial(2, 0.4, part="test")]
    first, second = table(rows, "ndcg@20"), table(rows[::-1], "ndcg@20")
    pd.testing.assert_frame_equal(first, second)
    assert list(first["trial"]) == ["t1", "t2", "t2"]
    assert list(first["selected"]) == [False, True, True]


def test_metrics_csv_keeps_every_digit(campaign):
    value = 0.1 + 0.2
    campaign.record(trial(1, value))
    campaign.write_table("ndcg@20")
    written = pd.read_csv(campaign.folder / "metrics.csv", dtype=str)["ndcg@20"][0]
    assert float(written) == value
