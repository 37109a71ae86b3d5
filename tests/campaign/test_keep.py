"""What winners leave: models that recommend, lists that other tools measure."""

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import toys
from recbench.models.save import load

GRID = ("-m", "ease", "--grid", "l2=1,10,100", "-m", "popularity", "-k", "ndcg@10,recall@5")


@pytest.mark.parametrize("split", ["strong", "weak", "last[by=file]"])
@pytest.mark.parametrize(
    "how", [(), pytest.param(("-j", "2"), marks=pytest.mark.slow)], ids=["here", "j2"]
)
def test_the_winners_are_kept_as_they_were_measured(split, how, recbench, own, folder):
    words = ["run", *own, "--split", split, *GRID, *how, "-o", "out"]
    result = recbench(*words, "--save", "models", "--save-lists", "lists")
    assert result.exit_code == 0, result.output
    assert {path.name for path in (folder / "models").iterdir()} == {
        f"{toys.OWN}-{name}" for name in ("ease", "popularity")
    }
    table = pd.read_csv(folder / "out" / "metrics.csv")
    tested = table[table["part"] == "test"].set_index("model")
    judged = (folder / "lists" / f"{toys.OWN}.qrels").read_text()
    qrels = [line.split() for line in judged.splitlines()]
    wanted = pd.DataFrame(qrels, columns=["user", "_", "item", "one"]).groupby("user")["item"]
    held = {user: set(items) for user, items in wanted}
    for name in ("ease", "popularity"):
        model = load(folder / "models" / f"{toys.OWN}-{name}")
        assert model.trial == tested.loc[name, "trial"]
        lists = pq.read_table(folder / "lists" / f"{toys.OWN}-{name}.parquet").to_pandas()
        top = lists[lists["rank"] <= 5].groupby("user")["item"]
        hits = {
            user: len(held[user] & set(map(str, items))) / len(held[user]) for user, items in top
        }
        found = np.mean([hits.get(user, 0.0) for user in held])
        assert found == pytest.approx(tested.loc[name, "recall@5"], abs=1e-12)
        listed = (folder / "lists" / f"{toys.OWN}-{name}.run").read_text()
        run = [line.split() for line in listed.splitlines()]
        assert [line[:4] for line in run] == [
            [str(user), "Q0", str(item), str(rank)]
            for user, rank, item, _ in lists.itertuples(index=False)
        ]


def test_what_is_there_is_not_made_again_and_what_is_lost_is(recbench, own, folder):
    words = ["run", *own, *GRID, "-o", "out", "--save", "models"]
    plain = recbench("run", *own, *GRID, "-o", "out")
    assert plain.exit_code == 0, plain.output
    before = (folder / "out" / "metrics.csv").read_text()
    assert recbench(*words).exit_code == 0
    header = folder / "models" / f"{toys.OWN}-ease" / "model.json"
    stamp = header.stat().st_mtime_ns
    assert recbench(*words).exit_code == 0
    assert header.stat().st_mtime_ns == stamp
    shutil.rmtree(header.parent)
    assert recbench(*words).exit_code == 0
    assert load(header.parent).model.startswith("ease[")
    numbers = ["model", "parameters", "part", "ndcg@10", "recall@5"]
    after = pd.read_csv(folder / "out" / "metrics.csv")[numbers]
    pd.testing.assert_frame_equal(after, pd.read_csv(pd.io.common.StringIO(before))[numbers])


def test_a_model_that_cannot_be_saved_is_told_and_measured_all_the_same(recbench, own, folder):
    (folder / "odd.py").write_text(
        "from dataclasses import dataclass\n"
        "import numpy as np\n"
        "from recbench.plugin import MODELS, Base, Model, Scorer\n"
        "class Odd(Base):\n"
        "    def __init__(self, n): self.n_items = n\n"
        "    def score(self, history, rows): return np.ones((history.shape[0], self.n_items))\n"
        "@MODELS.register('odd')\n"
        "@dataclass(frozen=True)\n"
        "class OddModel(Model):\n"
        "    def fit(self, train, ctx): return Scorer(Odd(train.shape[1]))\n"
    )
    result = recbench("run", *own, "--plugin", "odd.py", "-m", "odd", "--save", "models")
    assert result.exit_code == 0, result.output
    assert "odd: models that score by Odd cannot be saved" in result.stderr
    assert "Test" in result.stdout


def test_ids_with_white_space_stay_one_word(recbench, folder):
    rows = [f"a b {u},x\ty {i}" for u in range(30) for i in range(9) if (u * i) % 4]
    (folder / "spaced.csv").write_text("user,item\n" + "\n".join(rows) + "\n")
    result = recbench(
        "run", "--data", "spaced.csv", "-m", "popularity", "--split", "weak", "--save-lists", "l"
    )
    assert result.exit_code == 0, result.output
    (path,) = (folder / "l").glob("spaced-*-popularity.run")
    lines = path.read_text().splitlines()
    assert all(len(line.split()) == 6 for line in lines)
    assert lines[0].startswith("a%20b%20")


@pytest.mark.parametrize("option", ["--save", "--save-lists"])
@pytest.mark.parametrize("place", ["toy.csv", "toy.csv/models"])
def test_a_file_is_no_folder_to_keep_things_in(option, place, recbench, own, folder):
    result = recbench("run", *own, "-m", "popularity", option, place, "-o", "out")
    assert result.exit_code == 2, result.output
    assert f"{option} {place}: toy.csv is a file; give a folder" in result.stderr.replace(
        f"{folder}/", ""
    )
    assert not (folder / "out").exists()


@pytest.mark.parametrize("quiet", [[], ["-q"]])
def test_a_model_that_finds_no_room_is_an_error_that_leaves_nothing_and_stops_nothing(
    quiet, recbench, own, folder, monkeypatch
):
    def full(path):
        assert Path(path).parent.name.endswith(".part")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    words = ["run", *own, "-m", "ease", "-m", "popularity", "--save", "models", "--save-lists", "l"]
    with monkeypatch.context() as patched:
        patched.setattr("recbench.models.save.digest_of_file", full)
        result = recbench(*words, "-o", "out", *quiet)
    assert result.exit_code == 3, result.output
    assert "2 models could not be kept, the first is" in result.stderr
    assert "No space left on device" in result.stderr
    assert "Test" in result.stdout
    assert list((folder / "models").iterdir()) == []
    assert len(list((folder / "l").glob("*.parquet"))) == 2
    assert recbench(*words, "-o", "out").exit_code == 0
    assert len(list((folder / "models").iterdir())) == 2
