"""Campaigns that something happened to: one sentence, the right exit code, and nothing lost."""

import errno
import json
import os
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from recbench.models.linear import lae

CATALOGUE = """
{name}:
  title: A toy
  licence: mine
  reader: delimited
  options: {{columns: {{user: u, item: i}}}}
  files: [{{name: toy.csv, path: toy.csv}}]
  filters: [{{users: {users}, items: 2}}]
"""
GRID = ["-m", "ease", "--grid", "l2=1,10,100", "-k", "ndcg@10", "-o", "out"]
RUN = ["run", "-d", "toy", *GRID]


def wider(values: str) -> list[str]:
    """The same run over other values."""
    return [word.replace("l2=1,10,100", f"l2={values}") for word in RUN]


def catalogue(folder: Path, name: str = "toy", users: int = 2) -> None:
    (folder / "datasets.yaml").write_text(CATALOGUE.format(name=name, users=users))


@pytest.fixture
def out(recbench, folder) -> Path:
    """A finished campaign on a dataset of the user's own catalogue."""
    catalogue(folder)
    result = recbench(*RUN)
    assert result.exit_code == 0, result.output
    return folder / "out"


def refused(result, *says: str, code: int = 3) -> None:
    assert result.exit_code == code, result.output
    sentence = result.stderr.strip().splitlines()[-1]
    assert all(words in sentence for words in says), sentence
    assert "Traceback" not in result.output


def log(folder: Path) -> bytes:
    return (folder / "trials.jsonl").read_bytes()


def test_a_changed_catalogue_prepares_anew_and_names_both_fingerprints(recbench, folder, out):
    before, old = log(out), json.loads(log(out).splitlines()[0])["fingerprint"]
    catalogue(folder, users=12)
    result = recbench(*RUN)
    assert "its recipe changed since it was prepared; preparing it again" in result.stderr
    refused(result, "other interactions that were called 'toy'", f"fingerprint {old[:12]}, now ")
    assert log(out) == before
    elsewhere = recbench(*RUN, "-o", "elsewhere")
    assert elsewhere.exit_code == 0
    assert json.loads(log(folder / "elsewhere").splitlines()[0])["fingerprint"] != old


def test_changed_data_are_noticed_though_they_were_prepared(recbench, folder, out):
    before = log(out)
    with (folder / "toy.csv").open("a") as file:
        file.write("u000,999\nu001,999\nu002,999\n")
    later = (folder / "toy.csv").stat().st_mtime + 60
    os.utime(folder / "toy.csv", (later, later))
    result = recbench(*RUN)
    assert "its toy.csv changed since it was prepared" in result.stderr
    refused(result, "other interactions", "choose another folder with -o")
    assert log(out) == before


def test_what_did_not_change_is_not_prepared_again(recbench, out):
    result = recbench(*RUN)
    assert "preparing" not in result.stderr
    assert "3 finished trials found, 0 to run" in result.stderr


def test_a_renamed_dataset_is_not_a_second_one(recbench, folder, out):
    before = log(out)
    catalogue(folder, name="renamed")
    result = recbench("run", "-d", "renamed", *GRID)
    refused(result, "the same interactions under the name 'toy', now 'renamed'")
    assert log(out) == before
    assert recbench("run", "-d", "renamed", *GRID, "-o", "elsewhere").exit_code == 0


def test_two_revisions_of_a_model_do_not_share_a_table(recbench, out, monkeypatch):
    before = log(out)
    monkeypatch.setattr(lae.Ease, "revision", 2)
    refused(recbench(*RUN), "a result of ease[l2=1] by another revision of the model")
    assert log(out) == before


@pytest.mark.parametrize(
    ("commit", "dirty", "told"),
    [
        ("abcdef0123456789", False, "commit abcdef012345"),
        ("abcdef0123456789", True, "commit abcdef012345, code 0123456789ab"),
        (None, None, "code 0123456789ab"),
    ],
)
def test_two_versions_may_share_a_folder_and_say_so(recbench, out, commit, dirty, told):
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["runs"][0]["environment"] |= {
        "recbench": "0.0.9", "commit": commit, "dirty": dirty, "code": "0123456789abcdef",
    }  # fmt: skip
    (out / "manifest.json").write_text(json.dumps(manifest))
    result = recbench(*RUN)
    assert result.exit_code == 0
    assert f"results made by recbench 0.0.9, {told}: they are taken" in result.stderr
    assert len(json.loads((out / "manifest.json").read_text())["runs"]) == 2


@pytest.mark.parametrize("end", ['{"trial": "abc", "datas', "\x00\x00\x00\n", '{"trial": 1}\n'])
def test_a_damaged_end_of_the_log_costs_nothing(recbench, out, end):
    table = (out / "metrics.csv").read_bytes()
    whole = log(out)
    (out / "trials.jsonl").write_bytes(whole + end.encode())
    assert recbench(*RUN).exit_code == 0
    assert (out / "metrics.csv").read_bytes() == table
    more = recbench(*wider("1,10,100,1000"))
    assert "3 finished trials found, 1 to run" in more.stderr
    assert log(out).startswith(whole)
    assert (pd.read_csv(out / "metrics.csv")["part"] == "valid").sum() == 4


def test_a_line_cut_in_two_loses_that_trial_alone(recbench, out):
    table = (out / "metrics.csv").read_bytes()
    first, *rest = log(out).splitlines(keepends=True)
    (out / "trials.jsonl").write_bytes(first[: len(first) // 2] + b"\n" + b"".join(rest))
    result = recbench(*RUN)
    assert "2 finished trials found, 1 to run" in result.stderr
    assert (out / "metrics.csv").read_bytes() == table


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fails_at(monkeypatch, where: str, call: int) -> None:
    """Make the n-th call of a function that writes find the disk full."""
    import recbench.campaign.folder as module

    owner: object = module
    *path, name = where.split(".")
    for part in path:
        owner = getattr(owner, part)
    real, calls = getattr(owner, name), []

    def full(*args, **named):
        calls.append(1)
        if len(calls) == call:
            raise FULL
        return real(*args, **named)

    monkeypatch.setattr(owner, name, full)


@pytest.mark.parametrize(
    ("where", "call"),
    [
        ("pq.write_table", 2), ("asdict", 3), ("FileLock.acquire", 6), ("table", 1),
        ("Path.mkdir", 1),
    ],
)  # fmt: skip
def test_a_full_disk_is_one_sentence_and_the_rest_goes_on_later(
    recbench, folder, monkeypatch, where, call
):
    catalogue(folder)
    assert recbench(*RUN, "-o", "whole").exit_code == 0
    with monkeypatch.context() as patch:
        fails_at(patch, where, call)
        result = recbench(*RUN)
        refused(result, "results cannot be written to out (No space left on device)")
    again = recbench(*RUN)
    assert again.exit_code == 0, again.output
    tables = [(folder / name / "metrics.csv").read_bytes() for name in ("whole", "out")]
    assert tables[0] == tables[1]
    assert not (folder / "out" / ".claims").exists()
    assert not list((folder / "out").rglob("*.part"))


@pytest.fixture
def tiny(tmp_path_factory):
    """A disk that is full after a few files, which only the superuser can make."""
    path = tmp_path_factory.mktemp("tiny")
    made = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(path)]
    try:
        done = subprocess.run(made, capture_output=True)
    except OSError:
        pytest.skip("mount is not at hand")
    if done.returncode:
        pytest.skip("a file system may not be mounted here")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.slow
def test_a_disk_that_is_really_full(recbench, folder, tiny):
    catalogue(folder)
    words = [*wider("1:100:1")[:-4], "-o", str(tiny / "out")]
    result = recbench(*words)
    refused(result, f"results cannot be written to {tiny}", "No space left on device")
    finished = log(tiny / "out").count(b"\n")  # the last line may be cut short
    subprocess.run(["mount", "-o", "remount,size=8m", str(tiny)], check=True)
    again = recbench(*words)
    assert again.exit_code == 0, again.output
    assert finished
    assert f"{finished} finished trials found" in again.stderr


def test_a_read_only_folder_is_one_sentence_and_can_still_be_shown(recbench, folder, tiny):
    catalogue(folder)
    target = str(tiny / "out")
    assert recbench(*RUN, "-o", target).exit_code == 0
    subprocess.run(["mount", "-o", "remount,ro", str(tiny)], check=True)
    result = recbench(*RUN, "-o", target)
    refused(result, f"results cannot be written to {target} (Read-only file system)", "-o")
    assert recbench("show", target).exit_code == 0
    assert recbench(*RUN, "-o", target, "--dry-run").exit_code == 0


def test_results_of_a_newer_recbench_are_not_touched(recbench, out):
    row = json.loads(log(out).splitlines()[0]) | {"schema": 99, "trial": "new"}
    with (out / "trials.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    before = log(out)
    refused(recbench(*RUN), "written by a newer recbench", "upgrade")
    assert log(out) == before
