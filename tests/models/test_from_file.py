import numpy as np
import pandas as pd
import pytest

import toys
from recbench.campaign.folder import Campaign
from recbench.campaign.plan import Plan
from recbench.campaign.runner import Runner
from recbench.campaign.search.grammar import models_from
from recbench.campaign.worker import Worker
from recbench.evaluate.metrics import parse_metric
from recbench.models.context import Context
from recbench.splits.strong import Strong

METRICS = [parse_metric("ndcg@5"), parse_metric("recall@3")]


def worker(*names: str) -> Worker:
    plan = Plan(toys.two_tastes(), Strong(), models_from(names), METRICS, "ndcg@5")
    return Worker(plan, Context(dtype=np.float64))


def lists_of(made: Worker) -> pd.DataFrame:
    """What EASE scores for all held-out users, as a file would say it."""
    data, split = made.plan.dataset, made.split
    (scorer,) = made.plan.models[0].family.fit([made.plan.models[0]], split.train, made.context)
    lines = []
    for part in (split.valid, split.test):
        block = scorer.score(part.history)
        for row, user in enumerate(part.users):
            for column, item in enumerate(split.items):
                name = data.item_ids[int(item)].as_py()
                lines.append((data.user_ids[int(user)].as_py(), name, block[row, column]))
    return pd.DataFrame(lines, columns=["user", "item", "score"])


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_lists_of_a_model_measure_as_the_model(tmp_path, ending):
    made = worker("ease[l2=5]")
    path = tmp_path / f"recs.{ending}"
    frame = lists_of(made)
    frame.to_parquet(path) if ending == "parquet" else frame.to_csv(path, index=False)
    both = worker("ease[l2=5]", f"file:{path}")
    rows = Runner(both, Campaign(tmp_path / "results")).run()
    values = {(row.model, row.part): dict(row.metrics) for row in rows}
    assert len(values) == 4
    for part in ("valid", "test"):
        assert values["file:recs", part] == pytest.approx(values["ease", part], rel=1e-12)


def outcome(tmp_path, frame: pd.DataFrame) -> str:
    path = tmp_path / "recs.csv"
    frame.to_csv(path, index=False)
    rows = Runner(worker(f"file:{path}"), Campaign(tmp_path / "results")).run()
    return "; ".join(row.reason for row in rows)


GOOD = pd.DataFrame({"user": ["u001"], "item": [3], "score": [0.5]})


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (GOOD.rename(columns={"score": "rating"}), "no column 'score'"),
        (GOOD.assign(user="nobody"), "no list for any"),
        (GOOD.assign(item="x"), "does not hold ids"),
    ],
)
def test_wrong_files_fail_in_a_sentence(tmp_path, frame, says):
    assert says in outcome(tmp_path, frame)


def test_several_files_stand_side_by_side_under_their_labels(recbench, own, folder):
    frame = lists_of(worker("ease[l2=5]"))
    frame.to_csv(folder / "one.csv", index=False)
    frame.assign(score=-frame["score"]).to_csv(folder / "two.csv", index=False)
    files = ["-m", "file:one.csv", "-m", "file[path=two.csv,label=ease]"]
    words = ["run", *own, *files, "-m", "ease[l2=5]", "-k", "ndcg@5", "-o", "out"]
    result = recbench(*words, "--save-lists", "lists")
    assert result.exit_code == 0, result.output
    kept = {path.stem for path in (folder / "lists").glob("*.run")}
    assert kept == {f"{toys.OWN}-{name}" for name in ("file%3Aone", "file%3Aease", "ease")}
    table = pd.read_csv(folder / "out" / "metrics.csv")
    tested = table[table["part"] == "test"].set_index("model")["ndcg@5"]
    assert set(tested.index) == {"file:one", "file:ease", "ease"}
    assert tested["file:one"] == pytest.approx(tested["ease"], rel=1e-6)
    assert tested["file:ease"] < tested["ease"]
    compared = recbench("compare", "file:ease", "ease", "-o", "out")
    assert compared.exit_code == 0, compared.output
    shown = recbench("show", "out")
    assert all(name in shown.stdout for name in tested.index)


def test_lists_for_the_test_alone_are_measured_on_the_test_alone(recbench, own, folder):
    made = worker("ease[l2=5]")
    tested = set(made.plan.dataset.user_ids.take(made.split.test.users).to_pylist())
    frame = lists_of(made)
    frame[frame["user"].isin(tested)].to_csv(folder / "recs.csv", index=False)
    words = ["run", *own, "-m", "file:recs.csv", "-m", "ease[l2=5]", "-k", "ndcg@5", "-o", "out"]
    for _ in range(2):  # the second time, it is all there
        result = recbench(*words)
        assert result.exit_code == 0, result.output
        table = pd.read_csv(folder / "out" / "metrics.csv")
        lines = table[table["model"] == "file:recs"].set_index("part")
        assert lines.loc["valid", "status"] == "skipped"
        ease = table[(table["model"] == "ease") & (table["part"] == "test")]["ndcg@5"].item()
        assert lines.loc["test", "ndcg@5"] == pytest.approx(ease, rel=1e-6)
    assert "file:recs" in recbench("show", "out").stdout


def test_a_changed_file_is_another_trial(tmp_path):
    path = tmp_path / "recs.csv"
    GOOD.to_csv(path, index=False)
    first = worker(f"file:{path}").plan.trials[0].id
    GOOD.assign(score=0.6).to_csv(path, index=False)
    assert worker(f"file:{path}").plan.trials[0].id != first


def test_the_command_takes_a_file(recbench, own, folder):
    assert recbench("run", *own, "-m", "file:nowhere.parquet").exit_code == 3
    assert "which file?" in recbench("run", *own, "-m", "file").stderr
