"""Plugins that are installed as distributions, some of them broken."""

import json
import sys
from pathlib import Path

import pytest

from recbench.registry import LOSSES, METRICS, MODELS, READERS, SPLITS

GOOD = """
from dataclasses import dataclass
from recbench.plugin import MODELS, Model, Constant, Scorer
import numpy as np

@MODELS.register("{name}")
@dataclass(frozen=True)
class Mine(Model):
    \"\"\"Recommends nobody knows what.\"\"\"

    def fit(self, train, ctx):
        return Scorer(Constant(np.arange(train.shape[1], dtype=np.float32)))
"""


@pytest.fixture
def install(folder: Path, monkeypatch):
    """Install a distribution of one module, with these entry points in the group of models."""
    place = folder / "site-packages"
    place.mkdir()
    monkeypatch.syspath_prepend(str(place))

    def put(name: str, code: str, *doors: str, group: str = "models") -> None:
        (place / f"{name}.py").write_text(code)
        monkeypatch.delitem(sys.modules, name, raising=False)
        info = place / f"{name}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
        lines = [f"[recbench.{group}]", *doors]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        look_again()

    yield put
    look_again()


def look_again() -> None:
    """Have the registries forget what is installed."""
    for registry in (LOSSES, METRICS, MODELS, READERS, SPLITS):
        registry.__dict__.pop("_doors", None)


def listed(recbench, kind: str = "models"):
    result = recbench("list", kind, "--json")
    assert result.exit_code == 0, result.output
    return {line["name"]: line for line in json.loads(result.stdout)}, result.stderr


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import nowhere_to_be_found", "ModuleNotFoundError: No module named 'nowhere_to_be"),
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("1 +", "SyntaxError"),
        ("", "AttributeError"),
        ("Mine = 7", "'broken_one:Mine' of broken_one 1.5 is int, not a model"),
        (GOOD.format(name="ease"), "two models are called 'ease': recbench.models.linear.lae:Ease"),
    ],
)
def test_a_broken_distribution_is_named_and_costs_its_own_model_only(
    recbench, own, install, code, says
):
    install("broken_one", code, "lost = broken_one:Mine")
    lines, _ = listed(recbench)
    assert says in lines["lost"]["what it is"]
    assert lines["lost"]["from"] == "broken_one 1.5"
    assert lines["ease"]["from"].startswith("recbench ")
    asked = recbench("run", *own, "-m", "lost")
    assert asked.exit_code == 2
    assert "broken_one 1.5" in asked.stderr
    assert "Traceback" not in asked.stderr
    assert recbench("info", "lost").exit_code == 2
    assert recbench("info", "ease").exit_code == 0
    assert recbench("run", *own, "-m", "ease").exit_code == 0


def test_a_name_of_ours_stays_ours_and_the_other_is_named(recbench, own, install):
    install("greedy", GOOD.format(name="ease"), "ease = greedy:Mine")
    doubt = "greedy 1.5 has a model 'ease' as well; that of recbench 0.1.0 is used"
    lines, told = listed(recbench)
    assert doubt in told
    assert lines["ease"]["from"] == "recbench 0.1.0"
    assert doubt in recbench("info", "ease").stderr
    ran = recbench("run", *own, "-m", "ease")
    assert ran.exit_code == 0
    assert doubt in ran.stderr
    assert MODELS.get("ease").__module__ == "recbench.models.linear.lae"


def test_of_two_others_the_first_by_name_is_used(recbench, install):
    install("zebra", GOOD.format(name="mine"), "mine = zebra:Mine")
    install("ape", GOOD.format(name="mine"), "mine = ape:Mine")
    lines, told = listed(recbench)
    assert lines["mine"]["from"] == "ape 1.5"
    assert "zebra 1.5 has a model 'mine' as well; that of ape 1.5 is used" in told


def test_a_sound_distribution_is_used_without_a_word(recbench, own, install):
    install("sound", GOOD.format(name="mine"), "mine = sound:Mine")
    lines, told = listed(recbench)
    assert lines["mine"] == {
        "name": "mine", "what it is": "Recommends nobody knows what.", "from": "sound 1.5",
    }  # fmt: skip
    assert told == ""
    assert recbench("run", *own, "-m", "mine").exit_code == 0


def test_other_kinds_are_listed_beside_what_is_broken(recbench, install):
    install("half", "raise OSError('no disk')", "odd = half:odd", group="losses")
    lines, _ = listed(recbench, "losses")
    assert "OSError: no disk" in lines["odd"]["what it is"]
    assert lines["softmax"]["formula"]


def test_a_plugin_file_does_not_take_a_name_of_ours(recbench, own, folder):
    (folder / "mine.py").write_text(GOOD.format(name="ease"))
    result = recbench("run", *own, "--plugin", "mine.py", "-m", "ease")
    assert result.exit_code == 2
    assert "two models are called 'ease'" in result.stderr
