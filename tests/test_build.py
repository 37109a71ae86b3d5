"""What is built knows its commit, wherever it is installed."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from recbench import environment

ROOT = Path(__file__).parents[1]
PARTS = ("recbench", "results/published", "pyproject.toml", "hatch_build.py", "datasets.yaml",
         "README.md", "LICENSE")  # fmt: skip


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def build(folder: Path, *targets: str) -> None:
    words = [word for target in targets for word in ("-t", target)]
    command = [sys.executable, "-m", "hatchling", "build", *words]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def record(folder: Path) -> object:
    (wheel,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        return (
            json.loads(archive.read("recbench/commit.json"))
            if "recbench/commit.json" in names
            else None
        )


@pytest.fixture
def copy(tmp_path):
    for part in PARTS:
        whole = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        (tmp_path / "copy" / part).parent.mkdir(parents=True, exist_ok=True)
        whole(ROOT / part, tmp_path / "copy" / part)
    return tmp_path / "copy"


@pytest.mark.slow
def test_wheels_and_source_archives_hold_the_commit_they_were_built_from(copy, tmp_path):
    pytest.importorskip("hatchling", reason="needs the extra 'test'")
    build(copy, "wheel")
    assert record(copy) is None  # there is no git, so nobody knows
    git(copy, "init", "-q")
    git(copy, "add", "recbench", "pyproject.toml", "hatch_build.py")
    git(copy, "commit", "-q", "-m", "all of it")
    known = {"commit": git(copy, "rev-parse", "HEAD"), "dirty": False}
    build(copy, "sdist", "wheel")
    assert record(copy) == known
    (archive,) = (copy / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    build(source, "wheel")
    assert record(source) == known
    (copy / "recbench" / "errors.py").write_text("# changed\n")
    build(copy, "wheel")
    assert record(copy) == known | {"dirty": True}


def test_an_installed_package_says_what_it_was_built_from(copy):
    (copy / "recbench" / environment.BUILT).write_text('{"commit": "abc", "dirty": true}')
    code = "import json; from recbench.environment import source; print(json.dumps(source()))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(copy)},
        cwd=copy.parent, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == {"commit": "abc", "dirty": True}


@pytest.mark.parametrize("text", ["{}", "[1]", "not json", None])
def test_a_record_that_is_not_one_tells_nothing(tmp_path, text):
    if text is not None:
        (tmp_path / environment.BUILT).write_text(text)
    told = environment._built_from(tmp_path / environment.BUILT)
    assert told == {"commit": None, "dirty": None}
