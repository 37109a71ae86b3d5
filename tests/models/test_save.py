import json
import random

import numpy as np
import pytest

import toys
from recbench.errors import DataError, RecbenchError, UsageError
from recbench.models.context import Context
from recbench.models.save import Recommender, fit, load
from recbench.models.scorers import ItemItem, Scorer


@pytest.mark.parametrize("model", ["ease[l2=5]", "deql-l2", "popularity"])
def test_a_model_comes_back_from_disk_and_recommends_the_same(tmp_path, model):
    made = fit(model, toys.two_tastes())
    made.save(tmp_path / "model")
    read = load(tmp_path / "model")
    assert read.recommend([0, 2, 4], 5) == made.recommend([0, 2, 4], 5)
    assert (read.model, read.fingerprint) == (made.model, toys.two_tastes().fingerprint)


def test_what_one_has_is_not_recommended_and_taste_is_recognised():
    made = fit("ease[l2=5]", toys.two_tastes())
    best = [item for item, _ in made.recommend([0, 2, 4], 5)]
    assert not {0, 2, 4} & set(best)
    assert sum(item % 2 == 0 for item in best) >= 4
    assert [item for item, _ in made.neighbours(1, 3)] == [i for i, _ in made.recommend([1], 3)]


def test_neighbours_are_a_row_of_the_weights():
    made = fit("edlae", toys.two_tastes(), Context(dtype=np.float64))
    weights = made.scorer.weights(range(30))
    expected = sorted((-weights[7, j], j) for j in range(30) if j != 7)[:4]
    assert [item for item, _ in made.neighbours(7, 4)] == [item for _, item in expected]


def test_dense_weights_are_saved_too(tmp_path):
    data = toys.two_tastes()
    weights = np.random.default_rng(0).random((30, 30))
    Recommender("mine", Scorer(ItemItem(weights)), data.item_ids).save(tmp_path / "model")
    assert len(load(tmp_path / "model").recommend([3], 50)) == 29


def test_mistakes_are_sentences(tmp_path):
    made = fit("popularity", toys.two_tastes())
    with pytest.raises(UsageError, match="unknown item '99'"):
        made.recommend([99])
    with pytest.raises(DataError, match="holds no model"):
        load(tmp_path)
    (tmp_path / "precious").write_text("data")
    with pytest.raises(DataError, match="holds something else"):
        made.save(tmp_path)
    made.save(tmp_path / "model")
    (tmp_path / "model" / "scores.npy").write_bytes(b"junk")
    with pytest.raises(DataError, match="damaged"):
        load(tmp_path / "model")


@pytest.mark.parametrize("name", ["ease[l2=5]", "popularity"])
def test_a_bit_that_turned_is_noticed(tmp_path, name):
    made, folder = fit(name, toys.two_tastes()), tmp_path / "model"
    made.save(folder)
    expected, dice = load(folder).recommend([3], 30), random.Random(name)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        content = path.read_bytes()
        for _ in range(10):
            changed = bytearray(content)
            changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
            path.write_bytes(changed)
            try:
                found = load(folder).recommend([3], 30)
            except RecbenchError:
                continue
            assert found == expected, f"{path} was changed, and so is what it says"
        path.write_bytes(content)


def test_a_model_of_the_version_before_is_loaded(tmp_path):
    made, folder = fit("popularity", toys.two_tastes()), tmp_path / "model"
    made.save(folder)
    header = json.loads((folder / "model.json").read_text())
    del header["digest"], header["files"]
    (folder / "model.json").write_text(json.dumps(header | {"format": 1}))
    assert load(folder).recommend([3], 5) == made.recommend([3], 5)
