"""Several results folders as one table of a paper."""

import csv
import io

import pandas as pd
import pytest

import toys

OTHER = "other-a419b0fc"
NAMES = {toys.OWN: "toy", OTHER: "other"}


@pytest.fixture
def two(recbench, folder):
    """Two campaigns, on other data, with models in common."""
    (folder / "other.csv").write_text(toys.csv_of(toys.two_tastes(90, 25, seed=1)))
    for name, models in (
        ("toy", ("ease", "popularity", "ials[factors=4]")),
        ("other", ("ease", "popularity")),
    ):
        words = ["run", "--data", f"{name}.csv", "--user", "u", "--item", "i", "-o", f"out/{name}"]
        for model in models:
            words += ["-m", model]
        result = recbench(*words, "-k", "ndcg@10,recall@5")
        assert result.exit_code == 0, result.output
    return "out/toy", "out/other"


def table(result):
    assert result.exit_code == 0, result.output
    return list(csv.DictReader(io.StringIO(result.stdout)))


def measured(folder, dataset, model, metric):
    frame = pd.read_csv(folder / "out" / dataset / "metrics.csv")
    return frame[(frame["model"] == model) & (frame["part"] == "test")][metric].item()


def test_every_number_is_where_it_belongs(two, recbench, folder):
    rows = {row["model"]: row for row in table(recbench("show", *two, "--format", "csv"))}
    assert set(rows) == {"ease", "popularity", "ials"}
    for name, dataset in NAMES.items():
        for metric in ("ndcg@10", "recall@5"):
            found = float(rows["ease"][f"{name} {metric}"])
            assert found == pytest.approx(measured(folder, dataset, "ease", metric))
    assert rows["ials"][f"{OTHER} ndcg@10"] == ""


def test_models_metrics_and_datasets_are_chosen_and_renamed(two, recbench):
    words = ["-m", "popularity=Most popular", "-m", "ease=EASE", "-k", "recall@5=Recall@5"]
    words += ["-d", f"{OTHER}=Other", "-d", f"{toys.OWN}=Toy", "--caption", "Results on two sets"]
    rows = table(recbench("show", *two, *words, "--format", "csv"))
    assert list(rows[0]) == ["model", "Other Recall@5", "Toy Recall@5"]
    assert [row["model"] for row in rows] == ["Most popular", "EASE"]
    text = recbench("show", *two, *words, "--format", "latex").stdout
    assert r"\caption{Results on two sets.}" in text
    assert r" & \multicolumn{1}{c}{Other} & \multicolumn{1}{c}{Toy} \\" in text
    assert r"\cmidrule(lr){2-2} \cmidrule(lr){3-3}" in text
    assert r"model & Recall@5 & Recall@5 \\" in text
    assert text.count(r"\textbf") == 2  # the best of each column


def test_one_folder_side_by_side_is_a_short_table(two, recbench):
    text = recbench("show", two[0], "--side-by-side", "--top", "2", "--format", "latex").stdout
    assert rf"\multicolumn{{2}}{{c}}{{{toys.OWN}}}" in text
    assert "significantly" not in text
    assert text.count(r"\\") == 4


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-m", "lightgcn"], "model in these results"),
        (["-k", "ndcg@11"], "metric in these results"),
        (["-d", "debian"], "dataset in these results"),
        (["--trials"], "--trials is for one folder"),
        (["--sort", "ndcg@10"], "--sort is for one folder"),
    ],
)
def test_what_is_not_there_is_named(words, says, two, recbench):
    result = recbench("show", *two, *words)
    assert result.exit_code == 2, result.output
    assert says in result.stderr
    again = recbench("show", two[0], two[0])
    assert "two of the folders have toy" in again.stderr
    assert "give --side-by-side" in recbench("show", two[0], "-m", "ease").stderr


def test_a_planned_comparison_is_corrected_for_nothing_else(two, recbench):
    everything = table(recbench("compare", "ease", "popularity", "-o", two[0], "--format", "csv"))
    one = table(
        recbench("compare", "ease", "popularity", "-o", two[0], "-k", "ndcg@10", "--format", "csv")
    )
    assert {row["metric"] for row in one} == {"ndcg@10"}
    assert len(one) < len(everything)
    alike = [row for row in everything if row["metric"] == "ndcg@10" and row["of"] == "all"]
    assert float(one[0]["A - B"]) == pytest.approx(float(alike[0]["A - B"]))
    assert float(one[0]["p (Holm)"]) <= float(alike[0]["p (Holm)"])
    wrong = recbench("compare", "ease", "popularity", "-o", two[0], "-k", "ndcg@11")
    assert wrong.exit_code == 2
    assert "ndcg@11" in wrong.stderr
