"""A model, a metric, a split, a reader, losses and an encoder: the files that the page shows."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import recbench as package
from recbench.campaign.folder import Campaign

PAGE = (Path(__file__).parents[1] / "docs" / "adding-a-model.md").read_text(encoding="utf-8")
OWN = "--data toy.csv --user u --item i"


@pytest.fixture
def plugins(folder):
    """Every file of the page, and the catalogue that names the reader, in an empty folder."""
    for name, code in re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", PAGE, re.DOTALL):
        (folder / name).write_text(code, encoding="utf-8")
    return folder


def test_the_page_has_nine_files_and_they_import_from_one_module(plugins):
    files = sorted(path.name for path in plugins.glob("*.py"))
    models = ["active.py", "mine_own.py", "plain_mf.py", "rarity.py", "together.py"]
    assert files == sorted([*models, "baskets.py", "one_out.py", "rscore.py", "start.py"])
    for name in files:
        text = (plugins / name).read_text()
        assert set(re.findall(r"recbench(?:\.\w+)*", text)) == {"recbench.plugin"}


@pytest.mark.parametrize(
    "words",
    [
        "check-plugin --plugin rarity.py rarity",
        "info --plugin rarity.py rarity",
        f"run {OWN} --plugin rarity.py -m rarity --grid power=0.5:1",
        "check-plugin --plugin plain_mf.py plain-mf",
        f"run {OWN} --plugin plain_mf.py -m plain-mf --grid plain-mf.factors=8,16",
        f"run {OWN} --plugin start.py -m ease -k ndcg@20,start@10",
        "check-plugin --plugin start.py start",
        "check-plugin --plugin rscore.py r-score[half-life=3]",
        f"run {OWN} --plugin rscore.py -m ease -k r-score[half-life=3]@20,r-score@9",
        "check-plugin --plugin one_out.py one-out[seed=3]",
        "check-plugin --plugin active.py active",
        "check-plugin --plugin mine_own.py mine-own",
        f"run {OWN} --plugin one_out.py -m ease --split one-out[seed=3]",
        f"run {OWN} --plugin active.py -m als[loss=active,factors=32] --grid loss.alpha=0.1,1,10",
        "check-plugin --plugin active.py als[loss=active]",
        "info --plugin active.py als[loss=active]",
        "list losses --plugin active.py",
        f"run {OWN} --plugin active.py -m mf[loss=active,epochs=2]",
        "info --plugin mine_own.py mine-own",
        f"run {OWN} --plugin mine_own.py -m mf[loss=mine-own,epochs=2] --grid loss.weight=3,10,30",
        "check-plugin --plugin mine_own.py mf[loss=mine-own,epochs=2]",
        "check-plugin --plugin together.py mf-together[epochs=2]",
        f"run {OWN} --plugin together.py -m mf-together[loss=mine-plus] --grid epochs=1,2",
    ],
)
def test_each_does_what_the_page_says(plugins, recbench, words):
    result = recbench(*words.split())
    assert result.exit_code == 0, result.output


def test_the_reader_reads_a_file_of_the_page(plugins, recbench):
    (plugins / "datasets.yaml").write_text(re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0])
    baskets = [" ".join(f"i{(k * j) % 17}" for j in range(6, 14)) for k in range(1, 200)]
    (plugins / "baskets.dat").write_text("\n".join(baskets) + "\n")
    words = ["--plugin", "baskets.py", "baskets", "--data", "baskets.dat"]
    checked = recbench("check-plugin", *words)
    assert checked.exit_code == 0, checked.output
    result = recbench("run", "--plugin", "baskets.py", "-d", "market", "-m", "ease", "-o", "out")
    assert result.exit_code == 0, result.output
    (row, *_) = Campaign(plugins / "out").rows().values()
    assert row.dataset == "market"
    (plugins / "baskets.dat").write_bytes(b"i1 i2\ni3 \xff\n")
    broken = recbench("fetch", "-f", "market", "--plugin", "baskets.py")
    assert broken.exit_code == 3
    assert "line 2" in broken.stderr


def test_the_tests_that_the_page_shows_pass_and_can_fail(plugins, monkeypatch):
    monkeypatch.syspath_prepend(str(plugins))
    (shown,) = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
    tests: dict[str, object] = {}
    exec(compile(shown, "tests", "exec"), tests)
    found = [function for name, function in tests.items() if name.startswith("test_")]
    assert len(found) == 2
    for function in found:
        function()
    rscore = sys.modules["rscore"].RScore
    monkeypatch.setattr(rscore, "__call__", lambda self, ranking, k: np.zeros(len(ranking)))
    with pytest.raises(AssertionError):
        tests["test_my_metric"]()


def test_losses_that_a_model_holds_are_its_parameters(plugins, recbench):
    words = ["run", *OWN.split(), "--plugin", "active.py", "-m", "als[loss=active,factors=8]"]
    result = recbench(*words, "--grid", "loss.alpha=0.1,1", "-o", "out", "--json")
    assert result.exit_code == 0, result.output
    texts = {row.text for row in Campaign(plugins / "out").rows().values()}
    assert len(texts) == 2
    assert all("loss=active[alpha=" in text for text in texts)
    wrong = recbench(*words, "--grid", "loss.alfa=1")
    assert "did you mean 'loss.alpha'" in wrong.output
    (row,) = {row.trial for row in Campaign(plugins / "out").rows().values() if row.part == "test"}
    assert row


def test_the_package_offers_its_doors_when_asked():
    code = "import sys, recbench; assert 'numpy' not in sys.modules; print(recbench.api.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("recbench.api", "")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing
