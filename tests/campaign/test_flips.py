"""One bit of a results folder turned, anywhere: it is noticed, or makes no difference."""

import random
import shutil

import pandas as pd
import pytest

from recbench.campaign import traces
from recbench.campaign.folder import Campaign, open_results
from recbench.errors import DataError

FLIPS = 10


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished campaign with traces."""
    from click.testing import CliRunner

    import toys
    from recbench.cli import main

    folder = tmp_path_factory.mktemp("whole")
    (folder / "toy.csv").write_text(toys.csv_of(toys.two_tastes()))
    words = ["run", "--data", str(folder / "toy.csv"), "--user", "u", "--item", "i", "--trace"]
    words += ["-m", "ease", "-m", "ials", "--set", "factors=2", "-o", str(folder / "out")]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return folder / "out"


def read(folder):
    """Everything that is read of a folder, and what is said about it."""
    said = []
    campaign = open_results(folder, said.append)
    rows = campaign.rows()
    values = {key: campaign.per_user(row).to_dict("list") for key, row in rows.items()}
    rounds = {}
    for row in rows.values():
        path = traces.path_of(folder, row.trial)
        if path.exists():
            campaign.content(row, path)
            rounds[row.trial] = traces.read(path)
    return (rows, values, rounds, campaign.manifest(), pd.read_csv(folder / "metrics.csv")), said


def same(one, other):
    return one[:-1] == other[:-1] and one[-1].equals(other[-1])


def flipped(content, dice):
    changed = bytearray(content)
    changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def test_nothing_is_said_of_a_folder_that_is_whole(whole):
    assert read(whole)[1] == []


@pytest.mark.parametrize(
    "name", ["trials.jsonl", "manifest.json", "metrics.csv", "per-user/*-test*", "traces/*"]
)
def test_a_bit_that_turned_is_noticed(whole, tmp_path, name):
    folder = tmp_path / "out"
    shutil.copytree(whole, folder)
    before, _ = read(folder)
    path = min(folder.glob(name))
    content, dice = path.read_bytes(), random.Random(name)
    for _ in range(FLIPS):
        path.write_bytes(flipped(content, dice))
        try:
            after, said = read(folder)
        except (DataError, ValueError, pd.errors.ParserError):
            continue
        assert said or same(before, after), "another number, and not a word"


def test_a_damaged_trial_is_named_and_run_again(recbench, own, folder):
    words = ["run", *own, "-m", "ease", "--grid", "l2=1,10", "-k", "ndcg@10", "-o", "out"]
    assert recbench(*words).exit_code == 0
    log, table = folder / "out" / "trials.jsonl", folder / "out" / "metrics.csv"
    before = table.read_bytes()
    text = log.read_text()
    row = next(row for row in Campaign(folder / "out").rows().values() if row.text == "ease[l2=1]")
    value = str(row.metrics["ndcg@10"])
    log.write_text(text.replace(value, "9" + value[1:], 1))
    shown = recbench("show", "out")
    for said in (shown.stderr, recbench("show", "--json", "out").stderr):
        assert f"ease[l2=1] on valid (trial {row.trial})" in said
        assert "what ran them runs them again" in said
    again = recbench(*words)
    assert again.exit_code == 0, again.output
    assert f"trial {row.trial}" in again.stderr
    assert "1 finished trial found, 1 to run" in again.stderr
    assert table.read_bytes() == before
    assert "damaged" not in recbench("show", "out").stderr


def test_damaged_values_of_users_are_no_comparison(recbench, own, folder):
    words = ["run", *own, "-m", "ease", "-m", "popularity", "-k", "ndcg@10", "-o", "out"]
    assert recbench(*words).exit_code == 0
    for path in (folder / "out" / "per-user").glob("*-test.parquet"):
        content = bytearray(path.read_bytes())
        content[40] ^= 4
        path.write_bytes(content)
    compared = recbench("compare", "-o", "out", "ease", "popularity")
    assert compared.exit_code == 3, compared.output
    assert "is damaged: it is not as it was written" in compared.stderr
    assert recbench(*words, "--force").exit_code == 0
    assert recbench("compare", "-o", "out", "ease", "popularity").exit_code == 0


def test_a_changed_manifest_is_told_also_after_another_run(recbench, own, folder):
    words = ["run", *own, "-m", "popularity", "-k", "ndcg@10", "-o", "out"]
    assert recbench(*words).exit_code == 0
    path = folder / "out" / "manifest.json"
    path.write_text(path.read_text().replace('"interactions": ', '"interactions": 9'))
    assert "manifest.json was changed or damaged" in recbench(*words).stderr
    assert "manifest.json was changed or damaged" in recbench("show", "out").stderr


def test_a_log_of_the_version_before_is_read_and_nothing_is_said(recbench, own, folder):
    import json

    words = ["run", *own, "-m", "popularity", "-k", "ndcg@10", "-o", "out"]
    assert recbench(*words).exit_code == 0
    log, manifest = folder / "out" / "trials.jsonl", folder / "out" / "manifest.json"
    lines = [json.loads(line) | {"schema": 3} for line in log.read_text().splitlines()]
    for line in lines:
        del line["digest"], line["files"]
    log.write_text("".join(json.dumps(line, sort_keys=True) + "\n" for line in lines))
    text = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({"schema": 3, "runs": text["runs"]}, indent=1))
    shown = recbench("show", "out")
    assert shown.exit_code == 0
    assert shown.stderr == ""
    assert "2 finished" not in recbench(*words).stderr
    assert "1 finished trial found, 0 to run" in recbench(*words).stderr
