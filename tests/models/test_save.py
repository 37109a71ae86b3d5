import json
import random
import re

import numpy as np
import pytest

import toys
from recbench.errors import DataError, RecbenchError, Refused, UsageError
from recbench.files import sealed
from recbench.models.context import Context
from recbench.models.save import Recommender, fit, load
from recbench.models.scorers import Base, ItemItem, Scorer
from recbench.params import params_of
from recbench.registry import MODELS


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
    (tmp_path / "model" / "0.npy").write_bytes(b"junk")
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


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", ["popularity", "ease[l2=5]"])
def test_a_model_of_a_version_before_is_loaded(name, version, tmp_path):
    made, folder = fit(name, toys.two_tastes()), tmp_path / "model"
    made.save(folder)
    header = json.loads((folder / "model.json").read_text())
    array = header["scale"] or header["base"]["with"].get("scores")
    (folder / array["array"]).rename(folder / ("scale.npy" if header["scale"] else "scores.npy"))
    header["base"] = "constant" if name == "popularity" else "tiles"
    header["scaled"] = header["scale"] is not None
    for key in ("digest", "files", "scale", "history"):
        del header[key]
    text = json.dumps(header | {"format": version}, indent=1)
    (folder / "model.json").write_text(sealed(text) if version == 2 else text)
    assert load(folder).recommend([3], 5) == made.recommend([3], 5)


SMALL = {"code": 3, "factors": 4, "hidden": 4, "epochs": 2, "iterations": 2, "rank": 3, "rounds": 2}


def small(name):
    """The model of this name with little to do."""
    known = params_of(toys.able(MODELS.get(name)))
    settings = ",".join(f"{key}={value}" for key, value in SMALL.items() if key in known)
    return f"{name}[{settings}]" if settings else name


@pytest.mark.parametrize("name", toys.every_model("file"))
def test_every_model_comes_back_and_knows_the_same_users(name, tmp_path):
    data = toys.two_tastes(40, 12)
    made = fit(small(name), data)
    made.save(tmp_path / "model")
    read = load(tmp_path / "model")
    assert (read.model, read.people.ids.to_pylist()) == (made.model, data.user_ids.to_pylist())
    everybody, some = list(made.for_users(k=4)), list(made.for_users(["u007", "u003"], 4))
    assert list(read.for_users(k=4)) == everybody
    assert some == [everybody[7], everybody[3]]
    assert list(read.for_users(["u007", "u003"], 4)) == some
    histories = [[0, 2], [], [11, 3, 5]]
    if MODELS.get(name).trained_users_only:
        with pytest.raises(Refused, match="3 users to rank were not trained on"):
            next(read.for_histories(histories, 4))
        return
    assert list(read.for_histories(histories, 4)) == list(made.for_histories(histories, 4))


@pytest.mark.parametrize(
    "loss",
    ["wrmf", "ials-debiased", "mse-debiased", "rgx-exact", "rg2-ssm", "ials[popularity=0.5]"],
)
def test_losses_inside_of_models_come_back(loss, tmp_path):
    made = fit(f"mf[loss={loss},epochs=1,factors=3]", toys.two_tastes(40, 12))
    made.save(tmp_path / "model")
    assert load(tmp_path / "model").recommend([1, 4], 5) == made.recommend([1, 4], 5)


def test_what_one_user_has_is_not_recommended_to_him():
    data = toys.two_tastes()
    made = fit("popularity", data)
    for row, best in enumerate(made.for_users(k=30)):
        has = set(data.item[data.user == row].tolist())
        assert {item for item, _ in best} == set(range(30)) - has


def test_unknown_users_and_models_without_users_are_refused():
    data = toys.two_tastes()
    with pytest.raises(UsageError, match="unknown user 'u999'"):
        list(fit("popularity", data).for_users(["u999"]))
    alone = Recommender("mine", Scorer(ItemItem(np.eye(30))), data.item_ids)
    with pytest.raises(DataError, match="does not know any users"):
        list(alone.for_users())


def test_what_is_not_known_cannot_be_saved_and_is_not_made_from_files(tmp_path):
    odd = Recommender("mine", Scorer(Odd()), toys.two_tastes().item_ids)
    with pytest.raises(RecbenchError, match="score by Odd cannot be saved"):
        odd.save(tmp_path / "odd")
    made, folder = fit("popularity", toys.two_tastes()), tmp_path / "model"
    for tree in (
        {"kind": "os:system", "with": {"command": "true"}},
        {"kind": "constant", "with": {"scores": {"array": "../0.npy"}}},
        {"kind": "constant", "with": {"nothing": 1}},
        {"kind": "constant"},
        17,
        [{"tiles": "../tiles"}],
    ):
        made.save(folder)
        header = json.loads((folder / "model.json").read_text())
        del header["digest"]
        (folder / "model.json").write_text(sealed(json.dumps(header | {"base": tree}, indent=1)))
        with pytest.raises(RecbenchError):
            load(folder)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format": "x"}, "format: must be a whole number, not 'x'"),
        ({"model": None}, "model: must be text, not None"),
        ({"files": ["0.npy"]}, "files: must be a mapping"),
        ({"scale": "x"}, "a scale of shape () for 30 items"),
        ({"base": {"kind": "constant", "with": {"scores": 7}}}, "holds no model, or a damaged one"),
        ({"history": {"array": "0.npy"}}, "histories of other users or items"),
    ],
)
def test_a_field_of_another_type_is_named(tmp_path, changes, says):
    folder = tmp_path / "model"
    fit("popularity", toys.two_tastes()).save(folder)
    header = json.loads((folder / "model.json").read_text()) | changes
    del header["digest"]
    (folder / "model.json").write_text(sealed(json.dumps(header, indent=1)))
    with pytest.raises(DataError, match=re.escape(says)):
        load(folder)


class Odd(Base):
    """Something of a plugin."""

    n_items = 30

    def score(self, history, rows):
        return np.zeros((history.shape[0], 30))
