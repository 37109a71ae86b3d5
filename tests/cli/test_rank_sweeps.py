"""Sweeps over the rank, as they are typed."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import toys
from recbench.linalg.compiled import COMPILING

RANKS = range(1, 21)
SWEEP = f"k={','.join(map(str, RANKS))}"
THREADS = ["--threads", "1"]
"""On a busy machine the barriers inside BLAS cost more than these small sums."""
STEPS = {"lr-edlae-1": ("inverse of 30 items", "directions"), "lrr": ("singular vectors",)}


@pytest.mark.parametrize("model", STEPS)
def test_twenty_ranks_take_one_decomposition_and_the_log_shows_it(recbench, own, folder, model):
    result = recbench("run", *own, *THREADS, "-m", model, "--grid", SWEEP, "-v", "-k", "ndcg@10")
    assert result.exit_code == 0, result.output
    said = re.findall(r"s  ([^:]*): [\d,]+ done", result.stderr)
    said = [step for step in said if step != COMPILING]  # which the first test on a machine has
    # All ranks are ranked in one pass; on the test part, just those that lead.
    assert said == [*STEPS[model], "ranking for valid", "ranking for test", "trials"]
    took = re.findall(r"(?m)^([a-zA-Z ]+): [\d.]+ s, [\d.]+ s of processors", result.stderr)
    assert {"read", "split", "decomposition", "ranking", "metrics", "record"} <= set(took)
    table = pd.read_csv(folder / "results" / f"{toys.OWN}-strong" / "metrics.csv")
    curve = table[table["part"] == "valid"]
    assert set(curve["parameters"].str.extract(r"k=(\d+)")[0].astype(int)) == set(RANKS)
    assert curve["ndcg@10"].notna().all()
    assert curve["ndcg@10"].nunique() > 5


def test_the_report_draws_the_metric_against_the_rank(recbench, own, folder):
    recbench("run", *own, *THREADS, "-m", "lr-edlae-1", "--grid", SWEEP, "-k", "ndcg@10")
    result = recbench("report")
    assert result.exit_code == 0, result.output
    page = (folder / "results" / f"{toys.OWN}-strong" / "report.html").read_text()
    (chart,) = re.findall(r'<svg[^>]*aria-label="ndcg@10 against k".*?</svg>', page)
    assert chart.count("<circle") == len(RANKS)
    assert 'class="line"' in chart
    assert "k=20: 0." in chart


def test_a_rank_finds_the_same_alone_and_in_company(recbench, own, folder):
    words = ["run", *own, *THREADS, "-m", "lrr", "-m", "lr-dlae", "-k", "ndcg@10", "--reveal-test"]
    recbench(*words, "--grid", "k=3,7,12", "-o", "many")
    recbench(*words, "--set", "k=7", "-o", "one")
    many, one = (pd.read_csv(folder / name / "metrics.csv") for name in ("many", "one"))
    both = many.merge(one, on=["parameters", "part"])
    assert len(both) == 4
    assert (both["ndcg@10_x"] == both["ndcg@10_y"]).all()


def test_the_induced_rank_is_a_column_wherever_results_are_read(recbench, own, folder):
    words = ["-m", "mf-dropout", "-m", "popularity", "--grid", "p=0.5,0.9,0.99", "-k", "ndcg@10"]
    result = recbench("run", *own, *THREADS, *words)
    assert "induced rank" in result.stdout
    table = pd.read_csv(folder / "results" / f"{toys.OWN}-strong" / "metrics.csv")
    table = table[table["part"] == "valid"]
    dropout = table[table["model"] == "mf-dropout"]
    found = dropout.set_index("parameters")["induced rank"]
    ranks = [found[f"mf-dropout[p={p}]"] for p in (0.5, 0.9, 0.99)]
    assert 0 < ranks[0] < ranks[1] < ranks[2] <= 30
    assert table[table["model"] == "popularity"]["induced rank"].isna().all()
    lines = json.loads(recbench("run", *own, *THREADS, *words, "--json").stdout)[0]["rows"]
    counts = [line["induced rank"] for line in lines if line["model"] == "mf-dropout"]
    assert counts == ranks
    assert all(isinstance(count, int) for count in counts)
    assert [line["induced rank"] for line in lines if line["model"] == "popularity"] == [None]


def test_one_that_does_not_settle_fails_alone(recbench, own, folder):
    words = ["-m", "lr-edlae-1", "-m", "edlae-admm[rounds=1]", "-m", "edlae-admm[tolerance=1]"]
    settings = ["--set", "p=0.5", "--set", "l2=10", "--grid", "k=2,3", "-k", "ndcg@10"]
    result = recbench("run", *own, *THREADS, *words, *settings)
    assert result.exit_code == 1
    assert "2 trials failed" in result.stderr
    table = pd.read_csv(folder / "results" / f"{toys.OWN}-strong" / "metrics.csv")
    table = table[table["part"] == "valid"]
    unsettled = table["parameters"].str.contains("rounds=1,|rounds=1]")
    assert (table["status"] == np.where(unsettled, "failed", "ok")).all()
    assert table.loc[unsettled, "reason"].str.contains("after 1 round W still changes").all()
    assert table.loc[~unsettled, "ndcg@10"].notna().all()


def test_rounds_of_alternation_are_reported_and_traced(recbench, own, folder):
    words = ["-m", "edlae-admm", "--set", "k=2", "-k", "ndcg@10", "--trace"]
    result = recbench("run", *own, *THREADS, *words)
    assert result.exit_code == 0, result.output
    results = folder / "results" / f"{toys.OWN}-strong"
    row = pd.read_csv(results / "metrics.csv").iloc[0]
    trace = pd.read_csv(results / "traces" / f"{row['trial']}.csv")
    assert len(trace) == row["rounds"]
    assert trace["objective"].iloc[-1] == row["objective"]
    assert {"change", "gap", "seconds", "ndcg@10"} <= set(trace)
    assert trace["ndcg@10"].iloc[-1] == pytest.approx(row["ndcg@10"])


def test_rounds_that_run_out_fail_one_trial_with_advice(recbench, own):
    words = ["-m", "edlae-admm", "--set", "rounds=1", "--grid", "k=2", "-k", "ndcg@10"]
    result = recbench("run", *own, *THREADS, *words)
    assert result.exit_code == 1
    assert "raise omega or tolerance, or allow more rounds" in result.stderr
