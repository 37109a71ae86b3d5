"""Facts of a fit stand beside what was measured, never in its place."""

import json

import pandas as pd
import pytest

PLUGIN = '''
from dataclasses import dataclass, replace

import numpy as np

from recbench.models.popularity import Popularity
from recbench.plugin import MODELS, Model, param

FACTS = {
    "boast": {"ndcg@10": 0.99, "model": 7, "trial": 8, "hit@3": 1, "fit s": 9, "depth": 3},
    "numpy": {"a": np.float32(0.5), "b": np.int64(3), "c": np.array(2.5), "d": np.bool_(True)},
    "text": {"a": "many"},
    "list": {"a": [1, 2]},
    "name": {3: 4},
    "long": {"x" * 100: 4},
}


@MODELS.register("boaster")
@dataclass(frozen=True)
class Boaster(Model):
    """Tells."""

    what: str = param("boast", choices=tuple(FACTS), help="what it tells")

    def fit(self, train, ctx):
        return replace(Popularity().fit(train, ctx), facts=FACTS[self.what])
'''


@pytest.fixture
def run(recbench, own, folder):
    (folder / "boaster.py").write_text(PLUGIN)
    words = ["run", *own, "--plugin", "boaster.py", "-m", "boaster", "-m", "ease", "-m",
             "popularity", "-k", "ndcg@10", "-o", "out"]  # fmt: skip
    return lambda what: recbench(*words, "--set", f"what={what}")


def rows(folder):
    lines = (folder / "out" / "trials.jsonl").read_text().splitlines()
    return {(row["model"], row["part"]): row for row in map(json.loads, lines)}


def test_they_overwrite_no_column(run, recbench, folder):
    result = run("boast")
    assert result.exit_code == 0, result.output
    known = rows(folder)
    table = pd.read_csv(folder / "out" / "metrics.csv")
    for line in table.to_dict("records"):
        row = known[line["model"], line["part"]]
        assert (line["ndcg@10"], line["trial"]) == (row["metrics"]["ndcg@10"], row["trial"])
    mine = table[table["model"] == "boaster"].iloc[0]
    assert mine[["ndcg@10 (fact)", "model (fact)", "hit@3 (fact)", "depth"]].tolist() == [
        0.99, 7, 1, 3,
    ]  # fmt: skip
    (shown,) = json.loads(recbench("show", "out", "--json").stdout)
    for line in shown["rows"]:
        assert line["ndcg@10"] == known[line["model"], "test"]["metrics"]["ndcg@10"]
    tables = json.loads(recbench("show", "out", "--trials", "--json").stdout)
    for line in (line for table in tables for line in table["rows"]):
        assert line["model"] in ("boaster", "ease", "popularity")
        assert line["ndcg@10"] < 0.9
    assert recbench("report", "out").exit_code == 0


def test_numbers_of_numpy_are_numbers(run, folder):
    result = run("numpy")
    assert result.exit_code == 0, result.output
    assert rows(folder)["boaster", "test"]["facts"] == {"a": 0.5, "b": 3, "c": 2.5, "d": True}


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("text", "the fact 'a' of the fit is str, not a number"),
        ("list", "the fact 'a' of the fit is list, not a number"),
        ("name", "is called 3, not a short text"),
        ("long", "not a short text"),
    ],
)
def test_anything_else_fails_its_trial_and_no_other(run, recbench, folder, what, says):
    result = run(what)
    assert result.exit_code == 1
    known = rows(folder)
    assert says in known["boaster", "valid"]["reason"]
    assert {key[0] for key, row in known.items() if row["status"] == "ok"} == {"ease", "popularity"}
    words = ["check-plugin", "--plugin", "boaster.py", f"boaster[what={what}]"]
    checked = recbench(*words)
    assert checked.exit_code == 1
    assert says in checked.output
