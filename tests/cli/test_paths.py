"""Four ways through, from nothing to what was wanted: the scripts that docs/paths.md shows."""

import csv
import os
import re
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

import toys

ROOT = Path(__file__).resolve().parents[2]
PATHS = ROOT / "scripts" / "paths"
PAGE = (ROOT / "docs" / "paths.md").read_text(encoding="utf-8")
COMMANDS = {"paper": 2, "own-data": 3, "new-model": 4, "ci": 1}


def commands(name: str) -> str:
    """What a script does, without its head."""
    text = (PATHS / f"{name}.sh").read_text(encoding="utf-8")
    return text.partition("set -euo pipefail\n\n")[2]


@pytest.fixture
def walk(folder, monkeypatch):
    """Have a shell go the way of a script, with `recbench` being this one."""
    shim = folder / "bin" / "recbench"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m recbench "$@"\n')
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{os.environ.get('PYTHONPATH', '')}")

    def go(name: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", PATHS / f"{name}.sh", *words], cwd=folder, capture_output=True, text=True
        )

    return go


def test_the_page_shows_the_scripts_and_links_to_them():
    assert {path.stem for path in PATHS.glob("*.sh")} == {*COMMANDS}
    shown = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    assert sorted(shown) == sorted(commands(name) for name in COMMANDS)
    for name, count in COMMANDS.items():
        assert len(re.findall(r"^recbench ", commands(name), re.MULTILINE)) == count
        assert f"(../scripts/paths/{name}.sh)" in PAGE


@pytest.mark.slow
def test_two_commands_make_the_table_of_a_paper(walk, folder):
    done = walk("paper", "debian", "synthetic:users=300,items=60,interactions=4000")
    assert done.returncode == 0, done.stderr
    table = (folder / "table.tex").read_text()
    assert r"\caption{Baselines.}" in table
    assert table.count(r"\multicolumn{2}{c}") == 2
    assert [line.split(" & ")[0] for line in table.splitlines() if line.count(" & ") == 4] == [
        "model", "Popularity", "iALS", "EASE",
    ]  # fmt: skip
    assert table.count(r"\textbf") >= 4


@pytest.mark.slow
def test_three_commands_lead_from_own_data_to_recommendations(walk, folder):
    data, draw = toys.two_tastes(), np.random.default_rng(1)
    users, items = data.user_ids.to_pylist(), data.item_ids.to_pylist()
    bought = {users[u]: set() for u in data.user}
    with (folder / "orders.csv").open("w", newline="") as stream:
        lines = csv.writer(stream)
        lines.writerow(["customer", "sku", "day"])
        for u, i in zip(data.user, data.item, strict=True):
            day = date(2025, 1, 1) + timedelta(days=int(draw.integers(365)))
            lines.writerow([users[u], items[i], day.isoformat()])
            bought[users[u]].add(str(items[i]))
    done = walk("own-data", "orders.csv")
    assert done.returncode == 0, done.stderr
    assert "last" in done.stdout
    lists = list(csv.DictReader((folder / "lists.csv").read_text().splitlines()))
    assert {row["user"] for row in lists} == set(bought)
    assert all(row["item"] not in bought[row["user"]] for row in lists)


@pytest.mark.slow
def test_a_new_model_is_checked_and_run_beside_baselines(walk, folder):
    guide = (ROOT / "docs" / "adding-a-model.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"`plain_mf\.py`:\n\n```python\n(.*?)```", guide, re.DOTALL)
    (folder / "plain_mf.py").write_text(code)
    done = walk("new-model", "plain_mf.py", "plain-mf")
    assert done.returncode == 0, done.stderr
    assert "the model plain-mf passed 12 checks" in done.stdout
    assert "A is better" in done.stdout
    (folder / "plain_mf.py").write_text(code.replace("Scorer(Factors(", "(Scorer, (").rstrip())
    assert walk("new-model", "plain_mf.py", "plain-mf").returncode == 1


@pytest.mark.slow
def test_a_build_fails_where_a_number_got_worse(walk, folder):
    head = "metric,value,our_dataset,our_split,our_model,parameters,ours\n"
    row = "ndcg@100,0.2595,debian,strong,popularity,,{}\n"
    (folder / "published.csv").write_text(head + row.format("0.2594"))
    assert walk("ci", "published.csv").returncode == 0
    assert 'failures="0"' in (folder / "check.xml").read_text()
    (folder / "published.csv").write_text(head + row.format("0.2695"))
    assert walk("ci", "published.csv").returncode == 1
    assert "<failure" in (folder / "check.xml").read_text()
